"""Tagging: raw text against the tokenizer and a neural tagger, Docs against CRFsuite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import corpora, ours
from bench._harness import (
    Measure,
    Options,
    Row,
    benchmark,
    in_turn,
    need,
    one_thread,
    optional,
    run_command,
    say,
    scratch,
    seconds,
)
from bench.corpora import Sentence, Task

WORDS, FILE_WORDS = 500_000, 2_000_000
NEURAL_WORDS = 100_000


@benchmark("tagging-raw", minutes=1.2)
def tagging_raw(options: Options) -> list[Row]:
    """Raw text to annotated Docs with `nlp.pipe`, on one process and one thread: half a million words in paragraphs
    of one to eight sentences. The figures are words per second as a share of the speed of the tokenizer alone, and
    compared with spaCy's tok2vec tagger. A warm-up round makes all words known to the tokenizer and to our
    components."""
    words_only = {"features": {"@crf_features": "spacy_crfseq.Tagging.v1"}}
    with one_thread():
        return [
            _against_tokenizer(options, "crf_ner", "es", 80, scheme="IOB2"),
            _against_tokenizer(options, "crf_ner", "es", None, scheme="BILUO"),
            _against_tokenizer(options, "crf_chunker", "en", 70, **words_only),
            _against_tokenizer(options, "crf_tagger", "en", 75),
            _against_tok2vec(options),
        ]


def _pipeline(options: Options, factory: str, lang: str, **config: Any) -> tuple[Any, Task]:
    """Return a pipeline with a trained component and the corpus it was trained on."""
    nlp = ours.blank(lang)
    read = {"crf_ner": corpora.entities, "crf_chunker": corpora.chunks, "crf_tagger": corpora.xpos}[factory]
    task = read(options, nlp, "train", options.few(200))
    say(f"    training {factory}")
    pipe = ours.add(nlp, factory, optimizer=ours.default_optimizer(factory, 2), **config)
    ours.train(pipe, task.examples)
    return nlp, task


def _against_tokenizer(options: Options, factory: str, lang: str, target: float | None, **config: Any) -> Row:
    nlp, task = _pipeline(options, factory, lang, **config)
    texts = corpora.paragraphs(task.sentences, options.few(5_000, WORDS))
    words = sum(len(doc) for doc in nlp.tokenizer.pipe(texts))
    contenders = {
        "tokenizer": _words_a_second(nlp, texts, words, off=[factory]),
        "ours": _words_a_second(nlp, texts, words),
    }
    figures = in_turn(options.rounds, contenders, warm=contenders)
    pipe = nlp.get_pipe(factory)
    note = f"{words:,} words, {len(pipe.tags)} labels" + (
        ", features of words only" if factory == "crf_chunker" else ""
    )
    label, against = f"{factory} over raw text", "spaCy's tokenizer alone"
    return Row(label, "words/s", figures["ours"], figures["tokenizer"], against, "share", target, note)


def _words_a_second(nlp: Any, texts: Sequence[str], words: int, off: Sequence[str] = ()) -> Measure:
    def work() -> None:
        with nlp.select_pipes(disable=list(off)):
            for _ in nlp.pipe(texts):
                pass

    return lambda: words / seconds(work)


def _against_tok2vec(options: Options) -> Row:
    nlp, task = _pipeline(options, "crf_tagger", "en")
    neural = _neural_tagger(options)
    texts = corpora.paragraphs(task.sentences, options.few(2_000, NEURAL_WORDS))
    words = sum(len(doc) for doc in nlp.tokenizer.pipe(texts))
    contenders = {"spaCy's": _words_a_second(neural, texts, words), "ours": _words_a_second(nlp, texts, words)}
    figures = in_turn(options.rounds, contenders, warm=["ours"])
    note = "both over raw text, tokenizer included; tok2vec of width 96 and depth 4, the default on CPU"
    against = "spaCy's tagger with tok2vec"
    return Row("crf_tagger over raw text", "words/s", figures["ours"], figures["spaCy's"], against, "times", 15, note)


def _neural_tagger(options: Options) -> Any:
    """Return spaCy's own tagger; a few steps of training do, since its speed does not depend on its weights."""
    nlp = ours.blank("en")
    task = corpora.xpos(options, nlp, "train", 500)
    nlp.add_pipe("tagger")
    optimizer = nlp.initialize(lambda: task.examples)
    for first in range(0, 300, 100):
        nlp.update(task.examples[first : first + 100], sgd=optimizer)
    return nlp


