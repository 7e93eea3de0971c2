"""The model card: the description and notes in a pipeline's meta, which ``spacy package`` shows in a README."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from spacy.language import Language

from .component import CRFComponent

HEADING = "### How it works"
"""The first line of generated notes, which may be replaced."""
_ADVICE = "`python -m spacy crfseq calibrate` measures how reliable they are on your texts."
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
    parts = [HEADING, _models(crfs), "Scores above are those of the development data; losses are per token, times 100."]
    for name, pipe in crfs.items():
        parts.append(f"**`{name}`**: " + " ".join(_facts(name, pipe)))
    parts += ["### Use", _example(crfs), f"The numbers are probabilities. {_ADVICE}"]
    return "\n\n".join(parts)


def _models(crfs: dict[str, CRFComponent]) -> str:
    lines = [
        "| Component | Trained on | Labels | Attributes | Weights | Size | Learnt by |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, pipe in crfs.items():
        size, method = pipe.doc_model.size, pipe.method
        learnt = ", ".join(_plugin(part) for part in (method.loss, method.regularizer, method.optimizer))
        sequences = f"{pipe.doc_model.n_sequences:,} sequences" if pipe.doc_model.n_sequences else "n/a"
        lines.append(
            f"| `{name}` | {sequences} | {len(pipe.tags):,} | {size.features:,} | {size.weights:,} "
            f"| {size.n_bytes / 1e6:.1f} MB | {learnt} |"
        )
    return "\n".join(lines)


def _facts(name: str, pipe: CRFComponent) -> list[str]:
    """Return sentences about the features, requirements and limits of a component."""
    features = pipe.doc_model.features
    templates = [*features.templates, *features.bigram_templates]
    shown = ", ".join(f"`{template}`" for template in templates[:12])
    more = f" and {len(templates) - 12} more" if len(templates) > 12 else ""
    facts = [f"It looks at {shown}{more}."]
    columns = sorted(pipe.reads - {"NORM", "SPACY"})
    if columns:
        facts.append(f"It reads {_listed(columns)}, which an earlier component has to set.")
    facts.append(f"Its decoder is {_plugin(pipe.method.decoder)}.")
    if pipe.cfg["threshold"]:
        facts.append(f"Predictions less probable than {pipe.cfg['threshold']:g} are left out.")
    return facts


def _example(crfs: dict[str, CRFComponent]) -> str:
    lines = ["```python", "import spacy", "", 'nlp = spacy.load("...")  # the name above', 'doc = nlp("...")']
    for name, pipe in crfs.items():
        if "scheme" not in pipe.cfg:
            attr = pipe.cfg["attr"] + ("" if pipe.cfg["attr"] == "morph" else "_")
            lines.append(f"print([(token.text, token.{attr}, token._.crf_score) for token in doc])  # {name}")
            continue
        spans = f'doc.spans["{pipe.cfg["spans_key"]}"]' if "spans_key" in pipe.cfg else "doc.ents"
        lines.append(f"print([(span.text, span.label_, span._.crf_score) for span in {spans}])  # {name}")
    return "\n".join([*lines, "```"])


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
