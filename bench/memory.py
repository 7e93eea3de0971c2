"""Memory: peaks of fresh processes, above one that has only imported spaCy or the peer."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, in_process, in_turn, need, scratch, seconds

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

MEGABYTE = 1e6
SIZES = (1_000_000, 3_000_000, 10_000_000)


def peak() -> float:
    """Return the peak resident memory of this process in bytes."""
    try:  # unlike getrusage, not inherited from the process that started this one
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


@benchmark("memory", "memory", minutes=2)
def memory(options: Options) -> list[Row]:
    """Peak memory of training on CoNLL-2000 from its file, weights for observed pairs: ours above a process with a bare
    pipeline, the peers above one that has imported them.  Ours streams the file through `read_examples`, and its
    figure holds numba too: some 120 MB, from importing it to its first compiled call."""
    need("sklearn_crfsuite")
    corpus, limit = str(options.corpus("conll2000", "train.txt").parent.parent), options.limit(200)
    iterations = 3 if options.quick else 10
    kinds: dict[str, Callable[[], float]] = {
        "ours": lambda: _above("memory:bare_spacy", "memory:train_ours", corpus, limit),
        "python-crfsuite": lambda: _above("memory:bare_crfsuite", "memory:train_crfsuite", corpus, limit, iterations),
        "sklearn-crfsuite": lambda: _above("memory:bare_sklearn", "memory:train_sklearn", corpus, limit, iterations),
    }
    figures = in_turn(options.rounds, kinds)
    label = "peak of training on CoNLL-2000"
    note = "numba and its compiled code included; the peers' peaks do not depend on the number of iterations"
    return [
        Row(label, "MB", figures["ours"], kind="value", target=200, note=note),
        *(Row(label, "MB", figures["ours"], figures[name], name) for name in kinds if name != "ours"),
    ]


def _above(bare: str, work: str, *args: Any) -> float:
    return float(in_process(work, *args) - in_process(bare)) / MEGABYTE


def bare_spacy() -> float:
    """Return the peak of a process with an empty pipeline."""
    ours.blank()
    return peak()


def bare_crfsuite() -> float:
    """Return the peak of a process that has imported python-crfsuite."""
    need("pycrfsuite")
    return peak()


def bare_sklearn() -> float:
    """Return the peak of a process that has imported sklearn-crfsuite."""
    need("sklearn_crfsuite")
    return peak()


def _options(data: str) -> Options:
    return Options(Path(data), 1, 1, False)


def train_ours(data: str, limit: int) -> float:
    """Train a chunker on the file, read as a stream, and return the peak."""
    from spacy_crfseq.pipeline.readers import read_examples

    nlp, path = ours.blank(), _options(data).corpus("conll2000", "train.txt")
    pipe = ours.chunker(nlp)
    pipe.initialize(lambda: read_examples(nlp, path, "conll2000", given=["tag"], limit=limit))
    pipe.fit()
    return peak()


def train_crfsuite(data: str, limit: int, iterations: int) -> float:
    """Train python-crfsuite, sentence by sentence, and return the peak."""
    trainer = need("pycrfsuite").Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": iterations})
    for sentence in corpora.read_columns(_options(data).corpus("conll2000", "train.txt"), limit):
        trainer.append(corpora.chunk_attributes(sentence), sentence.labels)
    with scratch() as folder:
        trainer.train(str(folder / "model"))
    return peak()


def train_sklearn(data: str, limit: int, iterations: int) -> float:
    """Train sklearn-crfsuite on feature dictionaries and return the peak."""
    sentences = corpora.read_columns(_options(data).corpus("conll2000", "train.txt"), limit)
    crf = need("sklearn_crfsuite").CRF(algorithm="lbfgs", c1=0.0, c2=1.0, max_iterations=iterations)
    crf.fit([corpora.chunk_dictionaries(s) for s in sentences], [s.labels for s in sentences])
    return peak()


@benchmark("memory-scale", "memory", minutes=5)
def memory_scale(options: Options) -> list[Row]:
    """Bytes and time a token at 1, 3 and 10 million tokens: CoNLL-2000 over and over, two per cent of the words made
    new in each copy, given by a generator; one epoch of the default optimizer, observed pairs, 22 labels.  Memory is
    counted above that of the same process with a thousand tokens."""
    corpus = str(options.corpus("conll2000", "train.txt").parent.parent)
    sizes = [size // 100 for size in SIZES] if options.quick else SIZES
    base, _, few = in_process("memory:stream", corpus, 1000)
    runs = {size: in_process("memory:stream", corpus, size) for size in sizes}
    rows = []
    for size, (used, spent, tokens) in runs.items():
        label = f"{size / 1e6:g} million tokens"
        rows.append(
            Row(f"{label}, memory", "bytes a token", [(used - base) / (tokens - few)], kind="value", target=100)
        )
        rows.append(Row(f"{label}, time", "us a token", [1e6 * spent / tokens], kind="value"))
    first, last = (1e6 * spent / tokens for _, spent, tokens in (runs[sizes[0]], runs[sizes[-1]]))
    rows.append(Row("time a token, largest over smallest", "", [last / first], kind="value", target=1.15))
    rows[-1].note = "time to make the examples is measured before and taken off"
    return rows


def stream(data: str, tokens: int) -> tuple[float, float, int]:
    """Train on a generator; return the peak, the seconds without making the examples, and the tokens."""
    nlp = ours.blank()
    sentences = corpora.read_columns(_options(data).corpus("conll2000", "train.txt"))
    counted = 0

    def count() -> None:
        nonlocal counted
        counted = sum(len(example.predicted) for example in _perturbed(nlp, sentences, tokens))

    making = seconds(count)
    pipe = ours.chunker(nlp, optimizer=ours.default_optimizer("crf_chunker", 1))

    def work() -> None:
        pipe.initialize(lambda: _perturbed(nlp, sentences, tokens))
        pipe.fit()

    spent = seconds(work) - making
    return peak(), spent, counted


def _perturbed(nlp: Language, sentences: list[corpora.Sentence], tokens: int) -> Iterator[Example]:
    """Yield at least so many tokens, every fiftieth word of each copy after the first spelt anew."""
    from spacy.tokens import Doc, Span
    from spacy.training import Example

    copy = done = 0
    while True:
        for number, (words, tags, labels) in enumerate(sentences):
            if done >= tokens:
                return
            done += len(words)
            fresh = [f"{w}{copy}" if copy and (number + i) % 50 == 0 else w for i, w in enumerate(words)]
            gold = Doc(nlp.vocab, words=fresh)
            gold.spans["chunks"] = [Span(gold, *span) for span in sorted(corpora.spans_of(labels))]
            yield Example(Doc(nlp.vocab, words=fresh, tags=tags), gold)
        copy += 1
