"""``crfseq compare``: two pipelines on the same texts, and whether their difference is more than chance.

Intervals and p values are those of the paired bootstrap (Koehn 2004), in the form of Berg-Kirkpatrick, Burkett & Klein
(2012); `analysis/bootstrap.py` has the formula.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from numpy.typing import NDArray
from tqdm import tqdm

from ..corpora.layouts import FORMAT_HELP
from ..corpora.outputs import check_output_file
from ..errors import ConfigError, DataError
from ..files import replacing
from ..pipeline.gold_files import GIVEN_HELP, format_of, names_of, read_gold
from ..pipeline.select import crfs_of, run_between
from ._app import crfseq_cli
from ._console import CodeOption, load_code, printer, reported_errors

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from ..analysis.bootstrap import Score, Values
    from ..pipeline.component import CRFComponent
    from ..schemes import Span
    from ._judged import Judged

TOKENISED = 200
"""Texts that both tokenisers are tried on."""
MOST_LABELS = 30
"""Labels that a table shows."""
MOST_WORDS = 40
"""Words of a text that a terminal shows."""


@crfseq_cli.command("compare")
def compare_cli(
    first: Annotated[str, typer.Argument(metavar="A", help="Folder or package name of a trained pipeline")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one")],
    file: Annotated[Path, typer.Argument(metavar="DEV", help="Annotated file that neither was trained on")],
    format_: Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)] = None,
    component: Annotated[
        list[str] | None,
        typer.Option("--component", "-p", help="CRF component to compare, may be given more than once [all of both]"),
    ] = None,
    number: Annotated[
        int, typer.Option("--number", "-n", min=0, help="Texts to show of those that got better, and of the others")
    ] = 5,
    samples: Annotated[int, typer.Option(min=1, help="Samples of the texts, for intervals and p values")] = 1000,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML file for the comparison")] = None,
    given: Annotated[str | None, typer.Option(help=GIVEN_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON instead of the tables")] = False,
    code: CodeOption = None,
) -> None:
    """Compare two pipelines on the same texts: scores side by side, what got better and what worse.

    The difference is B less A. Its interval is the middle 95 % of samples of the texts; p tells how often chance
    alone makes a difference as large (paired bootstrap; of single labels not corrected for their number).

    \b
    Example:
      python -m spacy crfseq compare training/model-best other/model-best \\
          dev.conll --format conll2003
    """
    with reported_errors():
        load_code(code)
        check_output_file(output, file)
        wanted = component or []
        done = compare(
            first, second, file, format_, components=wanted, given=names_of(given), n_samples=samples, output=output,
            n_shown=number,
        )  # fmt: skip
        for doubt in done.doubts:
            print(f"Warning: {doubt}", file=sys.stderr)
        if as_json:
            figures = {one.name: one.as_json(number) for one in done.components}
            print(json.dumps(figures, indent=2, ensure_ascii=False, allow_nan=False))
            return
        for one in done.components:
            _tell(one, number)
        if output is not None:
            printer().good(f"Saved {output}")


class Line(NamedTuple):
    """Two scores of the same spans, and their difference, in shares; nan where there is nothing to score.

    p (float): How often chance makes a difference as large.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float

    def as_json(self) -> dict[str, float | None]:
        """Return the figures in a form that JSON knows."""
        return {name: float(v) if np.isfinite(v) else None for name, v in self._asdict().items()}


class Change(NamedTuple):
    """A text that one of the two labels better.

    number (int): Of the text in the file, from 1.
    fewer (int): How many mistakes less the second makes.
    odd (frozenset[Span]): Spans that not all of gold, first and second have.
    """

    number: int
    fewer: int
    doc: Doc
    gold: list[Span]
    first: list[Span]
    second: list[Span]
    odd: frozenset[Span]


