"""Memory: peaks of fresh processes, above one that has only imported spaCy or the peer."""

from __future__ import annotations

import random
import resource
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, in_process, in_turn, need, scratch, seconds

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

MEGABYTE = 1e6
SIZES = (1_000_000, 3_000_000, 10_000_000)
TAGGED_TOKENS = 1_000_000
TRAIN_SENTENCES = 2_000


def peak() -> float:
    """Return the peak resident memory of this process in bytes."""
    try:  # unlike getrusage, not inherited from the process that started this one
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


@benchmark("memory", minutes=1)
def memory(options: Options) -> list[Row]:
    """Peak memory of training on CoNLL-2000 from its file, with weights for observed pairs: ours in excess of a
    process with a bare pipeline, that of the peers in excess of a process that has imported them. Ours streams the
    file through `read_examples`. Our figure includes numba and its compiled code; the second line is the same process
    on thirty sentences, so that the difference is what the corpus and its weights take."""
    need("sklearn_crfsuite")
    corpus, limit = str(options.corpus("conll2000", "train.txt").parent.parent), options.few(200)
    iterations = 3 if options.quick else 10
    kinds: dict[str, Callable[[], float]] = {
        "ours": lambda: _above("memory:bare_spacy", "memory:train_ours", corpus, limit),
        "ours, 30 sentences": lambda: _above("memory:bare_spacy", "memory:train_ours", corpus, 30),
        "python-crfsuite": lambda: _above("memory:bare_crfsuite", "memory:train_crfsuite", corpus, limit, iterations),
        "sklearn-crfsuite": lambda: _above("memory:bare_sklearn", "memory:train_sklearn", corpus, limit, iterations),
    }
    figures = in_turn(options.rounds, kinds)
    label = "peak of training on CoNLL-2000"
    note = "includes numba and its compiled code; the peers' peaks do not depend on the number of iterations"
    return [
        Row(label, "MB", figures["ours"], kind="value", target=120, note=note),
        Row("the same on 30 sentences", "MB", figures["ours, 30 sentences"], kind="value"),
        *(Row(label, "MB", figures["ours"], figures[name], name) for name in kinds if not name.startswith("ours")),
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
    return Options(Path(data), rounds=1, threads=1)


def train_ours(data: str, limit: int) -> float:
    """Train a chunker on the file, read as a stream, and return the peak."""
    from spacy_crfseq.pipeline.corpus_reader import read_examples

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


@benchmark("memory-scale", minutes=2.5)
def memory_scale(options: Options) -> list[Row]:
    """Bytes and time per token at 1, 3 and 10 million tokens. A generator repeats CoNLL-2000 and replaces two per
    cent of the words with new ones in each copy. Training is one epoch of the default optimizer with observed pairs
    and 22 labels. Memory is counted in excess of that of the same process with a thousand tokens."""
    corpus = str(options.corpus("conll2000", "train.txt").parent.parent)
    sizes = [size // 100 for size in SIZES] if options.quick else SIZES
    base, few, _, _ = in_process("memory:stream", corpus, 1000)
    runs = {size: in_process("memory:stream", corpus, size) for size in sizes}
    rows = []
    for size, (used, tokens, spent, words) in runs.items():
        label = f"{size / 1e6:g} million tokens"
        rows.append(
            Row(f"{label}, memory", "bytes per token", [(used - base) / (tokens - few)], kind="value", target=40)
        )
        rows[-1].note = f"of these, {words / tokens:.1f} are what spaCy's vocabulary needs for the new words"
        rows.append(Row(f"{label}, time", "us per token", [1e6 * spent / tokens], kind="value"))
    first, last = (1e6 * spent / tokens for _, tokens, spent, _ in (runs[sizes[0]], runs[sizes[-1]]))
    rows.append(Row("time per token, largest divided by smallest", "", [last / first], kind="value", target=1.15))
    rows[-1].note = "the time to make the examples is measured separately and subtracted"
    return rows


def stream(data: str, tokens: int) -> tuple[float, int, float, float]:
    """Train on a generator; return the peak, the tokens, the seconds without making the examples, and the memory that
    making them has taken."""
    nlp = ours.blank()
    sentences = corpora.read_columns(_options(data).corpus("conll2000", "train.txt"))
    counted = 0

    def count() -> None:
        nonlocal counted
        counted = sum(len(example.predicted) for example in _perturbed(nlp, sentences, tokens))

    before = resident()
    making = seconds(count)
    words = resident() - before
    pipe = ours.chunker(nlp, optimizer=ours.default_optimizer("crf_chunker", 1))

    def work() -> None:
        pipe.initialize(lambda: _perturbed(nlp, sentences, tokens))
        pipe.fit()

    spent = seconds(work) - making
    return peak(), counted, spent, words


def _perturbed(nlp: Language, sentences: list[corpora.Sentence], tokens: int) -> Iterator[Example]:
    """Yield examples of `perturbed`."""
    from spacy.tokens import Doc, Span
    from spacy.training import Example

    for words, tags, labels in perturbed(sentences, tokens):
        gold = Doc(nlp.vocab, words=words)
        gold.spans["chunks"] = [Span(gold, *span) for span in sorted(corpora.spans_of(labels))]
        yield Example(Doc(nlp.vocab, words=words, tags=tags), gold)


def perturbed(sentences: list[corpora.Sentence], tokens: int) -> Iterator[corpora.Sentence]:
    """Yield at least so many tokens; every fiftieth word of each copy after the first gets a new spelling."""
    copy = done = 0
    while True:
        for number, sentence in enumerate(sentences):
            if done >= tokens:
                return
            words = sentence.words
            done += len(words)
            fresh = [f"{w}{copy}" if copy and (number + i) % 50 == 0 else w for i, w in enumerate(words)]
            yield sentence._replace(words=fresh)
        copy += 1


@benchmark("tag-memory", minutes=1.5)
def tag_memory(options: Options) -> list[Row]:
    """Resident memory of `tag` from raw text to JSON, with probabilities, over a million tokens. They are CoNLL-2000,
    CoNLL-2002 Spanish and UD English EWT, shuffled and repeated, two per cent of the words of each copy made new. The
    pipeline has a tagger, a chunker and an entity recognizer, trained on 2,000 sentences each. Growth is the peak
    above what there was after a tenth of the text. The speed, in processor time, is compared with a loop that writes
    `doc.to_json()`.
    """
    options.corpus("conll2002", "esp.train")
    data = str(options.corpus("ud-english-ewt", "en_ewt-ud-train.conllu").parent.parent)
    tokens = options.few(20_000, TAGGED_TOKENS)
    with scratch() as folder:
        in_process("memory:prepare_tag", data, tokens, str(folder))
        kinds = {
            "ours": lambda: in_process("memory:run_tag", str(folder), tokens),
            "loop": lambda: in_process("memory:run_loop", str(folder), tokens),
        }
        growth: dict[str, list[float]] = {name: [] for name in kinds}

        def measure(name: str) -> float:
            grown, rate = kinds[name]()
            growth[name].append(grown / MEGABYTE)
            return float(rate)

        speed = in_turn(options.rounds, {name: partial(measure, name) for name in kinds})
    label, against = "growth of resident memory after a tenth", "a loop over nlp.pipe"
    return [
        Row(label, "MB", growth["ours"], kind="value", target=50),
        Row(label, "MB", growth["ours"], growth["loop"], against),
        Row("raw text to JSON", "tokens/s", speed["ours"], speed["loop"], against, "share", 90),
    ]


def prepare_tag(data: str, tokens: int, folder: str) -> None:
    """Write the text, and train a pipeline."""
    options, rng = _options(data), random.Random(0)
    read = {
        "crf_tagger": (corpora.xpos, ours.blank()),
        "crf_chunker": (corpora.chunks, ours.blank()),
        "crf_ner": (corpora.entities, ours.blank("es")),
    }
    nlp, sentences = ours.blank(), []
    for factory, (corpus, blank) in read.items():
        task = corpus(options, blank, "train", TRAIN_SENTENCES)
        pipe = ours.add(nlp, factory, optimizer=ours.default_optimizer(factory, 2))
        ours.train(pipe, task.examples)
        sentences += corpus(options, blank, "train").sentences
    nlp.to_disk(Path(folder) / "model")
    rng.shuffle(sentences)
    with (Path(folder) / "text.txt").open("w", encoding="utf8") as file:
        copy = done = 0
        while done < tokens:
            for number, sentence in enumerate(sentences):
                if done >= tokens:
                    break
                done += len(sentence.words)
                words = [
                    f"{w}{'aeiou'[copy % 5]}{copy}" if copy and (number + i) % 50 == 0 else w
                    for i, w in enumerate(sentence.words)
                ]
                file.write(corpora.as_text(words) + "\n")
            copy += 1


def run_tag(folder: str, tokens: int) -> tuple[float, float]:
    """Run `tag` on the text; return by how many bytes its memory has grown, and tokens a second."""
    from spacy_crfseq.tools.tag import annotate, input_files
    from spacy_crfseq.tools.tag.tagger import Tagger, TagSettings

    settings = TagSettings(str(Path(folder) / "model"), "jsonl", scores=True)
    files = input_files(settings, [Path(folder) / "text.txt"], None, Path(folder) / "out")
    started = process_time()
    counts = (annotated.counts.tokens for _, _, annotated in annotate(files, Tagger(settings)))
    grown, done = _growth(counts, tokens)
    return grown, done / (process_time() - started)


def run_loop(folder: str, tokens: int) -> tuple[float, float]:
    """Annotate the text by a loop; return as `run_tag` does."""
    import spacy
    import srsly

    nlp = spacy.load(Path(folder) / "model")
    for name in nlp.pipe_names:
        nlp.get_pipe(name).cfg["scores"] = True  # type: ignore[attr-defined]
    started = process_time()

    def counts() -> Iterator[int]:
        lines = (line.rstrip("\n") for line in (Path(folder) / "text.txt").open(encoding="utf8"))
        with (Path(folder) / "loop.jsonl").open("w", encoding="utf8") as file:
            for doc in nlp.pipe(lines, batch_size=256):
                file.write(srsly.json_dumps(doc.to_json()) + "\n")
                yield len(doc)

    grown, done = _growth(counts(), tokens)
    return grown, done / (process_time() - started)


def _growth(counts: Iterator[int], tokens: int) -> tuple[float, int]:
    """Return the peak of this process above its memory after a tenth of so many tokens, and all tokens."""
    base, done = 0.0, 0
    for count in counts:
        done += count
        if not base and done >= tokens / 10:
            base = resident()
    return max(peak() - base, 1.0), done


def resident() -> float:
    """Return the resident memory of this process in bytes; its peak where the system does not report it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return peak()
