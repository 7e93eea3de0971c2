"""Learning from a few labelled and many raw texts: all methods on references (CORA) and on Spanish entities.

The grid of a method is one setting.  Its value is chosen by the mean score of all draws on the dev part; only the
chosen models see the test part.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import CONFIGS, Options, Results, Row, Skip, config, experiment, say
from scripts.papers.page import Section, by, found, section, table
from scripts.papers.tasks import QUICK, read, resolve

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.pipeline.component import CRFComponent

KNOWLEDGE, PROPOSED = "knowledge", "proposed"
"""What a config gives as path of labelled features: the file of the task, or proposals from the labelled texts."""


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


# Data


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
    unlabelled = [Doc(nlp.vocab, words=[token.text for token in one.predicted]) for one in raw]
    draws = [of(path, 0)[: int(n_labelled)] for path in paths]
    return Texts(draws, unlabelled, of(task["dev"], 30), of(task["test"], 30))


def labels_of(examples: Sequence[Example], tags: bool) -> list[str]:
    """Return the label of each token: its tag, or the type of its entity or "O"."""
    return [token.tag_ if tags else token.ent_type_ or "O" for example in examples for token in example.reference]


def proportions(found: Sequence[str], labels: Sequence[str]) -> dict[str, float]:
    """Return the share of each label among those of some tokens, with one more token for each of `labels`."""
    counts = Counter([*labels, *found])
    return {label: count / counts.total() for label, count in counts.items()}


# Training


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
            optimizer = block["optimizer"] = dict(block["optimizer"])
            optimizer |= {key: min(most, optimizer[key]) for key, most in QUICK.items() if key in optimizer}
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

        return [Example(one.predicted.copy(), one.reference.copy()) for one in self._texts.draws[draw]]

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

        docs = [one.predicted for one in labelled]
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


# Choosing and testing


def compared(task: str, n_labelled: str, options: Options, only: Sequence[str] = (), part: str = "test") -> list[Row]:
    """Return a row for each method: the chosen value of its setting, dev and test scores, and their spread.

    part (str): "dev" leaves the test part alone.
    """
    import spacy

    settings = config("raw-text")
    texts = load(spacy.blank(settings[task]["language"]), settings[task], n_labelled, options)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(settings, task, texts, Path(folder), quick=options.quick)
        for key, method in settings["methods"].items():
            if only and key not in only:
                continue
            try:
                rows.append({"method": key, "labelled": int(n_labelled), **_row(trainer, key, method, texts, part)})
            except Skip as reason:
                rows.append({"method": key, "labelled": int(n_labelled), "skipped": str(reason)})
    return rows


def _row(trainer: Trainer, key: str, method: Mapping[str, Any], texts: Texts, part: str) -> Row:
    ((setting, values),) = method.get("grid", {"": [None]}).items()
    tried: dict[Any, float] = {}
    best: tuple[float, Any, Mapping[str, Any], list[Model]] | None = None
    for value in values[: trainer.n_values]:
        complete = _with(trainer.complete(method), setting, value)
        models = [trainer.train(deepcopy(complete), draw) for draw in range(len(texts.draws))]
        tried[value] = float(np.mean([model.dev for model in models]))
        say(f"    {key} {value}: {tried[value]:.2f} on dev, {np.mean([model.seconds for model in models]):.1f} s")
        if best is None or tried[value] > best[0]:
            best = tried[value], value, complete, models
    assert best is not None
    _, chosen, complete, models = best
    if key == "crf":
        trainer.keep(complete)
    row: Row = {
        "setting": setting.rsplit(".", 1)[-1],
        "value": chosen,
        "grid": {str(value): round(score, 2) for value, score in tried.items()},
        "seconds": round(float(np.mean([model.seconds for model in models])), 1),
    }
    return {
        **row,
        **_spread("dev", models, texts.dev),
        **(_spread("test", models, texts.test) if part == "test" else {}),
    }


def _with(method: dict[str, Any], setting: str, value: Any) -> dict[str, Any]:
    """Return a method with the value of a setting, whose blocks are separated by dots."""
    *blocks, last = setting.split(".")
    block = method
    for name in blocks:
        block = block[name]
    if setting:
        block[last] = value
    return method


def _spread(part: str, models: Sequence[Model], examples: Sequence[Example]) -> Row:
    """Return the mean score of the models of several draws, and its standard deviation over the draws.

    For a single model, it is the standard deviation over samples of the texts, the bootstrap.
    """
    from spacy_crfseq.tools._pages.bootstrap import resampled

    counts = [_counts(model, examples) for model in models]
    scores = [float(_score(each.sum(0))) for each in counts]
    several = scores if len(models) > 1 else _score(resampled(counts[0]))
    return {part: round(float(np.mean(scores)), 2), f"{part} sd": round(float(np.std(several, ddof=1)), 2)}


def _counts(model: Model, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Return hits, predictions and gold labels of each text [N, 3]: tokens of a tagger, spans of a recognizer."""
    rows, tags = [], model.pipe.annotation.scheme is None
    docs = model.nlp.pipe([example.predicted.copy() for example in examples])
    for doc, example in zip(docs, examples, strict=True):
        guess, gold = (_units(each, tags) for each in (doc, example.reference))
        rows.append((len(guess & gold), len(guess), len(gold)))
    return np.array(rows, np.float64)


def _units(doc: Doc, tags: bool) -> set[tuple[int, int, str]]:
    if tags:
        return {(token.i, token.i + 1, token.tag_) for token in doc}
    return {(ent.start, ent.end, ent.label_) for ent in doc.ents}


def _score(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return F1 in per cent of counts [..., 3], which is the accuracy where each token has a label."""
    score: NDArray[np.float64] = 200 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1)
    return score


for _name, _task, _labelled, _minutes in (
    ("cora-25", "cora", "25", 6),
    ("cora-300", "cora", "300", 3),
    ("spanish-500", "spanish", "500", 12),
):
    experiment(_name, f"raw text, {_task}, {_labelled} labelled", _minutes)(partial(compared, _task, _labelled))


# The page

WITH_RAW = ("hmm_em", "weights", "self_training", "entropy", "expectation", "derived", "knowledge")


def _section(names: Sequence[str], results: Results) -> Section:
    """Return one row for each method, with the columns of several experiments next to each other."""
    runs = {name: by(found(results, name), "method") for name in names}
    head, lines = ["method"], []
    for rows in runs.values():
        labelled = next(iter(rows.values()), {}).get("labelled", "")
        head += [f"{labelled} labelled: setting", "dev", "test", "sd", "seconds"]
    for key, method in config("raw-text")["methods"].items():
        cells: list[Any] = [method["name"]]
        for rows in runs.values():
            row = rows.get(key, {})
            chosen = f"{row['setting']} {row['value']:g}" if row.get("setting") else ""
            cells += [chosen, *(row.get(column) for column in ("dev", "test", "test sd", "seconds"))]
        lines.append(cells)

    def test(name: str, method: str) -> float:
        return float(runs[name][method]["test"])

    def best(name: str, methods: Sequence[str]) -> float:
        """Return the test score of the method with the best dev score."""
        rows = [row for method, row in runs[name].items() if method in methods and "dev" in row]
        return float(max(rows, key=lambda row: row["dev"])["test"])

    return Section(table(head, lines), {"test": test, "best": best})


section("cora")(partial(_section, ("cora-25", "cora-300")))
section("spanish-500")(partial(_section, ("spanish-500",)))
