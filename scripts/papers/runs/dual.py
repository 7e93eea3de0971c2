"""Altun, Johnson & Hofmann (2003), section 6: the dual perceptron."""

from __future__ import annotations

from time import process_time
from typing import Any

from scripts.papers._harness import Options, Row, config, say
from scripts.papers.corpora import read
from scripts.papers.runs.altun import FEATURES


def perceptrons(options: Options) -> list[Row]:
    """Return a row for each feature set and degree of the kernel, 0 for the primal perceptron."""
    settings, sizes = config("dual"), config("dual")["subset"]
    sizes = {part: options.few(50, sizes.get(part, 0)) for part in ("train", "dev", "test")}
    _perceptron(options, settings, "S1", 1, dict.fromkeys(sizes, 20))  # compiles kernels, which is not to be timed
    return [_perceptron(options, settings, features, degree, sizes) for features in FEATURES for degree in (0, 1, 2, 3)]


def _perceptron(options: Options, settings: dict[str, Any], features: str, degree: int, sizes: dict[str, int]) -> Row:
    """Train a dual perceptron, or the primal one for degree 0."""
    import spacy

    from bench.ours import add
    from spacy_crfseq.pipeline.evaluator import Evaluator

    nlp = spacy.blank(settings["setting"]["lang"])
    train, dev, test = (read(nlp, options, settings, part, size) for part, size in sizes.items())
    kernel = {"potentials": {"kernel": {**settings["kernel"], "degree": degree}}} if degree else {}
    blocks = {**settings["component"], **settings["methods"]["dual" if degree else "primal"], **kernel}
    pipe = add(nlp, blocks.pop("factory"), **blocks, features=settings["features"][features])
    pipe.initialize(lambda: train)
    begun = process_time()
    result = pipe.fit(dev=dev)
    fitted = process_time()
    score = Evaluator(pipe.doc_model, test)(pipe.crf.theta)
    coefs = pipe.crf.theta[pipe.crf.layout.size :].reshape(-1, len(pipe.tags))
    row = {
        "method": "dual" if degree else "primal",
        "features": features,
        "degree": degree or 1,
        "dev": round(100 * (result.best_score or 0.0), 2),
        "test": round(100 * score, 2),
        "epochs": len(result.history),
        "seconds": round(fitted - begun, 1),
        "test seconds": round(process_time() - fitted, 1),
        "supports": int(coefs.any(1).sum()),
        "megabytes": round(len(pipe.to_bytes()) / 1e6, 2),
    }
    say(f"    {row}")
    return row
