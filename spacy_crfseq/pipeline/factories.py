"""The factories `crf_tagger`, `crf_chunker` and `crf_ner`, and the registries.  spaCy finds them by entry points.

Every `Language` object imports this module, so it is light.  (No deferred annotations here: spaCy checks configs
against the annotations of these functions.)
"""

from collections.abc import Callable
from functools import partial, update_wrapper
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
    """Register a factory whose ``**method`` are the fields of `Method`, all of which its signature lists."""
    default_config = {
        "features": {"@crf_features": features}, **METHOD, **own, "scorer": {"@scorers": scorer},
    }  # fmt: skip

    def register(create: Callable[..., Any]) -> Callable[..., Any]:
        written = signature(create)
        of_task = [p for p in written.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        kind = Parameter.POSITIONAL_OR_KEYWORD
        shared = [Parameter(field, kind, annotation=of_field) for field, of_field in Method.__annotations__.items()]
        listed: Any = update_wrapper(partial(create), create)
        listed.__signature__ = written.replace(parameters=[*of_task, *shared])
        made: Callable[..., Any] = Language.factory(
            name, assigns=assigns, default_config=default_config, default_score_weights=scores, func=listed
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
    """Create a tagger that predicts one label per token and writes it to a token attribute.

    attr (str): Token attribute of gold and predicted labels: "tag", "pos" or "morph".
    overwrite (bool): Replace existing values.
    scores (bool): Store the probability of each tag for ``token._.crf_score``.
    The other settings are explained at `settings.Method`.
    """
    from .tasks import TokenTags

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
    """Create a chunker that writes non-overlapping labelled spans to ``doc.spans[spans_key]``.

    spans_key (str): Group of ``doc.spans`` for gold and predicted chunks.
    scheme (str): "IOB2" or "BILUO", the internal tags; "IOBES", "BMES" and "BMEWO" are BILUO in other letters.
    threshold (float): Minimum probability of predicted spans; 0 keeps all spans and computes no probabilities.
    incorrect_spans_key (str | None): Group of ``doc.spans`` of gold Docs with spans that are known to be wrong,
        with exactly these boundaries and labels.
    scores (bool): Store the probability of each span in ``doc.spans[spans_key].attrs["scores"]``.
    The other settings are explained at `settings.Method`.
    """
    from .tasks import SpanGroups

    task = SpanGroups(spans_key, scheme, incorrect_spans_key)
    return _component(nlp, name, task, method, threshold=threshold, scores=scores, scorer=scorer)


@_factory(
    "crf_ner",
    ["doc.ents", "token.ent_iob", "token.ent_type"],
    {"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
    "spacy_crfseq.Entities.v1",
    "spacy_crfseq.ner_scorer.v1",
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

    scheme (str): "IOB2" or "BILUO", the internal tags; "IOBES", "BMES" and "BMEWO" are BILUO in other letters.
    threshold (float): Minimum probability of predicted entities; 0 keeps all entities and computes no probabilities.
    incorrect_spans_key (str | None): Group of ``doc.spans`` of gold Docs with spans that are known to be wrong,
        with exactly these boundaries and labels.
    scores (bool): Also store the entities in ``doc.spans``, in a group named after the component, with their
        probabilities in its ``attrs["scores"]``.
    The other settings are explained at `settings.Method`.
    """
    from .tasks import Entities

    task = Entities(scheme, incorrect_spans_key)
    return _component(nlp, name, task, method, threshold=threshold, scores=scores, scorer=scorer)
