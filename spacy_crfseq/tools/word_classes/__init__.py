"""``crfseq word-classes``: learn classes of words from raw text, for the attributes `spacy_crfseq.WordClasses.v1`.

Martin, Liermann & Ney (1998), "Algorithms for bigram and trigram word clustering".
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import spacy
from tqdm import tqdm

from ... import threads
from ...cli.console import Rows, printer
from ...corpora.layouts import Asked, Format, asked
from ...corpora.outputs import check_output_file
from ...corpora.paths import resolve_all
from ...errors import ConfigError, DataError, count_of
from ...files import replacing

if TYPE_CHECKING:
    from spacy.language import Language

    from ...types import Ints
    from .learning import Bigrams, Exchange

COLUMNS = ("Classes", "Pass", "Moves", "Perplexity", "Seconds")
NAMES = ("classes", "pass", "moves", "perplexity", "seconds")
MIN_GAIN = 3e-5
"""A pass that raises the log-likelihood by a smaller part of it is the last one."""


class ClassSettings(NamedTuple):
    """How to learn classes.

    sizes: Numbers of classes, from the largest to the smallest.
    min_count: The least number of times that a word with a class occurs.
    max_words: The most words with a class.
    passes: The most passes over the words for each number of classes.
    n_threads: Threads; 0 is one for each core.
    """

    sizes: tuple[int, ...] = (500,)
    min_count: int = 5
    max_words: int = 1_000_000
    passes: int = 20
    n_threads: int = 0


def word_classes(
    raw: Sequence[Path],
    output: Path,
    settings: ClassSettings,
    *,
    coverage: Sequence[Path] = (),
    lang: str = "en",
    layout: Format = None,
    resume: bool = False,
    force: bool = False,
) -> list[Path]:
    """Learn classes of the words of some files, write them, and return the paths.

    coverage (Sequence[Path]): Files whose coverage is shown.
    lang (str): The language whose rules split the texts.
    resume (bool): Continue a run that was stopped.
    force (bool): Replace outputs, and begin anew where a run was stopped.
    RAISES KeyboardInterrupt: At Ctrl-C, after the classes so far are written.
    RAISES CrfError: If a file cannot be read, the text has too few words, an output exists without `force`, or there
        is no run to resume, or one of other texts or settings.
    """
    from .learning import BigramCounter, covered

    most, checkpoint = settings.sizes[0], output.with_name(f".{output.name}.checkpoint")
    outputs = {n: output if n == most else output.with_stem(f"{output.stem}-{n}") for n in settings.sizes}
    resolve_all(coverage)  # before hours of work
    for path in outputs.values():
        check_output_file(path, *raw, *coverage, force=force or resume)
    if resume and not checkpoint.exists():
        raise ConfigError(f"--resume: no run for {output} was stopped. Leave --resume out to begin one.")
    if checkpoint.exists() and not (resume or force):
        raise ConfigError(f"A run for {output} was stopped before its end. Give --resume to continue it, or --force.")
    nlp, counter = spacy.blank(lang), BigramCounter()
    for words in _read(nlp, raw, asked(layout)):
        counter.add(words)
    bigrams = counter.bigrams(settings.min_count, settings.max_words)
    del counter
    if len(bigrams.words) <= most:
        there = f"Words that occur {settings.min_count} times or more: {len(bigrams.words):,}"
        raise DataError(f"{most:,} classes are too many. {there}. Give more text, or lower --sizes or --min-count.")
    rows = [("RAW", bigrams.coverage)]
    rows += [(str(path), covered(_read(nlp, [path], asked(layout)), bigrams.words)) for path in coverage]
    cells = [(name, f"{n:,}", f"{a / (n or 1):.1%}", f"{m:,}", f"{b / (m or 1):.1%}") for name, (n, a, m, b) in rows]
    printer().table(cells, header=("Text", "Tokens", "Covered", "Types", "Covered"), aligns=("l", *"rrrr"))
    _learn(bigrams, settings, outputs, checkpoint, resume)
    return list(outputs.values())


def _read(nlp: Language, paths: Sequence[Path], layout: Asked) -> Iterator[list[str]]:
    from ...pipeline.corpus_reader import TextReader

    with tqdm(disable=None, leave=False, file=sys.stderr, unit=" tokens", unit_scale=True) as bar:
        for path in paths:
            for example in TextReader(path, layout, 0)(nlp):
                yield [token.text for token in example.reference if not token.is_space]
                bar.update(len(example.reference))


def _learn(bigrams: Bigrams, settings: ClassSettings, outputs: dict[int, Path], checkpoint: Path, resume: bool) -> None:
    from .learning import Exchange, cut, merge

    identity, n_threads = _digest(bigrams, settings.sizes), settings.n_threads or threads.available()
    size, done, start = settings.sizes[0], 0, None
    if resume:
        size, done, start = _load(checkpoint, identity, len(bigrams.words))
    rows = Rows(COLUMNS, NAMES, (7, 4, 10, 10, 8), "rrrrr")
    rows.begin()
    for n_classes in (n for n in settings.sizes if n <= size):
        exchange = Exchange(bigrams, n_classes, start)
        try:
            for number in range(done, settings.passes):
                began, before = perf_counter(), exchange.objective
                with _bar(len(bigrams.words), f"pass {number + 1}", " words") as bar:
                    moves = exchange.pass_over(n_threads, bar.update)
                _save(checkpoint, identity, n_classes, number + 1, exchange.classes)
                seconds = f"{perf_counter() - began:.1f}"
                rows.add([str(n_classes), str(number + 1), f"{moves:,}", f"{exchange.perplexity:.2f}", seconds])
                if number and exchange.objective - before < MIN_GAIN * abs(before):
                    break
        except KeyboardInterrupt:
            _save(checkpoint, identity, n_classes, number, exchange.classes)
            print("\nThe classes so far are kept; --resume continues.", file=sys.stderr)
            raise
        with _bar(n_classes, "merging", " classes") as bar:
            tree = merge(exchange, n_threads, bar.update)
        _write(outputs[n_classes], exchange, tree)
        done, smaller = 0, [n for n in settings.sizes if n < n_classes]
        start = cut(tree, smaller[0])[exchange.classes[:-2]] if smaller else None
    checkpoint.unlink(missing_ok=True)


def _bar(total: int, what: str, unit: str) -> Any:
    return tqdm(total=total, desc=what, disable=None, leave=False, file=sys.stderr, unit=unit, unit_scale=True)


def _write(path: Path, exchange: Exchange, tree: Ints) -> None:
    """Write a Brown path file, ordered by the paths."""
    from .learning import paths_of

    counts, words, paths = exchange.bigrams.counts.tolist(), exchange.bigrams.words, paths_of(tree)
    placed = [(paths[c], i) for i, c in enumerate(exchange.classes[:-2].tolist()) if c < exchange.n_classes]
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with replacing(path) as temporary, opened(temporary, "wt", encoding="utf8", newline="\n") as file:
        file.writelines(f"{bits}\t{words[i]}\t{counts[i]}\n" for bits, i in sorted(placed))
    printer().good(f"Saved {count_of(len(placed), 'word')} with a class each to {path}")


def _digest(bigrams: Bigrams, sizes: Sequence[int]) -> str:
    digest = blake2b(json.dumps([sizes, bigrams.words]).encode(), digest_size=16)
    digest.update(bigrams.pairs.tobytes() + bigrams.times.tobytes())
    return digest.hexdigest()


def _save(path: Path, identity: str, size: int, done: int, classes: Ints) -> None:
    """Write the state of a run: a line of JSON, and the classes as int32 [V]."""
    head = json.dumps({"identity": identity, "size": size, "done": done}).encode() + b"\n"
    with replacing(path) as temporary:
        temporary.write_bytes(head + classes[:-2].astype("<i4").tobytes())


def _load(path: Path, identity: str, n_words: int) -> tuple[int, int, Ints]:
    """Return the number of classes, the passes done with it, and the class of each word [V].

    RAISES ConfigError: If the file is damaged, or of another run.
    """
    head, _, data = path.read_bytes().partition(b"\n")
    try:
        state = json.loads(head)
        same, size, done = state["identity"] == identity, int(state["size"]), int(state["done"])
        classes = np.frombuffer(data, "<i4")
        if same and (len(classes) != n_words or done < 0 or not 0 <= classes.min() <= classes.max() < size + 2):
            raise ValueError("its classes are not those of the run")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"--resume: {path} is damaged ({error}). Give --force to start over.") from error
    if not same:
        raise ConfigError("--resume: the run began with other texts or settings. Give --force to start over.")
    return size, done, classes