class Comparison(NamedTuple):
    """What compares a component of two pipelines.

    unit (str): "spans" or "tokens".
    score (str): What is compared of all labels together: "F1", or "accuracy" of a tagger.
    whole (Line): Of all labels together.
    labels (dict[str, Line]): F1 of each.
    gold (dict[str, int]): Gold spans of each.
    only_first, only_second (int): Gold spans that one found and the other did not.
    texts_first, texts_second (int): Texts without mistake of one, and with a mistake of the other.
    better, worse (list[Change]): Texts in which the second makes fewer mistakes, and more; largest changes first.
    """

    name: str
    unit: str
    score: str
    texts: int
    whole: Line
    labels: dict[str, Line]
    gold: dict[str, int]
    only_first: int
    only_second: int
    texts_first: int
    texts_second: int
    better: list[Change]
    worse: list[Change]

    def frequent(self) -> list[str]:
        """Return the most frequent labels, by their number in the gold standard."""
        return sorted(self.labels, key=lambda label: -self.gold[label])[:MOST_LABELS]

    def as_json(self, n_shown: int) -> dict[str, Any]:
        """Return the figures in a form that JSON knows, with some of the texts."""
        numbers = ("unit", "score", "texts", "only_first", "only_second", "texts_first", "texts_second")
        return {
            **{name: getattr(self, name) for name in numbers},
            "all": self.whole.as_json(),
            "labels": {label: {"gold": self.gold[label], **line.as_json()} for label, line in self.labels.items()},
            "n_better": len(self.better),
            "n_worse": len(self.worse),
            "better": [_change_json(change) for change in self.better[:n_shown]],
            "worse": [_change_json(change) for change in self.worse[:n_shown]],
        }


class Compared(NamedTuple):
    """What `compare` found.

    doubts (list[str]): Reasons not to trust the comparison.
    """

    components: list[Comparison]
    doubts: list[str]


def compare(
    first: str | Path,
    second: str | Path,
    file: Path,
    format_name: str | None = None,
    *,
    components: Sequence[str] = (),
    given: Sequence[str] | None = None,
    n_samples: int = 1000,
    n_shown: int = 5,
    output: Path | None = None,
) -> Compared:
    """Compare two pipelines on an annotated file, and write a page if `output` is given.

    format_name, given: As `read_gold` has them.
    components (Sequence[str]): Names of CRF components of both; if there are none, all that both have.
    n_shown (int): Texts to show on the page, of those that got better, and of the others.
    RAISES CrfError: If there is nothing to compare.
    """
    from ..analysis.bootstrap import doubt

    kind = format_of(file, format_name)
    pipelines = [spacy.load(model) for model in (first, second)]
    pipes = [crfs_of(dict(nlp.pipeline), components, str(m)) for nlp, m in zip(pipelines, (first, second), strict=True)]
    shared = [name for name in pipes[0] if name in pipes[1]]
    if not shared:
        raise ConfigError(
            f"{first} and {second} share no CRF component: they have {', '.join(pipes[0])} and {', '.join(pipes[1])}. "
            "Rename one of them (in config.cfg and its folder)."
        )
    doubts = _left_out(pipes, shared, (str(first), str(second)))
    judged: list[dict[str, Judged]] = []
    docs: list[Doc] = []
    with tqdm(total=2 * len(shared), disable=None, leave=False, file=sys.stderr, delay=1) as bar:
        for nlp, of in zip(pipelines, pipes, strict=True):
            with warnings.catch_warnings():
                if judged:  # what there is to be said of the file has been said
                    warnings.simplefilter("ignore")
                gold = read_gold(nlp, file, kind, given)
            docs = docs or [example.reference for example in gold.examples]
            judged.append(_judged(nlp, {name: of[name] for name in shared}, gold.examples, bar))
    doubts += [told] if (told := doubt(len(docs))) else []
    doubts += _different_tokens(pipelines, docs)
    found = []
    for name in shared:
        if name in judged[0] and name in judged[1]:
            doubts += _different_tasks(pipes[0][name], pipes[1][name])
            found.append(_comparison(name, judged[0][name], judged[1][name], n_samples))
    if not found:
        raise DataError(f"{file} holds no gold annotation for {', '.join(shared)}. Check --format and --component.")
    done = Compared(found, doubts)
    if output is not None:
        from ._compare_page import compare_page

        page = compare_page((str(first), str(second)), str(file), done, n_shown, n_samples, pipelines[0])
        with replacing(output) as temporary:
            temporary.write_text(page, encoding="utf8")
    return done


def _judged(nlp: Language, pipes: dict[str, CRFComponent], examples: Sequence[Any], bar: Any) -> dict[str, Judged]:
    """Return the predictions of components that the file has gold annotation for."""
    from ._judged import Judged

    found: dict[str, Judged] = {}
    docs, before = [example.predicted for example in examples], None
    for name, pipe in pipes.items():
        bar.set_description(name)
        docs = run_between(nlp, docs, before, name)
        before = name
        try:
            found[name] = Judged(pipe, examples, docs)
        except DataError:
            if len(pipes) == 1:
                raise
        bar.update()
    return found


