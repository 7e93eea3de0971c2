"""Tsuboi et al. (2008), on substitute data: training after labels of single tokens are removed at random.

Each label that is left is noted on a gold Doc that has no other annotation, as a user would, through what
`CRFComponent.clamp` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scripts.papers._harness import Options, Results, Row, config, experiment
from scripts.papers.page import Check, Table, checks, found, section, table
from scripts.papers.tasks import Task, read

if TYPE_CHECKING:
    import numpy as np
    from spacy.language import Language
    from spacy.training import Example

MISSING, OUTSIDE = "missing", "O"


def thinned(
    nlp: Language, pipe: Any, examples: list[Example], share: float, treatment: str, rng: np.random.Generator
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


@experiment("partial", "Spanish entities with labels of training tokens removed", 3)
def partial_labels(options: Options) -> list[Row]:
    """Train on all labels, and on a part of them with the others missing or taken for "O"."""
    import numpy as np
    import spacy

    settings = config("partial")
    nlp = spacy.blank("es")
    limit = options.few(300)
    train, test = (read(nlp, options, settings, part, limit) for part in ("train", "test"))
    runs = [(share, how) for share in settings["removed"]["shares"] for how in (MISSING, OUTSIDE)]
    rows = []
    pipe: Any = None
    for share, treatment in [(0.0, MISSING), *runs]:
        rng = np.random.default_rng(options.seed)
        examples = thinned(nlp, pipe, train, share, treatment, rng) if pipe else train
        task = Task(
            spacy.blank("es"), settings["component"], settings["features"], examples, {"test": test},
            quick=options.quick,
        )  # fmt: skip
        pipe = pipe or task.pipe
        trained = task.fit(settings["methods"]["default"])
        rows.append(
            task.row(trained, removed=share, treatment=treatment, test=round(task.score("test", trained.theta), 2))
        )
    return rows


@section("partial")
def partial_section(results: Results) -> str:
    """F1 and time against the share of labels that were removed."""
    rows = found(results, "partial")
    head, shown = ["labels removed", "treated as", "test F1", "seconds", "epochs"], ("test", "seconds", "iterations")
    content = [
        [f"{row['removed']:.0%}", row["treatment"] if row["removed"] else "", *(row[name] for name in shown)]
        for row in rows
    ]
    wanted = [
        Check(
            "with half of the labels missing, F1 is within 3 points of F1 with all labels",
            lambda: _test(rows, 0.5, MISSING) >= _test(rows, 0.0, MISSING) - 3,
        ),
        Check(
            'treating them as "O" costs more than ten times as much',
            lambda: (
                _test(rows, 0.0, MISSING) - _test(rows, 0.5, OUTSIDE)
                > 10 * (_test(rows, 0.0, MISSING) - _test(rows, 0.5, MISSING))
            ),
        ),
        Check(
            "training takes less than three times as long",
            lambda: _of(rows, 0.5, MISSING)["seconds"] < 3 * _of(rows, 0.0, MISSING)["seconds"],
        ),
    ]
    return f"{table(Table(head, content))}\n\n{checks(wanted)}"


def _of(rows: list[Row], removed: float, treatment: str) -> Row:
    (row,) = (row for row in rows if (row["removed"], row["treatment"]) == (removed, treatment))
    return row


def _test(rows: list[Row], removed: float, treatment: str) -> float:
    return float(_of(rows, removed, treatment)["test"])
