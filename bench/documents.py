"""Long documents and hundreds of patterns, as models of GROBID have them, against Wapiti with the same pattern file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import NamedTuple

from bench import ours
from bench._harness import CLOCK, Options, Row, Skip, benchmark, in_process, in_turn, scratch
from bench.memory import peak

FUNCTIONS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    **{f"begin{n}": lambda word, n=n: word[:n] for n in range(1, 5)},
    **{f"end{n}": lambda word, n=n: word[-n:] for n in range(1, 5)},
    "capitals": lambda word: "all" if word.isupper() else "first" if word[:1].isupper() else "none",
    "digits": lambda word: "all" if word.isdigit() else "some" if re.search(r"\d", word) else "none",
    "shape": lambda word: re.sub(r"\d", "d", re.sub(r"[^\W\d_]", "x", re.sub(r"[A-Z]", "X", word)))[:8],
    "brief": lambda word: re.sub(r"(.)\1+", r"\1", FUNCTIONS["shape"](word)),
    "length": lambda word: str(min(len(word), 12)),
    "mark": lambda word: word[-1] if not word[-1].isalnum() else "none",
    "year": lambda word: "yes" if re.search(r"\b(1\d|20)\d\d\b", word) else "no",
}
"""The columns that are computed from a word, all with a value for every word."""
COLUMNS = ["word", *FUNCTIONS]
REFERENCES = 60
"""References that make one document, of about 2,000 words."""
LBFGS, RPROP = "Wapiti, l-bfgs", "Wapiti, rprop"
ELASTIC_NET = 0.5, 1e-4
"""Wapiti's own strengths, which GROBID and anystyle use."""


class Trained(NamedTuple):
    """A training: seconds of an iteration, their number, the objective at the end, megabytes at the peak."""

    iteration: float
    iterations: int
    objective: float
    megabytes: float


@benchmark("documents", minutes=2)
def documents(options: Options) -> list[Row]:
    """Training on documents of some 2,000 words, made of the references of anystyle's parser, with 17 columns and 200
    patterns (columns at seven places, their bigrams, pairs of columns). Every attribute and label have a weight, as
    in models of GROBID. Beyond the ends of a document, only Wapiti's columns have values. Penalties are Wapiti's
    defaults; ours runs OWL-QN in float32, Wapiti its l-bfgs and rprop. An iteration is the difference of two
    processes; memory is the peak of the longer one."""
    if shutil.which("wapiti") is None:
        raise Skip("the program wapiti is not in PATH; bench/run.py says how to make it")
    iterations, runs = 3 if options.quick else 10, dict[str, list[Trained]]()
    with scratch() as folder:
        size = write(options, folder)

        def measure(name: str) -> float:
            if name == "ours":
                run = Trained(*in_process("documents:train", str(folder), runs[LBFGS][-1].objective))
            else:
                run = wapiti(folder, name.split()[-1], iterations)
            runs.setdefault(name, []).append(run)
            return run.iteration

        in_turn(options.rounds, {name: partial(measure, name) for name in (LBFGS, RPROP, "ours")})
    own, rows = runs["ours"], list[Row]()
    for name in (LBFGS, RPROP):
        note = f"{size}; Wapiti's objective after {2 + iterations} iterations is {runs[name][-1].objective:,.0f}"
        times, memory = ([[run[k] for run in runs[side]] for side in ("ours", name)] for k in (0, 3))
        rows += [
            Row("an iteration on long documents", "s", *times, name, target=8, note=note),
            Row("peak memory of that", "MB", *memory, name, target=2),
        ]
    note = f"{own[-1].iterations} iterations to {own[-1].objective:,.0f}"
    totals = [[run.iteration * run.iterations for run in runs[name]] for name in ("ours", LBFGS)]
    return [*rows, Row("all iterations to the same objective", "s", *totals, LBFGS, note=note)]


