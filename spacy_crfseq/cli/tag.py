"""``crfseq tag``: annotate large amounts of text, in memory that does not grow, in runs that can be killed and go on.

A file is cut into portions.  Some at a time are annotated inside a memory zone of spaCy's, so that their words are
forgotten behind it; only the first ones stay, which are most of what comes later, and which the tokenizer then knows.
What zones leave behind in spaCy's tables is let go when the pipeline is loaded anew after many portions.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from hashlib import blake2b
from importlib import metadata
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import spacy
import typer
from spacy.util import get_package_path, is_package
from srsly import msgpack_dumps
from tqdm import tqdm

from ..errors import ConfigError, CrfError, DataError, FormatError
from ._annotated import ENDINGS, TARGETS, Write, check_target, form_of, make_write
from ._app import crfseq_cli
from ._components import crfs_of
from ._console import CodeOption, load_code, printer, reported_errors
from ._resumable import Counts, Output, State, Stream, Target
from ._texts import DOCBIN, KNOWN, STDIN, Place, Record, format_of, given_columns, make_doc, read_records

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spacy.tokens import Doc

BROKEN = 3
"""Exit code where lines were left out."""
PORTION_TEXTS, PORTION_CHARACTERS = 2048, 400_000
"""A portion ends when it has one of these; a killed run loses no more."""
ZONE_STRINGS = 15_000
"""Words and affixes met for the first time after which a memory zone ends: some 10 MB."""
BATCH = 256
"""Texts that the components get at a time."""
RENEW_STRINGS = 2_000_000
"""Words and affixes met in memory zones after which the pipeline is loaded anew."""
OTHER_KEYS = "meta"
"""Key in ``doc.user_data`` of what a line of JSON holds beside the text."""


@crfseq_cli.command("tag")
def tag_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or package name of a trained pipeline")],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="Files of texts: one a line (.txt), JSON with a text in each line (.jsonl), DocBin (.spacy), CoNLL-U "
            "(.conllu), packed or not (.gz), or --format; - for standard input",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder; or a file for a single input; or - for standard output")
    ],
    format_: Annotated[
        str | None, typer.Option("--format", "-f", help=f"Layout of FILES: {', '.join(KNOWN)} [what the ending tells]")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", "-t", help=f"Layout of the output: {', '.join(TARGETS)} [its ending, or jsonl]"),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write the probabilities of spans and tags")] = False,
    processes: Annotated[int, typer.Option("--processes", "-j", min=1, help="Files to work on at a time")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew, whatever is there")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first broken line")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as JSON")] = False,
    code: CodeOption = None,
) -> None:
    """Annotate files of any size with a pipeline.

    Each file gets one of the same name in the output folder, which appears when it is complete. A run that was killed
    goes on where it was when the same command is given again. A line that cannot be read or annotated is reported,
    left out and counted; the exit code is then 3.

    jsonl holds a text a line, in the form of Doc.to_json, with the other keys of the input. conll holds a word a line
    with the columns that the pipeline sets (tag, pos, morph, lemma, chunk, ent), then, with --scores, as many columns
    of probabilities; conll2000, conll2002, conll2003 and iob hold their own columns. spacy is written in parts of up to
    2,048 texts, NAME-00001.spacy and so on, each as soon as it is ready. Of a corpus, the words are read; a DocBin is
    read as a whole, all else as a stream.

    \b
    Example:
      python -m spacy crfseq tag training/model-best news.txt more.txt \\
          --output tagged --scores
      python -m spacy crfseq tag training/model-best test.conll -f conll2003 \\
          -o found.conll --to conll2003
      python -m spacy crfseq tag training/model-best - --output - \\
          --to conllu < news.txt
    """
    with reported_errors():
        load_code(code)
        done = tag(
            model, files, output, format_, to, scores=scores, processes=processes, overwrite=overwrite, strict=strict,
            code=code,
        )  # fmt: skip
        if as_json:
            print(json.dumps(done.as_dict()), file=sys.stderr if output == STDIN else sys.stdout)
        elif output == STDIN:
            print(done.summary(), file=sys.stderr)
        else:
            printer().good(f"{done.summary()}: {output}" if done.files else done.summary())
    if done.counts.broken:
        raise SystemExit(BROKEN)


class Done(NamedTuple):
    """What came of a run.

    counts (Counts): Of all files, with what earlier runs had done of them.
    new (Counts): Of this run.
    files (int): Files that this run has worked on.
    complete (int): Files that were complete already.
    seconds (float): Of annotating, the loading of the pipeline not counted.
    """

    counts: Counts
    new: Counts
    files: int
    complete: int
    seconds: float

    @property
    def speed(self) -> float:
        """Tokens a second of this run."""
        return self.new.tokens / self.seconds if self.seconds else 0.0

    def summary(self) -> str:
        """Return the totals in words."""
        if not self.files and self.complete and not self.counts.broken:
            return f"Nothing to do: {_count(self.complete, 'file')} complete already; --overwrite begins anew"
        texts, tokens = _count(self.new.texts, "text"), _count(self.new.tokens, "token")
        text = f"Tagged {_count(self.files, 'file')}: {texts}, {tokens}"
        if self.seconds >= 1:  # less tells more of the start than of the speed
            text += f", {self.speed:,.0f} tokens/s"
        if self.complete:
            text += f"; {self.complete:,} complete already"
        if self.counts.broken:
            before = self.counts.broken - self.new.broken
            text += f"; {self.counts.broken:,} broken lines left out" + (f", {before:,} of them earlier" * bool(before))
        return text

    def as_dict(self) -> dict[str, Any]:
        """Return the totals as JSON has them."""
        return {
            "files": self.files,
            "complete": self.complete,
            **self.new._asdict(),
            "seconds": self.seconds,
            "tokens_per_second": self.speed,
        }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class Settings(NamedTuple):
    """How to annotate; see the help of the command."""

    model: str
    format: str | None
    to: str
    scores: bool
    overwrite: bool
    strict: bool
    code: Path | None


class Job(NamedTuple):
    """A file to annotate.

    target (Target | None): Its output, None for standard output.
    identity (Mapping[str, Any]): What an output depends on, by names for users.
    """

    source: Path
    target: Target | None
    identity: Mapping[str, Any]


class Step(NamedTuple):
    """News of a run: a portion is done, or a file begins or ends, or a line is broken.

    counts (Counts): What is new.
    n_bytes (int): Of the input.
    messages (tuple[str, ...]): Of broken lines.
    before (Counts | None): With the beginning of a file, what earlier runs have done of it.
    seconds (float): Spent on it.
    """

    counts: Counts = Counts()
    n_bytes: int = 0
    messages: tuple[str, ...] = ()
    before: Counts | None = None
    seconds: float = 0.0


def tag(
    model: str | Path,
    files: Sequence[Path],
    output: Path,
    format_name: str | None = None,
    to: str | None = None,
    *,
    scores: bool = False,
    processes: int = 1,
    overwrite: bool = False,
    strict: bool = False,
    code: Path | None = None,
) -> Done:
    """Annotate files; see the help of the command for the arguments.

    RAISES CrfError: On settings that cannot work, files that cannot be read, or an output of other settings.
    RAISES FormatError, DataError: With `strict`, at the first line that is broken.
    """
    settings = Settings(str(model), format_name, to or _target_of(output), scores, overwrite, strict, code)
    if settings.to not in TARGETS:
        check_target(settings.to, form_of(spacy.blank("xx"), ()), scores)
    jobs = make_jobs(settings, files, output)
    if processes > 1 and output == STDIN:
        raise ConfigError("--processes: several cannot write to standard output. Give a folder by --output.")
    complete, due = list[tuple[Job, State]](), list[tuple[Job, State]]()
    for job in jobs:
        state = State() if overwrite or job.target is None else job.target.state(job.identity)
        (complete if state.done and job.target and job.target.parts() else due).append((job, state))
    before = Counts()
    for _, state in complete:
        before = before.plus(state.counts)
    todo = [job for job, _ in due]
    n_processes = min(processes, len(todo))
    steps = _in_processes(settings, todo, n_processes) if n_processes > 1 else _in_turn(settings, todo)
    with _progress(todo) as show:
        new, earlier, seconds = _follow(steps, show)
    whole = before.plus(new).plus(earlier)
    return Done(whole, new, len(todo), len(complete), seconds)


def _follow(steps: Iterator[Step], show: Callable[[Step, Counts, float], None]) -> tuple[Counts, Counts, float]:
    new, earlier, started = Counts(), Counts(), 0.0
    for step in steps:
        started = started or perf_counter() - step.seconds
        new = new.plus(step.counts)
        earlier = earlier.plus(step.before or Counts())
        show(step, new, perf_counter() - started)
    return new, earlier, perf_counter() - started if started else 0.0


@contextmanager
def _progress(jobs: Sequence[Job]) -> Iterator[Callable[[Step, Counts, float], None]]:
    """Yield a function that shows a step: a bar on a terminal, and broken lines on stderr."""
    sizes = [job.source.stat().st_size for job in jobs if job.source != STDIN and job.source.suffix != ".gz"]
    total = sum(sizes) if len(sizes) == len(jobs) else None
    with tqdm(total=total, disable=None, leave=False, file=sys.stderr, unit="B", unit_scale=True) as bar:

        def show(step: Step, new: Counts, seconds: float) -> None:
            for message in step.messages:
                with tqdm.external_write_mode(file=sys.stderr):
                    print(message, file=sys.stderr)
            bar.set_postfix_str(f"{new.tokens / max(seconds, 1e-9):,.0f} tokens/s", refresh=False)
            bar.update(step.n_bytes)

        yield show


# What is to be done


def _target_of(output: Path) -> str:
    """Return the format that the name of an output tells, else JSON."""
    return next((to for to, ending in ENDINGS.items() if output.suffix == ending), "jsonl")


def make_jobs(settings: Settings, files: Sequence[Path], output: Path) -> list[Job]:
    """Return a job for each file.

    RAISES ConfigError: If two files have one output, or one is its own.
    RAISES FormatError: If a file cannot be read, or nothing tells what it is.
    """
    common = {
        "the model": _digest(settings.model),
        "--to": settings.to,
        "--scores": settings.scores,
        "the release": metadata.version("spacy-crfseq"),
    }
    jobs: list[Job] = []
    if STDIN in files and len(files) > 1:
        raise ConfigError("- stands for standard input, and can only be given alone.")
    if output == STDIN and settings.to == DOCBIN:
        raise ConfigError("--to spacy: a DocBin cannot be written to standard output. Give a folder by --output.")
    for source in files:
        kind, stamp = format_of(source, settings.format), None
        if source != STDIN:
            if not source.is_file():
                what = "this is a folder; give its files." if source.is_dir() else "no such file"
                raise FormatError(source, 0, f"{what} (looked from {Path.cwd()}).")
            status = source.stat()
            stamp = [str(source.resolve()), status.st_size, status.st_mtime_ns]
        target = None if output == STDIN else _target(source, output, settings.to, len(files))
        jobs.append(Job(source, target, {**common, "--format": kind, "the file": stamp}))
    _check_outputs(jobs, settings.overwrite)
    return jobs


def _target(source: Path, output: Path, to: str, n_files: int) -> Target:
    ending = ENDINGS.get(to, ".conll")
    is_file = n_files == 1 and not output.is_dir() and output.suffix in {*ENDINGS.values(), ".conll", ".iob", ".txt"}
    if is_file:
        return Target(output, to == DOCBIN)
    if output.is_file():
        what = f"{n_files} files are to be tagged" if n_files > 1 else f"its ending is not that of --to {to}"
        raise ConfigError(f"--output {output} is a file, but {what}. Give a folder, or another name.")
    name = "stdin" if source == STDIN else source.name.removesuffix(".gz")
    return Target(output / f"{Path(name).stem}{ending}", to == DOCBIN)


def _check_outputs(jobs: Sequence[Job], overwrite: bool) -> None:
    """RAISES ConfigError: If an output is also another's or an input, or would replace what was made from a stream."""
    taken: dict[Path, Path] = {}
    sources = {job.source.resolve() for job in jobs}
    for job in jobs:
        if job.target is None:
            continue
        path = job.target.path.resolve()
        if path in taken:
            raise ConfigError(f"{taken[path]} and {job.source} would both become {path}. Give them one by one.")
        if path in sources:
            raise ConfigError(f"{job.source}: the output would take its place. Choose another --output.")
        if job.source == STDIN and job.target.parts() and not overwrite:
            raise ConfigError(f"{job.target.parts()[0]} is there already. Use --overwrite, or another --output.")
        taken[path] = job.source


