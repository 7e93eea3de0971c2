"""Hall, McDonald & Petrov (2011), table 1: a tagger learns from questions with only the main verb annotated."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Row, say
from scripts.papers.adapting import GOLD_LABELS, adapted, ranker
from scripts.papers.corpora import Examples, read
from scripts.papers.corpus import Corpus
from scripts.papers.task import changed

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token
    from spacy.training import Example

    from spacy_crfseq.types import Floats

UNTOUCHED, NOTHING, VERB, TAG, ALL, MORE = (
    "nothing, as first trained", "nothing", "the main verb is a verb", "the main verb's tag", "all tags",
    "all tags, of other questions too",
)  # fmt: skip
"""Knowledge of the questions.  The last one takes those without a main verb, too."""


SIZES = {"train": 1500, "dev": 300, "test": 300}
"""Sentences in a quick run."""


def is_question(example: Example) -> bool:
    """Whether a sentence ends in a question mark."""
    return example.reference[-1].text == "?"


def root_of(doc: Doc) -> Token | None:
    """Return the first root of a sentence's tree, None where there is none."""
    return next((token for token in doc if token.dep_.lower() == "root"), None)


def _read(nlp: Language, options: Options, settings: Mapping[str, Any]) -> dict[str, Examples]:
    return {part: read(nlp, options, settings, part, options.few(few)) for part, few in SIZES.items()}


class Questions:
    """UD English EWT split into questions and other sentences, and a tagger for it.

    attr (str): "tag" for the language's own tags, "pos" for the universal ones.
    source: Sentences of the training part that are no questions.
    pool, dev: Questions of the training and the test part, and of the dev part.
    others: Sentences of the test part that are no questions.
    """

    def __init__(self, attr: str, options: Options) -> None:
        corpus = Corpus("questions", options, _read)
        self.settings, parts = corpus.settings, corpus.parts
        self.attr = attr
        train, test = parts["train"], parts["test"]
        self.source = [example for example in train if not is_question(example)][: options.few(300) or None]
        self.pool = [example for example in (*train, *test) if is_question(example)]
        self.dev = [example for example in parts["dev"] if is_question(example)]
        self.others = [example for example in test if not is_question(example)]
        # questions contribute attributes; no weight is learned from them here
        everything = [*self.source, *self.pool, *self.dev]
        self.task = corpus.task({"features": self.settings["features"]}, everything, attr=attr)
        self.task.parts["others"] = self.others
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

    def adapt(self, start: Floats, questions: Examples, knowledge: str, seed: int, k: int = 10) -> Floats:
        """Return the weights after augmented-loss training on the source and on evidence about some questions."""
        kept, loss = self.evidence(questions, knowledge, k)
        return adapted(self.task, self.settings["augmented"], start, kept if knowledge != NOTHING else [], loss, seed)

    def evidence(self, questions: Examples, knowledge: str, k: int = 10) -> tuple[list[Example], Row]:
        """Return the questions with evidence, whose other tags are missing, and the loss that learns from it."""
        kept = [example for example in questions if knowledge == MORE or self.main_verb(example) is not None]
        if knowledge in (VERB, TAG):
            kept = [self._main_verb_alone(example) for example in kept]
        cost: Row = {"@crf_costs": "spacy_crfseq.Hamming.v1"}
        if knowledge == VERB:
            cost = {"@crf_costs": "spacy_crfseq.RequiredLabel.v1", "labels": self.settings["verbs"][self.attr]}
        return kept, GOLD_LABELS if knowledge in (ALL, MORE) else ranker(cost, k)

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


def adapted_taggers(options: Options, attr: str) -> list[Row]:
    """Return a row for each seed and knowledge of the questions."""
    corpus = Questions(attr, options)
    split = corpus.settings["split"]
    rows = []
    for seed in range(options.seed, options.seed + options.few(2, split["seeds"])):
        start = corpus.train(seed)
        alone = corpus.adapt(start, [], NOTHING, seed)
        rows += [
            _row(corpus, knowledge, seed, [corpus.right(theta, corpus.pool)], [corpus.task.score("others", theta)])
            for knowledge, theta in ((UNTOUCHED, start), (NOTHING, alone))
        ]
        folds = folds_of(len(corpus.pool), options.few(2, split["folds"]), seed)
        for knowledge in (VERB, TAG, ALL, MORE):
            counts, others, begun = [], [], process_time()
            for tested in folds:
                trainable = [example for n, example in enumerate(corpus.pool) if n not in set(tested)]
                theta = corpus.adapt(start, trainable, knowledge, seed)
                counts.append(corpus.right(theta, [corpus.pool[n] for n in tested]))
                others.append(corpus.task.score("others", theta))
            rows.append(_row(corpus, knowledge, seed, counts, others, seconds=round(process_time() - begun, 1)))
    return rows


def _row(
    corpus: Questions, knowledge: str, seed: int, counts: Sequence[Counter[str]], others: Sequence[float], **more: Any
) -> Row:
    """Return the scores of what taggers found in the questions they did not learn from, taken together."""
    total = sum(counts, Counter())
    row = {
        "seed": seed,
        "known": knowledge,
        "questions": round(100 * total["right"] / total["tokens"], 3),
        "main verbs": round(100 * total["right_verbs"] / total["verbs"], 2),
        "as verbs": round(100 * total["as_verbs"] / total["verbs"], 2),
        "others": round(float(np.mean(others)), 3),
        "tokens": total["tokens"],
        **more,
    }
    say(f"    {', '.join(f'{key} {value}' for key, value in row.items())}")
    return row
