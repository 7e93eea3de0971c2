"""The page: published numbers, tables, what was hoped for and met or not, and the template that is filled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts import kit
from scripts.kit import NOT_RUN, machines
from scripts.papers._harness import ROOT, STUDY, Results, Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEMPLATE = ROOT / "scripts" / "papers" / "papers.md.in"
FIGURES = "figures"


def _by(methods: Sequence[str], features: str, figures: Sequence[float]) -> dict[tuple[str, str], float]:
    return {(method, features): figure for method, figure in zip(methods, figures, strict=True)}


def _grid(
    columns: Sequence[str], rows: Mapping[Any, Sequence[float]] | None = None, **more: Sequence[float]
) -> dict[tuple[Any, str], float]:
    """Return the figures of rows by the name of the row and of the column."""
    all_rows = {**(rows or {}), **more}
    return {(row, column): one for row, each in all_rows.items() for column, one in zip(columns, each, strict=True)}


def _pairs(text: str) -> list[tuple[str, int]]:
    return [(pair, int(count)) for pair, count in (one.split() for one in text.split(", "))]


_LOSSES = ("SequentialLog", "SequentialExp", "PointwiseLog", "PointwiseExp")
PUBLISHED: dict[str, dict[Any, Any]] = {
    # Altun, Johnson & Hofmann (2003), tables 2 and 3: F1 on esp.testb
    "entities": {
        **_by((*_LOSSES, "Perceptron", "Boosting"), "S1", (59.92, 59.68, 56.73, 58.26, 59.77, 48.23)),
        **_by((*_LOSSES, "Perceptron", "Boosting"), "S2", (69.75, 67.30, 68.28, 69.51, 69.29, 66.11)),
        **_by((*_LOSSES, "Perceptron", "Boosting"), "S3", (73.62, 72.11, 73.17, 73.82, 72.97, 71.07)),
    },
    # ... table 1: accuracy on the Penn Treebank, and boosting in the text of section 6
    "tags": {
        **_by((*_LOSSES, "Boosting"), "S1", (94.91, 94.57, 94.90, 94.66, 89.42)),
        **_by((*_LOSSES, "Boosting"), "S2", (95.68, 95.25, 95.71, 95.31, 94.92)),
    },
    # Sokolovska (2010), tables 3.5 and 3.7: per cent of wrong labels of CoNLL-2000
    "chunks": _grid(
        ("train", "test"),
        word=(16.2, 24.66),
        part=(22.6, 22.7),
        conjunction=(9.0, 17.2),
        unigrams=(15.2, 17.7),
        chain=(4.9, 5.9),
        bigrams=(4.9, 6.7),
        all=(3.0, 5.6),
    ),
    # ... tables 3.5 and 3.8, of CoNLL-2003
    "names": _grid(
        ("train", "A", "B"),
        word=(1.7, 10.3, 14.6),
        part=(14.1, 13.5, 15.2),
        chunk=(16.6, 16.7, 17.9),
        conjunction=(1.4, 8.2, 12.9),
        unigrams=(1.6, 3.9, 5.8),
        chain=(0.5, 3.6, 5.4),
        bigrams=(1.4, 4.8, 7.5),
        all=(0.1, 3.0, 5.2),
    ),
    # ... section 7.3.3, per cent of wrong labels; those of CoNLL-2003 are approximate
    "product": {("chunks", "test"): 13.5, ("names", "A"): 6.0, ("names", "B"): 10.0},
    # ... tables 6.1 and 6.2, by the largest weight that is set to zero: weights left, accuracy and F1
    "chunks-thresholds": _grid(
        ("active", "test accuracy", "test f1"),
        {
            0.0: (9_266_269, 94.43, 91.16),
            0.25: (26_986, 94.42, 91.18),
            0.5: (12_127, 94.35, 90.97),
            0.75: (5_457, 93.82, 90.03),
            1.0: (2_079, 93.02, 88.53),
        },
    ),
    "names-thresholds": _grid(
        ("active", "A accuracy", "A f1", "B accuracy", "B f1"),
        {
            0.0: (1_611_832, 96.96, 83.04, 94.69, 73.15),
            0.1: (97_790, 96.95, 82.97, 94.69, 73.18),
            0.25: (62_563, 96.81, 82.23, 94.55, 72.72),
            0.5: (38_520, 96.67, 81.47, 94.45, 72.41),
            0.75: (26_038, 96.5, 80.71, 94.22, 71.54),
            1.0: (19_244, 96.18, 80.31, 94.0, 71.58),
        },
    ),
    # ... tables 7.3 and 7.4: weights in all, and those that an L1 norm leaves
    "chunks-sparse": _grid(
        ("all", "left"),
        {
            "(y,x1)": (496_547, 5_057),
            "(y,x2)": (1_012, 485),
            "(y',y,x1)": (11_917_128, 9_439),
            "(y',y,x2)": (24_288, 1_591),
        },
    ),
    "names-sparse": _grid(
        ("all", "left"),
        {
            "(y,x1)": (242_320, 10_550),
            "(y,x2)": (386, 186),
            "(y,x3)": (144, 67),
            "(y',y,x1)": (2_180_880, 13_585),
            "(y',y,x2)": (3_312, 488),
            "(y',y,x3)": (1_296, 214),
        },
    ),
    # Sokolovska (2010), table 3.2, and the text for the pattern without y0: weights, errors in training and test
    "nettalk": {
        "(y,x)": (1_378, 38.7, 38.7),
        "(y',y,x)": (74_412, 17.9, 18.5),
        "(y',y,x) without y0": (None, 27.2, 27.8),
        "(y,x) + (y',y,x)": (75_790, 13.9, 14.8),
        "A = (y, x-1 x x+1)": (252_408, 12.5, 13.9),
        "A + (y,x)": (258_640, 13.8, 13.9),
        "A + (y,x) + (y',y,x)": (331_674, 10.5, 11.4),
        "B = (y',y, x-1 x x+1)": (12_125_216, 7.6, 9.6),
        "B + (y,x)": (12_976_149, 7.4, 9.3),
        "B + (y,x) + (y',y,x)": (13_049_183, 6.8, 8.5),
        "C = (y, x-2 x-1 x x+1 x+2)": (1_916_200, 3.1, 20.6),
        "C + A + (y,x)": (2_169_960, 5.3, 9.6),
        "five single letters": (7_072, 10.7, 11.7),
        "C + D + B + E": (17_318_756, 3.4, 7.8),
        "D + E + (y,x) + (y',y,x)": (2_984_436, 4.0, 7.3),
    },
    # ... table 3.3: predicted and correct symbol, and how often, for (y',y,x) and for (y,x) + (y',y,x)
    "confusions": {
        "(y',y,x)": _pairs(
            "æ-ə 104, ai-ɪ 84, .-ə 81, e-. 80, ɔ-ə 69, ə-. 64, z-s 46, i-ɪ 45, ɪ-e 45, ɔ:-ə 44, a:-ə 43, ə-æ 43, "
            "ə-ɔ 43, e-ɪ 41, ɪ-. 39, e-ə 39, əʊ-ɔ 35, ə:-ə 35, ə-ei 35, æ-ei 32"
        ),
        "(y,x) + (y',y,x)": _pairs(
            "æ-ə 90, ai-ɪ 85, ɔ-ə 69, ɪ-e 61, ə-æ 51, .-ə 44, ə-ɔ 43, i-ɪ 42, z-s 39, ə-e 39, ə-. 39, ɔ:-ə 38, "
            "a:-ə 38, e-ɪ 35, e-ə 34, ə-ei 34, ə:-ə 33, æ-ei 32, e-. 31, əʊ-ɔ 30"
        ),
    },
    # ... words in the test part, wrong ones, and those with more than 2, 5, 8 and 10 errors
    "words": {"all": 1628, 0: 1100, 2: 355, 5: 80, 8: 23, 10: 11},
    # ... table 3.4: words and the score of their prediction less that of the correct labels
    "worst words": {
        "ofttimes": 8.47, "curvature": 8.60, "meteorological": 8.03, "beautify": 8.35, "cabaret": 11.27,
        "exhortation": 14.96, "rarely": 30.21, "boatswain": 13.23, "glowworm": 9.88, "chemise": 8.76, "anywhere": 8.06,
        "cyclist": 8.11, "magazine": 10.73, "elaboration": 9.27, "austerity": 9.25, "rye": 16.22, "acre": 8.65,
        "fiance": 17.15, "aforesaid": 11.00, "regime": 18.76, "because": 9.39,
    },
    # ... table 6.3 and section 6.1.2: active weights, error, then those of (y,x) and of (y',y,x), and those of the
    # latter without the former
    "thresholds": {
        0.0: (75_790, 13.98),
        0.25: (5_446, 14.02, 949, 4_497, 83),
        0.5: (4_005, 14.11),
        1.0: (2_585, 14.91),
        2.0: (1_288, 17.08, 161, 1_127, 112),
        "positive": (1_697, 17.49),
    },
    # ... section 6.1.2: active weights of words and of tags on CoNLL-2000
    "hierarchy": {1.0: (2_119, 851), 2.0: (370, 392), 3.0: (95, 215)},
    # ... table 7.2: iterations, minutes, errors in training and test, weights of (y,x) and of (y',y,x)
    "sparse": {
        0.0: (30, 125, 13.3, 14.0, 1_378, 73_034),
        0.1: (30, 76, 13.5, 14.2, 1_155, 4_171),
        0.2: (30, 70, 14.0, 14.2, 1_089, 3_598),
        0.5: (30, 63, 13.7, 14.3, 957, 3_077),
        1.0: (30, 55, 16.3, 16.8, 858, 3_111),
        2.0: (30, 43, 16.4, 16.9, 760, 2_275),
        10.0: (30, 25, 17.3, 17.7, 267, 997),
        "OWL-QN": (50, 165, 13.5, 14.2, 1_864, 4_079),
        "L-BFGS": (90, 302, 13.5, 14.1, 1_378, 73_034),
        "SGD": (30, 17, 18.5, 19.1, 1_378, 73_034),
    },
    # ... table 7.1: kept weights of (y,x) and of (y',y,x); section 7.3.1: errors in training and test
    "synthetic": {
        "M4": (28.5, 50.6), "M5": (15.0, 26.0), "M6": (10.9, 17.2), "M7": (6.2, 4.9), "M8": (5.8, 1.3),
    },
    "synthetic errors": {"M1": (6.4, 18.5), "M7": (10.3, 17.9)},
    # ... section 7.3.1: seconds of ten iterations
    "descent": {"block": 7.8, "coordinate": 126.5, "active": 25.8},
    # Hall, McDonald & Petrov (2011), table 1: accuracy of question tagging
    "questions": {"nothing, as first trained": 89.77, "the main verb's tag": 91.92, "all tags": 93.63},
    # ... table 2: F1 of entities
    "tagger-for-names": {
        "as first trained": 84.10,
        "proper nouns in entities": 84.51,
        "proper nouns in entities and 1 - F1": 84.87,
    },
}  # fmt: skip
"""Published numbers, where available."""
PUBLISHED_WORDS: dict[str, str] = {
    # Sokolovska (2010), tables 7.5 and 7.6: words with the heaviest weights (y,x1)
    "chunks": "about after and as but depressed down due following for half n't if in including is like not now of off "
    "on or out pending rather right tax that the times to today up whether while",
    "names": "Afghan African Albanian American Australian Belgian Bosnian British Cup Democratic Democrats Dutch "
    "English European French Frenchman German Indian Israel Italian July June Kurdish Lebed London Men Mickelson "
    "Nepal Nigerian OSCE Olympics Palestinian President Regulation Republicans Russian Sampras September Stansted "
    "Treasury Turkish U.S. Wednesday Western Wimbledon",
}
_FIVE = ("SequentialLog", "SequentialExp", "Boosting", "PointwiseLog", "PointwiseExp")
ERRORS: dict[str, dict[tuple[str, str], float]] = {
    "entities": {
        **_by(_FIVE, "S1", (6.60, 6.95, 8.05, 6.73, 7.33)),
        **_by(_FIVE, "S2", (6.72, 7.03, 6.93, 6.67, 7.49)),
        **_by(_FIVE, "S3", (6.15, 5.84, 6.77, 5.90, 5.10)),
    },
    "tags": {
        **_by(_FIVE, "S1", (4.69, 5.04, 10.58, 4.88, 4.96)),
        **_by(_FIVE, "S2", (4.37, 4.74, 5.09, 4.71, 4.90)),
    },
}
"""Altun, Hofmann & Johnson (2002), tables 1 and 2: per cent of wrong labels."""


# Sections

SECTIONS: dict[str, Callable[[Results], str]] = {}
SOURCES: dict[str, str] = {}
"""The prefix of the names of the experiments behind a section."""


def section(name: str, source: str = "") -> Callable[[Callable[[Results], str]], Callable[[Results], str]]:
    """Register what makes a section's tables and figures from the results.

    source (str): Prefix of the names of its experiments; the section's name by default.
    """

    def register(make: Callable[[Results], str]) -> Callable[[Results], str]:
        SECTIONS[name], SOURCES[name] = make, source or name
        return make

    return register


def found(results: Results, name: str) -> list[Row]:
    """Return the rows of an experiment; none where it has not been run."""
    return list(results.get(name, {}).get("rows", []))


class Table(NamedTuple):
    """A table of figures and texts; short rows are filled up."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


