"""A pipeline that turns parts of files into bytes of outputs, in memory that does not grow, in one process or several.

spaCy's ``nlp.pipe(n_process=2)`` sends whole Docs between processes: with crf_ner, it annotates and writes 29,000
tokens of news per second on two busy cores, two processes here 154,000, and one 209,000 on a free core.  So processes
get the texts of a part, up to `PART_TEXTS`, and return the lines that they have made of it.

Texts are annotated inside memory zones of spaCy.  The first words stay, which are most of what comes later.  Reloading
the pipeline frees what zones leave in spaCy's tables.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from spacy.tokens import Doc, DocBin
from srsly import msgpack_dumps

from ... import processes, threads
from ...cli.console import load_code
from ...corpora import DOCBIN, Preset
from ...corpora.lines import opened
from ...errors import ConfigError, CrfError, DataError, FormatError
from ...files import collecting
from ...pipeline.select import crfs_of, load_pipeline
from ...pipeline.texts import Document, given_columns, make_doc, read_documents, unit_of
from ...pipeline.written import Write, check_target, form_of, make_write

PART_TEXTS, PART_CHARACTERS = 2048, 400_000
"""A part ends when it has one of these."""
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
Item = TypeVar("Item")
Result = TypeVar("Result")


class TagSettings(NamedTuple):
    """The pipeline and the output; see the help of ``crfseq tag``.

    to (str): The layout of the outputs; empty for that of the ending of the output, else jsonl.
    scores (bool): Also write probabilities.
    strict (bool): Stop at the first malformed line.
    code (Path | None): A Python file that new processes import first.
    scheme (str): That of the tags of spans in columns.
    """

    model: str
    to: str = ""
    scores: bool = False
    strict: bool = False
    code: Path | None = None
    scheme: str = "IOB2"


class TagCounts(NamedTuple):
    """Numbers of texts and tokens that are annotated, and of malformed lines that are skipped."""

    texts: int = 0
    tokens: int = 0
    broken: int = 0

    def plus(self, other: TagCounts) -> TagCounts:
        """Return the sums."""
        return TagCounts(*map(add, self, other))


class TextPart(NamedTuple):
    """Texts of a file, errors in place of those that cannot be read, and the bytes that they take there."""

    source: Path
    layout: Preset
    texts: list[Document | FormatError]
    n_bytes: int


class TaggedPart(NamedTuple):
    """A part of an output, and messages on texts that it lacks."""

    data: bytes
    counts: TagCounts
    messages: tuple[str, ...]


def parts_of(source: Path, layout: Preset, *, join: bool) -> Iterator[TextPart]:
    """Yield the parts of a file, at least one; join: Make one text of the sentences of a marked document."""
    is_stream = not source.is_dir() and layout.name != DOCBIN
    with opened(source) if is_stream else nullcontext() as stream:
        at = 0
        for texts in _in_parts(read_documents(source, layout, stream, join=join)):
            now = stream_position(stream)
            yield TextPart(source, layout, texts, now - at)
            at = now


def stream_position(stream: Any) -> int:
    """Return how many bytes of a file have been read, packed ones if it is packed; 0 of what is no file."""
    try:
        return int(getattr(stream, "fileobj", stream).tell())
    except (AttributeError, OSError):
        return 0


def _in_parts(texts: Iterable[Document | FormatError]) -> Iterator[list[Document | FormatError]]:
    part: list[Document | FormatError] = []
    characters = 0
    for text in texts:
        if len(part) >= PART_TEXTS or characters >= PART_CHARACTERS:
            yield part
            part, characters = [], 0
        part.append(text)
        characters += 0 if isinstance(text, FormatError) else text.size
    yield part


class Tagger:
    """A loaded pipeline that annotates one part after another.

    RAISES ConfigError: If the output cannot hold what the pipeline predicts.
    """

    def __init__(self, settings: TagSettings) -> None:
        self.settings, self._zone = settings, ExitStack()
        self._load()
        check_target(settings.to, form_of(self._nlp, ()), settings.scores, settings.scheme)

    def _load(self) -> None:
        from ...training.compatibility import check_global

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

    def annotate(self, part: TextPart) -> TaggedPart:
        """Return a part of the output.  RAISES FormatError: At a malformed text, if strict."""
        given, to = given_columns(self._nlp, part.layout), self.settings.to
        form = form_of(self._nlp, given)
        settings = self.settings
        write: Write = (lambda *_: "") if to == DOCBIN else make_write(to, form, settings.scores, settings.scheme)
        binary, lines = DocBin(store_user_data=True) if to == DOCBIN else None, list[str]()
        n_texts = n_tokens = 0
        messages: list[str] = []
        for first in range(0, len(part.texts), BATCH):
            for result in self._written(part, part.texts[first : first + BATCH], given, write):
                if isinstance(result, CrfError):
                    if self.settings.strict:
                        raise result
                    messages.append(str(result))
                    continue
                doc, text = result
                lines.append(text)
                n_texts, n_tokens = n_texts + 1, n_tokens + len(doc)
                if binary is not None:
                    binary.add(doc)
        data = "".join(lines).encode("utf8") if binary is None else binary.to_bytes()
        self._change_zone()
        return TaggedPart(data, TagCounts(n_texts, n_tokens, len(messages)), tuple(messages))

    def _written(
        self, part: TextPart, batch: Sequence[Document | FormatError], given: Sequence[str], write: Write
    ) -> Iterator[tuple[Doc, str] | CrfError]:
        """Yield the annotated Docs of some texts and their lines, and errors in place of what has none."""
        texts = [text for text in batch if not isinstance(text, FormatError)]
        try:
            done: Iterator[tuple[Doc, str] | CrfError] = iter(self._together(texts, given, write))
        except ConfigError:
            raise
        except Exception:  # find the text that causes it
            done = (self._alone(part.source, text, given, write) for text in texts)
        for text in batch:
            yield text if isinstance(text, FormatError) else next(done)

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
        """End the memory zone, if there is one, and let collections see what stayed."""
        self._zone.close()


# In any process

_taggers: dict[str, Tagger] = {}
"""The pipeline of this process, by the name of a run."""
_turn = threads.surviving(Lock(), waits=False)


@contextmanager
def lent(tagger: Tagger, run: str) -> Iterator[None]:
    """Let `annotate_part` use a tagger in a run, here and in processes that are forked meanwhile."""
    _taggers[run] = tagger
    try:
        yield
    finally:
        _taggers.pop(run, None)
        tagger.close()
        gc.unfreeze()


def annotate_part(settings: TagSettings, run: str, part: TextPart) -> TaggedPart:
    """Annotate a part with the pipeline of this process, loaded once in a run; errors are such as can be sent back."""
    with _turn:  # threads of a Dask worker
        if run not in _taggers:
            for old in list(_taggers):
                _taggers.pop(old).close()
            gc.unfreeze()
            load_code(settings.code)
            _taggers[run] = Tagger(settings)
        try:
            return _taggers[run].annotate(part)
        except (CrfError, OSError):
            raise
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


def in_processes(n_processes: int, function: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
    """Yield the results of a function in some processes, in order; they are forked where that is possible.

    RAISES DataError: If a process dies.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    can_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    context, waiting = multiprocessing.get_context("fork" if can_fork else "spawn"), deque[Any]()
    pool = ProcessPoolExecutor(n_processes, context, _begin_process, (os.getpid(),))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of other libraries
            pool.submit(int).result()  # starts all processes
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * n_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        what = "A process has died, perhaps for lack of memory. Give the command again, with fewer --processes."
        raise DataError(what) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_process(parent: int) -> None:
    """Leave Ctrl-C to the parent process, and end when that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.end_with(parent)
