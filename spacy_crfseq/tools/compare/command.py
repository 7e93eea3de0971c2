"""``crfseq compare``: two pipelines on the same texts, and whether their difference is significant."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import printer
from ...cli.judging import layout_of
from ...corpora import Preset
from ...corpora.outputs import check_output_file
from ...errors import ConfigError, DataError
from ...files import write_text
from ...pipeline.gold_files import read_gold
from ...pipeline.select import crfs_of, load_pipeline
from ...pipeline.texts import names_of
from .._pages import bootstrap
from .._pages.judged import Judged, for_each_component, judge
from . import Change, Comparison, compare_judged

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from ...pipeline.component import CRFComponent
    from ...schemes import Span
    from .._pages.html import TextStyle

TOKENISED = 200
"""Number of texts on which the tokenizers are compared."""
MOST_WORDS = 40
"""Number of words of a text shown in a terminal."""


class Compared(NamedTuple):
    """The results of `compare`, doubts about them, and how to show the texts."""

    components: list[Comparison]
    doubts: list[str]
    style: TextStyle


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="Folder or package name of a trained pipeline")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one")],
    file: options.GoldFile,
    layout: options.GoldLayout = None,
    component: options.Components = None,
    number: Annotated[int, options.number("Texts to show that got better, and that got worse", least=0)] = 5,
    samples: options.Samples = 1000,
    output: Annotated[Path | None, options.output("HTML file for the comparison")] = None,
    given: options.Given = None,
) -> Compared:
    """Compare two pipelines on the same texts: scores side by side, and texts that got better or worse.

    The difference is B minus A. Its interval is the middle 95 % of samples of the texts; p is the probability of a
    difference at least as large by chance (paired bootstrap, not corrected for the number of labels).

    \b
    Example:
      python -m spacy crfseq compare training/model-best other/model-best \\
          dev.conll --format conll2003
    \f
    Compare two pipelines on an annotated file; `number` is that of the page.

    RAISES CrfError: If there is nothing to compare.
    """
    from .._pages.html import render, text_style

    check_output_file(output, file)
    models = str(first), str(second)
    pipelines = [load_pipeline(model) for model in models]
    pipes = [crfs_of(dict(nlp.pipeline), component or [], model) for nlp, model in zip(pipelines, models, strict=True)]
    preset = layout_of(file, layout, pipelines[0])
    shared = [name for name in pipes[0] if name in pipes[1]]
    if not shared:
        raise ConfigError(
            f"{first} and {second} share no CRF component: they have {', '.join(pipes[0])} and {', '.join(pipes[1])}. "
            "Rename one of them (in config.cfg and its folder)."
        )
    wanted = [{name: of[name] for name in shared} for of in pipes]
    judged, docs = _judge_both(pipelines, wanted, file, preset, names_of(given))
    doubts = [
        f"only {model} has {', '.join(own)}; not compared."
        for of, model in zip(pipes, models, strict=True)
        if (own := [name for name in of if name not in shared])
    ]
    doubts += [*filter(None, [bootstrap.doubt(len(docs))]), *_different_tokens(pipelines, docs)]
    found = []
    for name in shared:
        if name in judged[0] and name in judged[1]:
            doubts += _different_tasks(pipes[0][name], pipes[1][name])
            found.append(compare_judged(name, judged[0][name], judged[1][name], samples))
    if not found:
        raise DataError(f"{file} holds no gold annotation for {', '.join(shared)}. Check --format and --component.")
    done = Compared(found, doubts, text_style(pipelines[0]))
    if output is not None:
        about = {"first": first, "second": second, "file": str(file), "n_shown": number, "n_samples": samples}
        write_text(output, render("tools/compare/page.html", done=done, **about))
    return done


def _judge_both(
    pipelines: Sequence[Language], pipes: Sequence[dict[str, CRFComponent]], file: Path, layout: Preset, given: Any
) -> tuple[list[dict[str, Judged]], list[Doc]]:
    """Return the predictions of components for which the file has gold annotation, and its texts."""
    judged: list[dict[str, Judged]] = []
    docs: list[Doc] = []
    with tqdm(total=2 * len(pipes[0]), disable=None, leave=False, file=sys.stderr, delay=1) as bar:

        def work(pipe: CRFComponent, docs: list[Doc]) -> Judged:
            bar.set_description(pipe.name)
            bar.update()
            return judge(pipe, gold.examples, docs)[0]

        for nlp, of in zip(pipelines, pipes, strict=True):
            with warnings.catch_warnings():
                if judged:  # the warnings about the file have been shown
                    warnings.simplefilter("ignore")
                gold = read_gold(nlp, file, layout, given, others=pipelines)
            docs = docs or [example.reference for example in gold.examples]
            judged.append(for_each_component(nlp, of, gold.examples, work, required=False, skipped=DataError)[0])
    return judged, docs


def _different_tokens(pipelines: Sequence[Language], docs: Sequence[Doc]) -> list[str]:
    texts = [doc.text for doc in docs[:TOKENISED]]
    one, other = ([[token.text for token in nlp.make_doc(text)] for text in texts] for nlp in pipelines)
    differ = sum(a != b for a, b in zip(one, other, strict=True))
    doubt = (
        f"the pipelines tokenize {differ} of the first {len(texts)} texts differently. Here both get the tokens of the "
        "file; on raw text they differ more."
    )
    return [doubt] if differ else []


def _different_tasks(first: CRFComponent, second: CRFComponent) -> list[str]:
    settings = [{**pipe.annotation.settings(), "scheme": None} for pipe in (first, second)]
    doubts = []
    if settings[0] != settings[1]:
        each = " and ".join(", ".join(f"{k} = {v!r}" for k, v in one.items() if v is not None) for one in settings)
        doubts.append(f"{first.name} predicts different things: {each}.")
    one, other = set(first.labels), set(second.labels)
    for own, which in ((one - other, "A"), (other - one, "B")):
        if own:
            doubts.append(f"only {which} predicts {', '.join(sorted(own))} ({first.name}).")
    return doubts


@command("compare", "Look", calls=compare)
def _print(done: Compared, number: int, output: Path | None, as_json: options.AsJson = False) -> None:
    for doubt in done.doubts:
        print(f"Warning: {doubt}", file=sys.stderr)
    if as_json:
        figures = {one.name: one.as_json(number) for one in done.components}
        print(json.dumps(figures, indent=2, ensure_ascii=False, allow_nan=False))
        return
    say, header = printer(), ("", "gold", "A", "B", "B - A", "95 %", "p")
    for one in done.components:
        rows = one.rows()
        say.divider(one.name)
        say.table(rows, header=header, aligns=("l", *"rrrrrr"), divider=True)
        if (more := len(one.labels) + 1 - len(rows)) > 0:
            say.text(f"{more} rarer labels are left out; --json has them.")
        say.text(one.in_words())
        for title, how_many, changes in one.changes(number):
            say.text(f"\n{title.capitalize()} in B: {how_many}")
            for change in changes:
                print("\n".join(_change_lines(change)))
    if output is not None:
        say.good(f"Saved {output}")


def _change_lines(change: Change) -> list[str]:
    """Return the part of a text around a change, and below it what gold, A and B have there."""
    words = change.tokens.words
    begin = max(0, min(span.start for span in change.odd) - 5)
    end = begin + MOST_WORDS
    shown = " ".join(words[begin:end])
    head = f"  text {change.number}: {'... ' if begin else ''}{shown}{' ...' if end < len(words) else ''}"
    return [head, *(f"    {name:<4} {_spans_words(words, odd, end)}" for name, odd in change.sides())]


def _spans_words(words: Sequence[str], odd: Sequence[Span], end: int) -> str:
    named = [f"{' '.join(words[span.start : span.end])} [{span.label}]" for span in odd if span.start < end]
    return ", ".join([*named, *([f"{len(odd) - len(named)} more"] if len(named) < len(odd) else [])]) or "nothing"
