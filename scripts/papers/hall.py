"""Hall, McDonald & Petrov (2011): a tagger learns from questions of which only the main verb is known."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Results, Row, config, experiment, say
from scripts.papers.page import Check, Table, checks, found, section, table
from scripts.papers.tasks import Examples, Task, changed, read

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token
    from spacy.training import Example

    from spacy_crfseq.types import ExtrinsicLoss, Floats

UNTOUCHED, NOTHING, VERB, TAG, ALL, MORE = (
    "nothing, as first trained", "nothing", "the main verb is a verb", "the main verb's tag", "all tags",
    "all tags, of other questions too",
)  # fmt: skip
"""What is known of the questions.  The last one takes those without a main verb, too."""


def is_question(example: Example) -> bool:
    """Whether a sentence ends in a question mark."""
    return example.reference[-1].text == "?"


def root_of(doc: Doc) -> Token | None:
    """Return the first root of a sentence's tree, None where there is none."""
    return next((token for token in doc if token.dep_.lower() == "root"), None)


class Questions:
    """UD English EWT parted into questions and other sentences, and a tagger for it.

    attr (str): "tag" for the language's own tags, "pos" for the universal ones.
    source: Sentences of the training part that are no questions.
    pool, dev: Questions of the training and the test part, and of the dev part.
    others: Sentences of the test part that are no questions.
    """

    def __init__(self, attr: str, options: Options) -> None:
        import spacy

        self.settings = config("questions")
        self.attr = attr
        self._quick = options.quick
        nlp = self._nlp = spacy.blank("en")
        parts = {
            part: read(nlp, options, self.settings, part, options.few(limit))
            for part, limit in (("train", 1500), ("dev", 300), ("test", 300))
        }
        train, test = parts["train"], parts["test"]
        self.source = [example for example in train if not is_question(example)][: options.few(300) or None]
        self.pool = [example for example in (*train, *test) if is_question(example)]
        self.dev = [example for example in parts["dev"] if is_question(example)]
        self.others = [example for example in test if not is_question(example)]
        component = {**self.settings["component"], "attr": attr}
        # questions tell which attributes there are; no weight is learnt from them here
        everything = [*self.source, *self.pool, *self.dev]
        features, scored = self.settings["features"], {"others": self.others}
        self.task = Task(nlp, component, features, everything, scored, quick=options.quick)
        self.task.data = self.task.data.slice(0, len(self.source))

    def train(self, seed: int) -> Floats:
        """Return the weights of a tagger trained on the source alone."""
        return self.task.fit(changed(self.settings["methods"]["source"], optimizer={"seed": seed})).theta

    def main_verb(self, example: Example) -> Token | None:
        """Return the root of a sentence if it is a verb."""
        root = root_of(example.reference)
        return root if root is not None and self._tag(root) in self.settings["verbs"][self.attr] else None

    def _tag(self, token: Token) -> str:
        return str(getattr(token, f"{self.attr}_"))

    def adapt(self, start: Floats, questions: Examples, known: str, seed: int, **more: Any) -> Floats:
        """Return the weights after augmented training on the source and on what is known of some questions."""
        from spacy_crfseq.pipeline.augment import Source, augment
        from spacy_crfseq.training.augmented import Settings

        settings = {**self.settings["augment"], "seed": seed, **more}
        sources = [Source("source", self.source)]
        if known == NOTHING:
            settings["schedule"] = {name: n for name, n in settings["schedule"].items() if name == "source"}
        else:
            kept = [example for example in questions if known == MORE or self.main_verb(example) is not None]
            sources.append(Source("questions", *self._evidence(kept, known)))
        self.task.pipe.set_parameters(start)
        augment(self._nlp, self.task.pipe.name, sources, Settings(**settings))
        return self.task.pipe.crf.theta

    def _evidence(self, questions: Examples, known: str) -> tuple[Examples, ExtrinsicLoss | None]:
        """Return questions with what is known of them, and their loss: none where that is everything."""
        from spacy_crfseq.extrinsic.hamming import Hamming
        from spacy_crfseq.extrinsic.required_label import RequiredLabel

        if known in (ALL, MORE):
            return questions, None
        loss = RequiredLabel(self.settings["verbs"][self.attr]) if known == VERB else Hamming()
        return [self._main_verb_alone(example) for example in questions], loss

    def _main_verb_alone(self, example: Example) -> Example:
        """Return a question with the tag of its main verb and no other."""
        from spacy.training import Example

        verb, reference = self.main_verb(example), example.reference.copy()
        for token in reference:
            if verb is None or token.i != verb.i:
                setattr(token, f"{self.attr}_", "")
        return Example(example.predicted.copy(), reference)

    def right(self, theta: Floats, questions: Examples) -> Counter[str]:
        """Return how many tokens and main verbs there are, and how many get the right tag, or any verb's."""
        self.task.pipe.set_parameters(theta)
        counts: Counter[str] = Counter()
        tagged = self.task.pipe.pipe(example.predicted.copy() for example in questions)
        for example, doc in zip(questions, tagged, strict=True):
            verb = self.main_verb(example)
            for token, wanted in zip(doc, example.reference, strict=True):
                right = self._tag(token) == self._tag(wanted)
                counts.update(tokens=1, right=right)
                if verb is not None and verb.i == token.i:
                    among_verbs = self._tag(token) in self.settings["verbs"][self.attr]
                    counts.update(verbs=1, right_verbs=right, as_verbs=among_verbs)
        return counts


