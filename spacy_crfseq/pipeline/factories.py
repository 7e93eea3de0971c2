"""The factories `crf_tagger`, `crf_chunker` and `crf_ner`.

Every `Language` object imports this module through its entry points, so it is light: it makes the registries known to
spaCy and declares defaults; the component and numba come in when a factory is called.  (No deferred annotations here:
spaCy checks configs against the annotations of these functions.)
"""

from collections.abc import Callable
from typing import Any

from spacy.language import Language
from spacy.util import registry

from .. import registry as registries

for _name, _registry in registries.ALL.items():
    if not hasattr(registry, _name):
        setattr(registry, _name, _registry)

METHOD: dict[str, Any] = {
    "loss": {"@crf_losses": "spacy_crfseq.SequentialLog.v1"},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 1.0},
    "optimizer": {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1"},
    "decoder": {"@crf_decoders": "spacy_crfseq.Viterbi.v1"},
    "support": "observed",
    "min_count": 1,
    "max_features": 0,
    "boundaries": True,
    "transitions": True,
    "tag_dictionary_size": 0,
    "tag_dictionary_min_count": 10,
    "precision": "float32",
    "inner_iterations": 1,
    "keep_names": False,
    "scores": False,
    "n_threads": 0,
}
"""Settings shared by the three factories; `method.Method` explains them."""


def _defaults(features: str, scorer: str, **own: Any) -> dict[str, Any]:
    return {"features": {"@crf_features": features}, **METHOD, **own, "scorer": {"@scorers": scorer}}


@Language.factory(
    "crf_tagger",
    assigns=["token.tag", "token.pos", "token.morph"],
    default_config=_defaults("spacy_crfseq.Tagging.v1", "spacy_crfseq.tagger_scorer.v1", attr="tag", overwrite=False),
    default_score_weights={"tag_acc": 1.0, "pos_acc": None, "morph_acc": None},
)
def create_tagger(
    nlp: Language,
    name: str,
    attr: str,
    overwrite: bool,
    features: Any,
    loss: Any,
    regularizer: Any,
    optimizer: Any,
    decoder: Any,
    support: str,
    min_count: int,
    max_features: int,
    boundaries: bool,
    transitions: bool,
    tag_dictionary_size: int,
    tag_dictionary_min_count: int,
    precision: str,
    inner_iterations: int,
    keep_names: bool,
    scores: bool,
    n_threads: int,
    scorer: Callable[..., Any] | None,
) -> Any:
    """Create a tagger: one label a token, written to one token attribute.

    attr (str): Where labels come from and go to: "tag", "pos" or "morph".
    overwrite (bool): Replace values that are set already.
    scores (bool): Store the probability of each tag, which ``token._.crf_score`` returns.
    The other settings are explained at `method.Method`.
    """
    from .annotations import TokenTags
    from .component import CRFComponent
    from .method import Method

    method = Method(
        features, loss, regularizer, optimizer, decoder, support, min_count, max_features,
        boundaries, transitions, tag_dictionary_size, tag_dictionary_min_count, precision, inner_iterations,
        keep_names, n_threads,
    )  # fmt: skip
    return CRFComponent(nlp.vocab, name, TokenTags(attr, overwrite), method, scores=scores, scorer=scorer)


@Language.factory(
    "crf_chunker",
    assigns=["doc.spans"],
    default_config=_defaults(
        "spacy_crfseq.Chunking.v1", "spacy_crfseq.chunker_scorer.v1",
        spans_key="chunks", scheme="IOB2", threshold=0.0, incorrect_spans_key=None,
    ),
    default_score_weights={"spans_chunks_f": 1.0, "spans_chunks_p": 0.0, "spans_chunks_r": 0.0},
)  # fmt: skip
def create_chunker(
    nlp: Language,
    name: str,
    spans_key: str,
    scheme: str,
    threshold: float,
    incorrect_spans_key: str | None,
    features: Any,
    loss: Any,
    regularizer: Any,
    optimizer: Any,
    decoder: Any,
    support: str,
    min_count: int,
    max_features: int,
    boundaries: bool,
    transitions: bool,
    tag_dictionary_size: int,
    tag_dictionary_min_count: int,
    precision: str,
    inner_iterations: int,
    keep_names: bool,
    scores: bool,
    n_threads: int,
    scorer: Callable[..., Any] | None,
) -> Any:
    """Create a chunker: non-overlapping labelled spans in ``doc.spans[spans_key]``.

    spans_key (str): Group of ``doc.spans`` that gold chunks are read from and predicted ones are written to.
    scheme (str): "IOB2" or "BILUO", the tags used inside.
    threshold (float): Spans whose probability is lower are left out; 0 keeps all and computes none.
    incorrect_spans_key (str | None): Group of ``doc.spans`` that on gold Docs holds spans that are known to be wrong,
        with exactly these boundaries and labels, whatever else is known there.
    scores (bool): Store the probability of each span in ``doc.spans[spans_key].attrs["scores"]``.
    The other settings are explained at `method.Method`.
    """
    from .annotations import SpanGroups
    from .component import CRFComponent
    from .method import Method

    method = Method(
        features, loss, regularizer, optimizer, decoder, support, min_count, max_features,
        boundaries, transitions, tag_dictionary_size, tag_dictionary_min_count, precision, inner_iterations,
        keep_names, n_threads,
    )  # fmt: skip
    annotation = SpanGroups(spans_key, scheme, incorrect_spans_key)
    return CRFComponent(nlp.vocab, name, annotation, method, threshold=threshold, scores=scores, scorer=scorer)


@Language.factory(
    "crf_ner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config=_defaults(
        "spacy_crfseq.Entities.v1",
        "spacy.ner_scorer.v1",
        scheme="BILUO",
        threshold=0.0,
        incorrect_spans_key=None,
    ),
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def create_ner(
    nlp: Language,
    name: str,
    scheme: str,
    threshold: float,
    incorrect_spans_key: str | None,
    features: Any,
    loss: Any,
    regularizer: Any,
    optimizer: Any,
    decoder: Any,
    support: str,
    min_count: int,
    max_features: int,
    boundaries: bool,
    transitions: bool,
    tag_dictionary_size: int,
    tag_dictionary_min_count: int,
    precision: str,
    inner_iterations: int,
    keep_names: bool,
    scores: bool,
    n_threads: int,
    scorer: Callable[..., Any] | None,
) -> Any:
    """Create an entity recognizer that writes ``doc.ents``.

    scheme (str): "IOB2" or "BILUO", the tags used inside.
    threshold (float): Entities whose probability is lower are left out; 0 keeps all and computes none.
    incorrect_spans_key (str | None): Group of ``doc.spans`` that on gold Docs holds spans that are known to be wrong,
        with exactly these boundaries and labels, whatever else is known there.
    scores (bool): Store the entities once more in ``doc.spans``, in a group with the name of the component, their
        probabilities in its ``attrs["scores"]``.
    The other settings are explained at `method.Method`.
    """
    from .annotations import Entities
    from .component import CRFComponent
    from .method import Method

    method = Method(
        features, loss, regularizer, optimizer, decoder, support, min_count, max_features,
        boundaries, transitions, tag_dictionary_size, tag_dictionary_min_count, precision, inner_iterations,
        keep_names, n_threads,
    )  # fmt: skip
    annotation = Entities(scheme, incorrect_spans_key)
    return CRFComponent(nlp.vocab, name, annotation, method, threshold=threshold, scores=scores, scorer=scorer)
