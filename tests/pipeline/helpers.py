"""Tiny corpora, one for all three components, and their predictions in a form that can be compared."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.pipeline.component import CRFComponent

FACTORIES = ("crf_tagger", "crf_chunker", "crf_ner")
SCORES = {"crf_tagger": "tag_acc", "crf_chunker": "spans_chunks_f", "crf_ner": "ents_f"}
LBFGS = {"@crf_optimizers": "spacy_crfseq.LBFGS.v1"}
WEAK = {"regularizer": {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 3.0}, "precision": "float64"}
LBFGS_TIGHT = {**LBFGS, "tolerance": 0.0, "gradient_tolerance": 1e-7, "max_iterations": 300}

# word, fine tag, universal tag, features, chunk, entity
SENTENCES = [
    [line.split("/") for line in sentence.split()]
    for sentence in (
        "Anna/NNP/PROPN/Number=Sing/B-NP/U-PER lives/VBZ/VERB/_/B-VP/O in/IN/ADP/_/B-PP/O "
        "New/NNP/PROPN/Number=Sing/B-NP/B-LOC York/NNP/PROPN/Number=Sing/I-NP/L-LOC ././PUNCT/_/O/O",
        "Bob/NNP/PROPN/Number=Sing/B-NP/U-PER saw/VBD/VERB/Tense=Past/B-VP/O the/DT/DET/_/B-NP/O "
        "old/JJ/ADJ/_/I-NP/O bridge/NN/NOUN/Number=Sing/I-NP/O ././PUNCT/_/O/O",
        "The/DT/DET/_/B-NP/O trains/NNS/NOUN/Number=Plur/I-NP/O reach/VBP/VERB/_/B-VP/O "
        "Oslo/NNP/PROPN/Number=Sing/B-NP/U-LOC",
        "Bank/NNP/PROPN/Number=Sing/B-NP/B-ORG of/IN/ADP/_/B-PP/I-ORG Norway/NNP/PROPN/Number=Sing/B-NP/L-ORG "
        "lends/VBZ/VERB/_/B-VP/O money/NN/NOUN/Number=Sing/B-NP/O",
        "Rain/NN/NOUN/Number=Sing/B-NP/O",
    )
]


def gold_doc(nlp: Language, rows: Sequence[Sequence[str]]) -> Doc:
    words, tags, pos, morphs, chunks, ents = ([*column] for column in zip(*rows, strict=True))
    iob = [ent.replace("U-", "B-").replace("L-", "I-") for ent in ents]
    doc = Doc(nlp.vocab, words=words, tags=tags, pos=pos, morphs=morphs, ents=iob)
    starts = [i for i, tag in enumerate(chunks) if tag[0] == "B"]
    ends = [next((j for j in range(i + 1, len(words)) if chunks[j][0] != "I"), len(words)) for i in starts]
    doc.spans["chunks"] = [Span(doc, i, j, chunks[i][2:]) for i, j in zip(starts, ends, strict=True)]
    return doc


def bare_doc(nlp: Language, words: Sequence[str], tags: Sequence[str] | None = None) -> Doc:
    return Doc(nlp.vocab, words=[*words], tags=None if tags is None else [*tags])


def examples(nlp: Language, factory: str = "crf_ner", repeat: int = 1) -> list[Example]:
    """Return the corpus; only the chunker is given tags, which are an input of its task."""
    return [Example(input_doc(nlp, factory, rows), gold_doc(nlp, rows)) for _ in range(repeat) for rows in SENTENCES]


def input_doc(nlp: Language, factory: str, rows: Sequence[Sequence[str]]) -> Doc:
    given = factory == "crf_chunker"
    return bare_doc(nlp, [row[0] for row in rows], [row[1] for row in rows] if given else None)


def inputs(nlp: Language, factory: str) -> list[Doc]:
    """Return the corpus as docs to be annotated, with sentences of unknown words behind it."""
    docs = [input_doc(nlp, factory, rows) for rows in SENTENCES]
    unknown = [bare_doc(nlp, text.split()) for text in ("Zed saw New Oslo of Norway", "quux", "")]
    return docs + unknown


def annotation(doc: Doc) -> dict[str, Any]:
    return {
        "tags": [token.tag_ for token in doc],
        "pos": [token.pos_ for token in doc],
        "morph": [str(token.morph) for token in doc],
        "ents": triples(doc.ents),
        "spans": {key: triples(group) for key, group in doc.spans.items()},
    }


def predictions(nlp: Language, factory: str) -> list[dict[str, Any]]:
    return [annotation(nlp(doc)) for doc in inputs(nlp, factory)]


def blank(factory: str = "crf_ner", **config: Any) -> Language:
    nlp = spacy.blank("xx")
    nlp.add_pipe(factory, config=config)
    return nlp


def pipe_of(nlp: Language, name: str | None = None) -> CRFComponent:
    pipe = nlp.get_pipe(name or nlp.pipe_names[-1])
    assert isinstance(pipe, CRFComponent)
    return pipe


def initialized(factory: str = "crf_ner", repeat: int = 1, **config: Any) -> Language:
    nlp = blank(factory, **config)
    return initialize(nlp, examples(nlp, factory, repeat))


def initialize(nlp: Language, corpus: list[Example], fit: bool = False) -> Language:
    nlp.initialize(lambda: corpus)
    if fit:
        pipe_of(nlp).fit()
    return nlp


def trained(factory: str = "crf_ner", **config: Any) -> Language:
    """Return a pipeline that knows its tiny corpus by heart."""
    nlp = blank(factory, **config)
    return initialize(nlp, examples(nlp, factory), fit=True)


def registered(kind: str, name: str, **settings: Any) -> dict[str, Any]:
    """Return the block of a config that names a plug-in of this package."""
    return {f"@crf_{kind}": f"spacy_crfseq.{name}.v1", **settings}


def templates(*texts: str, **settings: Any) -> dict[str, Any]:
    return registered("features", "Templates", templates=[*texts], **settings)


def words_of(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def triples(spans: Iterable[Any]) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label_) for span in spans]


def with_all_tags(**config: object) -> tuple[Language, CRFComponent]:
    nlp = blank(**{"optimizer": LBFGS, **config})
    for label in ("PER", "LOC", "ORG"):  # with all their tags
        pipe_of(nlp).add_label(label)
    initialize(nlp, examples(nlp), fit=True)
    return nlp, pipe_of(nlp)


def texts(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    words = ["Anna", "saw", "Oslo", "in", "New", "York", "Bank", "of", "Norway"]
    return [" ".join([*rng.choice(words, 6), f"Name{i}", f"word{i % 97}x"]) for i in range(count)]


def entities(nlp: Language, text: str) -> list[tuple[str, str]]:
    return [(entity.text, entity.label_) for entity in nlp(text).ents]
