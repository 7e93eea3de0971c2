"""Explanations in words, and the page of ``crfseq explain``: which weights lead to each label."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import inf
from typing import NamedTuple

from ...evaluation.explanation import Contribution, Explanation, TokenExplanation
from ...pages import frame
from ...pages.marks import TextStyle, strength

SURE = 0.95
"""Tokens whose label has at least this probability are folded away."""
MOST_UNKNOWN = 6
"""Number of features listed that the model does not have."""

STYLE = """
.line { line-height: 1; margin: 0 0 1rem; max-width: none; display: flex; flex-wrap: wrap; gap: .375rem; }
.token { display: inline-flex; flex-direction: column; gap: .25rem; padding: .375rem .5rem; border-radius: .3rem;
  color: inherit; text-decoration: none; border: 1px solid var(--line);
  background: color-mix(in srgb, var(--s1) calc(var(--p) * var(--tint)), var(--paper)); }
a.token:hover, a.token:focus { border-color: var(--ink); } .token small { font-size: .6875rem; white-space: nowrap; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 1rem;
  align-items: start; }
.card { border: 1px solid var(--line); border-radius: .4rem; padding: .75rem .875rem; min-width: 0; }
.card:target { border-color: var(--s1); box-shadow: 0 0 0 1px var(--s1); }
.card h3 { margin: 0; display: flex; flex-wrap: wrap; gap: .5rem; align-items: baseline; }
.card h3 b { font-weight: 500; font-size: .8125rem; padding: .05rem .375rem; border-radius: .25rem;
  background: color-mix(in srgb, var(--s1) calc(var(--p) * var(--tint)), var(--paper)); }
.card p { margin: .25rem 0 .5rem; font-size: .8125rem; color: var(--soft); overflow-wrap: anywhere; }
.parts { list-style: none; margin: 0; padding: 0; font-size: .8125rem; }
.parts li { display: grid; grid-template-columns: minmax(0, 1fr) 5.5rem 3.25rem; gap: .5rem; align-items: center;
  padding: .2rem 0; border-top: 1px solid var(--grid); } .parts span { overflow-wrap: anywhere; line-height: 1.25; }
.parts i { position: relative; height: .6rem; display: block;
  background: linear-gradient(var(--line) 0 0) center / 1px 100% no-repeat; }
