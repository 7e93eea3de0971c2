"""Start-up: compiling once, and loading in every process."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench import ours
from bench._harness import Measure, Options, Row, benchmark, clock, in_process, in_turn, run_command, scratch, seconds

FACTORIES = ("crf_tagger", "crf_chunker", "crf_ner")
SENTENCE = "Ada Lovelace wrote the first program for an engine that was never built in London ."


@benchmark("start-up", "start-up", minutes=3)
def start_up(options: Options) -> list[Row]:
    """The time of `crfseq warmup` with an empty cache; in fresh processes with compiled kernels, the time from
    `spacy.load` (spaCy already imported) to the first tagged Doc, and of `spacy.blank("en")` with the package
    installed."""
    rows = [] if options.quick else [_cold(options)]
    with scratch() as folder:
        names = {factory: [factory] for factory in FACTORIES} | {"all three": list(FACTORIES)}
        for name, factories in names.items():
            in_process("startup:make", str(folder / name), factories)
        contenders: dict[str, Measure] = {
            name: partial(in_process, "startup:first_doc", str(folder / name)) for name in names
        }
        contenders |= {
            "blank": partial(in_process, "startup:blank"),
            "import": partial(in_process, "startup:factories"),
        }
        figures = in_turn(options.rounds, contenders, warm=["all three"])
    for name in names:
        target = None if name == "all three" else 0.5
        rows.append(Row(f"spacy.load to the first Doc, {name}", "s", figures[name], kind="value", target=target))
    rows.append(Row('spacy.blank("en")', "s", figures["blank"], kind="value"))
    rows.append(Row("of which importing the package's factories", "s", figures["import"], kind="value"))
    return rows


def _cold(options: Options) -> Row:
    def work() -> None:
        with scratch() as folder:
            command = [sys.executable, "-m", "spacy", "crfseq", "warmup"]
            run_command(command, {"NUMBA_CACHE_DIR": str(folder)})

    figures = in_turn(options.rounds, {"warmup": lambda: seconds(work)})
    return Row("crfseq warmup, nothing compiled before", "s", figures["warmup"], kind="value", target=20)


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


def first_doc(path: str) -> float:
    """Return the seconds from loading to the first Doc."""
    import spacy

    started = clock()
    nlp = spacy.load(path)
    nlp(SENTENCE)
    return clock() - started


def blank() -> float:
    """Return the seconds of `spacy.blank` after importing spaCy."""
    import spacy

    return seconds(lambda: spacy.blank("en"))


def factories() -> float:
    """Return the seconds that importing the package's factories takes after spaCy and its own factories."""
    import importlib

    import spacy.language  # noqa: F401

    def work() -> Any:
        return importlib.import_module("spacy_crfseq.pipeline.factories")

    return seconds(work)
