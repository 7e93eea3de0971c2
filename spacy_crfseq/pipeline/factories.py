"""The factories `crf_tagger`, `crf_chunker` and `crf_ner`, and the registries, which spaCy finds by entry points.

Every `Language` object imports this module, so it is light.  (No deferred annotations here: spaCy checks configs
against the annotations of these functions.)
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from spacy.language import Language
from spacy.util import registry

from .. import registry as registries
from .settings import METHOD, Method

for _name, _registry in registries.ALL.items():
    if not hasattr(registry, _name):
        setattr(registry, _name, _registry)

Scorer = Callable[..., Any] | None


def _factory(
    name: str, assigns: list[str], scores: dict[str, float | None], features: str, scorer: str, **own: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a factory whose ``**method`` are the fields of `Method`, listed one by one in its signature."""
    default_config = {
        "features": {"@crf_features": features}, **METHOD, **own, "scorer": {"@scorers": scorer},
    }  # fmt: skip

    def register(create: Callable[..., Any]) -> Callable[..., Any]:
        written = signature(create)
        mine = [p for p in written.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        kind = Parameter.POSITIONAL_OR_KEYWORD
        shared = [Parameter(field, kind, annotation=each) for field, each in Method.__annotations__.items()]
        create.__signature__ = written.replace(parameters=[*mine, *shared])  # type: ignore[attr-defined]
        made: Callable[..., Any] = Language.factory(
            name, assigns=assigns, default_config=default_config, default_score_weights=scores, func=create
        )
        return made

    return register


def _component(nlp: Language, name: str, task: Any, method: dict[str, Any], **settings: Any) -> Any:
    from .component import CRFComponent

    return CRFComponent(nlp.vocab, name, task, Method(**method), **settings)


@_factory(
    "crf_tagger",
    ["token.tag", "token.pos", "token.morph"],
    {"tag_acc": 1.0, "pos_acc": None, "morph_acc": None},
    "spacy_crfseq.Tagging.v1",
    "spacy_crfseq.tagger_scorer.v1",
    attr="tag",
    overwrite=False,
)
def create_tagger(
    nlp: Language, name: str, attr: str, overwrite: bool, scores: bool, scorer: Scorer, **method: Any
) -> Any:
    """Create a tagger: one label a token, written to one token attribute.

    attr (str): Where labels come from and go to: "tag", "pos" or "morph".
    overwrite (bool): Replace values that are set already.
    scores (bool): Store the probability of each tag, which ``token._.crf_score`` returns.
    The other settings are explained at `settings.Method`.
    """
    from .tasks.tagger import TokenTags

    return _component(nlp, name, TokenTags(attr, overwrite), method, scores=scores, scorer=scorer)


@_factory(
    "crf_chunker",
    ["doc.spans"],
    {"spans_chunks_f": 1.0, "spans_chunks_p": 0.0, "spans_chunks_r": 0.0},
    "spacy_crfseq.Chunking.v1",
    "spacy_crfseq.chunker_scorer.v1",
    spans_key="chunks",
    scheme="IOB2",
    threshold=0.0,
    incorrect_spans_key=None,
)
def create_chunker(
    nlp: Language,
    name: str,
    spans_key: str,
    scheme: str,
    threshold: float,
    incorrect_spans_key: str | None,
    scores: bool,
    scorer: Scorer,
    **method: Any,
) -> Any:
    """Create a chunker: non-overlapping labelled spans in ``doc.spans[spans_key]``.

    spans_key (str): Group of ``doc.spans`` that gold chunks are read from and predicted ones are written to.
    scheme (str): "IOB2" or "BILUO", the tags used inside.
    threshold (float): Spans whose probability is lower are left out; 0 keeps all and computes none.
    incorrect_spans_key (str | None): Group of ``doc.spans`` that on gold Docs holds spans that are known to be wrong,
        with exactly these boundaries and labels, whatever else is known there.
    scores (bool): Store the probability of each span in ``doc.spans[spans_key].attrs["scores"]``.
    The other settings are explained at `settings.Method`.
    """
    from .tasks.chunker import SpanGroups

    task = SpanGroups(spans_key, scheme, incorrect_spans_key)
    return _component(nlp, name, task, method, threshold=threshold, scores=scores, scorer=scorer)


@_factory(
    "crf_ner",
    ["doc.ents", "token.ent_iob", "token.ent_type"],
    {"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
    "spacy_crfseq.Entities.v1",
    "spacy.ner_scorer.v1",
    scheme="BILUO",
    threshold=0.0,
    incorrect_spans_key=None,
)
def create_ner(
    nlp: Language,
    name: str,
    scheme: str,
    threshold: float,
    incorrect_spans_key: str | None,
    scores: bool,
    scorer: Scorer,
    **method: Any,
) -> Any:
    """Create an entity recognizer that writes ``doc.ents``.

    scheme (str): "IOB2" or "BILUO", the tags used inside.
    threshold (float): Entities whose probability is lower are left out; 0 keeps all and computes none.
    incorrect_spans_key (str | None): Group of ``doc.spans`` that on gold Docs holds spans that are known to be wrong,
        with exactly these boundaries and labels, whatever else is known there.
    scores (bool): Store the entities once more in ``doc.spans``, in a group with the name of the component, their
        probabilities in its ``attrs["scores"]``.
    The other settings are explained at `settings.Method`.
    """
    from .tasks.ner import Entities

    task = Entities(scheme, incorrect_spans_key)
    return _component(nlp, name, task, method, threshold=threshold, scores=scores, scorer=scorer)
