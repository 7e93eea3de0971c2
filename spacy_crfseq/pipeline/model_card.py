"""The model card: the description and notes in a pipeline's meta, which ``spacy package`` shows in a README."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template
from spacy.language import Language

from .component import CRFComponent

HEADING = "### How it works"
"""The first line of generated notes, which may be replaced."""
TASKS = {"crf_tagger": "tags", "crf_chunker": "chunks", "crf_ner": "named entities"}


def create_model_card(
    description: str = "", author: str = "", email: str = "", url: str = "", license: str = ""
) -> Callable[[Language], Language]:
    """Return a callback that fills a pipeline's model card (registered as ``spacy_crfseq.ModelCard.v1``).

    Use it for ``[training.before_to_disk]``.  ``crfseq fit`` and the other training commands always write the notes.
    Empty settings leave the meta unchanged.

    description (str): One sentence about the pipeline.
    author, email, url (str): Author and address of the pipeline.
    license (str): Licence, such as "MIT".
    """
    given = {"description": description, "author": author, "email": email, "url": url, "license": license}

    def callback(nlp: Language) -> Language:
        nlp.meta.update({name: value for name, value in given.items() if value})
        return fill_card(nlp)

    return callback


def fill_card(nlp: Language) -> Language:
    """Write description and notes to the meta of a pipeline with CRFs, unless they exist; return the pipeline."""
    crfs = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, CRFComponent) and pipe.labels}
    if not crfs:
        return nlp
    if not nlp.meta.get("description"):
        tasks = dict.fromkeys(TASKS.get(nlp.get_pipe_meta(name).factory, name) for name in crfs)
        what = f"Linear-chain conditional random fields for {_listed(list(tasks))}; runs on a CPU."
        nlp.meta["description"] = what
    if not nlp.meta.get("notes") or nlp.meta["notes"].startswith(HEADING):
        nlp.meta["notes"] = _notes(crfs)
    return nlp


def _notes(crfs: dict[str, CRFComponent]) -> str:
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf8")
    card = Template(text, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return str(card.render(heading=HEADING, crfs=crfs, plugin=_plugin, listed=_listed))


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
