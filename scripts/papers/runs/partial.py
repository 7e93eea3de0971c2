"""Tsuboi et al. (2008), on substitute data: training after labels of single tokens are removed at random.

Each label that is left is noted on a gold Doc that has no other annotation, as a user would, through what
`CRFComponent.clamp` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Row
from scripts.papers.corpora import Examples
from scripts.papers.corpus import Corpus

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

MISSING, OUTSIDE = "missing", "O"


def thinned(
    nlp: Language, pipe: Any, examples: Examples, share: float, treatment: str, rng: np.random.Generator
) -> list[Example]:
    """Return examples that lack a share of their tokens' labels, which are `MISSING` or taken for `OUTSIDE`."""
    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.pipeline.evidence import make_evidence, write_evidence
    from spacy_crfseq.pipeline.labels import gold_tags

    made = []
    for example in examples:
        left = rng.random(len(example.reference)) >= share
        tags = gold_tags(pipe.annotation, example, pipe.name)
        if treatment == OUTSIDE:
            tags = [tag if stays else OUTSIDE for tag, stays in zip(tags, left, strict=True)]
            left[:] = True
        gold = Doc(nlp.vocab, words=[token.text for token in example.reference])
        write_evidence(gold, pipe.name, make_evidence([], {i: [str(tags[i])] for i in left.nonzero()[0].tolist()}))
        made.append(Example(example.predicted, gold))
    return made


def partial_labels(options: Options) -> list[Row]:
    """Train on all labels, and on a part of them with the others missing or taken for "O"."""
    corpus = Corpus("partial", options)
    settings, nlp, train = corpus.settings, corpus.nlp, corpus.parts["train"]
    runs = [(share, how) for share in settings["removed"]["shares"] for how in (MISSING, OUTSIDE)]
    rows = []
    pipe: Any = None
    for share, treatment in [(0.0, MISSING), *runs]:
        rng = np.random.default_rng(options.seed)
        examples = thinned(nlp, pipe, train, share, treatment, rng) if pipe else train
        task = corpus.task({"features": settings["features"]}, examples)
        pipe = pipe or task.pipe
        trained = task.fit(settings["methods"]["default"])
        test = round(task.score("test", trained.theta), 2)
        rows.append(task.row(trained, removed=share, treatment=treatment, test=test))
    return rows
