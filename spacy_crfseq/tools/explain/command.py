"""``crfseq explain``: the weights behind the labels of a text, or the largest weights of a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from wasabi.util import color, supports_ansi

from ...cli import options
from ...cli.app import command
from ...cli.console import cut, cut_name, print_json, printer
from ...cli.inputs import first_texts
from ...corpora.layouts import Asked, Format
from ...corpora.outputs import check_page
from ...errors import ConfigError, count_of
from ...files import write_text
from ...pipeline.select import load_pipeline, one_crf_of, run_between
from . import Explainer, Explanation, TokenExplanation, probability_words
from .weights import SHOWN as WEIGHTS
from .weights import ModelWeights, explain_model, model_lines

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from .._pages.html import TextStyle

SHOWN, ON_PAGE = 5, 8
"""Number of contributions to a label in the terminal and on a page."""
WEIGHTS_ON_PAGE = 15
"""Number of weights of each sign on a page about a model."""
LIMIT = 10
"""Number of texts of a file that are explained."""
BAR = 8
"""Characters of the longest bar."""
OUTSIDE = "O"
"""In a terminal, tokens with this label whose probability is high are only named."""
SURE = 0.95
"""Tokens whose label has at least this probability are collapsed on a page."""


class ExplainedText(NamedTuple):
    """A text, its line in the file, with the file if there are several, and its explanation."""

    text: str
    line: int
    place: str
    explanation: Explanation


class Explained(NamedTuple):
    """Explained texts; `folds`: Whether a page collapses tokens with a probable label."""

    model: str
    component: str
    style: TextStyle
    texts: list[ExplainedText]
    more: bool
    folds: bool

    def in_words(self) -> str:
        """Return the number of texts in words."""
        return count_of(len(self.texts), "text") + ("; the file has more" if self.more else "")


def explain(
    model: str | Path,
    source: str,
    layout: Format = None,
    *,
    component: str | None = None,
    tokens: Sequence[str] = (),
    label: str | None = None,
    limit: int = LIMIT,
) -> Explained:
    """Explain the predictions of a pipeline's CRF for a text or the first texts of a file.

    tokens (Sequence[str]): Words or numbers of the tokens to explain; none for all.
    label (str | None): Label to compare with; None for the second most probable of each token.
    RAISES CrfError: If there is no such component, label or token, no probabilities, or no text.
    """
    from .._pages.html import text_style

    nlp = load_pipeline(model)
    name, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    kept, more = first_texts(nlp, source, layout, limit)
    docs = run_between(nlp, [text.doc for text in kept], None, name)
    chosen = [_tokens_of(doc, tokens) for doc in docs]
    if not any(chosen):
        raise ConfigError(
            f"--token {' '.join(tokens)}: no such token. Give a word as it is split here, or a number from 0 to "
            f"{max(map(len, docs)) - 1}: {' '.join(token.text for token in docs[0][:20])}"
        )
    explainer = Explainer(pipe)
    entries = [
        ExplainedText(
            doc.text, text.line, text.place, explainer.explain(doc, tokens=wanted, against=label, preset=True)
        )
        for text, doc, wanted in zip(kept, docs, chosen, strict=True)
        if wanted
    ]
    return Explained(str(model), name, text_style(nlp), entries, more, folds=not tokens and label is None)


def _refuse(reason: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"--{name} {reason}.")


def _tokens_of(doc: Doc, wanted: Sequence[str]) -> list[int]:
    if not wanted:
        return [token.i for token in doc if not token.is_space]
    words = {token.text for token in doc}
    by_word = [token.i for token in doc if token.text in wanted]
    by_number = [int(word) for word in wanted if word not in words and word.isdecimal() and int(word) < len(doc)]
    return sorted({*by_word, *by_number})


@command("explain", "Look", "why", "weights")
def explain_cli(
    model: options.Model,
    source: Annotated[
        str | None,
        typer.Argument(metavar="TEXT|FILE", help="A text, or a file of texts", show_default="the model as a whole"),
    ] = None,
    format: options.TextFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    skip_invalid: options.SkipInvalid = False,
    component: options.OneComponent = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            "--token", "-t", help="Token to explain: a word, or a number from 0 on; may be repeated", show_default="all"
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            "-l",
            help="Label to compare with: why not this one? Without a text: label, or type with all its tags, whose "
            "weights are shown",
            show_default="the second most probable; without a text, all",
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(help='Without a text: template whose weights are shown, such as "LOWER[-1]"', show_default="all"),
    ] = None,
    number: Annotated[
        int | None,
        options.number(
            "Contributions to each label; without a text: weights of each sign",
            default=f"{SHOWN}; in JSON all contributions, on a page {WEIGHTS_ON_PAGE} weights",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Texts of a file to explain, from the first on", show_default=f"{LIMIT}")
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(help="Without a text: file of texts that have names of features, such as the training corpus"),
    ] = None,
    output: options.PageInstead = None,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Show which features and transitions lead to each label of a text, or the largest weights of a model.

    With a text, each label is compared with its rival: the second most probable label, or the one given by --label, in
    the best labelling that contains it. The margin is the score of the predicted labelling minus that of the rival
    labelling, and the sum of the contributions shown. A page collapses tokens with a label of probability 0.95 or more;
    in a terminal, such tokens outside of spans are only named. --token and --label show them in full.

    Without a text, it shows the largest weights of each label, the transitions, and the number of weights of each
    template. A model stores its features as hashes, and the names of those with the largest weights, or of all of them
    if it was trained with keep_names = true. Other names are found in the vocabulary of the pipeline and in --texts.

    Example:
      python -m spacy crfseq explain training/model-best "Ada lives in Oslo." \\
          --component crf_ner
      python -m spacy crfseq explain training/model-best "Ada lives in Oslo." \\
          -p crf_ner --token Oslo --label ORG --number 10
      python -m spacy crfseq explain training/model-best news.txt -p crf_ner \\
          --output page.html
      python -m spacy crfseq explain training/model-best -p crf_ner --label LOC \\
          --number 10 --texts train.conll --format conll2003
    """
    from .._pages.html import render

    check_page(output, *([] if source is None else [source]), texts)
    layout = Asked(format, columns, scheme, encoding, skip_invalid=skip_invalid)
    if source is None:
        _refuse("needs a text, or a file of texts", token=tokens, limit=limit)
        number = number or (WEIGHTS if output is None else WEIGHTS_ON_PAGE)
        weights = explain_model(
            model, component=component, label=label, template=template, number=number, texts=texts, layout=layout
        )
        if output is not None:
            write_text(output, render("tools/explain/weights.html", found=weights))
        _print_model(weights, output, as_json)
        return
    _refuse("is about the model as a whole: leave out the text", template=template, texts=texts)
    explained = explain(
        model, source, layout, component=component, tokens=tokens or (), label=label, limit=limit or LIMIT
    )
    if output is not None:
        how = {"shown": number or ON_PAGE, "sure": SURE if explained.folds else inf, "probability": probability_words}
        write_text(output, render("tools/explain/page.html", explained=explained, **how))
    if as_json:
        print_json(
            [{"text": text.text, "line": text.line, **text.explanation.to_json(number)} for text in explained.texts]
        )
    elif output is not None:
        printer().good(f"Saved {output}: {explained.in_words()}")
    else:
        _print_texts(explained, number or SHOWN)


