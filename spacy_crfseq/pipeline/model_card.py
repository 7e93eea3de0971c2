"""The model card: the description and notes in a pipeline's meta, which ``spacy package`` shows in a README."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.language import Language

if TYPE_CHECKING:
    from jinja2 import Template

HEADING = "### How it works"
"""The first line of generated notes, which may be replaced."""
TASKS = {"crf_tagger": "tags", "crf_chunker": "chunks", "crf_ner": "named entities"}


def fill_card(nlp: Language) -> Language:
    """Write description and notes to the meta of a pipeline with CRFs, unless they exist; return the pipeline."""
    from .component import CRFComponent

    crfs = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, CRFComponent) and pipe.labels}
    if not crfs:
        return nlp
    if not nlp.meta.get("description"):
        tasks = dict.fromkeys(TASKS.get(nlp.get_pipe_meta(name).factory, name) for name in crfs)
        nlp.meta["description"] = f"Linear-chain conditional random fields for {_listed([*tasks])}; runs on a CPU."
    if not nlp.meta.get("notes") or nlp.meta["notes"].startswith(HEADING):
        nlp.meta["notes"] = _template().render(heading=HEADING, crfs=crfs, plugin=_plugin, listed=_listed, nlp=nlp)
    return nlp


@cache
def _template() -> Template:
    """Return the template of the notes; compiling it takes longer than to fill it in."""
    from jinja2 import StrictUndefined, Template

    text = Path(__file__).with_name("model_card.md").read_text(encoding="utf8")
    template: Template = Template(text, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return template


def _plugin(plugin: Any) -> str:
    """Return the name of a plug-in and the settings that differ from its defaults."""
    name = type(plugin).__name__
    if not dataclasses.is_dataclass(plugin):
        return name
    settings = [
        f"{field.name}={_value(getattr(plugin, field.name))}"
        for field in dataclasses.fields(plugin)
        if field.repr and getattr(plugin, field.name) != field.default
    ]
    return f"{name}({', '.join(settings)})" if settings else name


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else re.sub(r"[|\n]", " ", str(value))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
