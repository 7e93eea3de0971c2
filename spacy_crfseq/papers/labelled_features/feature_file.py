"""Labelled features: a file of shares of labels, and the tokens of texts that have the features.

A line has a feature and, after a tab or spaces, shares of labels::

    # institutions
    university    ORG=0.8
    SHAPE[0]=dddd    DATE=0.5..0.9  O=0.1

A feature is a word, whose case does not matter, or TEMPLATE=value with a template over built-in attributes.  A share is
a number or a range.  The constraint files of Mallet's SimpleTaggerWithConstraints are read, too, with shares such as
``label:0.8`` and ``label:0.1,0.3`` (https://mimno.github.io/Mallet/semi-sup-fst).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...corpora import check_file
from ...errors import ConfigError, FormatError
from ...features.attributes import BUILT_IN, LEXEME_FLAGS
from ...features.encoder import Active, FrozenEncoder, new_lexicon
from ...features.index import HashIndex
from ...features.templates import Part, Template, make_plan, pad_names, pad_values, parse
from ...types import Ints
from .expectation import ROUNDING

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
        from ...pipeline.prediction import VocabInUse, lexeme_reader, read_docs

        if not any(map(len, docs)):
            return np.zeros(0, np.int32)
        vocab = docs[0].vocab
        if self._encoder is None or vocab is not self._vocab:
            plans = self._plan, make_plan([])
            lexicon = new_lexicon(*plans, lexeme_reader(VocabInUse(vocab), self._plan.lexical, {}))
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
