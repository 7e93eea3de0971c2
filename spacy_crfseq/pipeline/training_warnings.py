"""Warnings of texts, scores and losses that do not fit a training, in spaCy's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spacy import util
from spacy.language import Language

from ..schemes import OUTSIDE
from ..training.compatibility import is_unlabelled
from ..training.dataset import Dataset
from .corpus_encoder import EncodedCorpus
from .doc_model import DocModel


def warn_of_misfits(model: DocModel, absent: Sequence[str], nlp: Language | None) -> None:
    """Warn of columns, scores and losses that do not fit the training."""
    name, key, terms = model.name, model.annotation.score_name, model.method.each_term(model.name)
    if absent:
        util.logger.info(
            "[%s] No training example has %s set on input: features of it work only where components named in "
            "annotating_components set it, or the corpus reader gives it.",
            name, ", ".join(absent),
        )  # fmt: skip
    weighted = nlp is None or key in ("tag_acc", "spans_chunks_f", "ents_f")  # spaCy has them from the factories
    if nlp is not None and not weighted and not (nlp.config.get("training") or {}).get("score_weights", {}).get(key):
        util.logger.warning(
            "[%s] [training.score_weights] gives no weight to %s, the score of this component: "
            "set it, or the best model cannot be selected.",
            name, key,
        )  # fmt: skip
    if all(map(is_unlabelled, [model.method.loss, *(term.loss for term in terms.values())])):
        util.logger.warning("[%s] No loss of the objective learns from gold labels; was a term meant?", name)


def warn_of_no_outside(model: DocModel, tags: Iterable[Sequence[str]], corpus: Dataset) -> None:
    """Warn of texts in which only spans are known, given the tags of all corpora and the training corpus."""
    if model.annotation.scheme is not None and not any(OUTSIDE in of for of in tags) and (corpus.gold < 0).any():
        util.logger.warning(
            "[%s] No token of the training texts is known to be outside of spans: the model learns to find them "
            "everywhere. Add texts whose rest is known.",
            model.name,
        )


def warn_of_missing_columns(model: DocModel, terms: Mapping[str, EncodedCorpus]) -> None:
    """Warn of terms whose texts lack columns that features read."""
    for name, texts in terms.items():
        if texts.unset:
            util.logger.warning(
                "[%s] The texts of the term %s have no %s, which features read. Give texts that have it, or list "
                "the component that sets it in annotating_components: 'crfseq fit' applies it when it is trained, "
                "'spacy train' only if it is frozen.",
                model.name, name, ", ".join(texts.unset),
            )  # fmt: skip
