"""``crfseq explain``: which weights make each label, in the terminal, as JSON, or on a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from html import escape
from itertools import groupby, islice
from math import inf
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import spacy
import typer
from wasabi.util import color, supports_ansi

from ..errors import ConfigError, DataError
from ..files import replacing
from ._app import crfseq_cli
from ._components import one_crf_of, run_between
from ._console import CodeOption, cut, cut_name, load_code, printer, reported_errors
from ._outputs import check_output_file
from ._texts import FORMAT_HELP, Text, texts_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..pipeline.explanation import Contribution, Explanation, TokenExplanation

SHOWN, ON_PAGE = 5, 8
"""Contributions to a label in the terminal and on a page."""
BAR = 8
"""Signs that the longest bar has."""
MOST_UNKNOWN = 6
"""Attributes that are named of those that the model does not know."""
OUTSIDE, SURE = "O", 0.95
"""On a terminal, tokens with this label, at least so probable, are only named."""


@crfseq_cli.command("explain")
def explain_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")],
    source: Annotated[str, typer.Argument(metavar="TEXT|FILE", help="A text, or a file of texts")],
    format_: Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)] = None,
    component: Annotated[
        str | None, typer.Option("--component", "-p", help="CRF component to ask [the only one that predicts spans]")
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option("--token", "-t", help="Token to explain: a word, or a number from 0 on; may be repeated [all]"),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", "-l", help="Why not this label? [compare with the second most probable]")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help=f"Contributions to each label [{SHOWN}; in JSON all]")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Texts of a file to explain, from the first on")] = 10,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML file to write instead")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
    code: CodeOption = None,
) -> None:
    """Tell which features and transitions make each label, and by how much it wins.

    The second most probable label, or the one asked for, is the rival: in the best labelling that has it. The margin is
    the score of the predicted labelling minus that one's; the contributions are what it is the sum of. On a terminal,
    tokens that are surely outside of spans are only named, unless --token or --label asks for them.

    \b
    Example:
      python -m spacy crfseq explain training/model-best "Ada lives in Oslo." \\
          --component crf_ner
      python -m spacy crfseq explain training/model-best "Ada lives in Oslo." \\
          -p crf_ner --token Oslo --label ORG --number 10
      python -m spacy crfseq explain training/model-best news.txt -p crf_ner \\
          --output page.html
    """
    with reported_errors():
        load_code(code)
        check_output_file(output, source)
        found = explain(model, source, format_, component=component, tokens=tokens or (), against=label, limit=limit)
        if output is not None:
            write_page(output, found, number or ON_PAGE)
        if as_json:
            print(json.dumps([_to_json(one, number) for one in found.texts], indent=2, ensure_ascii=False))
        elif output is not None:
            printer().good(f"Saved {output}: {_count(len(found.texts), 'text')}{_rest(found)}")
        else:
            for one in found.texts:
                brief = not tokens and label is None and sys.stdout.isatty()
                print("\n".join(_lines(one, number or SHOWN, several=len(found.texts) > 1, brief=brief)))
            if found.more:
                printer().info(f"Explained the first {len(found.texts)}; ask for more by --limit.")


class ExplainedText(NamedTuple):
    """A text and its explanation."""

    text: Text
    explanation: Explanation


class Explained(NamedTuple):
    """What has been explained.

    model, component (str): Who predicts.
    lang, direction (str): Of the texts.
    more (bool): Whether there are texts beyond the limit.
    """

    model: str
    component: str
    lang: str
    direction: str
    texts: list[ExplainedText]
    more: bool


def explain(
    model: str | Path,
    source: str | Path,
    format_name: str | None = None,
    *,
    component: str | None = None,
    tokens: Sequence[str] = (),
    against: str | None = None,
    limit: int = 10,
) -> Explained:
    """Explain what a pipeline's CRF predicts for a text, or for the first texts of a file.

    format_name (str | None): As `texts_of` has it.
    component (str | None): The CRF to ask; None for the only one, or the only one that predicts spans.
    tokens (Sequence[str]): Words, or numbers of tokens; all if empty.
    against (str | None): The label to compare with; None for the second most probable one.
    RAISES CrfError: If there is no such component, label or token, no probabilities, or no text.
    """
    nlp = spacy.load(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    found = list(islice(texts_of(nlp, source, format_name), limit + 1))
    if not found:
        raise DataError(f"{str(source)!r} holds no text.")
    kept = found[:limit]
    docs = run_between(nlp, [text.doc for text in kept], None, name)
    chosen = [_tokens_of(doc, tokens) for doc in docs]
    if not any(chosen):
        raise ConfigError(
            f"--token {' '.join(tokens)}: no such token. Give a word as it is split here, or a number from 0 to "
            f"{max(map(len, docs)) - 1}: {' '.join(token.text for token in docs[0][:20])}"
        )
    explainer = pipe.explainer()
    explained = [
        ExplainedText(text._replace(doc=doc), explainer.explain(doc, tokens=here, against=against, preset=True))
        for text, doc, here in zip(kept, docs, chosen, strict=True)
        if here
    ]
    direction = str(nlp.vocab.writing_system.get("direction", "ltr"))
    return Explained(str(model), name, nlp.lang or "", direction, explained, len(found) > limit)


def _tokens_of(doc: Doc, wanted: Sequence[str]) -> list[int]:
    """Return the numbers of the tokens that are meant: words, or else numbers."""
    if not wanted:
        return list(range(len(doc)))
    words = {token.text for token in doc}
    by_word = [token.i for token in doc if token.text in wanted]
    by_number = [int(one) for one in wanted if one not in words and one.isdecimal() and int(one) < len(doc)]
    return sorted({*by_word, *by_number})


def _to_json(one: ExplainedText, number: int | None) -> dict[str, Any]:
    result = {"text": one.text.doc.text, "line": one.text.line, **one.explanation.to_json()}
    for token in result["tokens"]:
        token["contributions"] = token["contributions"][:number]
    return result


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _rest(found: Explained) -> str:
    return "; the file has more" if found.more else ""


def _probability(value: float) -> str:
    return f"{value:.2f}" if 0.005 <= value < 0.995 else ">0.99" if value > 0.5 else "<0.01"  # nothing is certain


def against_rival(one: TokenExplanation) -> str:
    """Return in words what a label is compared with, and how it comes off."""
    if one.rival is None:
        return "no other label is possible"
    if one.impossible:
        return f"{one.rival} is impossible: {one.impossible}"
    how = f"margin {one.margin:.2f} over {one.rival} {_probability(one.rival_probability)}"
    return how if one.margin >= 0 else f"{how}: its best labelling has the higher score"


def _changes(one: TokenExplanation, words: Sequence[str]) -> str:
    """Return what else would change with the label."""
    changed = [f"{words[token]} {label}" for token, label in one.changes.items()]
    return f"with {one.rival}: {', '.join(changed)}" if changed else ""


def _name(part: Contribution, one: TokenExplanation, words: Sequence[str]) -> str:
    name = f"{part.name} (with the label before)" if part.kind == "pair" else part.name
    return name if part.token == one.token else f"{words[part.token]}: {name}"


def _unknown(one: TokenExplanation) -> str:
    if not one.unknown:
        return ""
    more = f" and {len(one.unknown) - MOST_UNKNOWN} more" if len(one.unknown) > MOST_UNKNOWN else ""
    return f"not known to the model: {', '.join(one.unknown[:MOST_UNKNOWN])}{more}"


# The terminal


def _lines(found: ExplainedText, number: int, *, several: bool, brief: bool) -> list[str]:
    """Return the lines about a text, no wider than the terminal; in full where they go elsewhere.

    brief (bool): Whether to leave out what makes a token surely be outside of spans.
    """
    explanation, pretty = found.explanation, sys.stdout.isatty()
    wide = get_terminal_size().columns if pretty else sys.maxsize
    names = (
        _name(part, one, explanation.words)
        for one in explanation.tokens
        if not (brief and _surely_outside(one))
        for part in one.contributions[:number]
    )
    room = max([20, *map(len, names)])
    room = min(room, max(20, wide - BAR - 31))
    lines = [f"line {found.text.line}: {' '.join(explanation.words)}"] if several else []
    for outside, group in groupby(explanation.tokens, lambda one: brief and _surely_outside(one)):
        if outside:
            lines += ["", _painted(_outside(list(group), wide), pretty, fg="grey")]
        else:
            for one in group:
                lines += _token_lines(one, explanation.words, number, room, wide, pretty)
    if brief and any(map(_surely_outside, explanation.tokens)):
        lines += ["", "  --token WORD tells what makes a word be outside."]
    return [*lines, ""]


def _surely_outside(one: TokenExplanation) -> bool:
    return one.label == OUTSIDE and one.probability >= SURE


def _outside(tokens: Sequence[TokenExplanation], wide: int) -> str:
    """Return a line on neighbours that are outside of spans."""
    least = _probability(min(one.probability for one in tokens))
    end = f"  {OUTSIDE} {least}" if len(tokens) == 1 or least.startswith(">") else f"  {OUTSIDE} {least} or more"
    return cut(" ".join(one.text for one in tokens), wide - len(end)) + end


def _token_lines(
    one: TokenExplanation,
    words: Sequence[str],
    number: int,
    room: int,
    wide: int,
    pretty: bool,
) -> list[str]:
    """Return the lines about a token."""
    head = f"{one.text}  {one.label} {_probability(one.probability)}"
    lines = ["", _painted(head, pretty, bold=True) + f"   {against_rival(one)}"]
    lines += [cut(f"  {note}", wide) for note in (_changes(one, words),) if note]
    rival = one.rival if one.rival is not None and not one.impossible else ""
    header = f"  {'':>7}  {'':{BAR}}  {'':{room}}  {cut(one.label, 7):>7}"
    lines.append(_painted(f"{header}  {cut(rival, 7):>7}".rstrip(), pretty, fg="grey"))
    shown, rest = one.contributions[:number], one.contributions[number:]
    largest = max((abs(part.difference) for part in shown), default=1.0)
    for part in shown:
        against = f"  {part.rival_weight:7.2f}" if rival else ""
        bar = _bar(part.difference, largest, pretty)
        name = cut_name(_name(part, one, words), room)
        lines.append(f"  {part.difference:+7.2f}  {bar}  {name:{room}}  {part.weight:7.2f}{against}")
    if rest:
        lines.append(f"  {sum(part.difference for part in rest):+7.2f}  {'':{BAR}}  {len(rest)} more")
    lines += [_painted(cut(f"  {note}", wide), pretty, fg="grey") for note in (_unknown(one),) if note]
    return lines


def _bar(value: float, largest: float, pretty: bool) -> str:
    bar = ("█" if pretty else "#") * round(BAR * abs(value) / largest)
    return _painted(f"{bar:{BAR}}", pretty, fg="green" if value > 0 else "red")


def _painted(words: str, pretty: bool, **how: Any) -> str:
    return str(color(words, **how)) if pretty and supports_ansi() else words


# The page

STYLE = """
.line { line-height: 1; margin: 0 0 1rem; max-width: none; display: flex; flex-wrap: wrap; gap: .375rem; }
.token { display: inline-flex; flex-direction: column; gap: .25rem; padding: .375rem .5rem; border-radius: .3rem;
  color: inherit; text-decoration: none; border: 1px solid var(--line);
  background: color-mix(in srgb, var(--s1) var(--shade), transparent); }