def _print_model(weights: ModelWeights, output: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(weights.to_json())
        return
    if output is not None:
        printer().good(f"Saved {output}")
    else:
        print("\n".join(model_lines(weights)))
    if advice := weights.advice():
        printer().info(advice)


def _print_texts(explained: Explained, number: int) -> None:
    brief, several = explained.folds and sys.stdout.isatty(), len(explained.texts) > 1
    for text in explained.texts:
        print("\n".join(_lines(text, number, several=several, brief=brief)))
    if explained.more:
        printer().info(f"Explained the first {len(explained.texts)}; ask for more by --limit.")


def _lines(text: ExplainedText, number: int, *, several: bool, brief: bool) -> list[str]:
    """Return the lines about a text, no wider than the terminal; brief: Only name tokens surely outside of spans."""
    explanation, pretty = text.explanation, sys.stdout.isatty()
    wide = get_terminal_size().columns if pretty else sys.maxsize

    def is_told(token: TokenExplanation) -> bool:
        return not (brief and token.label == OUTSIDE and token.probability >= SURE)

    told = [token for token in explanation.tokens if is_told(token)]
    names = (name for token in told for name, _ in token.rows(explanation.words, number))
    room = min(max([20, *map(len, names)]), max(20, wide - BAR - 31))
    lines = [f"{text.place}: {' '.join(explanation.words)}"] if several else []
    for in_full, group in groupby(explanation.tokens, is_told):
        if in_full:
            lines += [line for token in group for line in _token_lines(token, explanation.words, number, room, wide)]
        else:
            lines += ["", _painted(_outside(list(group), wide), fg="grey")]
    if len(told) < len(explanation.tokens):
        lines += ["", "  --token WORD explains why a word is outside."]
    return [*lines, ""]


def _outside(tokens: Sequence[TokenExplanation], wide: int) -> str:
    least = probability_words(min(token.probability for token in tokens))
    end = f"  {OUTSIDE} {least}" if len(tokens) == 1 or least.startswith(">") else f"  {OUTSIDE} {least} or more"
    return cut(" ".join(token.text for token in tokens), wide - len(end)) + end


def _token_lines(token: TokenExplanation, words: list[str], number: int, room: int, wide: int) -> Iterator[str]:
    yield ""
    head = f"{token.text}  {token.label} {probability_words(token.probability)}"
    yield f"{_painted(head, bold=True)}   {token.against_rival()}"
    if note := token.with_rival(words):
        yield cut(f"  {note}", wide)
    rival = token.rival if token.rival is not None and not token.impossible else ""
    header = f"  {'':>7}  {'':{BAR}}  {'':{room}}  {cut(token.label, 7):>7}"
    yield _painted(f"{header}  {cut(rival, 7):>7}".rstrip(), fg="grey")
    rows = token.rows(words, number)
    largest = max((abs(addend.difference) for _, addend in rows), default=1.0)
    for name, addend in rows:
        against = f"  {addend.rival_weight:7.2f}" if rival else ""
        sign = ("█" if sys.stdout.isatty() else "#") * round(BAR * abs(addend.difference) / largest)
        bar = _painted(f"{sign:{BAR}}", fg="green" if addend.difference > 0 else "red")
        yield f"  {addend.difference:+7.2f}  {bar}  {cut_name(name, room):{room}}  {addend.weight:7.2f}{against}"
    n_more, rest = token.rest(number)
    if n_more:
        yield f"  {rest:+7.2f}  {'':{BAR}}  {n_more} more"
    if note := token.without_weight():
        yield _painted(cut(f"  {note}", wide), fg="grey")


def _painted(words: str, **how: Any) -> str:
    return str(color(words, **how)) if sys.stdout.isatty() and supports_ansi() else words
