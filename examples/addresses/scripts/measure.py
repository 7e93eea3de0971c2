"""Make the figures of the README: accuracy on five folds and speed, compared with python-crfsuite and usaddress.

    python scripts/measure.py [--part folds speed] [--addresses 1000000] [--rounds 3] [--output metrics/measure.json]

The peers are python-crfsuite, trained as parserator trains usaddress, and usaddress itself; each is left out, with a
message, where it is not installed.  Everything runs in one process on one thread, in turn, except what is named to run
in several processes, and times are those of the processor; for speed, time that passes is measured, too.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import sys
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import spacy  # noqa: E402
from spacy.tokens import Doc  # noqa: E402
from spacy.training import Example  # noqa: E402
from spacy.util import load_config, load_model_from_config  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import address_code  # noqa: E402
import tag_in_bulk  # noqa: E402
from get_data import FOLDS, SEED, fold_numbers  # noqa: E402

PARSERATOR = {"c1": 0.1, "c2": 0.01, "feature.minfreq": 0}
"""The settings with which parserator calls the trainer of python-crfsuite."""
SAMPLE = 20_000
"""Addresses that usaddress tags; its speed does not depend on their number."""


class Address(NamedTuple):
    """The words of an address and their labels."""

    words: list[str]
    labels: list[str]


class Scores(NamedTuple):
    """Shares of words and of whole addresses with the right labels, in per cent, and seconds of training."""

    tokens: float
    addresses: float
    seconds: float


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, measure, print, and write the figures."""
    gc.freeze()  # garbage collections pass over what is loaded, for us and for the peers
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT / "assets" / "labeled.xml", help="labelled addresses")
    parser.add_argument("--also", type=Path, help="a file to test on, after training on all of --data")
    parser.add_argument("--part", nargs="+", choices=["folds", "speed"], default=["folds", "speed"])
    parser.add_argument("--limit", type=int, default=0, help="labelled addresses to use, from the first on [all]")
    parser.add_argument("--addresses", type=int, default=1_000_000, help="addresses to tag [1000000]")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="of one contender [one for each core]")
    parser.add_argument("--rounds", type=int, default=3, help="how often contenders take turns [3]")
    parser.add_argument("--output", type=Path, default=ROOT / "metrics" / "measure.json")
    options = parser.parse_args(arguments)
    data = read(options.data)[: options.limit or None]
    figures: dict[str, Any] = {}
    if "folds" in options.part:
        figures["folds"] = measure_folds(data)
        if options.also:
            figures["also"] = measure_split(data, read(options.also))
    if "speed" in options.part:
        figures["speed"] = measure_speed(data, options.addresses, options.rounds, options.processes)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf8")


def peer(name: str) -> Any:
    """Return a module of a peer, or None with a message."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed and is left out.")
        return None


# Data


def read(path: Path) -> list[Address]:
    """Return the addresses of a file as the configs read them."""
    corpus = spacy.registry.readers.get("spacy_crfseq.XMLReader.v1")(path)
    docs = [example.reference for example in corpus(spacy.blank("en"))]
    return [Address([token.text for token in doc], [token.tag_ for token in doc]) for doc in docs]


def varied(data: Sequence[Address], n: int) -> Iterator[str]:
    """Yield n addresses: those of `data` in turn, with other last digits, names of streets and places."""
    chance = random.Random(SEED)
    names = defaultdict(list)
    for address in data:
        for label, part in parts(address):
            names[label].append(part)
    for i in range(n):
        words: list[str] = []
        for label, part in parts(data[i % len(data)]):
            found = chance.choice(names[label]) if label in ("StreetName", "PlaceName") else part
            words += [*found[:-1], found[-1].rstrip(",") + "," * part[-1].endswith(",")]
        yield " ".join(other_digits(word, chance) for word in words)


def parts(address: Address) -> list[tuple[str, list[str]]]:
    """Return the label and the words of each part of an address."""
    pairs = zip(address.labels, address.words, strict=True)
    return [(label, [word for _, word in group]) for label, group in groupby(pairs, itemgetter(0))]


def other_digits(word: str, chance: random.Random) -> str:
    """Return a word that begins with a digit with other last digits, two at most, any other word as it is."""
    if not word[0].isdigit():
        return word
    places = [i for i, char in enumerate(word) if i and char.isdigit()][-2:]
    return "".join(chance.choice("0123456789") if i in places else char for i, char in enumerate(word))


# Accuracy


class Ours:
    """A config of this project."""

    def __init__(self, name: str, once: Sequence[str] = ()) -> None:
        overrides = {"components.crf_tagger.once": list(once)}
        self._config = load_config(ROOT / "configs" / f"{name}.cfg", overrides).interpolate()

    def train(self, data: Sequence[Address]) -> None:
        """Train on addresses."""
        self.nlp = load_model_from_config(self._config, auto_fill=True)
        for _, pipe in self.nlp.pipeline:
            pipe.method = pipe.method._replace(n_threads=1)  # type: ignore[attr-defined]
        vocab = self.nlp.vocab
        examples = [Example(Doc(vocab, words=words), Doc(vocab, words=words, tags=labels)) for words, labels in data]
        self.nlp.initialize(lambda: examples)
        for _, pipe in self.nlp.pipeline:
            pipe.fit()  # type: ignore[attr-defined]

    def save(self, folder: Path) -> None:
        """Save the pipeline."""
        self.nlp.to_disk(folder)

    def tag(self, texts: Sequence[list[str]]) -> list[list[str]]:
        """Return the labels of texts."""
        docs = self.nlp.pipe(Doc(self.nlp.vocab, words=words) for words in texts)
        return [[token.tag_ for token in doc] for doc in docs]


class CRFsuite:
    """python-crfsuite with usaddress's features and parserator's settings."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def train(self, data: Sequence[Address]) -> None:
        """Train on addresses."""
        trainer = self._module.Trainer(verbose=False, params=PARSERATOR)
        for words, labels in data:
            trainer.append(address_code.address_features(tuple(words)), labels)
        self._tagger = self._module.Tagger()
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model")
            trainer.train(file)
            self._tagger.open(file)

    def tag(self, texts: Sequence[list[str]]) -> list[list[str]]:
        """Return the labels of texts."""
        return [self._tagger.tag(address_code.address_features(tuple(words))) for words in texts]


