"""A label may be any text: it trains and is predicted, or is refused by name; none vanishes."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_crfseq.errors import DataError
from tests.pipeline.helpers import LBFGS, blank, pipe_of, templates

TRICKY = [
    "O", "-", "--", "B", "B-", "B-x", "I-x", "L-x", "U-x", "x-", "GRP-A-", "-x", "O-", "-O", "!", "!x", " ", "x ", " x",
    "\t", "B- ", "*", "ü", "\u2028", "\U0001f600", "None", "0", "[]", '"', "x,y", "${x}",
]  # fmt: skip
NAMES = st.sampled_from(TRICKY) | st.text(
    st.sampled_from("-BILUO! xé*") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6
)
WORDS = ["Ada", "Lovelace", "met", "Acme"]
KINDS = [
    ("crf_tagger", ""),
    ("crf_chunker", "IOB2"),
    ("crf_chunker", "BILUO"),
    ("crf_ner", "IOB2"),
    ("crf_ner", "BILUO"),
]


def corpus(nlp: Language, factory: str, labels: tuple[str, str], split: bool) -> list[Example]:
    """Return a text with both labels; with `split`, gold and predicted words differ elsewhere."""
    reference = Doc(nlp.vocab, words=[*WORDS, "in", "a", "way"])
    if factory == "crf_tagger":
        tags = [labels[0], labels[0], labels[1], labels[1], *[labels[0]] * 3]
        for token, tag in zip(reference, tags, strict=True):
            token.tag_ = tag
    else:
        spans = [Span(reference, 0, 2, labels[0]), Span(reference, 3, 4, labels[1])]
        if factory == "crf_chunker":
            reference.spans["chunks"] = spans
        else:
            reference.set_ents(spans, default="outside")
    words, spaces = [*WORDS, *(["in", "a w", "ay"] if split else ["in", "a", "way"])], [True] * 5 + [not split, False]
    return [Example(Doc(nlp.vocab, words=words, spaces=spaces), reference)]


def predicted(nlp: Language, factory: str, doc: Doc) -> list[Any]:
    doc = nlp(doc.copy())
    if factory == "crf_tagger":
        return [token.tag_ for token in doc][:4]
    return [
        (span.start, span.end, span.label_) for span in (doc.spans["chunks"] if factory == "crf_chunker" else doc.ents)
    ]


@pytest.mark.parametrize(("factory", "scheme"), KINDS)
@pytest.mark.parametrize("split", [False, True])
@given(labels=st.tuples(NAMES, NAMES))
@example(labels=("PER", "ORG-"))
@example(labels=("GRP-A-", "PER"))
@example(labels=("O", "B-x"))
@settings(max_examples=5, deadline=None)
def test_a_label_trains_and_is_predicted_or_is_refused_by_name(
    factory: str, scheme: str, split: bool, labels: tuple[str, str]
) -> None:
    nlp = blank(
        factory, optimizer=LBFGS, features=templates("LOWER[0]"), **({"scheme": scheme} if scheme else {}),
        regularizer={"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 0.01},
    )  # fmt: skip
    texts = corpus(nlp, factory, labels, split)
    pipe = pipe_of(nlp)
    negative = [label for label in labels if label.startswith("!") and (len(label) > 1 or factory == "crf_ner")]
    if negative and factory == "crf_ner":
        with pytest.raises(DataError) as refused:
            nlp.initialize(lambda: texts)
        assert any(repr(label) in str(refused.value) for label in negative)
        return
    if negative and factory == "crf_tagger":  # "!NN" says what a token is not
        return
    nlp.initialize(lambda: texts)
    pipe.fit()
    gold = texts[0].reference
    if factory == "crf_tagger":
        wanted: list[Any] = [token.tag_ for token in gold][:4]
    else:
        wanted = [(0, 2, labels[0]), (3, 4, labels[1])]
    assert set(pipe.labels) == set(labels)
    restored = blank(factory, **({"scheme": scheme} if scheme else {}), features=templates("LOWER[0]"))
    restored.from_bytes(nlp.to_bytes())
    for pipeline in (nlp, restored):
        assert predicted(pipeline, factory, texts[0].predicted) == wanted
    assert pipe_of(restored).label_data == pipe.label_data


@pytest.mark.parametrize(("factory", "scheme"), KINDS)
@given(label=NAMES)
@example(label="O")
@settings(max_examples=10, deadline=None)
def test_a_label_that_is_added_is_there(factory: str, scheme: str, label: str) -> None:
    nlp = blank(factory, **({"scheme": scheme} if scheme else {}))
    pipe = pipe_of(nlp)
    if factory == "crf_ner" and label.startswith("!"):
        with pytest.raises(DataError, match="begins with '!'"):
            pipe.add_label(label)
        return
    assert pipe.add_label(label) == 1
    assert pipe.labels == (label,)
    assert pipe.add_label(label) == 0


@pytest.mark.parametrize("scheme", ["IOB2", "BILUO"])
@pytest.mark.parametrize("label", ["O", "B-x", "x-", "-"])
def test_a_span_of_any_label_may_be_given(scheme: str, label: str) -> None:
    nlp = blank("crf_ner", scheme=scheme, optimizer=LBFGS, features=templates("LOWER[0]"))
    texts = corpus(nlp, "crf_ner", (label, "other"), split=False)
    pipe, gold = pipe_of(nlp), texts[0].reference
    noted = Doc(nlp.vocab, words=[token.text for token in gold])
    pipe.clamp(noted, spans=[Span(noted, 0, 2, label)])
    nlp.initialize(lambda: [*texts, Example(Doc(nlp.vocab, words=[token.text for token in gold]), noted)])
    pipe.fit()
    doc = texts[0].predicted.copy()
    (answer,) = pipe.posterior([doc], spans=[Span(doc, 4, 6, label)]).spans()
    assert (4, 6, label) in [span[:3] for span in answer]