def write(options: Options, folder: Path) -> str:
    """Write the corpus for both, a short part of it, and the patterns; return their size in words."""
    random, documents, lines = Random(0), list[list[tuple[str, str]]](), list[str]()
    for number, reference in enumerate(ET.parse(options.corpus("anystyle", "core.xml")).getroot()):
        if number % REFERENCES == 0:
            documents.append([])
        words = [(word, field.tag) for field in reference for word in (field.text or "").split()]
        documents[-1] += [(varied(word, random), tag) for word, tag in words]
    documents = documents[: options.few(3) or None]
    for document in documents:
        for word, tag in document:
            lines.append("\t".join([word, *(function(word) for function in FUNCTIONS.values()), tag]))
        lines.append("")
    (folder / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf8")
    (folder / "dev.txt").write_text("\n".join(lines[:20]) + "\n\n", encoding="utf8")
    (folder / "words.txt").write_text(
        "\n".join("\n".join(map("\t".join, document)) + "\n" for document in documents), encoding="utf8"
    )
    patterns = list(_patterns())
    (folder / "patterns").write_text("\n".join([*patterns, "B"]) + "\n", encoding="utf8")
    return f"{sum(map(len, documents)):,} words in {len(documents)} documents, {len(patterns)} patterns"


def varied(word: str, random: Random) -> str:
    """Return a word, one of ten with a letter replaced."""
    if random.random() < 0.9 or not word.isalpha():
        return word
    place = random.randrange(len(word))
    return word[:place] + random.choice("aeiou") + word[place + 1 :]


def _patterns() -> Iterator[str]:
    for column, name in enumerate(COLUMNS):
        yield from (f"U:{name}{place}=%x[{place},{column}]" for place in range(-3, 4))
        yield from (f"U:{name}{a},{a + 1}=%x[{a},{column}]/%x[{a + 1},{column}]" for a in (-2, -1, 0, 1))
        yield f"U:{name},next=%x[0,{column}]/%x[0,{(column + 1) % len(COLUMNS)}]"


def wapiti(folder: Path, algorithm: str, iterations: int) -> Trained:
    """Train Wapiti for 2 iterations, and for more."""
    rho1, rho2 = map(str, ELASTIC_NET)
    command = ["wapiti", "train", "-a", algorithm, "-1", rho1, "-2", rho2, "-t", "1", "-o", "1000", "-w", "1000"]
    command += ["-p", str(folder / "patterns"), "-d", str(folder / "dev.txt")]
    spent, objective, peak_bytes = [], 0.0, 0.0
    for n in (2, 2 + iterations):
        started = perf_counter()
        files = [str(folder / "train.txt"), str(folder / "model")]
        with subprocess.Popen([*command, "-i", str(n), *files], stderr=subprocess.PIPE, text=True) as process:
            printed = process.stderr.read() if process.stderr else ""
            _, _, used = os.wait4(process.pid, 0)
        spent.append(used.ru_utime + used.ru_stime if os.environ.get(CLOCK) == "cpu" else perf_counter() - started)
        objective, peak_bytes = float(re.findall(r"obj=([\d.]+)", printed)[-1]), used.ru_maxrss * 1024
    return Trained((spent[1] - spent[0]) / iterations, 2 + iterations, objective, peak_bytes / 1e6)


def train(folder: str, goal: float) -> Trained:
    """Train ours on one thread until the objective is at `goal`."""
    import spacy

    from spacy_crfseq import registry

    registry.features("bench.columns.v1", func=lambda: FUNCTIONS)
    nlp = ours.blank("xx")
    rho1, rho2 = ELASTIC_NET
    features = {
        "@crf_features": "spacy_crfseq.TemplateFile.v1", "path": str(Path(folder) / "patterns"), "columns": COLUMNS,
        "functions": {"@crf_features": "bench.columns.v1"},
    }  # fmt: skip
    pipe = ours.add(
        nlp, "crf_tagger", features=features, support="all", boundaries=False,
        regularizer={"@crf_regularizers": "spacy_crfseq.ElasticNet.v1", "rho1": rho1, "rho2": rho2},
        optimizer={"@crf_optimizers": "spacy_crfseq.OWLQN.v1", "tolerance": 0.0, "max_iterations": 1000},
    )  # fmt: skip
    reader = spacy.registry.readers.get("spacy_crfseq.ConllReader.v1")(
        Path(folder) / "words.txt", columns=["word", "tag"]
    )
    pipe.initialize(lambda: reader(nlp))
    trace = ours.fit_until(pipe, goal=goal)
    return Trained(trace.iteration, len(trace.values), trace.values[-1], peak() / 1e6)
