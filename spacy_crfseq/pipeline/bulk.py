"""Large amounts of text annotated, in memory that does not grow, in runs that can be killed and go on.

A run is a map over parts of files: `Tagger.annotate` turns a part, up to `PART_TEXTS` texts, into bytes of the output.
A runner does this and yields the results in order: `map` in this process, `in_processes` in several, the `map` of a
cluster there.  Only the process that has begun the run reads the input and writes.  To go on after a killed run is to
skip the parts that are finished.

Texts are annotated inside memory zones of spaCy.  The first words stay, which are most of what comes later.  Reloading
the pipeline frees what zones leave in spaCy's tables.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import tee
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

from spacy.tokens import Doc, DocBin
from srsly import msgpack_dumps

from .. import processes, threads
from ..corpora import DOCBIN, Preset
from ..corpora.lines import STDIN, opened
from ..corpora.outputs import Counts, Output
from ..errors import ConfigError, CrfError, DataError, FormatError
from ..files import collecting
from .select import crfs_of, load_pipeline
from .texts import Document, given_columns, make_doc, read_documents, unit_of
from .written import Write, check_target, form_of, make_write

PART_TEXTS, PART_CHARACTERS = 2048, 400_000
"""A part ends when it has one of these; a killed run loses no more for each process."""
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


class File(NamedTuple):
    """A file to annotate, its layout, and its output."""

    source: Path
    layout: Preset
    output: Output


class Part(NamedTuple):
    """Texts of a file, and errors in place of those that cannot be read."""

    source: Path
    layout: Preset
    texts: list[Document | FormatError]


class Annotated(NamedTuple):
    """A part of an output, and what is wrong with texts that it lacks."""

    data: bytes
    counts: Counts
    messages: tuple[str, ...]


class Due(NamedTuple):
    """A part to annotate, the bytes of the input from the end of the part before it, and whether it is the last."""

    file: File
    n_bytes: int
    last: bool
    part: Part


Runner: TypeAlias = Callable[[Callable[[Part], Annotated], Iterator[Part]], Iterator[Annotated]]
"""Applies a function to parts, perhaps in other processes, and yields the results in the same order; such as `map`."""


def annotate(tagger: Tagger, files: Sequence[File], run: Runner = map) -> Iterator[tuple[Due, Annotated]]:
    """Annotate files and write the outputs; yield what is done.  RAISES CrfError: See the help of ``crfseq tag``."""
    (due, ahead), name, settings = tee(_due(tagger, files)), uuid4().hex, tagger.settings
    _taggers[name] = tagger  # which processes inherit that are forked
    if Path(settings.model).is_dir():  # other processes may have another working directory
        settings = settings._replace(model=str(Path(settings.model).absolute()))
    try:
        done = run(partial(_annotate_part, settings, name), (each.part for each in ahead))
        for annotated, each in zip(done, due, strict=True):
            each.file.output.add(annotated.data, annotated.counts, each.last)
            yield each, annotated
    finally:
        _taggers.pop(name, None)
        for file in files:
            file.output.close()
        tagger.close()
        gc.unfreeze()


def _due(tagger: Tagger, files: Sequence[File]) -> Iterator[Due]:
    """Yield the parts of files that earlier runs have not finished."""
    for file in files:
        source, layout, output = file
        output.open(tagger.settings.overwrite or source == STDIN)
        if output.state.done:
            continue
        is_stream = not source.is_dir() and layout.name != DOCBIN
        with opened(source) if is_stream else nullcontext() as stream:
            at, left = 0, output.state.parts
            for texts, last in _parts(read_documents(source, layout, stream, join=tagger.joins)):
                left -= 1
                if left < 0:
                    now = stream_position(stream)
                    yield Due(file, now - at, last, Part(source, layout, texts))
                    at = now


def stream_position(stream: Any) -> int:
    """Return how many bytes of a file have been read, packed ones if it is packed; 0 of what is no file."""
    try:
        return int(getattr(stream, "fileobj", stream).tell())
    except (AttributeError, OSError):
        return 0


def _parts(texts: Iterable[Document | FormatError]) -> Iterator[tuple[list[Document | FormatError], bool]]:
    """Cut texts into parts, and tell which is the last; it may be empty."""
    part: list[Document | FormatError] = []
    characters = 0
    for text in texts:
        if len(part) >= PART_TEXTS or characters >= PART_CHARACTERS:
            yield part, False
            part, characters = [], 0
        part.append(text)
        characters += 0 if isinstance(text, FormatError) else text.size
    yield part, True


class Tagger:
    """A loaded pipeline that annotates one part after another."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self._zone = settings, ExitStack()
        self._load()
        check_target(settings.to, form_of(self._nlp, ()), settings.scores)

    def _load(self) -> None:
        from ..training.compatibility import check_global

        self._nlp = load_pipeline(self.settings.model)
        self._known, self._dropped, self._zoned = len(self._nlp.vocab.strings), 0, False
        if hasattr(self._nlp.tokenizer, "max_cache_size"):
            self._nlp.tokenizer.max_cache_size = PIECES
        if self.settings.scores:
            for name, pipe in crfs_of(dict(self._nlp.pipeline), [], self.settings.model).items():
                check_global(name, pipe.method.loss, "--scores")
                pipe.cfg["scores"] = True
        gc.freeze()  # collections, of which many Docs cause many, pass over what stays

    @property
    def joins(self) -> bool:
        """Whether the sentences of a marked document are one text."""
        return unit_of(self._nlp) == "document"

    def annotate(self, part: Part) -> Annotated:
        """Return a part of the output.  RAISES FormatError: At a malformed text, with `strict`."""
        given, to, scores = given_columns(self._nlp, part.layout), self.settings.to, self.settings.scores
        form = form_of(self._nlp, given)
        write: Write = (lambda *_: "") if to == DOCBIN else make_write(to, form, scores)
        binary, lines = DocBin(store_user_data=True) if to == DOCBIN else None, list[str]()
        n_texts = n_tokens = 0
        messages: list[str] = []
        for first in range(0, len(part.texts), BATCH):
            batch = part.texts[first : first + BATCH]
            texts = [text for text in batch if not isinstance(text, FormatError)]
            try:
                done: Iterator[tuple[Doc, str] | CrfError] = iter(self._together(texts, given, write))
            except ConfigError:
                raise
            except Exception:  # find the text that causes it
                done = (self._alone(part.source, text, given, write) for text in texts)
            for text in batch:
                result = text if isinstance(text, FormatError) else next(done)
                if isinstance(result, CrfError):
                    if self.settings.strict:
                        raise result
                    messages.append(str(result))
                    continue
                lines.append(result[1])
                n_texts, n_tokens = n_texts + 1, n_tokens + len(result[0])
                if binary is not None:
                    binary.add(result[0])
        data = "".join(lines).encode("utf8") if binary is None else binary.to_bytes() if n_texts else b""
        self._change_zone()
        return Annotated(data, Counts(n_texts, n_tokens, len(messages)), tuple(messages))

    def entries(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the annotation of texts in the form of Doc.to_json."""
        write = make_write("jsonl", form_of(self._nlp, ()), self.settings.scores)
        documents, entries = [Document(0, text) for text in texts], list[dict[str, Any]]()
        for first in range(0, len(documents), BATCH):
            entries += [json.loads(line) for _, line in self._together(documents[first : first + BATCH], (), write)]
        self._change_zone()
        return entries

    def _change_zone(self) -> None:
        """Between two parts, end a memory zone that has grown large; the first words that come stay for good."""
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

    def _together(self, texts: Sequence[Document], given: Sequence[str], write: Write) -> list[tuple[Doc, str]]:
        with collecting():
            gc.disable()  # Docs have no cycles of references, but many objects to look at
            docs = self._nlp.pipe([self._doc(text, given) for text in texts], batch_size=BATCH)
            return [(doc, write(doc, text)) for doc, text in zip(docs, texts, strict=True)]

    def _alone(self, source: Path, text: Document, given: Sequence[str], write: Write) -> tuple[Doc, str] | CrfError:
        try:
            return self._together([text], given, write)[0]
        except Exception as error:
            return FormatError(source, text.line, f"cannot be annotated: {error}")

    def _doc(self, text: Document, given: Sequence[str]) -> Doc:
        doc = make_doc(self._nlp, text, given)
        others = {key: value for key, value in text.entry.items() if key != "text"}
        if others and self.settings.to == DOCBIN:
            msgpack_dumps(others)  # raises here, where the line is known, if a DocBin cannot hold it
            doc.user_data[OTHER_KEYS] = others
        return doc


# In any process

_taggers: dict[str, Tagger] = {}
"""The pipeline of this process, by the name of a run."""
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


def _annotate_part(settings: Settings, run: str, part: Part) -> Annotated:
    """Annotate a part, perhaps in another process; errors are such as can be sent back."""
    with tagger_of(settings, run) as tagger:
        try:
            return tagger.annotate(part)
        except (CrfError, OSError):
            raise
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


def in_processes(n_processes: int, function: Callable[[Part], Annotated], parts: Iterator[Part]) -> Iterator[Annotated]:
    """Yield the results of a function in so many processes, which are forked where that is possible.

    RAISES DataError: If a process dies.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    can_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    context, waiting = multiprocessing.get_context("fork" if can_fork else "spawn"), deque[Any]()
    pool = ProcessPoolExecutor(n_processes, context, _begin_process, (os.getpid(),))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of other libraries
            pool.submit(int).result()  # starts all processes
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > 2 * n_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        what = (
            "A process has died, perhaps for lack of memory. Give the command again to go on, with fewer --processes."
        )
        raise DataError(what) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_process(parent: int) -> None:
    """Leave Ctrl-C to the parent process, and end when that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.end_with(parent)
