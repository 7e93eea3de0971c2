"""Learning from a few labelled and many raw texts: all methods on references (CORA) and on Spanish entities.

The grid of a method is one setting.  Its value is chosen by the mean score of all draws on the dev part; only the
chosen models see the test part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Row, Skip, config, say
from scripts.papers.raw_training import Model, Texts, Trainer, load

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from spacy.tokens import Doc
    from spacy.training import Example


def compared(options: Options, task: str, n_labelled: str, only: Sequence[str] = (), part: str = "test") -> list[Row]:
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
    scores = [float(_score(of_draw.sum(0))) for of_draw in counts]
    several = scores if len(models) > 1 else _score(resampled(counts[0]))
    return {part: round(float(np.mean(scores)), 2), f"{part} sd": round(float(np.std(several, ddof=1)), 2)}


def _counts(model: Model, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Return hits, predictions and gold labels of each text [N, 3]: tokens of a tagger, spans of a recognizer."""
    rows, tags = [], model.pipe.annotation.scheme is None
    docs = model.nlp.pipe([example.predicted.copy() for example in examples])
    for doc, example in zip(docs, examples, strict=True):
        guess, gold = (_units(side, tags) for side in (doc, example.reference))
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
