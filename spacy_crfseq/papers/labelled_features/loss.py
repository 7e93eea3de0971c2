"""Generalized expectation: the shares of labels among the tokens that have a feature, such as "the word *university* is
an institution 80 % of the time".

Mann & McCallum (2008), "Generalized expectation criteria for semi-supervised learning of conditional random fields";
Druck, Mann & McCallum (2009) for squared distances.  Each feature adds the distance between the wanted shares and the
mean of P(y_t = y | x) over its tokens.

Labelled features: a file of shares of labels, and the tokens of texts that have the features.

A line has a feature and, after a tab or spaces, shares of labels::

    # institutions
    university    ORG=0.8
    SHAPE[0]=dddd    DATE=0.5..0.9  O=0.1

A feature is a word, whose case does not matter, or TEMPLATE=value with a template over built-in attributes.  A share is
a number or a range.  The constraint files of Mallet's SimpleTaggerWithConstraints are read, too, with shares such as
``label:0.8`` and ``label:0.1,0.3`` (https://mimno.github.io/Mallet/semi-sup-fst).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...corpora import check_file
from ...errors import ConfigError, FormatError
from ...features.attributes import BUILT_IN, LEXEME_FLAGS
from ...features.encoder import Active, FrozenEncoder, new_lexicon
from ...features.index import HashIndex
from ...features.templates import Part, Template, make_plan, pad_names, pad_values, parse
from ...threads import cached_property
from ...types import Batch, Bools, Ints, Scores
from .expectation import ROUNDING, ExpectedLabels, Values, kl_divergence, tags_of

_SHARE = re.compile(r"(?P<label>.+)[=:](?P<low>[0-9.eE+-]+?)(?:(?:\.\.|,)(?P<high>[0-9.eE+-]+))?")


class LabelledFeature(NamedTuple):
    """A feature with the shares of labels among its tokens, lowest and highest, as a line of a file has them."""

    name: str
    shares: dict[str, tuple[float, float]]
    line: int


def read_features(path: Path | str) -> list[LabelledFeature]:
    """Return the labelled features of a file.

    RAISES FormatError: Naming the line, if it cannot be read, repeats a feature or has shares that are impossible.
    """
    path = check_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(path, 0, f"the file is not in UTF-8 ({error}).") from error
    features: dict[str, LabelledFeature] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text == "#" or text.startswith("# "):
            continue
        name, *shares = text.split("\t") if "\t" in text else text.split()
        feature = LabelledFeature(name.strip(), _shares(" ".join(shares).split(), path, number), number)
        try:
            template, values = _parse(feature.name)
        except ConfigError as error:
            raise FormatError(path, number, str(error)) from None
        if (first := features.setdefault(f"{template.name}={values}", feature)) is not feature:
            raise FormatError(path, number, f"the feature {name!r} is in line {first.line} already. Merge the lines.")
    if not features:
        raise FormatError(path, 0, "no labelled feature. A line is for example: university<tab>ORG=0.8")
    return list(features.values())


def _shares(items: list[str], path: Path, line: int) -> dict[str, tuple[float, float]]:
    shares: dict[str, tuple[float, float]] = {}
    for item in items:
        match = _SHARE.fullmatch(item)
        try:
            if match is None:
                raise ValueError
            low = float(match["low"])
            bounds = low, float(match["high"] or low)
        except ValueError:
            raise FormatError(path, line, f"{item!r} is no share. Write LABEL=0.8 or LABEL=0.6..0.9.") from None
        if not 0 <= bounds[0] <= bounds[1] <= 1:
            raise FormatError(path, line, f"{item!r}: shares are from 0 to 1, the lower one first.")
        if match["label"] in shares:
            raise FormatError(path, line, f"the label {match['label']!r} is listed twice.")
        shares[match["label"]] = bounds
    if not shares:
        raise FormatError(path, line, "a feature without a share. Write for example: university<tab>ORG=0.8")
    total = sum(low for low, _ in shares.values())
    if total > 1 + ROUNDING:
        raise FormatError(path, line, f"the shares add up to {total:g}. They cannot exceed 1.")
    return shares


class FeatureSets:
    """Finds the features of tokens, and numbers the sets of features that occur together.

    sets (list): The features of each set; set 0 is empty.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._vocab: Any = None
        parsed = [_parse(name) for name in names]
        templates = list(dict.fromkeys(template for template, _ in parsed))
        self._features = [(templates.index(template), values) for template, values in parsed]
        self._plan = make_plan(templates)
        self._encoder: FrozenEncoder | None = None
        pads = pad_names(self._plan.width), pad_values(self._plan.width).tolist()
        self._pads = dict(zip(*pads, strict=True))

    def numbers_of(self, docs: Sequence[Any]) -> Ints:
        """Return the number of the set of each token of some Docs [T]."""
        from ...pipeline.prediction import Place, lexeme_reader, read_docs

        if not any(map(len, docs)):
            return np.zeros(0, np.int32)
        vocab = docs[0].vocab
        if self._encoder is None or vocab is not self._vocab:
            plans = self._plan, make_plan([])
            lexicon = new_lexicon(*plans, lexeme_reader(Place(vocab), self._plan.lexical, {}))
            self._vocab, self._encoder = vocab, FrozenEncoder(*plans, lexicon, (HashIndex(), HashIndex()))
        text = read_docs(docs, self._encoder.columns).text
        return self._sets(self._encoder.active(text)[0], int(text.offsets[-1]))

    def _sets(self, active: list[Active], n_tokens: int) -> Ints:
        has = np.zeros((n_tokens, len(self._features)), np.bool_)
        for column, (template, values) in enumerate(self._features):
            hashes = [self._hash_of(*pair) for pair in zip(self._plan.templates[template].parts, values, strict=True)]
            matching = (active[template].values == np.array(hashes, np.uint64)[:, None]).all(0)
            has[active[template].tokens[matching], column] = True
        out = np.zeros(n_tokens, np.int32)
        for token in np.flatnonzero(has.any(1)).tolist():
            features = tuple(np.flatnonzero(has[token]).tolist())
            if features not in self._numbers:
                self._numbers[features] = len(self.sets)
                self.sets.append(features)
            out[token] = self._numbers[features]
        return out

    def _hash_of(self, part: Part, value: str) -> int:
        if part.attribute in LEXEME_FLAGS or part.attribute == "SPACY":
            return int(value == "1")
        return int(self._pads.get(value) or self._vocab.strings[value])


