"""Texts with marked spans as displaCy shows them: a colour for each label, the fuller the more probable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from ..evaluation.judged import Tokens
from .frame import Markup, text

PALETTE = ("#feca74", "#8db9ff", "#f59ab5", "#8fd694", "#c887fb", "#ffe066", "#7aecec", "#ff9561", "#aa9cfc", "#c9b79c")
"""Colours of labels that have none elsewhere, as far as they are free."""
SAME = {"PER": "PERSON"}
"""Labels by other names."""
PALEST = 0.12
"""What is left of a colour where the probability is next to nothing."""
LEGEND = (0.3, 0.5, 0.7, 0.9, 0.99, 1.0)

STYLE = """
ul.key { display: flex; flex-wrap: wrap; gap: .375rem; list-style: none; margin: 0 0 .5rem; padding: 0; }
ul.key li { border: 1px solid rgba(0, 0, 0, .18); border-radius: .3rem; padding: .05rem .5rem; font-size: .8125rem;
  color: #1d2129; }
ul.key li.name { border-color: transparent; padding-inline-start: 0; color: var(--soft); min-width: 5.5rem; }
@media (max-width: 30rem) { ul.key li.name { flex-basis: 100%; } }
article { padding: .5rem 0; border-bottom: 1px solid var(--grid); }
article small { color: var(--soft); font-size: .75rem; }
.entities { line-height: 2.1 !important; overflow-wrap: anywhere; }
.side { display: grid; grid-template-columns: 5.5rem 1fr; align-items: baseline; }
@media (max-width: 30rem) { .side { display: block; } }
mark { color: #1d2129; padding: .2em .3em; border-radius: .3em; outline: 1px solid rgba(0, 0, 0, .18);
  outline-offset: -1px; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
mark b { font-size: .6875em; margin-inline-start: .5em; white-space: nowrap; letter-spacing: .02em; }
mark i { font-style: normal; font-weight: 400; }
"""


class TextStyle(NamedTuple):
    """How texts look: their language's code, "ltr" or "rtl", and known colours of labels in capitals."""

    lang: str = ""
    direction: str = "ltr"
    colors: Mapping[str, str] = {}


class Marker:
    """Marks spans in texts."""

    def __init__(self, labels: Iterable[str], style: TextStyle) -> None:
        self.colors, self.direction = _colors(style.colors, labels), style.direction

    def marked(self, tokens: Tokens, spans: Iterable[tuple[int, int, str, float | None]]) -> Markup:
        """Return a text with spans marked: start, end, label, and the probability, None for what is certain."""
        parts, done = [], 0
        for start, end, label, p in spans:
            gap = " " if tokens.spaces[end - 1] else ""
            words = _text(tokens, start, end).removesuffix(gap)
            parts += [_lines(_text(tokens, done, start)), self._mark(words, label, p), gap]
            done = end
        parts.append(_lines(_text(tokens, done, len(tokens.words))))
        return Markup(
            f'<div class="entities" style="line-height: 2.5; direction: {self.direction}">{"".join(parts)}</div>'
        )

    def _mark(self, words: str, label: str, p: float | None) -> str:
        # the veil lets the colour through as far as the model is sure
        tip = label if p is None else f"{label}, probability {p:.4f}"
        score = "" if p is None else f" <i>{rounded(p)}</i>"
        return (
            f'<mark style="{_background(self.colors[label], 1.0 if p is None else p)}" title="{text(tip)}">'
            f"{text(words)}<b>{text(label)}{score}</b></mark>"
        )

    def key(self, counts: Mapping[str, int]) -> Markup:
        """Return what the colours mean, with the number of spans of each label."""
        shades = "".join(f'<li style="{_background("#8d99a6", p)}">{p:g}</li>' for p in LEGEND)
        labels = "".join(
            f'<li style="background: {self.colors[label]}">{text(label)} {counts[label]:,}</li>'
            for label in sorted(counts)
        )
        return Markup(
            f'<ul class="key"><li class="name">Probability</li>{shades}</ul>\n'
            f'<ul class="key"><li class="name">Labels</li>{labels}</ul>\n'
        )


def _text(tokens: Tokens, begin: int, end: int) -> str:
    part = tokens.part(begin, end)
    return "".join(f"{word} " if space else word for word, space in zip(*part, strict=True))


def _lines(words: str) -> str:
    return text(words).replace("\n", "<br>")


def article(about: str, *texts: str) -> Markup:
    """Return marked texts, which are HTML, under a line about them."""
    return Markup(f"<article><small>{text(about)}</small>{''.join(texts)}</article>")


def side(name: str, marked: Markup) -> Markup:
    """Return a marked text with its name, to be put above others."""
    return Markup(f'<div class="side"><small>{text(name)}</small>{marked}</div>')


def strength(probability: float) -> float:
    """Return how much of a colour is left: differences near 1 show, as 0.9 and 0.99 differ more than 0.5 and 0.59."""
    return max(PALEST, 1 - sqrt(max(0.0, 1 - probability)))


def rounded(probability: float) -> Markup:
    """Return a probability in two digits; nothing is certain."""
    return Markup(f"{probability:.2f}" if probability < 0.995 else "&gt;0.99")


def _colors(known: Mapping[str, str], labels: Iterable[str]) -> dict[str, str]:
    names = {label: SAME.get(label.upper(), label.upper()) for label in sorted(labels)}
    colors = {label: known[name] for label, name in names.items() if name in known}
    free: Sequence[str] = [color for color in PALETTE if color not in colors.values()] or PALETTE
    others = [label for label in names if label not in colors]
    return {**colors, **{label: free[i % len(free)] for i, label in enumerate(others)}}


def _background(color: str, probability: float) -> str:
    return f"background: linear-gradient(rgba(255,255,255,{1 - strength(probability):.3f}) 0 0), {color}"