# Doubts


def _left_out(pipes: Sequence[dict[str, CRFComponent]], shared: Sequence[str], models: Sequence[str]) -> list[str]:
    return [
        f"only {model} has {', '.join(name for name in of if name not in shared)}, which is left out."
        for of, model in zip(pipes, models, strict=True)
        if any(name not in shared for name in of)
    ]


def _different_tokens(pipelines: Sequence[Language], docs: Sequence[Doc]) -> list[str]:
    texts = [doc.text for doc in islice(docs, TOKENISED)]
    one, other = ([[token.text for token in nlp.make_doc(text)] for text in texts] for nlp in pipelines)
    differ = sum(a != b for a, b in zip(one, other, strict=True))
    if not differ:
        return []
    return [
        f"the pipelines tokenise {differ} of the first {len(texts)} texts differently. Here both get the tokens of the "
        "file; on raw text they differ by more than what is shown."
    ]


def _different_tasks(first: CRFComponent, second: CRFComponent) -> list[str]:
    settings = [{**pipe.annotation.settings(), "scheme": None} for pipe in (first, second)]
    doubts = []
    if settings[0] != settings[1]:
        told = " and ".join(", ".join(f"{k} = {v!r}" for k, v in each.items() if v is not None) for each in settings)
        doubts.append(f"{first.name} predicts different things: {told}.")
    one, other = set(first.labels), set(second.labels)
    for mine, theirs, which in ((one, other, "A"), (other, one, "B")):
        if mine - theirs:
            doubts.append(f"only {which} predicts {', '.join(sorted(mine - theirs))} ({first.name}).")
    return doubts


# Figures


def _comparison(name: str, first: Judged, second: Judged, n_samples: int) -> Comparison:
    from ..analysis.errors import span_counts

    labels = sorted({*first.labels, *second.labels})
    counts = [span_counts(one.gold, one.found, labels) for one in (first, second)]
    whole = [one.token_counts for one in (first, second)] if first.plain else [each.sum(1) for each in counts]
    of_labels = _lines([each.reshape(len(each), -1) for each in counts], _f1_by_label, n_samples)
    right = [
        [set(gold) & set(found) for gold, found in zip(one.gold, one.found, strict=True)] for one in (first, second)
    ]
    wrong = [_mistakes(one) for one in (first, second)]
    changes = [
        _change(i, first, second, int(wrong[0][i] - wrong[1][i])) for i in np.flatnonzero(wrong[0] != wrong[1]).tolist()
    ]
    return Comparison(
        name=name,
        unit=first.unit,
        score="accuracy" if first.plain else "F1",
        texts=len(first.docs),
        whole=_lines(whole, _accuracy if first.plain else _f1_by_label, n_samples)[0],
        labels=dict(zip(labels, of_labels, strict=True)),
        gold=dict(zip(labels, counts[0].sum(0)[:, 2].tolist(), strict=True)),
        only_first=sum(len(a - b) for a, b in zip(*right, strict=True)),
        only_second=sum(len(b - a) for a, b in zip(*right, strict=True)),
        texts_first=int(((wrong[0] == 0) & (wrong[1] > 0)).sum()),
        texts_second=int(((wrong[1] == 0) & (wrong[0] > 0)).sum()),
        better=sorted((one for one in changes if one.fewer > 0), key=lambda one: (-one.fewer, one.number)),
        worse=sorted((one for one in changes if one.fewer < 0), key=lambda one: (one.fewer, one.number)),
    )


def _lines(counts: Sequence[NDArray[np.int64]], score: Score, n_samples: int) -> list[Line]:
    """Return the scores of both, and what lies between them; counts [N, K] of each of the two."""
    from ..analysis import bootstrap

    first, second = counts
    difference = bootstrap.compare(first, second, score, n_samples)
    scores = [score(each.sum(0).astype(np.float64)) for each in counts]
    return [Line(*map(float, each)) for each in zip(*scores, *difference, strict=True)]


def _f1_by_label(counts: Values) -> Values:
    from ..analysis.bootstrap import prf_by_label

    return prf_by_label(counts)[..., 2::3]