def folds_of(n: int, folds: int, seed: int) -> list[list[int]]:
    """Part n numbers at random into folds of equal size."""
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return [sorted(order[fold::folds]) for fold in range(folds)]


def _rows(attr: str, options: Options) -> list[Row]:
    corpus = Questions(attr, options)
    split = corpus.settings["split"]
    more = {"rounds": 1} if options.quick else {}
    rows = []
    for seed in range(options.seed, options.seed + options.few(2, split["seeds"])):
        start = corpus.train(seed)
        alone = corpus.adapt(start, [], NOTHING, seed, **more)
        rows += [
            _row(corpus, known, seed, [corpus.right(theta, corpus.pool)], [corpus.task.score("others", theta)])
            for known, theta in ((UNTOUCHED, start), (NOTHING, alone))
        ]
        folds = folds_of(len(corpus.pool), options.few(2, split["folds"]), seed)
        for known in (VERB, TAG, ALL, MORE):
            counts, others, begun = [], [], process_time()
            for tested in folds:
                learnt = [example for n, example in enumerate(corpus.pool) if n not in set(tested)]
                theta = corpus.adapt(start, learnt, known, seed, **more)
                counts.append(corpus.right(theta, [corpus.pool[n] for n in tested]))
                others.append(corpus.task.score("others", theta))
            rows.append(_row(corpus, known, seed, counts, others, seconds=round(process_time() - begun, 1)))
    return rows


def _row(
    corpus: Questions, known: str, seed: int, counts: Sequence[Counter[str]], others: Sequence[float], **more: Any
) -> Row:
    """Return the scores of what taggers found in the questions they did not learn from, taken together."""
    total = sum(counts, Counter())
    row = {
        "seed": seed,
        "known": known,
        "questions": round(100 * total["right"] / total["tokens"], 3),
        "main verbs": round(100 * total["right_verbs"] / total["verbs"], 2),
        "as verbs": round(100 * total["as_verbs"] / total["verbs"], 2),
        "others": round(float(np.mean(others)), 3),
        "tokens": total["tokens"],
        **more,
    }
    say(f"    {', '.join(f'{key} {value}' for key, value in row.items())}")
    return row


for _attr, _about, _minutes in (("tag", "the language's own tags", 6), ("pos", "universal tags", 4)):
    experiment(f"questions-{_attr}", f"English questions, {_about}, adapted to by their main verbs", _minutes)(
        partial(_rows, _attr)
    )


# The page


def _scores(rows: Sequence[Row], known: str, score: str = "questions") -> list[float]:
    """Return a score for each seed, in their order."""
    return [row[score] for row in sorted(rows, key=lambda row: row["seed"]) if row["known"] == known]


def shares(rows: Sequence[Row], known: str, most: str = ALL) -> list[float]:
    """Return, for each seed, the share of the gap between nothing and everything known that some knowledge closes."""
    parts = [_scores(rows, name) for name in (NOTHING, known, most)]
    return [_part(*scores) for scores in zip(*parts, strict=True)]


def _part(low: float, here: float, high: float) -> float:
    return (here - low) / (high - low) if high != low else float("nan")


def share(rows: Sequence[Row], known: str, most: str = ALL) -> float:
    """Return the share of the gap between mean scores."""
    low, here, high = (float(np.mean(_some(_scores(rows, name)))) for name in (NOTHING, known, most))
    return _part(low, here, high)


def _some(scores: list[float]) -> list[float]:
    if not scores:
        raise ValueError("no scores")
    return scores


def _spread(values: Sequence[float], digits: int = 2) -> str:
    """Return mean and standard deviation."""
    if not values:
        return ""
    sd = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{sd}"


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return a line for each thing known."""
    lines = []
    for known in dict.fromkeys(row["known"] for row in rows):
        means = [_spread(_scores(rows, known, score)) for score in ("questions", "main verbs", "as verbs", "others")]
        parts = [""] * 3
        if known in (VERB, TAG):
            per_seed = shares(rows, known)
            spread = f"{min(per_seed):.0%} to {max(per_seed):.0%}"
            parts = [f"{share(rows, known):.0%}", spread, f"{share(rows, known, MORE):.0%}"]
        lines.append([known, *means, *parts])
    return lines


@section("questions")
def questions_section(results: Results) -> str:
    """Table 1."""
    head = [
        "tags", "known of questions", "questions", "main verbs", "tagged as verbs", "other sentences",
        "share of the gap", "by seed", "share of the gap to other questions' tags",
    ]  # fmt: skip
    own, universal = (found(results, f"questions-{attr}") for attr in ("tag", "pos"))
    content = [[name, *line] for name, rows in (("own", own), ("universal", universal)) for line in _lines(rows)]

    def fall(rows: list[Row]) -> float:
        before, after = (np.mean(_some(_scores(rows, known, "others"))) for known in (NOTHING, TAG))
        return float(before - after)

    wanted = [
        Check("own tags: the main verb's tag closes at least a third of the gap", lambda: share(own, TAG) >= 1 / 3),
        Check("own tags: it does so with every seed", lambda: min(shares(own, TAG)) >= 1 / 3),
        Check("own tags: it closes more than half of the gap, as published", lambda: share(own, TAG) > 1 / 2),
        Check("own tags: that the main verb is a verb closes at least a third", lambda: share(own, VERB) >= 1 / 3),
        Check("universal tags: the main verb's tag closes at least a third", lambda: share(universal, TAG) >= 1 / 3),
        Check("other sentences lose less than 0.1 points", lambda: max(fall(own), fall(universal)) < 0.1),
    ]
    return f"{table(Table(head, content))}\n\n{checks(wanted)}"
