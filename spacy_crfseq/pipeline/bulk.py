"""Large amounts of text annotated, in memory that does not grow, in runs that can be killed and go on.

A file is cut into portions, several of which are annotated inside a memory zone of spaCy's.  The first words stay,
which are most of what comes later.  Reloading the pipeline frees what zones leave in spaCy's tables.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from srsly import msgpack_dumps

from .. import threads
from ..corpora import DOCBIN, Preset
from ..corpora.layouts import STDIN
from ..corpora.records import Piece, Place, Record
from ..corpora.resumable import Counts, Output, Target, stream_output
from ..errors import ClusterError, ConfigError, CrfError, DataError, FormatError
from ..files import collecting
from .columns import unit_of
from .select import crfs_of, load_pipeline
from .texts import given_columns, make_doc, read_records
from .written import Write, check_target, form_of, make_write

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spacy.tokens import Doc

PORTION_TEXTS, PORTION_CHARACTERS = 2048, 400_000
"""A portion ends when it has one of these; a killed run loses no more."""
FIRST_STRINGS, ZONE_STRINGS = 60_000, 15_000
"""Words and affixes that stay, and new ones after which a memory zone ends: about 30 and 10 MB."""
PIECES = 100_000
"""Pieces of text between white space whose tokens the tokenizer remembers; 10,000 by default."""
BATCH = 256
"""Texts that components annotate at a time."""
RENEW_STRINGS = 2_000_000
"""Words and affixes in memory zones after which the pipeline is loaded anew."""
OTHER_KEYS = "meta"
"""Key in ``doc.user_data`` of the other entries of a JSON line."""


class Settings(NamedTuple):
    """How to annotate; see the help of ``crfseq tag``.  A new process calls `prepare` first, to load a user's code."""

    model: str
    to: str
    scores: bool = False
    overwrite: bool = False
    strict: bool = False
    prepare: Callable[[], object] = tuple


class Job(NamedTuple):
    """A file to annotate: its output (None for standard output), its layout, and by names for users what an output
    depends on."""

    source: Path
    target: Target | None
    layout: Preset
    identity: Mapping[str, Any]

    def absolute(self) -> Job:
        """Return the job for a process in another folder."""
        target = self.target and Target(self.target.path.absolute(), self.target.make_part)
        return self._replace(source=self.source.absolute(), target=target)


class Step(NamedTuple):
    """News of a run: a portion is done, or a file begins or ends, or a line is broken.

    counts, n_bytes, messages: What is new: texts, bytes of the input, what is wrong with broken lines.
    before (Counts): With the beginning of a file, what earlier runs have done of it.
    """

    counts: Counts = Counts()
    n_bytes: int = 0
    messages: tuple[str, ...] = ()
    before: Counts = Counts()
    seconds: float = 0.0


def annotate(settings: Settings, jobs: Sequence[Job], n_processes: int = 1) -> Iterator[Step]:
    """Annotate files in so many processes; yield what is done.  RAISES CrfError: See the help of ``crfseq tag``."""
    try:
        if n_processes > 1:
            yield from _in_processes(settings, jobs, n_processes)
        elif jobs:
            with closing(Tagger(settings)) as tagger:
                yield from chain.from_iterable(map(tagger.run, jobs))
    finally:
        gc.unfreeze()


def annotate_on(client: Any, settings: Settings, jobs: Sequence[Job]) -> Iterator[Step]:
    """Annotate files on the workers of a Dask cluster, which share the files of this machine; yield what is done.

    RAISES CrfError: As `annotate`, and if the cluster is lost.
    """
    from .cluster import run_jobs

    names = {job.source.absolute(): job.source for job in jobs}
    if Path(settings.model).is_dir():
        settings = settings._replace(model=str(Path(settings.model).absolute()))
    done: dict[int, tuple[Counts, int]] = {}
    try:
        work, moved = partial(_on_worker, settings), [job.absolute() for job in jobs]
        for number, first, step in run_jobs(client, work, moved, [str(job.source) for job in jobs]):
            shown, path = str(jobs[number].source), str(jobs[number].source.absolute())
            step = step._replace(messages=tuple(message.replace(path, shown, 1) for message in step.messages))
            counts, n_bytes = done.get(number, (Counts(), 0))
            if first and number in done:  # a worker goes on where another has died, perhaps beyond the last report
                step = Step(step.before.minus(counts), step.n_bytes - n_bytes)
            done[number] = counts.plus(step.before).plus(step.counts), n_bytes + step.n_bytes
            yield step
    except FormatError as error:
        raise FormatError(names.get(error.file, error.file), error.line, error.what) from None
    except ClusterError as error:
        raise ClusterError(f"{error} Give the command again to go on.") from error


