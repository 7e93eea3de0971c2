"""``crfseq report``: one page on what a trained component gets right, what it gets wrong, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import spacy
import typer
from tqdm import tqdm

from ..corpora.layouts import FORMAT_HELP
from ..corpora.layouts import told_by_ending as ending_format
from ..corpora.outputs import check_output_file
from ..errors import ConfigError, CrfError
from ..files import replacing
from ..pipeline.gold_files import GIVEN_HELP, format_of, names_of, read_gold
from ..pipeline.select import crfs_of, run_between
from ._app import crfseq_cli
from ._console import CodeOption, load_code, printer, reported_errors

if TYPE_CHECKING:
    from ._findings import Estimate, Findings

LOG = "log.jsonl"
"""The log of `fit`, which lies beside the models."""


@crfseq_cli.command("report")
def report_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")],
    file: Annotated[Path, typer.Argument(metavar="DEV", help="Annotated file that the model was not trained on")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write")] = Path("report.html"),
    format_: Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)] = None,
    train: Annotated[
        Path | None, typer.Option("--train", help=f"Log of the training [{LOG} in the folder that holds MODEL]")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Training corpus, to tell what was seen in training from what was not")
    ] = None,
    component: Annotated[
        list[str] | None,
        typer.Option("--component", "-p", help="CRF component to report on, may be given more than once [all]"),
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=0, help="Sentences to show")] = 30,
    samples: Annotated[int, typer.Option(min=1, help="Samples of the texts, for the intervals of scores")] = 1000,
    given: Annotated[str | None, typer.Option(help=GIVEN_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, too")] = False,
    code: CodeOption = None,
) -> None:
    """Make a page on what a model gets right and wrong on DEV: scores, errors, probabilities, weights, sentences.

    The page is one file and asks nothing of the net. Scores have intervals: how far they would move with other texts
    of the kind.

    \b
    Example:
      python -m spacy crfseq report training/model-best dev.conll \\
          --format conll2003 \\
          --corpus train.conll --output report.html
    """
    from ._findings import main_score

    with reported_errors():
        load_code(code)
        found = report(
            model,
            file,
            output,
            format_,
            train=train,
            corpus=corpus,
            components=component or [],
            given=names_of(given),
            n_worst=number,
            n_samples=samples,
        )
        if as_json:
            figures = {one.name: one.as_json() for one in found}
            print(json.dumps(figures, indent=2, ensure_ascii=False, allow_nan=False))
            return
        for one in found:
            score, what = main_score(one)
            told = "no score" if score.value is None else f"{what} {100 * score.value:.2f}{_interval(score)}"
            print(f"{one.name}: {told}")
        printer().good(f"Saved {output}")


def report(
    model: str | Path,
    file: Path,
    output: Path,
    format_name: str | None = None,
    *,
    train: Path | None = None,
    corpus: Path | None = None,
    components: Sequence[str] = (),
    given: Sequence[str] | None = None,
    n_worst: int = 30,
    n_samples: int = 1000,
) -> list[Findings]:
    """Write a page on components and return its figures.

    format_name, given: As `read_gold` has them; the training corpus has the same layout unless its ending tells.
    train (Path | None): Log of `fit`; None for the one beside the model, if it is there.
    corpus (Path | None): Training corpus.
    components (Sequence[str]): Names; if there are none, all CRFs that the file has gold annotation for.
    n_worst (int): Sentences to show.
    n_samples (int): Samples of the bootstrap.
    RAISES CrfError: If there is nothing to report on, or a file cannot be read.
    """
    from ..analysis.bootstrap import doubt
    from ._findings import corpus_familiarity, findings, read_log
    from ._judged import Judged
    from ._report_page import Subject, report_page

    check_output_file(output, file, train, corpus)
    kind = format_of(file, format_name)
    if corpus is not None:
        format_of(corpus, ending_format(corpus) or kind)
    nlp = spacy.load(model)
    pipes = crfs_of(dict(nlp.pipeline), components, str(model))
    log = train or _log_beside(model)
    curves = {name: [] if log is None else read_log(log, name) for name in pipes}
    if train is not None and not any(curves.values()):
        raise ConfigError(f"--train {train} tells nothing of {', '.join(pipes)}.")
    found: list[Findings] = []
    reasons: list[str] = []
    with tqdm(total=1 + 2 * len(pipes), disable=None, leave=False, file=sys.stderr, delay=1) as bar:
        bar.set_description(f"reading {file.name}")
        examples = read_gold(nlp, file, kind, given).examples
        seen = None if corpus is None else read_gold(nlp, corpus, ending_format(corpus) or kind, given).examples
        bar.update()
        before: str | None = None
        docs = [example.predicted for example in examples]
        for name, pipe in pipes.items():
            bar.set_description(name)
            docs = run_between(nlp, docs, before, name)
            before = name
            bar.update()
            try:
                judged = Judged(pipe, examples, docs)
            except CrfError as error:
                if components or len(pipes) == 1:
                    raise
                reasons.append(str(error))
                continue
            known = None if seen is None else corpus_familiarity(pipe, seen)
            curve = curves[name]
            found.append(findings(pipe, judged, known=known, curve=curve, n_worst=n_worst, n_samples=n_samples))
            bar.update()
    if not found:
        raise ConfigError("\n".join(["There is no component to report on.", *reasons]))
    for reason in reasons:
        print(f"Left out: {reason}", file=sys.stderr)
    if told := doubt(len(examples)):
        print(f"Warning: {told}", file=sys.stderr)
    direction = nlp.vocab.writing_system.get("direction", "ltr")
    subject = Subject(str(model), str(file), str(corpus or ""), nlp.lang or "", direction, n_samples)
    with replacing(output) as temporary:
        temporary.write_text(report_page(subject, found), encoding="utf8")
    return found


def _log_beside(model: str | Path) -> Path | None:
    log = Path(model).parent / LOG
    return log if Path(model).is_dir() and log.is_file() else None


def _interval(score: Estimate) -> str:
    return (
        f" ({100 * score.low:.2f} to {100 * score.high:.2f})"
        if score.low is not None and score.high is not None
        else ""
    )
