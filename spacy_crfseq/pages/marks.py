"""Texts with marked spans as displaCy shows them: a colour for each label, stronger the more probable the span is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from types import MappingProxyType
from typing import NamedTuple

from ..evaluation.judged import Tokens
from .frame import Markup, text

PALETTE = ("#feca74", "#8db9ff", "#f59ab5", "#8fd694", "#c887fb", "#ffe066", "#7aecec", "#ff9561", "#aa9cfc", "#c9b79c")
"""Colours for labels that have no colour yet."""
SAME = {"PER": "PERSON"}
"""Labels that take the colour of another label."""
PALEST = 0.12
"""Share of the colour at a probability near zero."""
LEGEND = (0.3, 0.5, 0.7, 0.9, 0.99, 1.0)

STYLE = """
ul.key { display: flex; flex-wrap: wrap; gap: .375rem; list-style: none; margin: 0 0 .5rem; padding: 0; }
ul.key li { border-radius: .3rem; padding: .05rem .5rem; font-size: .8125rem; }
ul.key li.name { padding-inline-start: 0; color: var(--soft); min-width: 5.5rem; }
@media (max-width: 30rem) { ul.key li.name { flex-basis: 100%; } }
article { padding: .5rem 0; border-bottom: 1px solid var(--grid); }
article small { color: var(--soft); font-size: .75rem; }
.entities { line-height: 2.1 !important; overflow-wrap: anywhere; }
.side { display: grid; grid-template-columns: 5.5rem 1fr; align-items: baseline; }
@media (max-width: 30rem) { .side { display: block; } }
mark, .shade { color: var(--ink); outline: 1px solid color-mix(in srgb, var(--c) 60%, var(--line));
  outline-offset: -1px; background: color-mix(in srgb, var(--c) calc(var(--p) * var(--full)), var(--paper)); }
mark { padding: .2em .3em; border-radius: .3em; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.wrong { outline: 2px solid var(--wrong); outline-offset: 0; }
.articles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 32rem), 1fr)); gap: 0 2.5rem; }
mark b { font-size: .6875em; margin-inline-start: .5em; white-space: nowrap; letter-spacing: .02em; }
mark i { font-style: normal; font-weight: 400; }
"""


WRONG = "\N{BALLOT X}"
"""Precedes the label of a span that is wrong or missed, as not everybody sees colours."""


class TextStyle(NamedTuple):
    """How texts are shown: language code, "ltr" or "rtl", and known colours by label in capitals."""

    lang: str = ""
    direction: str = "ltr"
    colors: Mapping[str, str] = {}


class Marker:
    """Marks spans in texts."""

    def __init__(self, labels: Iterable[str], style: TextStyle) -> None:
        self.colors, self.direction = _colors(style.colors, labels), style.direction

    def marked(
        self,
        tokens: Tokens,
        spans: Iterable[tuple[int, int, str, float | None]],
        wrong: Mapping[tuple[int, int, str], str] = MappingProxyType({}),
    ) -> Markup:
        """Return a text with marked spans: start, end, label, and the probability or None.

        wrong (Mapping): Notes on spans (start, end, label) that are marked as wrong.
        """
        parts, done = [], 0
        for start, end, label, p in spans:
            gap = " " if tokens.spaces[end - 1] else ""
            words = _text(tokens, start, end).removesuffix(gap)
            fault = wrong.get((start, end, label), "")
            parts += [_lines(_text(tokens, done, start)), self._mark(words, label, p, fault), gap]
            done = end
        parts.append(_lines(_text(tokens, done, len(tokens.words))))
        return Markup(
            f'<div class="entities" style="line-height: 2.5; direction: {self.direction}">{"".join(parts)}</div>'
        )

    def _mark(self, words: str, label: str, p: float | None, fault: str) -> str:
        tip = ", ".join(filter(None, [label, "" if p is None else f"probability {p:.4f}", fault]))
        score = "" if p is None else f" <i>{rounded(p)}</i>"
        kind, sign = (' class="wrong"', f"{WRONG} ") if fault else ("", "")
        return (
            f'<mark{kind} style="{_shade(self.colors[label], 1.0 if p is None else p)}" title="{text(tip)}">'
            f"{text(words)}<b>{sign}{text(label)}{score}</b></mark>"
        )

    def key(self, counts: Mapping[str, int], *, wrong: str = "") -> Markup:
        """Return the legend: shades, labels with their number of spans, and the meaning of `WRONG` if given."""
        shades = "".join(f'<li class="shade" style="{_shade("#a9b8c9", p)}">{p:g}</li>' for p in LEGEND)
        labels = "".join(
            f'<li class="shade" style="{_shade(self.colors[label], 1.0)}">{text(label)} {counts[label]:,}</li>'
            for label in sorted(counts)
        )
        rows = [("Probability", shades), ("Labels", labels)]
        if wrong:
            rows.append(("Outlined", f'<li class="wrong">{WRONG} {text(wrong)}</li>'))
        return Markup("".join(f'<ul class="key"><li class="name">{name}</li>{row}</ul>\n' for name, row in rows))


def _text(tokens: Tokens, begin: int, end: int) -> str:
    part = tokens.part(begin, end)
    return "".join(f"{word} " if space else word for word, space in zip(*part, strict=True))


def _lines(words: str) -> str:
    return text(words).replace("\n", "<br>")


def articles(parts: Iterable[str]) -> Markup:
    """Return articles, in columns if the window is wide."""
    return Markup(f'<div class="articles">{"".join(parts)}</div>')


def article(about: str, *texts: str) -> Markup:
    """Return marked texts (HTML) below a line about them."""
    return Markup(f"<article><small>{text(about)}</small>{''.join(texts)}</article>")


def side(name: str, marked: Markup) -> Markup:
    """Return a marked text with its name, to be shown above or below others."""
    return Markup(f'<div class="side"><small>{text(name)}</small>{marked}</div>')


def strength(probability: float) -> float:
    """Return the share of the colour: steep near 1, since 0.9 and 0.99 differ more than 0.5 and 0.59."""
    return max(PALEST, 1 - sqrt(max(0.0, 1 - probability)))


def rounded(probability: float) -> Markup:
    """Return a probability with two digits, never 1.00."""
    return Markup(f"{probability:.2f}" if probability < 0.995 else "&gt;0.99")


def _colors(known: Mapping[str, str], labels: Iterable[str]) -> dict[str, str]:
    names = {label: SAME.get(label.upper(), label.upper()) for label in sorted(labels)}
    colors = {label: known[name] for label, name in names.items() if name in known}
    free: Sequence[str] = [color for color in PALETTE if color not in colors.values()] or PALETTE
    others = [label for label in names if label not in colors]
    return {**colors, **{label: free[i % len(free)] for i, label in enumerate(others)}}


def _shade(color: str, probability: float) -> str:
    return f"--c: {color}; --p: {100 * strength(probability):.1f}%"
