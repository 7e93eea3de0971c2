"""Start-up: compiling once, and loading in every process."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench import ours
from bench._harness import Measure, Options, Row, benchmark, clock, in_process, in_turn, run_command, scratch, seconds
from bench.memory import MEGABYTE, peak

FACTORIES = ("crf_tagger", "crf_chunker", "crf_ner")
SENTENCE = "Ada Lovelace wrote the first program for an engine that was never built in London ."
BLANK = "blank"
CORPUS = "crf_chunker of CoNLL-2000"


@benchmark("start-up", minutes=1.5)
def start_up(options: Options) -> list[Row]:
    """The processor time of `crfseq warmup` with an empty cache; in fresh processes that have imported spaCy, the time
    and the peak of memory from `spacy.load` to the first annotated text. Those of `spacy.blank("en")` are subtracted.
    Compiled kernels are on disk, or the cache is empty, or the process has imported numba before and loads all kernels
    at once."""
    rows = [] if options.quick else [_cold(options)]
    with scratch() as folder:
        names = {factory: [factory] for factory in FACTORIES} | {"all three": list(FACTORIES)}
        for name, factories in names.items():
            in_process("startup:make", str(folder / name), factories)
        if options.data is not None:
            in_process("startup:make_chunker", str(folder / CORPUS), str(options.data), options.few(200))
        loaded = [BLANK, *names, *([CORPUS] if options.data else [])]
        memory: dict[str, list[float]] = {}

        def first(name: str, how: str = "", env: dict[str, str] | None = None) -> float:
            measured = in_process("startup:first_text", "" if name == BLANK else str(folder / name), how, env=env)
            memory.setdefault(name + how, []).append(measured[1] / MEGABYTE)
            return float(measured[0])

        contenders: dict[str, Measure] = {name: partial(first, name) for name in loaded}
        empty = {"NUMBA_CACHE_DIR": str(folder / "nothing")}
        contenders |= {
            "empty cache": partial(first, "crf_ner", "", empty),
            "numba": partial(first, "crf_ner", "numba"),
            "import": partial(in_process, "startup:factories"),
        }
        figures = in_turn(options.rounds, contenders, warm=["numba"])

    def beyond(name: str, of: dict[str, list[float]]) -> list[float]:
        return [seconds - bare for seconds, bare in zip(of[name], of[BLANK], strict=False)]

    targets = dict.fromkeys(FACTORIES, 0.35) | {"all three": 0.5}
    what = "first text beyond a blank pipeline"
    return [
        *rows,
        *(
            Row(f"{what}, {name}", "s", beyond(name, figures), kind="value", target=targets.get(name))
            for name in loaded[1:]
        ),
        Row(f"{what}, crf_ner, empty cache", "s", beyond("empty cache", figures), kind="value", target=2),
        Row(f"{what}, crf_ner, numba imported before", "s", beyond("numba", figures), kind="value"),
        *(Row(f"its memory, {name}", "MB", beyond(name, memory), kind="value", target=60) for name in loaded[1:]),
        Row("its memory, crf_ner, numba imported before", "MB", beyond("crf_nernumba", memory), kind="value"),
        Row('spacy.blank("en") and its first text', "s", figures[BLANK], kind="value"),
        Row("of which importing the package's factories", "s", figures["import"], kind="value"),
    ]


def _cold(options: Options) -> Row:
    def work() -> float:
        before = os.times()
        with scratch() as folder:
            command = [sys.executable, "-m", "spacy", "crfseq", "warmup"]
            run_command(command, {"NUMBA_CACHE_DIR": str(folder)})
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    figures = in_turn(options.rounds, {"warmup": work})
    return Row("processor time of crfseq warmup, nothing compiled", "s", figures["warmup"], kind="value", target=12)


def make(path: str, factories: list[str]) -> None:
    """Train a small pipeline and save it."""
    from spacy.tokens import Doc, Span
    from spacy.training import Example

    nlp = ours.blank()
    words = SENTENCE.split()
    gold = Doc(nlp.vocab, words=words, tags=["X"] * len(words), ents=["B-PER", "I-PER", *["O"] * (len(words) - 2)])
    gold.spans["chunks"] = [Span(gold, 0, 2, "NP")]
    examples = [Example(Doc(nlp.vocab, words=words), gold)]
    for factory in factories:
        ours.train(nlp.add_pipe(factory), examples)
    nlp.to_disk(Path(path))


def make_chunker(path: str, data: str, limit: int) -> None:
    """Train a chunker on CoNLL-2000 and save it."""
    from bench.corpora import chunks

    nlp = ours.blank()
    task = chunks(Options(Path(data), rounds=1, threads=1), nlp, "train", limit)
    ours.train(nlp.add_pipe("crf_chunker"), task.examples)
    nlp.to_disk(Path(path))


def first_text(path: str, how: str) -> tuple[float, float]:
    """Return the seconds from loading (from making a blank pipeline, without a path) to the first text, and the peak
    memory in bytes; numba is imported before if `how` says so."""
    import importlib

    import spacy

    if how:
        importlib.import_module(how)
    started = clock()
    nlp = spacy.load(path) if path else spacy.blank("en")
    nlp(SENTENCE)
    return clock() - started, peak()


def factories() -> float:
    """Return the seconds that importing the package's factories takes after spaCy and its own factories."""
    import importlib

    import spacy.language  # noqa: F401

    def work() -> Any:
        return importlib.import_module("spacy_crfseq.pipeline.factories")

    return seconds(work)
