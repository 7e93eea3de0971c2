"""``crfseq explain``: which weights lead to each label, in the terminal, as JSON, or on a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer
from wasabi.util import color, supports_ansi

from ...cli import options
from ...cli.app import command
from ...cli.console import cut, cut_name, printer, reported_errors
from ...cli.judging import first_texts, text_style
from ...corpora.layouts import Asked, Format
from ...corpora.outputs import check_output_file
from ...errors import ConfigError
from ...files import write_text
from ...pipeline.select import load_pipeline, one_crf_of, run_between

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ...evaluation.explanation import TokenExplanation
    from .page import Explained, ExplainedText

SHOWN, ON_PAGE = 5, 8
"""Number of contributions to a label in the terminal and on a page."""
BAR = 8
"""Characters of the longest bar."""
OUTSIDE = "O"
"""In a terminal, tokens with this label whose probability is high are only named."""


@command("explain", "Look", "why")
def explain_cli(
    model: options.Model,
    source: options.TextOrFile,
    format_: options.TextFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    component: options.OneComponent = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option("--token", "-t", help="Token to explain: a word, or a number from 0 on; may be repeated [all]"),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", help="Label to compare with: why not this one? [the second most probable]"),
    ] = None,
    number: Annotated[int | None, options.number(f"Contributions to each label [{SHOWN}; in JSON all]")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Texts of a file to explain, from the first on")] = 10,
    output: options.PageInstead = None,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Show which features and transitions lead to each label, and by what margin.

    Each label is compared with its rival: the second most probable label, or the one given by --label, in the best
    labelling that contains it. The margin is the score of the predicted labelling minus that of the rival labelling,
    and the sum of the contributions shown. A page collapses tokens with a label of probability 0.95 or more; in a
    terminal, such tokens outside of spans are only named. --token and --label show them in full.

    \b
    Example:
      python -m spacy crfseq explain training/model-best "Ada lives in Oslo." \\
          --component crf_ner
      python -m spacy crfseq explain training/model-best "Ada lives in Oslo." \\
          -p crf_ner --token Oslo --label ORG --number 10
      python -m spacy crfseq explain training/model-best news.txt -p crf_ner \\
          --output page.html
    """
    said = Asked(format_, columns, scheme, encoding)
    with reported_errors(code=code):
        check_output_file(output, source)
        found = explain(model, source, said, component=component, tokens=tokens or (), against=label, limit=limit)
        if output is not None:
            from .page import explain_page

            write_text(output, explain_page(found, number or ON_PAGE))
        if as_json:
            print(json.dumps([_to_json(one, number) for one in found.texts], indent=2, ensure_ascii=False))
        elif output is not None:
            printer().good(f"Saved {output}: {found.in_words()}")
        else:
            brief = not tokens and label is None and sys.stdout.isatty()
            for one in found.texts:
                print("\n".join(_lines(one, number or SHOWN, several=len(found.texts) > 1, brief=brief)))
            if found.more:
                printer().info(f"Explained the first {len(found.texts)}; ask for more by --limit.")


def explain(
    model: str | Path,
    source: str | Path,
    format_name: Format = None,
    *,
    component: str | None = None,
    tokens: Sequence[str] = (),
    against: str | None = None,
    limit: int = 10,
) -> Explained:
    """Explain what a pipeline's CRF predicts for a text, or for the first texts of a file.

    RAISES CrfError: If there is no such component, label or token, no probabilities, or no text.
    """
    from .page import Explained, ExplainedText

    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    kept, more = first_texts(nlp, source, format_name, limit)
    docs = run_between(nlp, [text.doc for text in kept], None, name)
    chosen = [_tokens_of(doc, tokens) for doc in docs]
    if not any(chosen):
        raise ConfigError(
            f"--token {' '.join(tokens)}: no such token. Give a word as it is split here, or a number from 0 to "
            f"{max(map(len, docs)) - 1}: {' '.join(token.text for token in docs[0][:20])}"
        )
    explainer = pipe.explainer()
    explained = [
        ExplainedText(doc.text, text.line, explainer.explain(doc, tokens=here, against=against, preset=True))
        for text, doc, here in zip(kept, docs, chosen, strict=True)
        if here
    ]
    return Explained(str(model), name, text_style(nlp), explained, more, folds=not tokens and against is None)


