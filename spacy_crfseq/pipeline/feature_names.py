"""Readable names of features, which a model stores as hashes.

Training records the origin of each feature (`Origins`), from which the features with the largest weights, or all of
them, get their names when the model is stored.  Other names are found by hashing texts again (`FeatureReader`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..features.encoder import KNOWN, Active, CollectedFeatures, Columns, FrozenEncoder
from ..features.sets import FeatureSet
from ..features.templates import names_of
from ..features.token_sets import make_token_sets
from ..model import LinearChainCRF
from ..potentials.layout import DenseRows, WeightRows
from ..types import Bools, Floats, Offsets
from .prediction import DocColumns

N_FLAGS = 64
"""Smaller values are truth values and codes such as those of ENT_IOB; as hashes they would mean spaCy's own flags."""
CODES = (1, 2, 3)
"""Values of the columns ENT_IOB and SPACY, which are not hashes of texts."""
PART = 5_000
"""Number of strings of a vocab that are read at a time."""

MAX_STRINGS = 1 << 18
"""Maximum number of values of token functions whose texts training keeps, unless `keep_names` is set."""

LargestNames = tuple[dict[int, str], dict[int, str]]
"""The names of some features of the unigram and of the bigram block, by their keys in the model."""
BothActive = tuple[list[Active], list[Active]]
"""The active features of each template in a text, for the unigram and the bigram block."""


def text_of(value: int, strings: Mapping[int, str], vocab: Vocab) -> str:
    """Return the text of a value of a feature; `strings` has those that the vocab may lack."""
    if value < N_FLAGS:
        return str(value)
    return strings.get(value) or str(vocab.strings[value])


def names_left(names: list[str], before: LinearChainCRF, after: LinearChainCRF) -> list[str]:
    """Return the names of the features that another model has kept, in its order."""
    if not names or before is after:
        return names
    split, left = len(before.keys[0]), list[str]()
    for own, keys, kept in zip((names[:split], names[split:]), before.keys, after.keys, strict=True):
        name_of = dict(zip(keys.tolist(), own, strict=True))
        left += map(name_of.__getitem__, kept.tolist())
    return left


class Origins:
    """The template and the values of each feature of a model in training.

    features (tuple[CollectedFeatures, CollectedFeatures]): Those of the model, by block.
    strings (dict[int, str]): The texts of values that the vocab may lack, and names of features from another model,
        by their keys.
    vocab (Vocab): The vocab of the training texts.
    """

    def __init__(
        self, features: tuple[CollectedFeatures, CollectedFeatures], strings: dict[int, str], vocab: Vocab
    ) -> None:
        self._blocks = [(block.plan, block.origins) for block in features]
        self._strings, self._text_of = strings, partial(text_of, strings=strings, vocab=vocab)

    def all_names(self) -> list[str]:
        """Return the names of all features, the unigram block first."""
        sizes = [sum(values.shape[1] for _, values in parts) for _, parts in self._blocks]
        return [name or "" for block, size in enumerate(sizes) for name in self.names(block, np.arange(size))]

    def largest_names(self, crf: LinearChainCRF) -> LargestNames:
        """Return the names of the features selected by `features_with_largest_weights`."""
        largest: LargestNames = ({}, {})
        for block, numbers in enumerate(features_with_largest_weights(crf)):
            keys = crf.keys[block][numbers].tolist()
            names = zip(keys, self.names(block, numbers), strict=True)
            largest[block].update((key, name) for key, name in names if name is not None)
        return largest

    def names(self, block: int, numbers: Offsets) -> list[str | None]:
        """Return the names of features of a block; their numbers are sorted.  None if the vocab has lost a text."""
        plan, parts = self._blocks[block]
        ends = np.cumsum([values.shape[1] for _, values in parts], dtype=np.int64)
        homes = np.searchsorted(ends, numbers, side="right")
        names: list[str | None] = []
        for home in np.unique(homes).tolist():
            template, values = parts[home]
            own = values[:, numbers[homes == home] - ends[home] + values.shape[1]]
            if template == KNOWN:
                names += map(self._strings.get, own[0].tolist())
                continue
            try:
                names += names_of(plan, template, own, self._text_of)
            except KeyError:  # a word of a memory zone that has ended
                names += [None] * own.shape[1]
        return names


