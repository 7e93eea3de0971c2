"""``crfseq tag``: annotate files of any size, or show a few texts on a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import print_json, printer
from ...corpora.layouts import Asked
from ...corpora.lines import STDIN
from ...errors import ClusterError, ConfigError
from ...pipeline.select import model_folder
from ...pipeline.written import TARGETS
from ...schemes import SPAN_SCHEMES
from . import TagReport, tag
from .page import ON_PAGE, show
from .tagger import TagSettings

BROKEN = 3
"""Exit code if lines were skipped."""


@command("tag", "Use", "apply", "predict", "label", "visualize", "render", "show")
def tag_cli(
    model: options.Model,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Files, such as texts/*.txt, or folders: one text per line (.txt), JSON with a text per line "
            "(.jsonl), DocBin (.spacy), CoNLL-U (.conllu), also gzipped (.gz), or a corpus; - for standard input",
        ),
    ],
    output: Annotated[
        Path | None, options.output("Folder, or for a single input a file; - for standard output")
    ] = None,
    format: options.TextFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            "-t",
            help=f"Layout of the output: {', '.join(TARGETS)}",
            show_default="that of its ending, or jsonl",
        ),
    ] = None,
    to_scheme: Annotated[
        str, typer.Option(help=f"Tag scheme of spans in columns of the output: {', '.join(SPAN_SCHEMES)}")
    ] = "IOB2",
    scores: Annotated[bool, typer.Option("--scores", help="Also write the probabilities of spans and tags")] = False,
    processes: Annotated[int, typer.Option("--processes", "-j", min=1, help="Processes that annotate in parallel")] = 1,
    dask: options.Dask = None,
    force: Annotated[
        bool, typer.Option("--force", "-F", "--overwrite", help="Start over and replace the output of an earlier run")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first malformed line")] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page with the first texts, spans shaded by probability", rich_help_panel="Page"),
    ] = None,
    component: Annotated[
        str | None,
        typer.Option(
            "--component",
            "-p",
            help="CRF component",
            show_default="the only one that predicts spans",
            rich_help_panel="Page",
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            min=1,
            help="Texts, from the first on",
            show_default=str(ON_PAGE),
            rich_help_panel="Page",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as JSON")] = False,
    code: options.Code = None,
) -> None:
    """Annotate files of any size with a pipeline.

    Each input has an output of the same name in the folder, which appears when it is complete. To resume a killed run,
    repeat the command: it skips the finished files. Cut a large input into several files to lose less. Lines that
    cannot be read or annotated are reported, skipped and counted; the exit code is then 3.

    jsonl has one text per line in the form of Doc.to_json, with the other keys of the input. conll has one word per
    line with the columns that the pipeline sets (tag, pos, morph, lemma, chunk, ent) and, with --scores, a column of
    probabilities for each; conll2000, conll2002, conll2003 and iob have their own columns. From a corpus, only the
    words are read; but CoNLL-U that is written as conllu keeps its lines, except for the columns that the pipeline
    sets. A DocBin (spacy) is read and written as a whole; other files are streamed.

    --dask ADDRESS hands the texts out to the workers of a Dask cluster, which must have the same model. If a worker
    dies, another one does its part.

    --html writes one page instead, without external requests, of the entities or chunks of one component in the first
    texts of a file, or in a text given in its place.

    The folder .tag next to the outputs records what they were made from, so that finished files are skipped; you may
    delete it.

    Example:
      python -m spacy crfseq tag training/model-best news.txt more.txt \\
          --output tagged --scores
      python -m spacy crfseq tag training/model-best test.conll -f conll2003 \\
          -o found.conll --to conll --to-scheme IOBES
      python -m spacy crfseq tag training/model-best - --output - \\
          --to conllu < news.txt
      python -m spacy crfseq tag training/model-best news.txt \\
          --component crf_ner --html page.html
    """
    layout = Asked(format, columns, scheme, encoding)
    if html is not None:
        if output is not None or dask is not None or len(files) != 1:
            raise ConfigError("--html writes a page of one file or text. Leave --output, --dask and other files out.")
        shown = show(model, files[0], html, layout, component, number or ON_PAGE)
        if as_json:
            print_json(shown._asdict())
        else:
            printer().good(f"Saved {html}: {shown.in_words()}")
        return
    model_folder(model)  # before a complaint about other options
    for name, value in {"component": component, "number": number}.items():
        if value is not None:
            raise ConfigError(f"--{name} is for a page: give --html FILE.")
    if output is None:
        raise ConfigError("Give --output FOLDER for the annotated files, or --html FILE for a page.")
    try:
        report = tag(
            TagSettings(model, to or "", scores, strict, code, to_scheme), files, output, layout, force=force,
            processes=processes, dask=dask,
        )  # fmt: skip
    except KeyboardInterrupt:
        if STDIN not in (output, *map(Path, files)):
            print("\nTo continue, run the same command again: it skips finished files.", file=sys.stderr)
        raise
    except ClusterError as error:
        raise ClusterError(f"{error} Give the command again to go on.") from error
    _print(report, output, as_json)
    if report.counts.broken:
        raise typer.Exit(BROKEN)


def _print(report: TagReport, output: Path, as_json: bool) -> None:
    if output == STDIN:
        print(json.dumps(report.as_json()) if as_json else report.summary(), file=sys.stderr)
    elif as_json:
        print_json(report.as_json())
    else:
        printer().good(f"{report.summary()}: {output}" if report.files else report.summary())