def _tokens_of(doc: Doc, wanted: Sequence[str]) -> list[int]:
    if not wanted:
        return list(range(len(doc)))
    words = {token.text for token in doc}
    by_word = [token.i for token in doc if token.text in wanted]
    by_number = [int(one) for one in wanted if one not in words and one.isdecimal() and int(one) < len(doc)]
    return sorted({*by_word, *by_number})


def _to_json(one: ExplainedText, number: int | None) -> dict[str, Any]:
    result = {"text": one.text, "line": one.line, **one.explanation.to_json()}
    for token in result["tokens"]:
        token["contributions"] = token["contributions"][:number]
    return result


def _lines(found: ExplainedText, number: int, *, several: bool, brief: bool) -> list[str]:
    """Return the lines about a text, no wider than the terminal; brief: Only name tokens surely outside of spans."""
    from .page import name_of

    explanation, pretty = found.explanation, sys.stdout.isatty()
    wide = get_terminal_size().columns if pretty else sys.maxsize
    told = [one for one in explanation.tokens if not (brief and _surely_outside(one))]
    names = (name_of(part, one, explanation.words) for one in told for part in one.contributions[:number])
    room = min(max([20, *map(len, names)]), max(20, wide - BAR - 31))
    lines = [f"line {found.line}: {' '.join(explanation.words)}"] if several else []
    for outside, group in groupby(explanation.tokens, lambda one: brief and _surely_outside(one)):
        if outside:
            lines += ["", _painted(_outside(list(group), wide), pretty, fg="grey")]
            continue
        for one in group:
            lines += _token_lines(one, explanation.words, number, room, wide, pretty)
    if len(told) < len(explanation.tokens):
        lines += ["", "  --token WORD explains why a word is outside."]
    return [*lines, ""]


def _surely_outside(one: TokenExplanation) -> bool:
    from .page import SURE

    return one.label == OUTSIDE and one.probability >= SURE


def _outside(tokens: Sequence[TokenExplanation], wide: int) -> str:
    from .page import probability_words

    least = probability_words(min(one.probability for one in tokens))
    end = f"  {OUTSIDE} {least}" if len(tokens) == 1 or least.startswith(">") else f"  {OUTSIDE} {least} or more"
    return cut(" ".join(one.text for one in tokens), wide - len(end)) + end


def _token_lines(
    one: TokenExplanation, words: Sequence[str], number: int, room: int, wide: int, pretty: bool
) -> list[str]:
    from .page import against_rival, changes_words, name_of, probability_words, unknown_words

    head = f"{one.text}  {one.label} {probability_words(one.probability)}"
    lines = ["", _painted(head, pretty, bold=True) + f"   {against_rival(one)}"]
    lines += [cut(f"  {note}", wide) for note in (changes_words(one, words),) if note]
    rival = one.rival if one.rival is not None and not one.impossible else ""
    header = f"  {'':>7}  {'':{BAR}}  {'':{room}}  {cut(one.label, 7):>7}"
    lines.append(_painted(f"{header}  {cut(rival, 7):>7}".rstrip(), pretty, fg="grey"))
    shown, rest = one.contributions[:number], one.contributions[number:]
    largest = max((abs(part.difference) for part in shown), default=1.0)
    for part in shown:
        against = f"  {part.rival_weight:7.2f}" if rival else ""
        sign = ("█" if pretty else "#") * round(BAR * abs(part.difference) / largest)
        bar = _painted(f"{sign:{BAR}}", pretty, fg="green" if part.difference > 0 else "red")
        name = cut_name(name_of(part, one, words), room)
        lines.append(f"  {part.difference:+7.2f}  {bar}  {name:{room}}  {part.weight:7.2f}{against}")
    if rest:
        lines.append(f"  {sum(part.difference for part in rest):+7.2f}  {'':{BAR}}  {len(rest)} more")
    lines += [_painted(cut(f"  {note}", wide), pretty, fg="grey") for note in (unknown_words(one),) if note]
    return lines


def _painted(words: str, pretty: bool, **how: Any) -> str:
    return str(color(words, **how)) if pretty and supports_ansi() else words