@dataclass
class FeatureReader:
    """Finds the active features of texts, and their names.

    encoder (FrozenEncoder): An encoder of the model's features that is not used elsewhere.
    strings (dict[int, str]): Filled with the texts of hashes that the encoder and token functions compute.
    read (Callable): Returns the columns of Docs, given whether their entities are decided; it fills `strings`.
    vocab (Callable): Returns the vocab of the current texts.
    """

    encoder: FrozenEncoder
    strings: dict[int, str]
    features: FeatureSet
    read: Callable[[list[Doc], bool], DocColumns]
    vocab: Callable[[], Vocab]

    def active(self, docs: list[Doc], preset: bool = False) -> BothActive:
        """Return the active features of each template in some Docs.

        preset (bool): As in `CRFComponent.posterior`.
        """
        return self.encoder.active(self.read(docs, preset).text)

    def names(self, block: int, active: Active) -> list[str]:
        """Return the names of features of the unigram (0) or the bigram block (1)."""
        plan = (self.encoder.unigrams, self.encoder.bigrams)[block].plan
        return names_of(
            plan, active.template, active.values, partial(text_of, strings=self.strings, vocab=self.vocab())
        )

    def active_strings(self) -> Iterator[BothActive]:
        """Yield the active features of all strings of the vocab, as words and as values of token columns, in portions.

        They are read as one long text.  So every feature of a single word or column is met whose string is there, at
        any offset, but hardly a feature of several tokens.
        """
        strings = self.vocab().strings
        hashes = np.array([*CODES, *(strings[text] for text in strings if not text.isspace())], np.uint64)
        for first in range(0, len(hashes), PART):
            part = hashes[first : first + PART]
            context = np.repeat(part[:, None], len(self.encoder.columns), axis=1)
            sets = dict.fromkeys(self.features.set_names, make_token_sets([0] * len(part), []))
            yield self.encoder.active(Columns(part, context, np.array([0, len(part)]), sets))

    def find(self, texts: Iterable[BothActive], wanted: tuple[Bools, Bools]) -> Iterator[tuple[int, int, str]]:
        """Yield block, number and name of the `wanted` features [F] of each block, and unmark those that are found."""
        for text in texts:
            for block, (missing, actives) in enumerate(zip(wanted, text, strict=True)):
                for active in actives:
                    hits = np.flatnonzero((active.features >= 0) & np.append(missing, False)[active.features])
                    hits = hits[np.unique(active.features[hits], return_index=True)[1]]
                    names = self.names(block, active._replace(values=active.values[:, hits]))
                    numbers = active.features[hits].tolist()
                    missing[numbers] = False
                    yield from ((block, number, name) for number, name in zip(numbers, names, strict=True))
            if not any(missing.any() for missing in wanted):
                return


# The features whose names a model keeps

NAMED_OF_LABEL, NAMED_OF_TEMPLATE = 15, 5
"""Number of weights of each sign for each label and each template in `features_with_largest_weights`."""
MOST_NAMED = 5_000
"""Approximate maximum number of features if there are very many labels."""
PORTION = 1 << 17
"""Weights that are compared at a time."""


def features_with_largest_weights(crf: LinearChainCRF) -> tuple[Offsets, Offsets]:
    """Return the features, sorted, with the largest weights of each label and template: unigram, bigram block."""
    n, base = crf.layout.n_labels, crf.layout.unigrams.n_rows
    owners = crf.templates or ()
    ends = np.cumsum([n, *(int(templates.max(initial=0)) + 1 for templates in owners)]).tolist()
    numbers = np.full(2 * ends[-1], NAMED_OF_TEMPLATE)  # of each group: labels, then templates; the same, negative
    numbers[:n] = numbers[ends[-1] :][:n] = max(1, min(NAMED_OF_LABEL, MOST_NAMED // (2 * n)))
    least, values = np.zeros(len(numbers)), np.zeros(0)
    groups = items = np.zeros(0, np.int64)
    for block, rows in enumerate((crf.layout.unigrams, crf.layout.bigrams)):
        bounds = rows.bounds
        for begin, end in pairwise(_portions(bounds)):
            of_both = np.minimum(*np.split(least, 2))  # signs
            by_feature = of_both[ends[block] + owners[block][begin:end]] if owners else np.full(end - begin, np.inf)
            larger = _larger(rows, crf.views[block], bounds[begin : end + 1], by_feature, of_both[:n])
            features, columns, weights = begin + larger[0], larger[1], larger[2]
            for group in (columns % n, *([ends[block] + owners[block][features]] if owners else [])):
                group = group + ends[-1] * (weights < 0)
                new = np.flatnonzero(np.abs(weights) > least[group])
                groups, values = np.append(groups, group[new]), np.append(values, np.abs(weights[new]))
                items = np.append(items, features[new] + block * base)
                order = np.lexsort((-values, groups))
                groups, values, items = groups[order], values[order], items[order]
                left = numbers[groups] - np.arange(len(groups)) + np.searchsorted(groups, groups)
                least[groups[left == 1]] = values[left == 1]  # smaller weights of the group are no longer needed
                groups, values, items = groups[left > 0], values[left > 0], items[left > 0]
    largest = np.unique(items)
    split = int(np.searchsorted(largest, base))
    return largest[:split], largest[split:] - base


def _portions(bounds: Offsets) -> list[int]:
    """Return the first rows of portions of some `PORTION` weights, and the number of rows; `bounds` are those of rows.

    The first portions, most of whose weights are larger than all before of their label or template, are smaller.
    """
    size = int(bounds[-1])
    starts = [np.arange(0, min(size, 4 * PORTION), max(1, PORTION >> 5)), np.arange(0, size, PORTION)]
    edges: list[int] = np.unique([*np.searchsorted(bounds, np.concatenate(starts)), len(bounds) - 1]).tolist()
    return edges


def _larger(
    rows: WeightRows, weights: Floats, bounds: Offsets, by_row: Floats, by_label: Floats
) -> tuple[Offsets, Offsets, Floats]:
    """Return row, column and value of the weights of some rows that exceed the bound of their row or of their label.

    bounds (Offsets): The starts of these rows, and the end of the last one; rows are counted from the first one.
    """
    portion, by_column = weights[bounds[0] : bounds[-1]], np.tile(by_label, rows.width // len(by_label))
    if isinstance(rows, DenseRows):
        places = np.flatnonzero(np.abs(portion) > np.minimum(by_row[:, None], by_column).ravel())
        return *np.divmod(places, rows.width), portion[places]
    columns = rows.cols[bounds[0] : bounds[-1]]
    places = np.flatnonzero(np.abs(portion) > np.minimum(np.repeat(by_row, np.diff(bounds)), by_column[columns]))
    features = np.searchsorted(bounds - bounds[0], places, side="right") - 1
    return features, columns[places].astype(np.int64), portion[places]
