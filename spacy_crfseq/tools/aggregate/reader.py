"""A corpus reader that labels texts by many doubtful sources, when training begins, as ``crfseq aggregate`` does::

[corpora.train]
@readers = "spacy_crfseq.AggregatedReader.v1"
path = "texts.txt"
labels = ["PER", "LOC"]

[corpora.train.sources]
llm = "labels.jsonl,match=all,map=person:PER,city:LOC"
rules = "rules.jsonl"
"""

# No `from __future__ import annotations`: spaCy validates a config with the evaluated annotations.

from collections.abc import Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import logger
from spacy.vocab import Vocab

from ...corpora.layouts import Asked
from ...errors import ConfigError
from ...pipeline.doc_builder import bare
from ...pipeline.evidence import register_extensions
from .label_model import LabelModelMethod
from .source_settings import parse_source
from .texts import Noted, aggregate


def create_aggregated_reader(
    path: Path | None,
    sources: dict[str, str],
    labels: list[str] = [],  # noqa: B006
    label_model: LabelModelMethod | None = None,
    gold: Path | None = None,
    weigh: bool = False,
    min_probability: float | None = None,
    component: str = "crf_ner",
    format: str | None = None,
    encoding: str | None = None,
    skip_invalid: bool = False,
) -> "AggregatedReader":
    """Create a reader of texts that sources label (``spacy_crfseq.AggregatedReader.v1``).

    The loss ``spacy_crfseq.CrossEntropy.v1`` learns from the probabilities.

    path (Path): The texts: a file, a folder, a pattern, or several of these, comma-separated.
    sources (dict[str, str]): By their names, what sources are and how they are read, written as after --source NAME= of
        the command `aggregate`.
    labels (list[str]): Labels to learn; all that sources give by default.
    label_model (LabelModelMethod | None): A function of the registry crf_label_models; ``spacy_crfseq.HMM.v1`` by
        default.
    gold (Path | None): Some of the texts with gold labels, which the label model learns from, too.
    weigh (bool): Give doubtful texts a smaller weight.
    min_probability (float | None): Note no probabilities: labels that are less probable are unknown, for any loss.
    component (str): The component that is to learn.
    format, encoding (str | None): Of the texts, and of files of sources that do not say it; None for those of their
        names, else of their first lines.
    skip_invalid (bool): Leave out what cannot be read, with a warning that counts it; else it is an error.
    RAISES ConfigError: If a setting cannot be; errors in files are raised when training begins.
    """
    if path is None:
        raise ConfigError(
            "spacy_crfseq.AggregatedReader.v1 has no path. Give the texts in its block of [corpora], or by "
            "--paths.train FILE."
        )
    return AggregatedReader(
        Path(path),
        sources,
        labels,
        label_model,
        Asked(format, encoding=encoding, skip_invalid=skip_invalid),
        gold,
        Noted(component, weigh, min_probability),
    )


class AggregatedReader:
    """Texts as examples, with the labels and probabilities that a label model finds; once for each vocabulary."""

    def __init__(
        self,
        path: Path,
        sources: dict[str, str],
        labels: list[str],
        method: LabelModelMethod | None,
        layout: Asked,
        gold: Path | None,
        noted: Noted,
    ) -> None:
        register_extensions()
        self._path, self._labels, self._method = path, labels, method
        self._sources = {name: parse_source(text) for name, text in sources.items()}
        self._layout, self._gold, self._noted = layout, gold, noted
        # the stored Vocab keeps its id from being used again
        self._made: dict[int, tuple[Vocab, list[Doc]]] = {}

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples, with new predicted Docs."""
        if id(nlp.vocab) not in self._made:
            result = aggregate(
                nlp, self._path, self._sources, self._method, labels=self._labels, layout=self._layout,
                gold=self._gold, noted=self._noted,
            )  # fmt: skip
            for row in result.rows:
                if row.label == "all":
                    logger.info(
                        "Source %s: %d votes, estimated precision %.3f, recall %.3f",
                        row.source, row.votes, row.precision, row.recall,
                    )  # fmt: skip
            for doubt in (*result.copies[:10], *result.repeated):
                logger.warning("%s", doubt)
            self._made[id(nlp.vocab)] = nlp.vocab, result.docs
        return (Example(bare(doc), doc) for doc in self._made[id(nlp.vocab)][1])
