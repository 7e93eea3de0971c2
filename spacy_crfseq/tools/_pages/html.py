"""The frame of pages: each is one HTML file, made of a jinja2 template, without scripts and external requests.

The page of a tool is a template that extends `frame.html`.  `macros.html` has sections, tables and marked texts for it,
`charts.html` has charts.  Text is escaped, only `Markup` is not.  A variable that a template lacks is an error.  Floats
are positions and sizes, written with one decimal; other numbers are written before they come to a template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from . import charts
from .charts import Bar, Series
from .judged import Tokens

if TYPE_CHECKING:
    from spacy.language import Language

__all__ = [
    "Bar", "Markup", "Series", "TextStyle", "bar_chart", "heat_map", "line_chart", "made_of", "reliability", "render",
    "strength", "text_style",
]  # fmt: skip

PALETTE = ("#feca74", "#8db9ff", "#f59ab5", "#8fd694", "#c887fb", "#ffe066", "#7aecec", "#ff9561", "#aa9cfc", "#c9b79c")
"""Colours for labels that have no colour yet."""
SAME = {"PER": "PERSON"}
"""Labels that take the colour of another label."""
PALEST = 0.12
"""Share of the colour at a probability near zero."""
Marked = tuple[int, int, str, float | None]
"""A span to be marked: start, end, label, and its probability if there is one."""
Side = tuple[str, Sequence[Marked], Mapping[tuple[int, int, str], str]]
"""A reading of a text: its name or nothing, its spans, and notes on those (start, end, label) that are wrong."""


class TextStyle(NamedTuple):
    """How texts are shown: language code, "ltr" or "rtl", and known colours by label in capitals."""

    lang: str = ""
    direction: str = "ltr"
    colors: Mapping[str, str] = {}

    def palette(self, labels: Iterable[str]) -> dict[str, str]:
        """Return a colour for each label: its own, or else one that is not taken yet."""
        names = {label: SAME.get(label.upper(), label.upper()) for label in sorted(labels)}
        colors = {label: self.colors[name] for label, name in names.items() if name in self.colors}
        free = [color for color in PALETTE if color not in colors.values()] or PALETTE
        others = [label for label in names if label not in colors]
        return {**colors, **{label: free[i % len(free)] for i, label in enumerate(others)}}


def text_style(nlp: Language) -> TextStyle:
    """Return language, direction and colours of a pipeline's texts: displaCy's and those that users registered."""
    from spacy.displacy.render import EntityRenderer

    direction = str(nlp.vocab.writing_system.get("direction", "ltr"))
    return TextStyle(nlp.lang or "", direction, dict(EntityRenderer().colors))


def made_of(nlp: Language) -> str:
    """Return the date, and the versions of the package, spaCy and a pipeline."""
    from spacy.about import __version__ as spacy_version

    from ... import __version__

    model = " ".join(filter(None, (nlp.meta.get("name"), nlp.meta.get("version"))))
    return (
        f"Made on {date.today().isoformat()} by spacy_crfseq {__version__} with spaCy {spacy_version}; "
        f"pipeline {nlp.lang}_{model}."
    )


def strength(probability: float) -> float:
    """Return the share of the colour: steep near 1, since 0.9 and 0.99 differ more than 0.5 and 0.59."""
    return max(PALEST, 1 - sqrt(max(0.0, 1 - probability)))


def pieces(tokens: Tokens, spans: Sequence[Marked]) -> Iterator[tuple[str, Marked | None]]:
    """Yield the words of each span with the span, and the words before, between and after spans with None."""
    done = 0
    for span in spans:
        start, end = span[:2]
        yield _words(tokens, done, start), None
        gap = " " if tokens.spaces[end - 1] else ""
        yield _words(tokens, start, end).removesuffix(gap), span
        yield gap, None
        done = end
    yield _words(tokens, done, len(tokens.words)), None


def _words(tokens: Tokens, begin: int, end: int) -> str:
    return "".join(f"{word} " if space else word for word, space in zip(*tokens.part(begin, end), strict=True))


def points(rows: Iterable[Mapping[str, Any]], x: str, y: str, factor: float = 1.0) -> list[tuple[float, float]]:
    """Return the points of a curve through two fields of some rows, those that have both."""
    return [(row[x], factor * row[y]) for row in rows if row.get(x) is not None and row.get(y) is not None]


def _make_environment() -> Environment:
    made = Environment(
        loader=PackageLoader("spacy_crfseq", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=lambda value: f"{value:.1f}" if isinstance(value, float) else value,
    )  # fmt: skip
    functions = (
        charts.bar_scale, charts.bar_words, charts.brief_cells, charts.largest, charts.number, charts.plot,
        charts.scale, charts.shortened, charts.width, charts.wilson, isfinite, pieces, points, strength,
    )  # fmt: skip
    made.globals |= {"Bar": Bar, "Series": Series} | {function.__name__: function for function in functions}
    made.filters |= {"lines": lambda words: escape(words).replace("\n", Markup("<br>")), "width": charts.width}
    return made


_environment = _make_environment()
_charts: Any = _environment.get_template("tools/_pages/charts.html").module
line_chart, bar_chart, heat_map, reliability = (
    _charts.line_chart, _charts.bar_chart, _charts.heat_map, _charts.reliability,
)  # fmt: skip


def render(template: str, **values: Any) -> str:
    """Return a page; the template is named by its place in the package, such as ``tools/explain/page.html``."""
    return _environment.get_template(template).render(values)
