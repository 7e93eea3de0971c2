"""The package's components as the benchmarks use them: public functions only, so that its insides may change."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from bench._harness import clock
from bench.corpora import CHUNK_TEMPLATES, TAG_TEMPLATES

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

LBFGS = {"@crf_optimizers": "spacy_crfseq.LBFGS.v1", "tolerance": 1e-7, "max_iterations": 1000}
"""Exact training; it is stopped from outside, at an objective or after some iterations."""


class Trace(NamedTuple):
    """A run of an optimizer: seconds, and objective and time after each iteration."""

    seconds: float
    values: list[float]
    stamps: list[float]

    @property
    def iteration(self) -> float:
        """The median time of an iteration after the first, which includes the first evaluation."""
        from statistics import median

        gaps = [after - before for before, after in zip(self.stamps, self.stamps[1:], strict=False)]
        return median(gaps) if gaps else self.seconds

    def reached(self, goal: float) -> float:
        """Return when the objective was first at `goal` or below; the end if never."""
        return next(
            (stamp for stamp, value in zip(self.stamps, self.values, strict=True) if value <= goal), self.seconds
        )


def blank(lang: str = "en") -> Language:
    """Return an empty pipeline."""
    import spacy

    return spacy.blank(lang)


def default_optimizer(factory: str, epochs: int) -> dict[str, Any]:
    """Return the default optimizer's block with a number of epochs."""
    from spacy.language import Language

    defaults: Any = Language.get_factory_meta(factory).default_config
    return {**defaults["optimizer"], "max_iterations": epochs}


def templates(texts: Sequence[str]) -> dict[str, Any]:
    """Return a block for exactly these templates."""
    return {"@crf_features": "spacy_crfseq.Templates.v1", "templates": list(texts)}


def add(nlp: Language, factory: str, **config: Any) -> Any:
    """Add a component, on one thread by default; replace the one that the pipeline may have."""
    if factory in nlp.pipe_names:
        nlp.remove_pipe(factory)
    return nlp.add_pipe(factory, config={"n_threads": 1, **config})


def chunker(nlp: Language, **config: Any) -> Any:
    """Add a chunker with the features of CRF++'s template file."""
    features = templates(CHUNK_TEMPLATES)
    return add(nlp, "crf_chunker", **{"features": features, "boundaries": False, **config})


def tagger(nlp: Language, **config: Any) -> Any:
    """Add a tagger with the 18 attributes per token that the peers get too."""
    features = templates(TAG_TEMPLATES)
    return add(nlp, "crf_tagger", **{"features": features, "boundaries": False, **config})


def matched(optimizer: dict[str, Any], support: str) -> dict[str, Any]:
    """Return the settings under which the objective is CRFsuite's with c2 = 1."""
    regularizer = {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 2.0}
    return {"regularizer": regularizer, "optimizer": optimizer, "support": support, "boundaries": False}


def train(pipe: Any, examples: Sequence[Example]) -> None:
    """Train a component from examples in memory."""
    pipe.initialize(lambda: examples)
    pipe.fit()


def fit_until(pipe: Any, *, goal: float = float("-inf"), iterations: int = 0) -> Trace:
    """Train an initialized component until the objective is at `goal`, or for some iterations."""
    values: list[float] = []
    stamps: list[float] = []
    started = clock()

    def watch(progress: Any) -> None:
        values.append(float(progress.report.value))
        stamps.append(clock() - started)
        if values[-1] <= goal or len(values) == iterations:
            raise KeyboardInterrupt  # what ends a fit early, everything kept

    pipe.fit(callback=watch)
    return Trace(clock() - started, values, stamps)


def objectives(pipe: Any, examples: Sequence[Example], losses: Sequence[str]) -> dict[str, Any]:
    """Return the objective of a trained component on one thread, with each of some losses, by their names."""
    from spacy_crfseq import registry
    from spacy_crfseq.potentials.linear import Linear
    from spacy_crfseq.training.dataset import join
    from spacy_crfseq.training.objective import Objective, Term

    data, layout = join(pipe.training.compile(examples)), pipe.crf.layout
    return {
        name: Objective(
            Linear(layout), [Term(data, registry.losses.get(f"spacy_crfseq.{name}.v1")())], pipe.method.regularizer
        )
        for name in losses
    }


def unlabelled(
    pipe: Any, examples: Sequence[Example], docs: Sequence[Doc], scheme: str | None, settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the objective with SequentialLog, and with losses on texts without labels, made with their settings."""
    from spacy_crfseq import registry
    from spacy_crfseq.types import TextLoss

    by_name = objectives(pipe, examples, ("SequentialLog",))
    for name, chosen in settings.items():
        loss = registry.losses.get(f"spacy_crfseq.{name}.v1")(**chosen)
        by_name[name] = copy(by_name["SequentialLog"])
        data = by_name[name].data
        if isinstance(loss, TextLoss):
            loss, data = loss.bind(list(pipe.tags), scheme), data._replace(inputs=loss.read(docs, docs))
        by_name[name].terms = [by_name[name].term._replace(loss=loss, data=data)]
    return by_name


def sizes(pipe: Any) -> str:
    """Return the number of attributes and weights as text."""
    crf = pipe.crf
    return f"{len(crf.keys[0]):,} attributes, {len(crf.theta):,} parameters"


def copies(examples: Sequence[Example]) -> list[Doc]:
    """Return new Docs with what the predicted Docs of examples hold."""
    return [example.predicted.copy() for example in examples]


def predicted_chunks(pipe: Any, examples: Sequence[Example]) -> list[set[tuple[int, int, str]]]:
    """Return the chunks that a component predicts."""
    docs = list(pipe.pipe(copies(examples)))
    return [{(span.start, span.end, span.label_) for span in doc.spans["chunks"]} for doc in docs]