_taggers: dict[str, Tagger] = {}
_turn = threads.surviving(Lock(), waits=False)


@contextmanager
def tagger_of(settings: Settings, run: str) -> Iterator[Tagger]:
    """Yield the pipeline of this process, loaded once in a run; threads take turns."""
    with _turn:
        if run not in _taggers:
            for old in list(_taggers):
                _taggers.pop(old).close()
            gc.unfreeze()
            settings.prepare()
            _taggers[run] = Tagger(settings)
        yield _taggers[run]


def _on_worker(settings: Settings, job: Job, run: str) -> Iterator[Step]:
    with tagger_of(settings, run) as tagger:
        try:
            yield from tagger.run(job)
        except Exception as error:
            raise _picklable(error) from None


class Tagger:
    """A loaded pipeline that annotates one file after another."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._zone = settings, ExitStack()
        self._load()

    def _load(self) -> None:
        from ..training.compatibility import check_global

        self._nlp = load_pipeline(self._settings.model)
        self._known, self._dropped, self._zoned = len(self._nlp.vocab.strings), 0, False
        if hasattr(self._nlp.tokenizer, "max_cache_size"):
            self._nlp.tokenizer.max_cache_size = PIECES
        if self._settings.scores:
            for name, pipe in crfs_of(dict(self._nlp.pipeline), [], self._settings.model).items():
                check_global(name, pipe.method.loss, "--scores")
                pipe.cfg["scores"] = True
        gc.freeze()  # collections, of which many Docs cause many, pass over what stays

    def run(self, job: Job) -> Iterator[Step]:
        """Annotate a file, and report each portion."""
        if job.target is None:
            yield from self._run(job, stream_output(sys.stdout.buffer))
            return
        with job.target.opened(job.identity, self._settings.overwrite or job.source == STDIN) as output:
            yield from self._run(job, output)
        if job.source == STDIN:
            job.target.forget()

    def entries(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the annotation of texts in the form of Doc.to_json."""
        write = make_write("jsonl", form_of(self._nlp, ()), self._settings.scores)
        records, found = [Record(0, text) for text in texts], list[dict[str, Any]]()
        for first in range(0, len(records), BATCH):
            found += [json.loads(line) for _, line in self._together(records[first : first + BATCH], write)]
        self._change_zone()
        return found

    def _run(self, job: Job, output: Output) -> Iterator[Step]:
        layout, to, scores = job.layout, self._settings.to, self._settings.scores
        given = given_columns(self._nlp, layout)
        check_target(to, form := form_of(self._nlp, given), scores)
        write: Write = (lambda *_: "") if to == DOCBIN else make_write(to, form, scores)
        place, counts = output.state.place, output.state.counts
        yield Step(before=counts, n_bytes=_bytes(layout, place))
        if output.state.done:
            return
        started = perf_counter()
        records = read_records(job.source, layout, given, place, documents=unit_of(self._nlp) == "document")
        for portion in _portions(records):
            new, messages = self._annotate(job.source, portion, output, write)
            counts, read = counts.plus(new), portion[-1][1]
            output.commit(read, counts)
            yield Step(new, _bytes(layout, read) - _bytes(layout, place), messages, seconds=perf_counter() - started)
            place, started = read, perf_counter()
        output.commit(place, counts, done=True)

    def _annotate(
        self, source: Path, portion: Sequence[Piece], output: Output, write: Write
    ) -> tuple[Counts, tuple[str, ...]]:
        """Annotate a portion; return what was done and what is wrong with broken lines."""
        n_texts = n_tokens = 0
        messages: list[str] = []
        for first in range(0, len(portion), BATCH):
            batch = portion[first : first + BATCH]
            records = [record for record, _ in batch if not isinstance(record, FormatError)]
            try:
                done: Iterator[tuple[Doc, str] | CrfError] = iter(self._together(records, write))
            except ConfigError:
                raise
            except Exception:  # find the text that causes it
                done = (self._alone(source, record, write) for record in records)
            for record, _ in batch:
                found = record if isinstance(record, FormatError) else next(done)
                if not isinstance(found, CrfError):
                    output.write(*found)
                    n_texts, n_tokens = n_texts + 1, n_tokens + len(found[0])
                elif self._settings.strict:
                    raise found
                else:
                    messages.append(str(found))
        self._change_zone()
        return Counts(n_texts, n_tokens, len(messages)), tuple(messages)

    def _change_zone(self) -> None:
        """Between two portions, end a memory zone that has grown large; the first words that come stay for good."""
        strings = len(self._nlp.vocab.strings)
        if strings - self._known < (ZONE_STRINGS if self._zoned else FIRST_STRINGS):
            return
        self.close()
        if self._dropped > RENEW_STRINGS:
            del self._nlp
            gc.unfreeze()
            gc.collect()
            self._load()
            return
        self._known = len(self._nlp.vocab.strings)
        self._dropped += strings - self._known
        self._zone.enter_context(self._nlp.memory_zone())
        self._zoned = True

    def close(self) -> None:
        """End the memory zone, if there is one."""
        self._zone.close()

    def _together(self, records: Sequence[Record], write: Write) -> list[tuple[Doc, str]]:
        with collecting():
            gc.disable()  # Docs have no cycles of references, but many objects to look at
            found = self._nlp.pipe([self._doc(record) for record in records], batch_size=BATCH)
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


