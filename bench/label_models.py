"""Label models: the same votes of many sources, in our hidden Markov model and in that of skweak."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench._harness import Options, Row, Skip, benchmark, in_turn, one_thread, scratch, seconds
from scripts.accuracy import CommandError
from scripts.labels import CORPORA, Corpus, aggregate_sources, converted, names_of, read_texts, skweak_labels

TEXTS = 4_000


@benchmark("label-models", minutes=3)
def label_models(options: Options) -> list[Row]:
    """The labels that a hidden Markov model makes of the sources of `scripts/sources` on the first 4,000 training
    sentences of CoNLL-2003, and of CoNLL-2002 in Spanish. The spans of all sources are in the Docs. Learning and
    labelling are timed, start-up and files are not. The program skweak has an environment of its own, see
    `scripts/skweak/requirements.txt`, and `CRFSEQ_SKWEAK` names its Python. It has one thread, and measures its
    processor time itself. Ours is timed by the clock of the run."""
    rows = list[Row]()
    with scratch() as folder, one_thread():
        for corpus in CORPORA:
            options.corpus(corpus.train)
            texts, labels = _votes(corpus, options, folder), folder / "labels.spacy"
            docs = read_texts(texts)
            contenders = {
                "ours": partial(seconds, partial(_label, docs)),
                "skweak": partial(skweak_labels, texts, labels),
            }
            figures = in_turn(options.rounds, contenders, warm=["ours"])
            what = f"{len(docs):,} texts and {len(names_of(docs))} sources, {LANGUAGES[corpus.lang]}"
            rows.append(Row(what, "s", figures["ours"], figures["skweak"], "skweak 0.3.3", target=20))
    return rows


LANGUAGES = {"en": "English", "es": "Spanish"}


def _votes(corpus: Corpus, options: Options, folder: Path) -> Path:
    """Return a file of texts with the spans of all sources."""
    from spacy.tokens import DocBin

    assert options.data is not None
    data, texts, output = options.data.resolve(), folder / f"{corpus.lang}.spacy", folder / f"{corpus.lang}-all.spacy"
    DocBin(docs=read_texts(converted(corpus, "train", data))[: options.few(100, TEXTS)]).to_disk(texts)
    try:
        aggregate_sources(corpus, texts, output, data)
    except CommandError as error:
        raise Skip(str(error).splitlines()[-1]) from None
    return output


def _label(docs: list[Any]) -> None:
    """Learn from the spans of the sources of Docs, and give these the best labels."""
    from spacy.tokens import Span

    from spacy_crfseq.pipeline.source_votes import sourced_texts
    from spacy_crfseq.schemes import decode_lenient

    texts = sourced_texts(docs)
    assert texts is not None
    for first, chain in texts.chains(texts.learn()):
        chain.marginals()
        tags = [texts.tags[label] for label in chain.viterbi().tolist()]
        for doc, (begin, end) in zip(docs[first:], pairwise(chain.offsets.tolist()), strict=False):
            doc.set_ents([Span(doc, *span) for span in decode_lenient(tags[begin:end])])