def _digest(model: str) -> str:
    """Return a hash of all files of a pipeline.

    RAISES ConfigError: If there is no such pipeline.
    """
    folder = Path(model)
    if not folder.is_dir():
        if not is_package(model):
            raise ConfigError(f"{model}: no such folder (looked from {Path.cwd()}), and no package of this name.")
        folder = get_package_path(model)
    found = blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        found.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    return found.hexdigest()


# The work


class Tagger:
    """A loaded pipeline that annotates one file after another."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._zone: ExitStack | None = None
        self._load()

    def _load(self) -> None:
        from ..pipeline.component import CRFComponent
        from ..training.compatibility import check_global

        self._nlp = spacy.load(self._settings.model)
        self._known, self._dropped = len(self._nlp.vocab.strings), 0
        for name, pipe in self._nlp.pipeline:
            if self._settings.scores and isinstance(pipe, CRFComponent):
                check_global(name, pipe.method.loss, "--scores")
                pipe.cfg["scores"] = True
        if self._settings.scores:
            crfs_of(dict(self._nlp.pipeline), [], self._settings.model)

    def run(self, job: Job) -> Iterator[Step]:
        """Annotate a file, and tell of each portion."""
        if job.target is None:
            yield from self._run(job, Stream(sys.stdout.buffer))
            return
        fresh = self._settings.overwrite or job.source == STDIN
        with job.target.opened(job.identity, fresh) as output:
            yield from self._run(job, output)
        if job.source == STDIN:
            job.target.forget()

    def _run(self, job: Job, output: Output | Stream) -> Iterator[Step]:
        kind = str(job.identity["--format"])
        given = given_columns(self._nlp, kind)
        write = self._writer(given)
        place, counts = output.state.place, output.state.counts
        yield Step(before=counts, n_bytes=_bytes(kind, place))
        if output.state.done:
            return
        started = perf_counter()
        for portion in _portions(read_records(job.source, kind, given, place)):
            new, messages = self._annotate(job.source, portion, output, write)
            counts, read = counts.plus(new), portion[-1][1]
            output.commit(read, counts)
            yield Step(new, _bytes(kind, read) - _bytes(kind, place), messages, seconds=perf_counter() - started)
            place, started = read, perf_counter()
        output.commit(place, counts, done=True)

    def _writer(self, given: Sequence[str]) -> Write:
        to, form = self._settings.to, form_of(self._nlp, given)
        check_target(to, form, self._settings.scores)
        return (lambda doc, record: "") if to == DOCBIN else make_write(to, form, self._settings.scores)

    def _annotate(
        self, source: Path, portion: Sequence[Piece], output: Output | Stream, write: Write
    ) -> tuple[Counts, tuple[str, ...]]:
        """Annotate a portion; return what was done and what is wrong with broken lines."""
        counts, messages = Counts(), list[str]()
        for first in range(0, len(portion), BATCH):
            for found in self._batch(source, portion[first : first + BATCH], write, output):
                if isinstance(found, CrfError):
                    if self._settings.strict:
                        raise found
                    messages.append(str(found))
                    counts = counts.plus(Counts(broken=1))
                else:
                    counts = counts.plus(Counts(1, found))
        self._change_zone()
        return counts, tuple(messages)

    def _change_zone(self) -> None:
        """Between two portions, end a memory zone that has grown large, and begin the next one.

        The first words that come stay for good.
        """
        strings = len(self._nlp.vocab.strings)
        if strings - self._known < ZONE_STRINGS:
            return
        self.close()
        if self._dropped > RENEW_STRINGS:
            del self._nlp
            gc.collect()
            self._load()
            return
        self._dropped += strings - len(self._nlp.vocab.strings)
        self._known = len(self._nlp.vocab.strings)
        self._zone = ExitStack()
        self._zone.enter_context(self._nlp.memory_zone())

    def close(self) -> None:
        """End the memory zone."""
        if self._zone is not None:
            self._zone.close()
            self._zone = None

    def _batch(
        self, source: Path, batch: Sequence[Piece], write: Write, output: Output | Stream
    ) -> Iterator[int | CrfError]:
        """Yield, in the order of the records, the tokens of one or what is wrong with it."""
        records = [record for record, _ in batch if not isinstance(record, FormatError)]
        done: Iterator[tuple[Doc, str] | CrfError]
        try:
            done = iter(self._together(records, write))
        except ConfigError:
            raise
        except Exception:  # one of the texts is at fault: which?
            done = (self._alone(source, record, write) for record in records)
        for record, _ in batch:
            found = record if isinstance(record, FormatError) else next(done)
            if isinstance(found, CrfError):
                yield found
                continue
            output.write(*found)
            yield len(found[0])

    def _together(self, records: Sequence[Record], write: Write) -> list[tuple[Doc, str]]:
        docs = [self._doc(record) for record in records]
        found = self._nlp.pipe(docs, batch_size=BATCH)
        return [(doc, write(doc, record)) for doc, record in zip(found, records, strict=True)]

    def _alone(self, source: Path, record: Record, write: Write) -> tuple[Doc, str] | CrfError:
        try:
            return self._together([record], write)[0]
        except Exception as error:
            return FormatError(source, record.line, f"cannot be annotated: {error}")

    def _doc(self, record: Record) -> Doc:
        doc = make_doc(self._nlp, record)
        others = {key: value for key, value in record.entry.items() if key != "text"}
        if others and self._settings.to == DOCBIN:
            msgpack_dumps(others)  # raises here, where the line is known, if a DocBin cannot hold it
            doc.user_data[OTHER_KEYS] = others
        return doc


def _bytes(kind: str, place: Place) -> int:
    return 0 if kind == DOCBIN else place.offset


Piece = tuple[Record | FormatError, Place]


def _portions(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Cut records into portions, the same ones whatever portion reading began with."""
    portion: list[Piece] = []
    characters = 0
    for piece, following in _with_next(pieces):
        portion.append(piece)
        characters += 0 if isinstance(piece[0], FormatError) else piece[0].size
        full = len(portion) >= PORTION_TEXTS or characters >= PORTION_CHARACTERS
        if full and (following is None or following[1] != piece[1]):  # two records may end at one place
            yield portion
            portion, characters = [], 0
    if portion:
        yield portion