def contenders() -> dict[str, Any]:
    """Return those that can be trained, by their names."""
    found: dict[str, Any] = {}
    if module := peer("pycrfsuite"):
        found["python-crfsuite, features of usaddress"] = CRFsuite(module)
    found["spacy_crfseq, features of usaddress"] = Ours("usaddress")
    found["spacy_crfseq, own features"] = Ours("addresses")
    found["spacy_crfseq, own features, labels once"] = Ours("addresses", once=["*"])
    return found


def tried(contender: Any, train: Sequence[Address], test: Sequence[Address]) -> tuple[list[list[bool]], float]:
    """Return which labels of the test part are right after training, and the seconds of training."""
    address_code.address_features.cache_clear()
    started = process_time()
    contender.train(train)
    seconds = process_time() - started
    labels = contender.tag([address.words for address in test])
    right = [
        [a == b for a, b in zip(given, gold.labels, strict=True)] for given, gold in zip(labels, test, strict=True)
    ]
    return right, seconds


def scored(right: Sequence[Sequence[bool]], seconds: float) -> Scores:
    """Return the shares of what is right."""
    n_tokens = sum(map(len, right))
    return Scores(100 * sum(map(sum, right)) / n_tokens, 100 * sum(map(all, right)) / len(right), seconds)


def measure_folds(data: Sequence[Address]) -> dict[str, Any]:
    """Return scores of all contenders on five folds, and on the first one alone."""
    fold = fold_numbers(len(data))
    found: dict[str, list[list[list[bool]]]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    every = contenders()
    for contender in every.values():
        tried(contender, data[:20], data[:20])  # kernels are compiled or loaded now
    for k in range(FOLDS):
        train = [address for address, number in zip(data, fold, strict=True) if number != k]
        test = [address for address, number in zip(data, fold, strict=True) if number == k]
        for name, contender in every.items():
            right, spent = tried(contender, train, test)
            found[name].append(right)
            seconds[name].append(spent)
    print(f"\n{'five folds':42} tokens  addresses  seconds  fold 0: tokens  addresses")
    figures = {}
    for name, folds in found.items():
        all_folds = scored([right for fold in folds for right in fold], median(seconds[name]))
        first = scored(folds[0], seconds[name][0])
        line = f"{all_folds.tokens:6.2f}  {all_folds.addresses:9.2f}  {all_folds.seconds:7.2f}"
        print(f"{name:42} {line}  {first.tokens:14.2f}  {first.addresses:9.2f}")
        figures[name] = {"all": all_folds._asdict(), "fold 0": first._asdict(), "seconds": seconds[name]}
    return figures


def measure_split(train: Sequence[Address], test: Sequence[Address]) -> dict[str, Any]:
    """Return scores of all contenders on another file."""
    print(f"\n{'another file':42} tokens  addresses")
    figures = {}
    for name, contender in contenders().items():
        scores = scored(*tried(contender, train, test))
        print(f"{name:42} {scores.tokens:6.2f}  {scores.addresses:9.2f}")
        figures[name] = scores._asdict()
    return figures


# Speed


def consumed(found: Iterable[object]) -> None:
    """Exhaust an iterator."""
    deque(found, maxlen=0)


class Times(NamedTuple):
    """Microseconds an address: of the processor, in all processes, and those that pass."""

    processor: float
    passed: float


def timed(work: Callable[[], None], size: int) -> Times:
    """Do the work on `size` addresses."""
    started = sum(os.times()[:4]), perf_counter()
    work()
    return Times(1e6 * (sum(os.times()[:4]) - started[0]) / size, 1e6 * (perf_counter() - started[1]) / size)


def measure_speed(data: Sequence[Address], n: int, rounds: int, processes: int) -> dict[str, Any]:
    """Return times round by round; all contenders start from raw text."""
    ours = Ours("addresses", once=["*"])
    ours.train(data)
    figures: dict[str, list[Times]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        model, file, few = (Path(folder) / name for name in ("model", "addresses.txt", "few.txt"))
        ours.save(model)
        distinct: set[str] = set()
        for path, size in ((few, 100), (file, n)):
            with path.open("w", encoding="utf8") as lines:
                for text in varied(data, size):
                    lines.write(f"{text}\n")
                    distinct.update(text.split())
        print(f"{n:,} addresses with {len(distinct):,} distinct words")
        for work, _ in speed_works(model, few, 100, processes).values():
            work()  # kernels are compiled or loaded now
        works = speed_works(model, file, n, processes)
        for _ in range(rounds):
            for name, (work, size) in works.items():
                figures[name].append(timed(work, size))
                print(f"{name:40} {figures[name][-1].processor:7.1f} {figures[name][-1].passed:7.1f}", flush=True)
        with file.open(encoding="utf8") as lines:
            repeated = sum(repeats(labels) for _, labels in tag_in_bulk.tagged(spacy.load(model), lines))
    print("\nmicroseconds an address and how many times as fast as usaddress.tag: by the processor's time, and by time")
    for name, values in figures.items():
        line = f"{name:40}"
        for kind in Times._fields:
            own, peers = ([getattr(value, kind) for value in found] for found in (values, figures["usaddress.tag"]))
            ratios = [b / a for a, b in zip(own, peers, strict=False)]
            line += f" {median(own):7.1f}" + (f" {median(ratios):5.1f}" if ratios else "")
        print(line)
    print(f"addresses with a repeated label: {repeated:,}")
    named = {name: [value._asdict() for value in values] for name, values in figures.items()}
    return {**named, "distinct words": len(distinct), "repeated": repeated}


def speed_works(model: Path, file: Path, n: int, processes: int) -> dict[str, tuple[Callable[[], None], int]]:
    """Return what is timed by its names, with the numbers of addresses."""
    from spacy_crfseq.tools.tag import TagSettings, tag

    output = model.parent / "tagged.conll"

    def load(once: Sequence[str]) -> Any:
        return spacy.load(model, config={"components.crf_tagger.once": list(once)})

    def read_file() -> Iterator[str]:
        with file.open(encoding="utf8") as lines:
            yield from map(str.rstrip, lines)

    def pipe() -> None:
        consumed(load(["*"]).pipe(read_file(), batch_size=1000))

    def in_bulk(once: Sequence[str]) -> None:
        with file.open(encoding="utf8") as lines:
            consumed(tag_in_bulk.tagged(load(once), lines))

    def in_processes() -> None:
        tag_in_bulk.main([str(model), str(file), str(output), "--processes", str(processes)])

    def to_file() -> None:
        tag(TagSettings(str(model), to="conll"), [file], output, force=True)

    works: dict[str, tuple[Callable[[], None], int]] = {
        "tag_in_bulk.py, labels once": (partial(in_bulk, ["*"]), n),
        "tag_in_bulk.py, labels repeat": (partial(in_bulk, []), n),
        f"tag_in_bulk.py, {processes} processes, to a file": (in_processes, n),
        "nlp.pipe, labels once": (pipe, n),
        "crfseq tag --to conll, labels once": (to_file, n),
    }
    if module := peer("usaddress"):
        size = min(n, SAMPLE)
        works["usaddress.tag"] = (lambda: usaddress_loop(module, islice(read_file(), size)), size)
    return works


def usaddress_loop(module: Any, texts: Iterable[str]) -> None:
    """Tag texts one at a time; a repeated label is an error, which is caught."""
    for text in texts:
        try:
            module.tag(text)
        except module.RepeatedLabelError:
            continue


def repeats(labels: Sequence[str]) -> bool:
    """Whether a label occurs twice, with others between."""
    runs = [label for label, _ in groupby(labels)]
    return len(set(runs)) < len(runs)


if __name__ == "__main__":
    main()