.parts i::after { content: ""; position: absolute; top: 0; bottom: 0; width: var(--size); border-radius: 1px; }
.parts .for i::after { left: 50%; background: var(--s3); }
.parts .against i::after { right: 50%; background: var(--s2); } .parts b { font-weight: 500; text-align: end; }
.parts .rest { color: var(--soft); }
"""


class ExplainedText(NamedTuple):
    """A text, its line in the file, and its explanation."""

    text: str
    line: int
    explanation: Explanation


class Explained(NamedTuple):
    """Explained texts; `folds`: Whether a page folds away tokens with a probable label."""

    model: str
    component: str
    style: TextStyle
    texts: list[ExplainedText]
    more: bool
    folds: bool = True

    def in_words(self) -> str:
        """Return the number of texts in words."""
        n = len(self.texts)
        return f"{n:,} text{'' if n == 1 else 's'}{'; the file has more' if self.more else ''}"


def probability_words(value: float) -> str:
    """Return a probability with two digits, never 0.00 or 1.00."""
    return f"{value:.2f}" if 0.005 <= value < 0.995 else ">0.99" if value > 0.5 else "<0.01"


def against_rival(one: TokenExplanation) -> str:
    """Return the rival of a label and the margin over it, in words."""
    if one.rival is None:
        return "no other label is possible"
    if one.impossible:
        return f"{one.rival} is impossible: {one.impossible}"
    how = f"margin {one.margin:.2f} over {one.rival} {probability_words(one.rival_probability)}"
    return how if one.margin >= 0 else f"{how}, whose best labelling has a higher score"


def changes_words(one: TokenExplanation, words: Sequence[str]) -> str:
    """Return the labels of other tokens that would change with the label, in words."""
    changed = [f"{words[token]} {label}" for token, label in one.changes.items()]
    return f"with {one.rival}: {', '.join(changed)}" if changed else ""


def unknown_words(one: TokenExplanation) -> str:
    """Return the features that the model does not have, in words."""
    if not one.unknown:
        return ""
    more = f" and {len(one.unknown) - MOST_UNKNOWN} more" if len(one.unknown) > MOST_UNKNOWN else ""
    return f"features without weight: {', '.join(one.unknown[:MOST_UNKNOWN])}{more}"


def name_of(part: Contribution, one: TokenExplanation, words: Sequence[str]) -> str:
    """Return the name of a contribution, with its token if that is another one."""
    name = f"{part.name} (with the label before)" if part.kind == "bigram" else part.name
    return name if part.token == one.token else f"{words[part.token]}: {name}"


def explain_page(found: Explained, number: int) -> str:
    """Return the page as HTML, with at most `number` contributions for each label."""
    language = f' lang="{escape(found.style.lang)}" dir="{escape(found.style.direction)}"'
    sections = [
        _section(
            f"t{i}",
            f"Line {one.line}" if len(found.texts) > 1 else "The text",
            one.explanation,
            (number, language, SURE if found.folds else inf),
        )
        for i, one in enumerate(found.texts)
    ]
    return frame.page(
        f"Why {found.component} predicts these labels",
        "".join(sections),
        about=f"{found.model}: {found.in_words()}. The stronger the colour, the more "
        "probable the label. A card compares a label with its rival: the bars show what each feature and transition "
        "adds to the margin, to the right for the label, to the left for the rival."
        + (f" Tokens whose label has a probability of at least {SURE} are folded away." if found.folds else ""),
        style=STYLE,
    )


def _section(anchor: str, title: str, explanation: Explanation, how: tuple[int, str, float]) -> str:
    number, language, sure = how
    explained = {one.token for one in explanation.tokens}
    each = enumerate(zip(explanation.words, explanation.labels, explanation.probabilities, strict=True))
    tokens = "".join(_token(f"{anchor}-{i}" if i in explained else "", *of_token) for i, of_token in each)
    groups: tuple[list[str], list[str]] = [], []
    for one in explanation.tokens:
        groups[one.probability >= sure].append(_card(f"{anchor}-{one.token}", one, explanation.words, number))
    shown, rest = (f'<div class="cards"{language}>{"".join(cards)}</div>' if cards else "" for cards in groups)
    if rest:
        n = len(groups[1])
        rest = frame.folded(f"{n} token{'' if n == 1 else 's'} with a probability of at least {sure}", rest)
    return frame.section(
        title,
        f'<p class="line"{language}>{tokens}</p>{shown}{rest}',
        f"Score of the labelling: {explanation.score:.2f}. Its probability: "
        f"{probability_words(explanation.probability)}.",
    )


def _token(anchor: str, word: str, label: str, probability: float) -> str:
    tag = f'a href="#{anchor}"' if anchor else "span"
    return (
        f'<{tag} class="token" style="{_shade(probability)}" title="{escape(label)}, probability {probability:.4f}">'
        f"{escape(word)}<small>{escape(label)} {escape(probability_words(probability))}</small></{tag.split()[0]}>"
    )


def _shade(probability: float) -> str:
    return f"--p: {100 * strength(probability):.0f}%"


def _card(anchor: str, one: TokenExplanation, words: Sequence[str], number: int) -> str:
    notes = [against_rival(one), changes_words(one, words), unknown_words(one)]
    shown, rest = one.contributions[:number], one.contributions[number:]
    largest = max((abs(part.difference) for part in shown), default=1.0)
    parts = [_contribution(part, one, words, largest) for part in shown]
    if rest:
        total = sum(part.difference for part in rest)
        parts.append(f'<li class="rest"><span>{len(rest)} more</span><i></i><b>{_signed(total)}</b></li>')
    return (
        f'<article class="card" id="{anchor}"><h3>{escape(one.text)}<b style="{_shade(one.probability)}">'
        f"{escape(one.label)} {escape(probability_words(one.probability))}</b></h3>"
        f"{''.join(f'<p>{escape(note)}</p>' for note in notes if note)}"
        f'<ul class="parts">{"".join(parts)}</ul></article>'
    )


def _contribution(part: Contribution, one: TokenExplanation, words: Sequence[str], largest: float) -> str:
    weights = f"{part.kind}: with {one.label} {part.weight:.3f}"
    if one.rival is not None and one.margin < inf:
        weights += f", with {one.rival} {part.rival_weight:.3f}"
    # a name breaks between its parts
    name = escape(name_of(part, one, words)).replace("|", "|<wbr>").replace("=", "=<wbr>")
    name = name.replace("-&gt;", "\N{RIGHTWARDS ARROW}")
    return (
        f'<li class="{"for" if part.difference > 0 else "against"}" title="{escape(weights)}"><span>{name}</span>'
        f'<i style="--size: {50 * abs(part.difference) / largest:.1f}%"></i><b>{_signed(part.difference)}</b></li>'
    )


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")
