"""``crfseq tag``: annotate files of any size, in runs that resume after being killed; or show a few texts on a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

import typer
from spacy.util import load_config
from tqdm import tqdm

from ...cli import options
from ...cli.app import command
from ...cli.console import count_of, load_code, printer
from ...corpora import DOCBIN
from ...corpora.layouts import ENDINGS, Format, check_choice, layout_by_ending, trained_layout
from ...corpora.lines import STDIN, ZIPPED
from ...corpora.outputs import Counts, Output, State
from ...errors import ClusterError, ConfigError
from ...files import digest
from ...pipeline.bulk import File, Runner, Settings, Tagger, annotate, in_processes
from ...pipeline.clusters import connected
from ...pipeline.select import CONFIG, model_folder
from ...pipeline.written import TARGETS
from .page import ON_PAGE, Shown, show

BROKEN = 3
"""Exit code if lines were skipped."""


class Done(NamedTuple):
    """The outcome of a run."""

    counts: Counts
    new: Counts
    files: int
    complete: int
    seconds: float

    @property
    def speed(self) -> float:
        """Tokens per second in this run."""
        return self.new.tokens / self.seconds if self.seconds else 0.0

    def summary(self) -> str:
        """Return a summary line."""
        if not self.files and self.complete and not self.counts.broken:
            return f"Nothing to do: {count_of(self.complete, 'file')} complete already; --force starts over"
        texts, tokens = count_of(self.new.texts, "text"), count_of(self.new.tokens, "token")
        text = f"Tagged {count_of(self.files, 'file')}: {texts}, {tokens}"
        if self.seconds >= 1:  # shorter runs measure start-up rather than speed
            text += f", {self.speed:,.0f} tokens/s"
        if self.complete:
            text += f"; {self.complete:,} complete already"
        if self.counts.broken:
            before = self.counts.broken - self.new.broken
            earlier = f", {before:,} of them earlier" if before else ""
            text += f"; {count_of(self.counts.broken, 'malformed line')} skipped{earlier}"
        return text

    def as_json(self) -> str:
        """Return the totals as JSON."""
        totals = {"files": self.files, "complete": self.complete, **self.new._asdict()}
        return json.dumps({**totals, "seconds": self.seconds, "tokens_per_second": self.speed})


def tag(
    model: options.Model,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Files, such as texts/*.txt: one text per line (.txt), JSON with a text per line (.jsonl), DocBin "
            "(.spacy), CoNLL-U (.conllu), also gzipped (.gz), or a corpus; - for standard input",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder, or for a single input a file; - for standard output")
    ] = None,
    layout: options.TextLayout = None,
    to: Annotated[
        str | None,
        typer.Option("--to", "-t", help=f"Layout of the output: {', '.join(TARGETS)} [its ending, or jsonl]"),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Also write the probabilities of spans and tags")] = False,
    processes: Annotated[int, typer.Option("--processes", "-j", min=1, help="Processes that annotate in parallel")] = 1,
    dask: options.Dask = None,
    force: Annotated[
        bool, typer.Option("--force", "-F", "--overwrite", help="Start over and replace the output of an earlier run")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first malformed line")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the first texts instead, spans shaded by probability")
    ] = None,
    component: options.OneComponent = None,
    number: Annotated[int | None, options.number(f"Texts on the page, from the first on [{ON_PAGE}]")] = None,
    code: options.Code = None,
) -> Done | Shown:
    """Annotate files of any size with a pipeline.

    Each input has an output of the same name in the folder, which appears when it is complete. To resume a killed run,
    repeat the command. Lines that cannot be read or annotated are reported, skipped and counted; the exit code is then
    3.

    jsonl has one text per line in the form of Doc.to_json, with the other keys of the input. conll has one word per
    line with the columns that the pipeline sets (tag, pos, morph, lemma, chunk, ent) and, with --scores, a column of
    probabilities for each; conll2000, conll2002, conll2003 and iob have their own columns. spacy is written in parts
    of up to 2,048 texts, NAME-00001.spacy and so on, each when it is complete. From a corpus, only the words are
    read; but CoNLL-U that is written as conllu keeps its lines, except for the columns that the pipeline sets. A
    DocBin is loaded as a whole; other inputs are streamed.

    --dask ADDRESS hands the texts out to the workers of a Dask cluster, which must have the same model. If a worker
    dies, another one does its part.

    --html writes one page instead, without external requests, of the entities or chunks of one component in the first
    texts of a file, or in a text given in its place.

    \b
    Example:
      python -m spacy crfseq tag training/model-best news.txt more.txt \\
          --output tagged --scores
      python -m spacy crfseq tag training/model-best test.conll -f conll2003 \\
          -o found.conll --to conll2003
      python -m spacy crfseq tag training/model-best - --output - \\
          --to conllu < news.txt
      python -m spacy crfseq tag training/model-best news.txt \\
          --component crf_ner --html page.html
    \f
    Annotate files; the ending of the output gives its layout if `to` does not.

    html (Path | None): A page to write instead of outputs; `component` and `number` are for it.
    dask (str | Client | None): The address of a Dask cluster that annotates, or its client; None for this machine.
    RAISES CrfError: On invalid settings, unreadable files, or an output that was begun with other settings.
    RAISES FormatError, DataError: At the first malformed line, with `strict`.
    """
    if html is not None:
        if output is not None or dask is not None or len(files) != 1:
            raise ConfigError("--html writes a page of one file or text. Leave --output, --dask and other files out.")
        return show(model, str(files[0]), html, layout, component, number or ON_PAGE)
    model_folder(str(model))
    for name, value in {"component": component, "number": number}.items():
        if value is not None:
            raise ConfigError(f"--{name} is for a page: give --html FILE.")
    if output is None:
        raise ConfigError("Give --output FOLDER for the annotated files, or --html FILE for a page.")
    if dask is not None and processes > 1:
        raise ConfigError(f"--dask {dask} has workers of its own: leave --processes out.")
    target = to or layout_by_ending(output, TARGETS) or "jsonl"
    check_choice("--to", target, TARGETS, " format")
    sources = list(map(Path, files))
    settings = Settings(str(model), target, scores, force, strict, partial(load_code, code and code.absolute()))
    run: Runner = map if processes == 1 else partial(in_processes, processes)
    try:
        with nullcontext() if dask is None else connected(dask) as workers:
            return _tag(
                make_files(settings, sources, layout, output), settings, run if workers is None else workers.map
            )
    except KeyboardInterrupt:
        if STDIN not in (output, *sources):
            print("\nTo continue, run the same command again.", file=sys.stderr)
        raise
    except ClusterError as error:
        raise ClusterError(f"{error} Give the command again to go on.") from error


def _tag(files: Sequence[File], settings: Settings, run: Runner) -> Done:
    todo, before, complete = list[File](), Counts(), 0
    for file in files:
        state = State() if settings.overwrite or file.source == STDIN else file.output.look()
        before = before.plus(state.counts)
        if state.done and file.output.files():
            complete += 1
        else:
            todo.append(file)
    if not todo:
        return Done(before, Counts(), 0, complete, 0.0)
    tagger, new = Tagger(settings), Counts()
    sizes = [file.source.stat().st_size for file in todo if file.source.is_file()]
    total, started = sum(sizes) if len(sizes) == len(todo) else None, perf_counter()
    with tqdm(total=total, disable=None, leave=False, file=sys.stderr, unit="B", unit_scale=True) as bar:
        for due, annotated in annotate(tagger, todo, run):
            for message in annotated.messages:
                with tqdm.external_write_mode(file=sys.stderr):
                    print(message, file=sys.stderr)
            new = new.plus(annotated.counts)
            speed = new.tokens / max(perf_counter() - started, 1e-9)
            bar.set_postfix_str(f"{speed:,.0f} tokens/s", refresh=False)
            bar.update(due.n_bytes)
    if todo[0].source == STDIN:
        todo[0].output.forget()
    return Done(before.plus(new), new, len(todo), complete, perf_counter() - started)


def make_files(settings: Settings, files: Sequence[Path], format_name: Format, output: Path) -> list[File]:
    """Return files with the layouts that `find_layout` finds, and their outputs.

    RAISES ConfigError: If two files share an output, or an output is an input.
    RAISES FormatError: If a file does not exist or its layout is unknown.
    """
    folder = model_folder(settings.model)
    trained = trained_layout(load_config(folder / CONFIG).interpolate())
    common = {
        "the model": digest(folder),
        "--to": settings.to,
        "--scores": settings.scores,
        "the release": metadata.version("spacy-crfseq"),
    }
    if STDIN in files and len(files) > 1:
        raise ConfigError("- is standard input and must be the only file.")
    if output == STDIN and settings.to == DOCBIN:
        raise ConfigError("--to spacy: a DocBin cannot be written to standard output. Give a folder with --output.")
    made: dict[Path, File] = {}
    sources = {source.resolve() for source in files if source != STDIN}
    for source in files:
        layout, stamp = options.show_layout(source, format_name, trained, texts=True), None
        if source != STDIN:
            stamp = digest(source)
        columns, form = ",".join(layout.columns), {} if layout.form is None else {"the XML": str(layout.form)}
        read = {"--format": layout.name, "--columns": columns, "--encoding": layout.encoding, **form, "the file": stamp}
        target = _target(source, output, settings.to, len(files))
        file = File(source, layout, Output(target, {**common, **read}, in_files=settings.to == DOCBIN))
        path = target.resolve()
        if path in made and output != STDIN:
            other = made[path].source
            raise ConfigError(f"{other} and {source} would both be written to {path}. Tag them one at a time.")
        if path in sources:
            raise ConfigError(f"{source}: the output would replace this input. Choose another --output.")
        if source == STDIN and file.output.files() and not settings.overwrite:
            raise ConfigError(f"{file.output.files()[0]} exists. Use --force, or another --output.")
        made[path if output != STDIN else source] = file
    return list(made.values())


def _target(source: Path, output: Path, to: str, n_files: int) -> Path:
    if output == STDIN:
        return output
    named = not output.is_dir() and output.suffix in {*ENDINGS.values(), ".conll", ".iob"}
    if named and n_files == 1:
        return output
    if named or output.is_file():
        what = f"{n_files} files are to be tagged" if n_files > 1 else f"its ending is not that of --to {to}"
        raise ConfigError(f"--output {output} is a file, but {what}. Give a folder, or another name.")
    name = "stdin" if source == STDIN else source.name.removesuffix(ZIPPED)
    return output / f"{Path(name).stem}{ENDINGS.get(to, '.conll')}"


@command("tag", "Use", "apply", "predict", "label", "visualize", "render", "show", calls=tag)
def _print(
    done: Done | Shown,
    output: Path | None,
    html: Path | None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as JSON")] = False,
) -> int:
    if isinstance(done, Shown):
        print(json.dumps(done._asdict())) if as_json else printer().good(f"Saved {html}: {done.in_words()}")
        return 0
    text = done.as_json() if as_json else done.summary()
    if output == STDIN or as_json:
        print(text, file=sys.stderr if output == STDIN else sys.stdout)
    else:
        printer().good(f"{text}: {output}" if done.files else text)
    return BROKEN if done.counts.broken else 0