def _accuracy(counts: Values) -> Values:
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Values = counts[..., :1] / counts[..., 1:]
    return share


def _mistakes(judged: Judged) -> NDArray[np.int64]:
    """Return how many spans of each text are on one side only; of a tagger, how many tokens are wrong."""
    if judged.plain:
        return judged.token_counts[:, 1] - judged.token_counts[:, 0]
    return np.array([len(set(a) ^ set(b)) for a, b in zip(judged.gold, judged.found, strict=True)], np.int64)


def _change(i: int, first: Judged, second: Judged, fewer: int) -> Change:
    gold, a, b = first.gold[i], first.found[i], second.found[i]
    shared = set(gold) & set(a) & set(b)
    odd = frozenset({*gold, *a, *b} - shared)
    return Change(i + 1, fewer, first.docs[i], gold, a, b, odd)


def _change_json(change: Change) -> dict[str, Any]:
    spans = {name: [list(span) for span in getattr(change, name)] for name in ("gold", "first", "second")}
    words = [token.text for token in change.doc]
    return {"text": change.number, "fewer_mistakes": change.fewer, "words": words, **spans}


# The report


def _tell(one: Comparison, n_shown: int) -> None:
    say = printer()
    say.divider(one.name)
    few, more = one.frequent(), len(one.labels) - MOST_LABELS
    of_labels = [(label, f"{one.gold[label]:,}", one.labels[label]) for label in few]
    rows = [(f"{one.score}, all", "", one.whole), *of_labels]
    say.table(
        [(name, n, *line_cells(line)) for name, n, line in rows],
        header=("", "gold", "A", "B", "B - A", "95 %", "p"),
        aligns=("l", *"rrrrrr"),
        divider=True,
    )
    if more > 0:
        say.text(f"{more} rarer labels are left out; --json has them.")
    say.text(only_words(one))
    for title, changes in (("better", one.better), ("worse", one.worse)):
        if changes[:n_shown]:
            say.text(f"\n{title.capitalize()} in B: {len(changes):,} of {one.texts:,} texts, the largest changes first")
            for change in changes[:n_shown]:
                print("\n".join(_change_lines(change)))


def line_cells(line: Line) -> list[str]:
    """Return A, B, their difference, its interval, and p, in words; scores in per cent."""
    a, b = (_percent(score, "") for score in (line.first, line.second))
    if not np.isfinite(line.difference):
        return [a, b, "-", "-", "-"]
    interval = f"{_percent(line.low, '+')} to {_percent(line.high, '+')}"
    return [a, b, _percent(line.difference, "+"), interval, f"{line.p:.3f}"]


def _percent(share: float, sign: str) -> str:
    return f"{100 * share + 0.0:{sign}.2f}" if np.isfinite(share) else "-"


def only_words(one: Comparison) -> str:
    """Say how many examples one got right that the other did not."""
    return (
        f"Gold {one.unit} that only A got right: {one.only_first:,}; only B: {one.only_second:,}. "
        f"Texts that only A got right as a whole: {one.texts_first:,}; only B: {one.texts_second:,}."
    )


def _change_lines(change: Change) -> list[str]:
    """Return a text, around what changed, and below it who says what about the spans that they do not agree on."""
    begin = max(0, min(span.start for span in change.odd) - 5)
    end = begin + MOST_WORDS
    words = " ".join(token.text for token in change.doc[begin:end])
    head = f"  text {change.number}: {'... ' if begin else ''}{words}{' ...' if end < len(change.doc) else ''}"
    sides = (("gold", change.gold), ("A", change.first), ("B", change.second))
    return [head, *(f"    {name:<4} {_spans_words(change, spans, end)}" for name, spans in sides)]


def _spans_words(change: Change, spans: Sequence[Span], end: int) -> str:
    """Return the spans that not all agree on, up to a token, and how many more there are."""
    odd = [span for span in spans if span in change.odd]
    told = [_span_words(change.doc, span) for span in odd if span.start < end]
    return ", ".join([*told, *([f"{len(odd) - len(told)} more"] if len(told) < len(odd) else [])]) or "nothing"


def _span_words(doc: Doc, span: Span) -> str:
    return f"{' '.join(token.text for token in doc[span.start : span.end])} [{span.label}]"
