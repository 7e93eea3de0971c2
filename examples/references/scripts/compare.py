"""Compares Wapiti, python-crfsuite and the two configs of this project on references: accuracy and processor time.

    python scripts/compare.py --folds 5                    cross-validation on core
    python scripts/compare.py --gold assets/gold.xml       trained on core, tested on gold

python-crfsuite must be installed.  Wapiti takes part if --wapiti names its program.  All run in one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import NamedTuple, TypeAlias

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"  # before numpy is imported
FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER))

import features  # noqa: E402
import spacy  # noqa: E402
from spacy.tokens import Doc  # noqa: E402
from spacy.training import Example  # noqa: E402
from spacy.util import load_config, load_model_from_config  # noqa: E402

Labelled: TypeAlias = tuple[list[str], list[str]]
"""The words of a reference, and their labels."""
MACRO = re.compile(r"%([xX])\[(-?\d+),(\d+)\]")
STRENGTHS = {"c1": 0.0, "c2": 1.0}
"""Of python-crfsuite: its defaults."""
WAPITI = ("-a", "l-bfgs", "-t", "1", "-1", "0.5", "-2", "0.0001", "-w", "5", "-e", "0.02")
"""The settings with which anystyle calls Wapiti."""


class Trial(NamedTuple):
    """What a contender does with a training and a test set.

    found (list[list[str]]): Labels of the test set.
    training, tagging (float): Seconds of processor time, from words to a model and from words to labels.
    """

    found: list[list[str]]
    training: float
    tagging: float


Contender: TypeAlias = Callable[[list[Labelled], list[Labelled]], Trial]


def seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    return process_time() + sum(os.times()[2:4])


def read(path: Path) -> list[Labelled]:
    """Return the references of an XML file."""
    reader = spacy.registry.readers.get("spacy_crfseq.XMLReader.v1")(path=path)
    return [
        ([token.text for token in example.reference], [token.tag_ for token in example.reference])
        for example in reader(spacy.blank("xx"))
    ]


def text_of(words: Sequence[str]) -> str:
    """Return a key that copies of a reference share, in spite of different spaces and punctuation."""
    return re.sub(r"[\W_]", "", "".join(words)).lower()


def rows_of(words: list[str]) -> list[list[str]]:
    """Return anystyle's columns of each word of a reference."""
    names = load_config(FOLDER / "configs" / "anystyle.cfg")["components"]["crf_tagger"]["features"]["columns"]
    return [[_column(name, words, i) for name in names] for i in range(len(words))]


def _column(name: str, words: list[str], i: int) -> str:
    if name in POSITIONS:
        return POSITIONS[name](words, i)[0]
    key = name, words[i]
    if key not in _VALUES:
        _VALUES[key] = words[i] if name == "word" else COLUMNS[name](words[i])
    return _VALUES[key]


COLUMNS, POSITIONS = features.create_columns(FOLDER / "lists"), features.create_positions()
_VALUES: dict[tuple[str, str], str] = {}


def wapiti(program: str) -> Contender:
    """Return Wapiti with anystyle's template and settings."""

    def write(path: Path, references: list[Labelled], labels: bool) -> Path:
        with path.open("w", encoding="utf8") as file:
            for words, tags in references:
                for row, tag in zip(rows_of(words), tags, strict=True):
                    file.write(" ".join([*row, tag] if labels else row) + "\n")
                file.write("\n")
        return path

    def run(train: list[Labelled], test: list[Labelled]) -> Trial:
        with tempfile.TemporaryDirectory() as folder:
            model, output = Path(folder) / "model", Path(folder) / "output"
            template = str(FOLDER / "configs" / "anystyle.txt")
            start = seconds()
            _run(program, "train", *WAPITI, "-p", template, write(Path(folder) / "train", train, True), model)
            trained = seconds()
            _run(program, "label", "-m", model, write(Path(folder) / "test", test, False), output)
            done = seconds()
            blocks = output.read_text(encoding="utf8").strip().split("\n\n")
        return Trial(
            [[line.rpartition("\t")[2] for line in block.split("\n")] for block in blocks],
            trained - start,
            done - trained,
        )

    return run


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def crfsuite(train: list[Labelled], test: list[Labelled]) -> Trial:
    """Run python-crfsuite with the same templates; it cannot make features of pairs of labels."""
    import pycrfsuite

    start = seconds()
    with tempfile.TemporaryDirectory() as folder:
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", params=STRENGTHS, verbose=False)
        for words, tags in train:
            trainer.append(list(attributes(words)), tags)
        trainer.train(str(Path(folder) / "model"))
        trained = seconds()
        tagger = pycrfsuite.Tagger()
        tagger.open(str(Path(folder) / "model"))
        found = [tagger.tag(list(attributes(words))) for words, _ in test]
        return Trial(found, trained - start, seconds() - trained)


def templates() -> list[list[tuple[bool, int, int]]]:
    """Return the macros of each line of anystyle's template: whether they lower-case, their row and column."""
    lines = (FOLDER / "configs" / "anystyle.txt").read_text(encoding="utf8").splitlines()
    found = [MACRO.findall(line) for line in lines if not line.startswith("#")]
    return [[(kind == "X", int(row), int(column)) for kind, row, column in macros] for macros in found if macros]


def attributes(words: list[str]) -> Iterator[list[str]]:
    """Yield what the templates make of each word."""
    rows, known = rows_of(words), templates()
    for i in range(len(words)):
        values = []
        for number, macros in enumerate(known):
            parts = []
            for lower, row, column in macros:
                value = rows[i + row][column] if 0 <= i + row < len(rows) else f"_x{row:+d}"
                parts.append(value.lower() if lower else value)
            values.append(f"{number}:{'/'.join(parts)}")
        yield values