a.token:hover, a.token:focus { border-color: var(--ink); }
.token small { font-size: .6875rem; white-space: nowrap; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
.card { border: 1px solid var(--line); border-radius: .4rem; padding: .75rem .875rem; min-width: 0; }
.card:target { border-color: var(--s1); box-shadow: 0 0 0 1px var(--s1); }
.card h3 { margin: 0; display: flex; flex-wrap: wrap; gap: .5rem; align-items: baseline; }
.card h3 b { font-weight: 500; font-size: .8125rem; padding: .05rem .375rem; border-radius: .25rem;
  background: color-mix(in srgb, var(--s1) var(--shade), transparent); }
.card p { margin: .25rem 0 .5rem; font-size: .8125rem; color: var(--soft); overflow-wrap: anywhere; }
.parts { list-style: none; margin: 0; padding: 0; font-size: .8125rem; }
.parts li { display: grid; grid-template-columns: minmax(0, 1fr) 5.5rem 3.25rem; gap: .5rem; align-items: center;
  padding: .2rem 0; border-top: 1px solid var(--grid); }
.parts span { overflow-wrap: anywhere; line-height: 1.25; }
.parts i { position: relative; height: .6rem; display: block;
  background: linear-gradient(var(--line) 0 0) center / 1px 100% no-repeat; }
.parts i::after { content: ""; position: absolute; top: 0; bottom: 0; width: var(--size); border-radius: 1px; }
.parts .for i::after { left: 50%; background: var(--s3); }
.parts .against i::after { right: 50%; background: var(--s2); }
.parts b { font-weight: 500; text-align: end; }
.parts .rest { color: var(--soft); }
"""


def write_page(output: Path, found: Explained, number: int) -> None:
    """Write a page with the explanations, `number` contributions to each label."""
    with replacing(output) as temporary:
        temporary.write_text(page(found, number), encoding="utf8")


def page(found: Explained, number: int) -> str:
    """Return the page as HTML."""
    from ..pages import frame

    body = "".join(
        _section(i, one, number, len(found.texts) > 1, f' lang="{escape(found.lang)}" dir="{escape(found.direction)}"')
        for i, one in enumerate(found.texts)
    )
    return frame.page(
        f"Why {found.component} says so",
        body,
        about=f"{found.model}: {_count(len(found.texts), 'text')}{_rest(found)}. The fuller the colour, the more "
        "probable the label. A card tells how a label beats its rival: the bars are what each feature and transition "
        "adds to the margin, to the right for the label, to the left for the rival.",
        style=STYLE,
    )


def _section(text: int, found: ExplainedText, number: int, several: bool, language: str) -> str:
    from ..pages.frame import section

    explanation = found.explanation
    explained = {one.token for one in explanation.tokens}
    each = zip(explanation.words, explanation.labels, explanation.probabilities, strict=True)
    tokens = "".join(_token(f"t{text}-{i}" if i in explained else "", *of_token) for i, of_token in enumerate(each))
    cards = "".join(_card(f"t{text}-{one.token}", one, explanation.words, number) for one in explanation.tokens)
    about = f"Score of the labelling {explanation.score:.2f}, its probability {_probability(explanation.probability)}."
    line = f'<p class="line"{language}>{tokens}</p>'
    return section(
        f"Line {found.text.line}" if several else "The text", f'{line}<div class="cards"{language}>{cards}</div>', about
    )


def _token(anchor: str, word: str, label: str, probability: float) -> str:
    tag = f'a href="#{anchor}"' if anchor else "span"
    return (
        f'<{tag} class="token" style="{_shade(probability)}" title="{escape(label)}, probability {probability:.4f}">'
        f"{escape(word)}<small>{escape(label)} {escape(_probability(probability))}</small></{tag.split()[0]}>"
    )


def _shade(probability: float) -> str:
    from ..pages.marks import strength

    return f"--shade: {60 * strength(probability):.0f}%"


def _card(anchor: str, one: TokenExplanation, words: Sequence[str], number: int) -> str:
    notes = [against_rival(one), _changes(one, words), _unknown(one)]
    shown, rest = one.contributions[:number], one.contributions[number:]
    largest = max((abs(part.difference) for part in shown), default=1.0)
    rival = one.rival if one.margin < inf else None
    parts = [
        f'<li class="{"for" if part.difference > 0 else "against"}" title="{escape(_weights(part, one.label, rival))}">'
        f"<span>{_breakable(_name(part, one, words))}</span>"
        f'<i style="--size: {50 * abs(part.difference) / largest:.1f}%"></i><b>{_signed(part.difference)}</b></li>'
        for part in shown
    ]
    if rest:
        total = sum(part.difference for part in rest)
        parts.append(f'<li class="rest"><span>{len(rest)} more</span><i></i><b>{_signed(total)}</b></li>')
    return (
        f'<article class="card" id="{anchor}"><h3>{escape(one.text)}'
        f'<b style="{_shade(one.probability)}">{escape(one.label)} {escape(_probability(one.probability))}</b></h3>'
        f"{''.join(f'<p>{escape(note)}</p>' for note in notes if note)}"
        f'<ul class="parts">{"".join(parts)}</ul></article>'
    )


def _weights(part: Contribution, label: str, rival: str | None) -> str:
    against = f", with {rival} {part.rival_weight:.3f}" if rival is not None else ""
    return f"{part.kind}: with {label} {part.weight:.3f}{against}"


def _breakable(name: str) -> str:
    """Return a name as HTML that breaks between its parts."""
    return escape(name).replace("|", "|<wbr>").replace("=", "=<wbr>").replace("-&gt;", "\N{RIGHTWARDS ARROW}")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")