def table(content: Table) -> str:
    """Return a table as Markdown.  Raises ValueError where a row is longer than the head."""
    return kit.table(content.head, [[*map(shown, row)] for row in content.rows])


def shown(value: Any) -> str:
    """Return a figure as text: with thousands separators and few digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value and abs(value) < 0.01:
        return f"{value:.1e}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.4g}"


def against(published: Any, ours: Any) -> str:
    """Return two figures as the cell of a table, a dash for one that is not known."""
    return " / ".join(shown(one) or "–" for one in (published, ours))


def compact(names: str, values: NDArray[Any]) -> dict[str, str]:
    """Return a table of numbers as texts, one a row, so that it takes few lines in a file of results."""
    return {name: " ".join(f"{value:.3g}" for value in row) for name, row in zip(names, values, strict=True)}


def expanded(rows: Mapping[str, str]) -> NDArray[Any]:
    """Return the numbers of a table that `compact` made."""
    return np.array([row.split() for row in rows.values()], float)


class Check(NamedTuple):
    """An expectation."""

    text: str
    holds: Callable[[], bool]


def checks(wanted: Sequence[Check]) -> str:
    """Return a list of expectations: met, not met, or unknown because a run is missing."""
    lines = []
    for one in wanted:
        try:
            lines.append(f"- {'met' if one.holds() else '**not met**'}: {one.text}")
        except (TypeError, ValueError, KeyError, IndexError):  # a figure is missing
            lines.append(f"- not known: {one.text}")
    return "\n".join(lines)


def figure(name: str, alt: str) -> str:
    """Return a figure as markdown."""
    return f"![{alt}]({FIGURES}/{name}.svg)"


# The whole page


def render(template: str, results: Results) -> str:
    """Fill the markers of a page: sections, how experiments were run, and the machines."""

    def made(name: str) -> str:
        sources = STUDY.named(SOURCES[name])
        return SECTIONS[name](results) if any(found(results, source) for source in sources) else NOT_RUN

    kinds = {"section": made, "runs": lambda prefix: runs(results, prefix), "machine": lambda _: machines(results)}
    text = kit.fill(template, kinds)
    if any(entry.get("quick") for entry in results.values()):
        text = (
            f"> **A quick run**: small parts of the data and a few iterations. No figure here means anything.\n\n{text}"
        )
    return text


def runs(results: Results, prefix: str) -> str:
    """Return which experiments made a section, their command, seed and time."""
    done = [name for name in STUDY.named(prefix) if found(results, name)]
    text = f"`python scripts/papers/run.py --only {prefix}`"
    if done:
        spent = sum(results[name]["processor seconds"] for name in done)
        seeds = sorted({results[name]["seed"] for name in done})
        text += f", seed {', '.join(map(str, seeds))}, {spent / 60:.1f} minutes of one core"
    return f"{text}."


def write(results: Results, folder: Path) -> None:
    """Write the page and its figures."""
    from scripts.papers import figures

    figures.draw(results, folder / FIGURES)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "papers.md").write_text(render(TEMPLATE.read_text(encoding="utf8"), results), encoding="utf8")
