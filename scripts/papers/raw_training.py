"""Models of a task with a few labelled and many raw texts, each trained by one method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from scripts.papers._harness import CONFIGS, Options, resolve, shortened
from scripts.papers.corpora import read

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.pipeline.component import CRFComponent

KNOWLEDGE, PROPOSED = "knowledge", "proposed"
"""Paths of labelled features in a config: the file of the task, or proposals from the labelled texts."""


class Texts(NamedTuple):
    """The texts of a task: draws of labelled ones, and Docs without labels."""

    draws: list[list[Example]]
    raw: list[Doc]
    dev: list[Example]
    test: list[Example]


class Model(NamedTuple):
    """A pipeline with one component, its score on the dev part, and processor time of training, with its features."""

    nlp: Language
    pipe: CRFComponent
    dev: float
    seconds: float


def position(tokens: Sequence[Any], i: int) -> list[str]:
    """Return where a token is in its text: from the start, from the end, and in fifths."""
    n = len(tokens)
    return [f"start {min(i, 6)}", f"end {min(n - 1 - i, 4)}", f"fifth {5 * i // n}"]


def load(nlp: Language, task: Mapping[str, Any], n_labelled: str, options: Options) -> Texts:
    """Return the texts of a task.  If the raw texts are in the file of the labelled ones, they are those after them."""
    from spacy.tokens import Doc

    def of(path: str, few: int) -> list[Example]:
        return read(nlp, options, {"files": {"": path}, "reader": task["reader"]}, "", options.few(few))

    paths = task["train"][n_labelled][: options.few(1, 100)]
    skipped = int(n_labelled) if task["raw"] in paths else 0
    raw = of(task["raw"], skipped + 50)[skipped:]
    unlabelled = [Doc(nlp.vocab, words=[token.text for token in example.predicted]) for example in raw]
    draws = [of(path, 0)[: int(n_labelled)] for path in paths]
    return Texts(draws, unlabelled, of(task["dev"], 30), of(task["test"], 30))


def labels_of(examples: Sequence[Example], tags: bool) -> list[str]:
    """Return the label of each token: its tag, or the type of its entity or "O"."""
    return [token.tag_ if tags else token.ent_type_ or "O" for example in examples for token in example.reference]


def proportions(given: Sequence[str], labels: Sequence[str]) -> dict[str, float]:
    """Return the share of each label among those of some tokens, with one more token for each of `labels`."""
    counts = Counter([*labels, *given])
    return {label: count / counts.total() for label, count in counts.items()}


class Trainer:
    """Trains models of a task on its draws.

    n_values (int | None): Number of values of a grid to try; None for all.
    """

    def __init__(self, settings: Mapping[str, Any], task: str, texts: Texts, folder: Path, *, quick: bool) -> None:
        from spacy.util import registry

        import spacy_crfseq.pipeline.factories  # noqa: F401  makes the registries known

        registry.crf_features("papers.Position.v1", func=lambda: position)
        self._shared, self._task = deepcopy(settings["shared"]), settings[task]
        self._texts, self._folder, self._quick = texts, folder, quick
        self.n_values = 1 if quick else None

    def keep(self, method: Mapping[str, Any]) -> None:
        """Use the penalty of a method for those that have none of their own."""
        self._shared["regularizer"] = method["component"]["regularizer"]

    def complete(self, method: Mapping[str, Any]) -> dict[str, Any]:
        """Return a method with all settings of its component."""
        own = method.get("component", {})
        with_raw = self._task.get("with_raw", {}) if "terms" in own or "self_training" in method else {}
        block = {**self._shared, **self._task["component"], **with_raw, **own}
        block = {key: value for key, value in block.items() if value is not None}
        if self._quick and "optimizer" in block:
            block["optimizer"] = shortened(block["optimizer"])
        return deepcopy({**method, "component": block})

    def train(self, method: Mapping[str, Any], draw: int) -> Model:
        """Return a model that a complete method has trained on a draw."""
        from spacy.training import Example

        from spacy_crfseq.pipeline.evaluator import Evaluator

        labelled = self._labelled(draw)
        method = self._informed(method, labelled, draw)
        begun = process_time()
        if "weighting" in method:
            from spacy_crfseq.papers.weighting.reader import create_weighted_reader

            raw = [Example(doc, doc) for doc in self._texts.raw]
            weighting = resolve({"": method["weighting"]})[""]
            labelled = list(create_weighted_reader(lambda _: labelled, lambda _: raw, weighting)(self._blank()))
        model = self._fitted(method, labelled)
        own = method.get("self_training", {"rounds": 0})
        for _ in range(own["rounds"]):
            more = self._labelled_by(model.pipe, own["threshold"], own["weight"])
            model = self._fitted(method, [*self._labelled(draw), *more])
        seconds = process_time() - begun
        return model._replace(
            dev=100 * Evaluator(model.pipe.doc_model, self._texts.dev)(model.pipe.crf.theta), seconds=seconds
        )

    def _blank(self) -> Language:
        import spacy

        vocab = self._texts.raw[0].vocab
        return spacy.blank(vocab.lang, vocab=vocab)

    def _labelled(self, draw: int) -> list[Example]:
        """Return the texts of a draw without the weights that an earlier method gave them."""
        from spacy.training import Example

        return [Example(example.predicted.copy(), example.reference.copy()) for example in self._texts.draws[draw]]

    def _informed(self, method: Mapping[str, Any], labelled: list[Example], draw: int) -> Mapping[str, Any]:
        """Return a method with what its loss of raw texts knows: proportions or a file of labelled features."""
        loss = method["component"].get("terms", {}).get("raw", {}).get("loss", {})
        if "proportions" in loss:
            loss["proportions"] = proportions(self._labels_of(labelled), self._task["labels"])
        if loss.get("path") == KNOWLEDGE:
            loss["path"] = str(CONFIGS / self._task["knowledge"])
        elif loss.get("path") == PROPOSED:
            loss["path"] = str(self._folder / f"{draw}.tsv")
            self._propose(Path(loss["path"]), labelled)
        return method

    def _labels_of(self, examples: Sequence[Example]) -> list[str]:
        return labels_of(examples, self._task["component"]["factory"] == "crf_tagger")

    def _propose(self, path: Path, labelled: Sequence[Example]) -> None:
        """Write the features that ``crfseq propose-features`` proposes, unedited."""
        from spacy_crfseq.papers.labelled_features.proposals import as_file, propose

        docs = [example.predicted for example in labelled]
        path.write_text(as_file(propose(docs, self._labels_of(labelled), [self._texts.raw])), encoding="utf8")

    def _fitted(self, method: Mapping[str, Any], labelled: list[Example]) -> Model:
        block, nlp = dict(method["component"]), self._blank()
        pipe: Any = nlp.add_pipe(block.pop("factory"), config=block)
        terms = dict.fromkeys(block.get("terms", {}), self._texts.raw)
        pipe.initialize(lambda: labelled, nlp=nlp, labels=self._task["labels"], terms=terms)
        pipe.fit(dev=self._texts.dev if method.get("stop_on_dev") else None, patience=3)
        return Model(nlp, pipe, 0.0, 0.0)

    def _labelled_by(self, pipe: CRFComponent, threshold: float, weight: float) -> list[Example]:
        """Return the raw texts with the labels that a model gives at least the probability `threshold`."""
        from spacy.tokens import Doc
        from spacy.training import Example

        examples = []
        for doc, probabilities in zip(self._texts.raw, pipe.posterior(self._texts.raw).marginals(), strict=True):
            best, certain = probabilities.argmax(1), probabilities.max(1) >= threshold
            gold = Doc(doc.vocab, words=[token.text for token in doc])
            pipe.clamp(gold, allowed={int(t): [pipe.tags[best[t]]] for t in certain.nonzero()[0]})
            gold._.crf_weight = weight
            examples.append(Example(doc.copy(), gold))
        return examples