@benchmark("tagging-files", minutes=1)
def tagging_files(options: Options) -> list[Row]:
    """The whole command `crfseq tag` on four files of raw text, from its start to the last output in JSON, with one and
    with two processes. The files have a million words each in paragraphs of one to eight sentences, or 25,000
    sentences each."""
    nlp, task = _pipeline(options, "crf_tagger", "en")
    with scratch() as folder:
        nlp.to_disk(folder / "model")
        paragraphs = corpora.paragraphs(task.sentences, options.few(1_000, FILE_WORDS))
        sentences = [corpora.as_text(sentence.words) for sentence in task.sentences] * options.few(1, 4)
        return [
            _in_processes(options, folder, f"crfseq tag, {label}", texts)
            for label, texts in (("paragraphs", paragraphs), ("sentences", sentences))
        ]


def _in_processes(options: Options, folder: Path, label: str, texts: Sequence[str]) -> Row:
    files = [folder / f"{number}.txt" for number in range(4)]
    for number, file in enumerate(files):
        file.write_text("".join(f"{text}\n" for text in texts[number::2]), encoding="utf8")
    tag = [sys.executable, "-m", "spacy", "crfseq", "tag", str(folder / "model"), *map(str, files)]

    def rate(processes: int) -> float:
        command = [*tag, "--output", str(folder / "out"), "--force", "-j", str(processes)]
        return 2 * len(texts) / seconds(lambda: run_command(command))

    figures = in_turn(options.rounds, {"one": partial(rate, 1), "two": partial(rate, 2)}, warm=["one"])
    return Row(label, "texts/s", figures["two"], figures["one"], "one process", "times", 1.8, "whole commands")


@benchmark("tagging-docs", minutes=1.3)
def tagging_docs(options: Options) -> list[Row]:
    """Tagging the Docs of the test parts of CoNLL-2000 (chunks, 22 labels, 19 attributes per token) and of UD
    English EWT (49 labels, 18 attributes) on one thread. Our time is from Docs to spans or tags, including
    features. The time of CRFsuite is from strings to labels, with the same features handwritten in Python or
    precomputed."""
    need("pycrfsuite")
    return [
        *_against_crfsuite(options, "chunks", "crf_chunker", corpora.chunks, ours.chunker, corpora.chunk_attributes),
        *_against_crfsuite(options, "tags", "crf_tagger", corpora.xpos, ours.tagger, corpora.tag_attributes),
    ]


def _against_crfsuite(
    options: Options,
    what: str,
    factory: str,
    read: Callable[..., Task],
    make: Callable[..., Any],
    attributes: Callable[[Sentence], list[list[str]]],
) -> list[Row]:
    nlp = ours.blank()
    train, test = (read(options, nlp, part, options.few(200)) for part in ("train", "test"))
    pipe = make(nlp, optimizer=ours.default_optimizer(factory, 3))
    ours.train(pipe, train.examples)
    docs = ours.copies(test.examples)
    tokens = sum(len(doc) for doc in docs)
    say(f"    training CRFsuite on {what} for a while")
    with scratch() as folder, one_thread():
        path = str(folder / "crfsuite.model")
        _train_crfsuite(train, attributes, path, 5 if options.quick else 30)
        peers = _peers(path, test, attributes)
        passes = 1 if options.quick else 5
        contenders = {"ours": partial(_rate, passes * tokens, lambda: [list(pipe.pipe(docs)) for _ in range(passes)])}
        contenders |= {name: partial(_rate, tokens, work) for name, work in peers.items()}
        figures = in_turn(options.rounds, contenders, warm=["ours"])
    targets = {"python-crfsuite, features by hand": 10.0, "python-crfsuite, ready-made items": 5.0}
    return [
        Row(f"{what} of Docs", "tokens/s", figures["ours"], figures[name], name, "times", targets.get(name))
        for name in peers
    ]


def _rate(tokens: int, work: Callable[[], object]) -> float:
    return tokens / seconds(work)


def _train_crfsuite(task: Task, attributes: Callable[[Sentence], list[list[str]]], path: str, iterations: int) -> None:
    trainer = need("pycrfsuite").Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": iterations})
    for sentence in task.sentences:
        trainer.append(attributes(sentence), sentence.labels)
    trainer.train(path)


def _peers(path: str, test: Task, attributes: Callable[[Sentence], list[list[str]]]) -> dict[str, Any]:
    """Return the work of each peer, all with CRFsuite's model."""
    pycrfsuite = need("pycrfsuite")
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    lists = [attributes(sentence) for sentence in test.sentences]
    items = [pycrfsuite.ItemSequence(rows) for rows in lists]
    peers: dict[str, Any] = {
        "python-crfsuite, features by hand": lambda: [tagger.tag(attributes(s)) for s in test.sentences],
        "python-crfsuite, ready-made items": lambda: [tagger.tag(sequence) for sequence in items],
    }
    crfs = optional("crfs")
    if crfs is None:
        return peers
    model = crfs.Model.open(path)
    return {**peers, "crfs (Rust), lists of strings ready-made": lambda: [model.tag(rows) for rows in lists]}
