"""A corpus reader that weights the Docs of another one, so that they represent the texts of a target."""

# No `from __future__ import annotations`: spaCy validates a config with the evaluated annotations.

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import logger

from ...errors import DataError
from ...pipeline.evidence import WEIGHT, WEIGHT_KEY, register_extensions, weight_of
from .weightings import Weighting, Weights

OWN_KEY = "spacy_crfseq.own_weight"
"""Key in ``doc.user_data`` of the weight that a Doc had before."""
FEW, UNLIKE = 0.1, 5
"""A warning says that the effective sample size is below this fraction of the texts, that more than this fraction has
weight 0, or that the mean lengths of both sides differ by this factor.
"""
Reader = Callable[[Language], Iterable[Example]]


def create_weighted_reader(corpus: Reader, target: Reader, weighting: Weighting) -> "WeightedReader":
    """Create a reader that weights the examples of another reader (``spacy_crfseq.WeightedReader.v1``).

    The weight of each gold Doc, doc._.crf_weight, is multiplied by the one that the weighting finds.  A Doc of the
    corpus and one of the target should be the same kind of text, such as a sentence.

    corpus (Callable): The reader of the labelled texts, a block of its own.
    target (Callable): The reader of texts like those that the model is for; their labels are ignored.
    weighting (Weighting): A function of the registry crf_weightings.
    RAISES DataError: If labelled texts and target have too little in common, or the weighting returns no weights.
    """
    return WeightedReader(corpus, target, weighting)


class WeightedReader:
    """The examples of a corpus, weighted.  Weights are computed once, and again if texts are new, as after shuffling
    with a limit.
    """

    def __init__(self, corpus: Reader, target: Reader, weighting: Weighting) -> None:
        register_extensions()
        self._corpus, self._target, self._weighting = corpus, target, weighting
        self._weights: dict[tuple[str, ...], float] = {}

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return an iterator over the examples of the corpus, with weights on their reference Docs."""
        examples = list(self._corpus(nlp))
        texts = [words_of(example.reference) for example in examples]
        if not self._weights.keys() >= set(texts):
            # of the Docs without gold labels, as a reader of raw text has nothing else
            target = [words_of(example.predicted) for example in self._target(nlp)]
            weights = weigh_texts(self._weighting, texts, target)
            logger.info(
                "Weights of %d texts: effective sample size %.1f; %s", len(texts), weights.effective_size, weights.note
            )
            self._weights |= dict(zip(texts, weights.values.tolist(), strict=True))
        for example, text in zip(examples, texts, strict=True):
            doc = example.reference
            own = doc.user_data.setdefault(OWN_KEY, weight_of(doc))  # readers return the same gold Docs again
            doc.user_data[WEIGHT_KEY] = own * self._weights[text]
        return iter(examples)


def words_of(doc: Doc) -> tuple[str, ...]:
    """Return the words of a Doc."""
    return tuple(token.text for token in doc)


def weigh_texts(weighting: Weighting, labelled: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> Weights:
    """Return the weights of labelled texts; warn if few of them carry nearly all of the weight.

    RAISES DataError: As `Weighting` does, and if what it returns is not one weight for each text.
    """
    result = weighting(labelled, target)
    values = result.values
    if len(values) != len(labelled) or not all(0 <= value < math.inf for value in values) or not np.any(values):
        raise DataError(
            f"{type(weighting).__name__}: a weighting returns a number of at least 0 for each of the {len(labelled):,} "
            f"labelled texts, not all 0; this one returned {len(values):,} values for {WEIGHT}."
        )
    zeros, sizes = np.mean(values == 0), [np.mean([len(text) for text in side]) for side in (labelled, target)]
    if result.effective_size < FEW * len(labelled) or zeros > FEW:
        warnings.warn(
            f"The weights of {len(labelled):,} texts are as uneven as if only {result.effective_size:.0f} of them were "
            f"left, and {zeros:.0%} are 0 ({result.note}). A model may be better without weights: lower `flatten`, set "
            "a `cap`, or compare what repeats more often.",
            stacklevel=3,
        )
    if not 1 / UNLIKE < (1 + sizes[0]) / (1 + sizes[1]) < UNLIKE:
        warnings.warn(
            f"Labelled texts have {sizes[0]:.1f} tokens on average, those of the target {sizes[1]:.1f}. Give both as "
            "sentences, or both as documents.",
            stacklevel=3,
        )
    return result