def _bytes(layout: Preset, place: Place) -> int:
    return 0 if layout.name == DOCBIN or layout.form is not None else place.offset


def _portions(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Cut records into portions, the same ones whatever portion reading began with."""
    portion: list[Piece] = []
    characters = 0
    for piece in pieces:
        full = len(portion) >= PORTION_TEXTS or characters >= PORTION_CHARACTERS
        if full and portion[-1][1] != piece[1]:  # two records may end at one place
            yield portion
            portion, characters = [], 0
        portion.append(piece)
        characters += 0 if isinstance(piece[0], FormatError) else piece[0].size
    if portion:
        yield portion


def _in_processes(settings: Settings, jobs: Sequence[Job], n_processes: int) -> Iterator[Step]:
    """Let workers take one file after another; when they or this process end, the others do so at their next step.

    Where processes can be forked, the pipeline is loaded once.
    """
    import multiprocessing
    from multiprocessing.connection import Connection, wait

    forked = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    context: Any = multiprocessing.get_context("fork" if forked else "spawn")
    tagger = Tagger(settings) if forked else None
    due, workers = deque(jobs), dict[Connection, Any]()
    try:
        for _ in range(n_processes):
            ours, theirs = context.Pipe()
            inherited = [*workers, ours] if forked else []
            worker = context.Process(target=_work, args=(settings, theirs, tagger, inherited), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of other libraries
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


def _work(settings: Settings, theirs: Connection, tagger: Tagger | None, inherited: Sequence[Connection]) -> None:
    try:
        for connection in inherited:  # while these are open here, no other worker sees that the parent has ended
            connection.close()
        if tagger is None:
            settings.prepare()
            tagger = Tagger(settings)
        while True:
            for step in tagger.run(theirs.recv()):
                theirs.send(step)
            theirs.send(None)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # the parent process has ended
    except Exception as error:
        theirs.send(_picklable(error))


def _picklable(error: Exception) -> Exception:
    """Return an error that can be sent to another process; some hold what cannot."""
    if isinstance(error, CrfError):
        return error
    return OSError(str(error)) if isinstance(error, OSError) else RuntimeError(f"{type(error).__name__}: {error}")