def _with_next(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, Piece | None]]:
    last: Piece | None = None
    for piece in pieces:
        if last is not None:
            yield last, piece
        last = piece
    if last is not None:
        yield last, None


# One process or several


def _in_turn(settings: Settings, jobs: Sequence[Job]) -> Iterator[Step]:
    if jobs:
        with closing(Tagger(settings)) as tagger:
            yield from chain.from_iterable(map(tagger.run, jobs))


def _in_processes(settings: Settings, jobs: Sequence[Job], n_processes: int) -> Iterator[Step]:
    """Let workers take one file after another; when they or this process end, the others do so at their next step."""
    import multiprocessing
    from multiprocessing.connection import Connection, wait

    context = multiprocessing.get_context("spawn")
    due, workers = deque(jobs), dict[Connection, Any]()
    try:
        for _ in range(n_processes):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(settings, theirs), daemon=True)
            worker.start()
            theirs.close()
            workers[ours] = worker
            ours.send(due.popleft())
        while workers:
            for ready in wait(list(workers)):
                assert isinstance(ready, Connection)
                news = _receive(ready, workers[ready])
                if isinstance(news, Step):
                    yield news
                elif isinstance(news, BaseException):
                    raise news
                elif due:
                    ready.send(due.popleft())
                else:
                    ready.close()
                    workers.pop(ready).join()
    finally:
        for ours, worker in workers.items():
            ours.close()
            worker.terminate()
            worker.join()


def _receive(ours: Connection, worker: Any) -> Any:
    try:
        return ours.recv()
    except EOFError:
        worker.join()
        raise DataError(
            f"A process has died (exit code {worker.exitcode}), perhaps for lack of memory. Give the command again to "
            "go on, with fewer --processes."
        ) from None


def _work(settings: Settings, theirs: Connection) -> None:
    """Annotate the files that come in; an answer that is no step says that one is done."""
    try:
        load_code(settings.code)
        tagger = Tagger(settings)
        while True:
            for step in tagger.run(theirs.recv()):
                theirs.send(step)
            theirs.send(None)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # whoever began this is gone
    except Exception as error:
        theirs.send(error if isinstance(error, CrfError) else _portable(error))


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent, whatever it holds."""
    return OSError(str(error)) if isinstance(error, OSError) else RuntimeError(f"{type(error).__name__}: {error}")