def _parse(name: str) -> tuple[Template, list[str]]:
    """Return the template of a feature and the values of its parts; a word is a value of LOWER."""
    text, separator, value = name.partition("=")
    if separator and value and re.match(r"[A-Za-z_0-9]*", text)[0] in BUILT_IN:  # type: ignore[index]
        templates = parse([text], BUILT_IN)
        if len(templates) > 1:
            raise ConfigError(
                f"Labelled feature {name!r}: a window is several features. Write one line for each offset."
            )
        values = value.split("|") if len(templates[0].parts) > 1 else [value]
        if len(values) != len(templates[0].parts):
            raise ConfigError(f"Labelled feature {name!r}: {templates[0].name} needs a value for each of its parts.")
        return templates[0], values
    return parse(["LOWER"], BUILT_IN)[0], [name.lower()]


NAME = "spacy_crfseq.GeneralizedExpectation.v1"
DISTANCES = ("KL", "L2")
SHOWN = 10
"""Features that a warning names."""
logger = logging.getLogger("spacy_crfseq")


class _Wanted(NamedTuple):
    """The bounds of the shares of groups of tags [G], which tags [G, L] are."""

    low: Values
    high: Values
    tags: Bools


class _Knowledge:
    """The labelled features of a file, read when they are first needed; all copies of a loss share them."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self.warned = False

    @cached_property
    def features(self) -> list[LabelledFeature]:
        return read_features(self._path)

    @cached_property
    def sets(self) -> FeatureSets:
        return FeatureSets([feature.name for feature in self.features])


@dataclass(frozen=True)
class GeneralizedExpectation(ExpectedLabels):
    """Labelled features (registered as ``spacy_crfseq.GeneralizedExpectation.v1``).

    It ignores gold labels, and does not grow with the size of a text: try weights from 1 to the number of labelled
    sequences.

    path (Path | str): File of labelled features, one a line: a word or TEMPLATE=value, a tab, and LABEL=share or
        LABEL=lowest..highest, separated by spaces.  Lines that begin with "# " are comments.  Mallet's constraint files
        are read, too.  A label of a scheme is the sum of its tags; the labels that are not listed share the rest.
    distance (str): "KL" for the Kullback-Leibler divergence from the wanted to the expected shares; "L2" for the sum of
        squared distances of the listed shares, in a range from its nearer end.
    RAISES ConfigError: For any other distance.
    """

    path: Path | str
    distance: str = "KL"

    def __post_init__(self) -> None:
        if self.distance not in DISTANCES:
            raise ConfigError(f"{NAME}: distance must be one of {', '.join(DISTANCES)}, but it is {self.distance!r}.")
        object.__setattr__(self, "_knowledge", _Knowledge(self.path))

    @property
    def _known(self) -> _Knowledge:
        knowledge: _Knowledge = vars(self)["_knowledge"]
        return knowledge

    def bind(self, labels: Sequence[str], scheme: str | None) -> GeneralizedExpectation:
        return self._copy(_wanted=[self._resolve(feature, labels, scheme) for feature in self._known.features])

    def _resolve(self, feature: LabelledFeature, labels: Sequence[str], scheme: str | None) -> _Wanted:
        bounds = np.array([*feature.shares.values()], np.float64)
        tags = tags_of([*feature.shares], labels, scheme, f"{self.path}:{feature.line}")
        if self.distance == "KL":
            if (bounds[:, 0] != bounds[:, 1]).any():
                raise FormatError(self.path, feature.line, f'ranges need distance = "L2" in {NAME}.')
            total = bounds[:, 0].sum()
            if tags.any(0).all() and total < 1 - ROUNDING:
                raise FormatError(self.path, feature.line, f"the shares of all labels add up to {total:g}, not to 1.")
        return _Wanted(bounds[:, 0], bounds[:, 1], tags)

    def read(self, docs: Sequence[Any], gold: Sequence[Any]) -> NDArray[Any]:
        return self._known.sets.numbers_of(docs)

    @property
    def n_kinds(self) -> int:
        return len(self._known.sets.sets)

    def kinds(self, batch: Batch) -> Ints:
        if batch.inputs is None:
            raise ConfigError(
                f"{NAME} needs to know the features of tokens: batch.inputs must be what read(docs) returned."
            )
        return batch.inputs

    def totals(self, scores: Scores, batch: Batch) -> Values:
        """Return the expected numbers of labels at the tokens with each feature [features, L]."""
        counts: Values = self._has.T @ super().totals(scores, batch)
        return counts

    def add_gradient(self, slope: Values, scores: Scores, batch: Batch, grad: Scores) -> float:
        """As `ExpectedLabels.add_gradient`, with the derivatives with respect to the totals of features."""
        return super().add_gradient(self._has @ slope, scores, batch, grad)

    @property
    def _has(self) -> Values:
        """Which features each kind of token has [kinds, features]; kinds are numbered as texts are read."""
        has = np.zeros((self.n_kinds, len(self._known.features)))
        for row, features in zip(has, self._known.sets.sets, strict=True):
            row[list(features)] = 1
        return has

    def value_at(self, totals: Values) -> tuple[float, Values]:
        wanted: list[_Wanted] | None = vars(self).get("_wanted")
        if wanted is None:
            raise ConfigError(f"{NAME} needs the names of labels: call bind(labels, scheme) first.")
        self._warn(totals.sum(1) <= 0)
        value, slope = 0.0, np.zeros_like(totals)
        for number, (low, high, tags) in enumerate(wanted):
            expected = totals[number]
            added, slope[number] = (
                kl_divergence(low, tags, expected)
                if self.distance == "KL"
                else squared_distance(low, high, tags, expected)
            )
            value += added
        return value, slope

    def _warn(self, absent: Bools) -> None:
        if absent.any() and not self._known.warned:
            self._known.warned = True
            names = [self._known.features[number].name for number in np.flatnonzero(absent)]
            logger.warning(
                "%s: %d of %d labelled features never occur in the text without labels: %s. Check their spelling.",
                self.path, len(names), len(absent), ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else ""),
            )  # fmt: skip


def squared_distance(low: Values, high: Values, tags: Bools, totals: Values) -> tuple[float, Values]:
    """Return the sum of squared distances of expected shares from intervals, and its derivatives; see `kl_divergence`.

    low, high [G]: Bounds of the shares of groups of tags; other tags have no wanted share.
    """
    n_tokens = totals.sum()
    if n_tokens <= 0:
        return 0.0, np.zeros_like(totals)
    expected = tags @ totals / n_tokens
    excess = np.maximum(expected - high, 0) - np.maximum(low - expected, 0)
    return float(excess @ excess), 2 * (excess @ tags) / n_tokens