def ours(config: str, changes: dict[str, object] | None = None) -> Contender:
    """Return the component of a config.

    changes (dict | None): Settings of the config to change.
    """

    def run(train: list[Labelled], test: list[Labelled]) -> Trial:
        start = seconds()
        settings = load_config(FOLDER / "configs" / config, {"paths.lists": str(FOLDER / "lists"), **(changes or {})})
        if "crf_tagger" in settings["components"]:
            settings["components"]["crf_tagger"]["features"]["path"] = str(FOLDER / "configs" / "anystyle.txt")
        nlp = load_model_from_config(settings, auto_fill=True)
        name = nlp.pipe_names[0]
        examples = [_example(nlp, name, *reference) for reference in train]
        nlp.initialize(lambda: examples)
        nlp.get_pipe(name).fit()
        trained = seconds()
        docs = nlp.pipe([Doc(nlp.vocab, words=words) for words, _ in test])
        found = [[token.tag_ or token.ent_type_ for token in doc] for doc in docs]
        return Trial(found, trained - start, seconds() - trained)

    return run


def _example(nlp: spacy.Language, component: str, words: list[str], tags: list[str]) -> Example:
    if component == "crf_tagger":
        gold = Doc(nlp.vocab, words=words, tags=tags)
    else:
        before = ["", *tags[:-1]]
        starts = ["I" if tag == other else "B" for tag, other in zip(tags, before, strict=True)]
        gold = Doc(nlp.vocab, words=words, ents=[f"{start}-{tag}" for start, tag in zip(starts, tags, strict=True)])
    return Example(Doc(nlp.vocab, words=words), gold)


def folds(references: list[Labelled], k: int) -> Iterator[tuple[list[Labelled], list[Labelled]]]:
    """Yield the training and the test set of k folds; copies of a reference share one."""
    numbers: dict[str, int] = {}
    fold = [numbers.setdefault(text_of(words), len(numbers)) % k for words, _ in references]
    for held_out in range(k):
        yield (
            [one for one, number in zip(references, fold, strict=True) if number != held_out],
            [one for one, number in zip(references, fold, strict=True) if number == held_out],
        )


def accuracies(gold: list[Labelled], found: list[list[str]]) -> tuple[float, float]:
    """Return the share of right words and of right references, in per cent."""
    right = [
        [one == other for one, other in zip(tags, labels, strict=True)]
        for (_, tags), labels in zip(gold, found, strict=True)
    ]
    words = [value for labels in right for value in labels]
    return 100 * sum(words) / len(words), 100 * sum(map(all, right)) / len(right)


def compare(
    contenders: dict[str, Contender], pairs: list[tuple[list[Labelled], list[Labelled]]], new: set[str]
) -> dict:
    """Return the figures of each contender, which take turns on pairs of a training and a test set.

    new (set[str]): Keys of test references that are not in the training set.
    """
    figures = {}
    trials: dict[str, list[Trial]] = {name: [] for name in contenders}
    for train, test in pairs:
        for name, contender in contenders.items():
            trials[name].append(contender(train, test))
            print(f"{name}: {accuracies(test, trials[name][-1].found)}", file=sys.stderr)
    gold = [one for _, test in pairs for one in test]
    for name, done in trials.items():
        found = [labels for trial in done for labels in trial.found]
        unseen = [number for number, (words, _) in enumerate(gold) if text_of(words) in new]
        of_new = accuracies([gold[i] for i in unseen], [found[i] for i in unseen])
        training, tagging = sum(trial.training for trial in done), sum(trial.tagging for trial in done)
        words = sum(len(words) for words, _ in gold)
        figures[name] = [*accuracies(gold, found), *of_new, training / len(pairs), words / tagging]
    return figures


def table(figures: dict[str, list[float]]) -> str:
    """Return the figures as a table in Markdown."""
    lines = [
        "| | words | references | new words | new references | training, s | words tagged per s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, (*accuracy, training, speed) in figures.items():
        lines.append(f"| {name} | {' | '.join(f'{value:.2f}' for value in accuracy)} | {training:.1f} | {speed:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--core", type=Path, default=FOLDER / "assets" / "core.xml", help="references to train on")
    parser.add_argument("--gold", type=Path, help="references to test on")
    parser.add_argument("--folds", type=int, default=5, help="for cross-validation on core, without --gold [5]")
    parser.add_argument("--first", type=int, help="use only the first so many references of each file")
    parser.add_argument("--wapiti", help="program of Wapiti")
    parser.add_argument("--only", nargs="+", help="contenders, by their names")
    parser.add_argument("--output", type=Path, help="file for the figures, in JSON")
    options = parser.parse_args()
    contenders: dict[str, Contender] = {"Wapiti": wapiti(options.wapiti)} if options.wapiti else {}
    contenders |= {"python-crfsuite": crfsuite}
    contenders |= {
        "anystyle.cfg": ours("anystyle.cfg"),
        "references.cfg, once = []": ours("references.cfg", {"components.crf_ner.once": []}),
        "references.cfg": ours("references.cfg"),
    }
    if options.only:
        contenders = {name: contenders[name] for name in options.only}
    core = read(options.core)[: options.first]
    keys = {text_of(words) for words, _ in core}
    new = keys
    pairs = list(folds(core, options.folds))
    if options.gold:
        gold = read(options.gold)[: options.first]
        new = {text_of(words) for words, _ in gold} - keys
        pairs = [(core, gold)]
        copies = sum(text_of(words) in keys for words, _ in gold)
        print(f"{len(core)} references of core, {len(gold)} of gold, {copies} of these are in core, too.")
    figures = compare(contenders, pairs, new)
    print(table(figures))
    if options.output:
        options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
