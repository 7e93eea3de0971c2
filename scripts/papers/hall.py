"""Hall, McDonald & Petrov (2011): a tagger learns from evidence other than its own gold labels.

Table 1: from questions with only the main verb annotated.  Table 2: from an entity recognizer that reads its tags.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Options, Results, Row, config, experiment, say
from scripts.papers.page import Check, Table, checks, found, paper_rows, section, table
from scripts.papers.tasks import Examples, Task, changed, read

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token
    from spacy.training import Example

    from spacy_crfseq.types import Floats

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
    """UD English EWT split into questions and other sentences, and a tagger for it.

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
        # questions contribute attributes; no weight is learned from them here
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

    def adapt(self, start: Floats, questions: Examples, known: str, seed: int, k: int = 10) -> Floats:
        """Return the weights after augmented-loss training on the source and on evidence about some questions."""
        kept, loss = self.evidence(questions, known, k)
        return adapted(self.task, self.settings["augmented"], start, kept if known != NOTHING else [], loss, seed)

    def evidence(self, questions: Examples, known: str, k: int = 10) -> tuple[list[Example], Row]:
        """Return the questions with evidence, whose other tags are missing, and the loss that learns from it."""
        kept = [example for example in questions if known == MORE or self.main_verb(example) is not None]
        if known in (VERB, TAG):
            kept = [self._main_verb_alone(example) for example in kept]
        cost: Row = {"@crf_costs": "spacy_crfseq.Hamming.v1"}
        if known == VERB:
            cost = {"@crf_costs": "spacy_crfseq.RequiredLabel.v1", "labels": self.settings["verbs"][self.attr]}
        return kept, GOLD_LABELS if known in (ALL, MORE) else ranker(cost, k)

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


GOLD_LABELS = {"@crf_losses": "spacy_crfseq.Perceptron.v1"}


def ranker(cost: Row, k: int = 10) -> Row:
    """Return the block of the inline ranker with a cost of the k best labellings."""
    return {"@crf_losses": "spacy_crfseq.InlineRanker.v1", "cost": cost, "k": k}


def adapted(task: Task, settings: Row, start: Floats, examples: Examples, loss: Row, seed: int) -> Floats:
    """Return the weights after augmented-loss training on a task and on examples with a loss of their own, if any.

    settings: The blocks of a method, and `sentences`, those of the task to an example.
    """
    method = changed(settings, optimizer={"seed": seed})
    visits = task.data.n_sequences / settings["sentences"] / max(1, len(examples))
    terms = [task.term("evidence", examples, loss, visits)] if examples else []
    return task.fit(method, start=start, terms=terms).theta


def folds_of(n: int, folds: int, seed: int) -> list[list[int]]:
    """Part n numbers at random into folds of equal size."""
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return [sorted(order[fold::folds]) for fold in range(folds)]


def _rows(attr: str, options: Options) -> list[Row]:
    corpus = Questions(attr, options)
    split = corpus.settings["split"]
    rows = []
    for seed in range(options.seed, options.seed + options.few(2, split["seeds"])):
        start = corpus.train(seed)
        alone = corpus.adapt(start, [], NOTHING, seed)
        rows += [
            _row(corpus, known, seed, [corpus.right(theta, corpus.pool)], [corpus.task.score("others", theta)])
            for known, theta in ((UNTOUCHED, start), (NOTHING, alone))
        ]
        folds = folds_of(len(corpus.pool), options.few(2, split["folds"]), seed)
        for known in (VERB, TAG, ALL, MORE):
            counts, others, begun = [], [], process_time()
            for tested in folds:
                trainable = [example for n, example in enumerate(corpus.pool) if n not in set(tested)]
                theta = corpus.adapt(start, trainable, known, seed)
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


FIRST, AGAIN, ERRORS, ERRORS_F1, TAUGHT, GOLD = (
    "as first trained", "more rounds on its own sentences", "the recognizer's errors", "its errors and 1 - F1",
    "gold tags of the same sentences", "gold tags instead of a tagger",
)  # fmt: skip
"""What a tagger learns from.  The last one is no tagger."""


def words_of(nlp: Language, example: Example) -> Doc:
    """Return a Doc with only the words of an example, because a tagger does not overwrite tags."""
    from spacy.tokens import Doc

    return Doc(nlp.vocab, words=[token.text for token in example.reference])


def untagged(nlp: Language, example: Example) -> Example:
    """Return an example with its entities and no tags."""
    from spacy.training import Example

    reference = example.reference.copy()
    for token in reference:
        token.tag_ = ""
    return Example(words_of(nlp, example), reference)


class TaggedEntities:
    """Spanish sentences in three parts, a tagger of the first, and a recognizer of the second that reads tags.

    tagged: Sentences whose tags the tagger learns.
    judged, labelled: Sentences with entities, without and with their tags.
    parts: Sentences to score on, by name; their input has the gold tags.
    start (Floats): Weights of the tagger that is trained on `tagged` alone.
    """

    def __init__(self, nlp: Language, parts: Mapping[str, Examples], seed: int, options: Options) -> None:
        train, self.parts = parts["train"], {part: parts[part] for part in ("dev", "test")}
        self._nlp, self._seed = nlp, seed
        self.settings = settings = config("tagger-for-entities")
        sizes = {part: options.few(min(most, 100), most) for part, most in settings["sizes"].items()}
        shuffled = random.Random(seed).sample(train, len(train))
        read_from = sizes["tagger"] + sizes["recognizer"]
        self.tagged, to_read = shuffled[: sizes["tagger"]], shuffled[sizes["tagger"] : read_from]
        self.labelled = [example for example in shuffled[read_from:] if example.reference.ents][: sizes["judged"]]
        self.judged = [untagged(nlp, example) for example in self.labelled]

        method = changed(settings["methods"]["default"], optimizer={"seed": seed})
        # all sentences contribute attributes and tags; no weight is learned from the judged ones here
        seen = [*self.tagged, *self.labelled]
        self.tagger = Task(nlp, settings["tagger"], settings["tagger_features"], seen, self.parts, quick=options.quick)
        self.tagger.data = self.tagger.data.slice(0, len(self.tagged))
        self.start = self.tagger.fit(method).theta
        features = settings["recognizer_features"]
        self.recognizer = Task(nlp, settings["recognizer"], features, to_read, self.parts, quick=options.quick)
        self.recognizer.pipe.set_parameters(self.recognizer.fit(method).theta)

    def adapt(self, known: str) -> Floats:
        """Return the weights after augmented-loss training, with as many visits for all evidence."""
        reader = {"recognizer": self._nlp, "component": self.recognizer.pipe.name, "f1": known == ERRORS_F1}
        loss = ranker({"@crf_costs": "spacy_crfseq.EntityAgreement.v1", **reader})
        examples = {AGAIN: [], TAUGHT: self.labelled}.get(known, self.judged)
        loss = GOLD_LABELS if known == TAUGHT else loss
        return adapted(self.tagger, self.settings["augmented"], self.start, examples, loss, self._seed)

    def entities(self, part: str, theta: Floats) -> float:
        """Return the F1 of the recognizer, in per cent, when it reads the tags of a tagger."""
        from spacy.training import Example

        from spacy_crfseq.pipeline.evaluator import Evaluator

        self.tagger.pipe.set_parameters(theta)
        docs = self.tagger.pipe.pipe(words_of(self._nlp, example) for example in self.parts[part])
        examples = [Example(doc, example.reference) for doc, example in zip(docs, self.parts[part], strict=True)]
        return 100 * Evaluator(self.recognizer.pipe.doc_model, examples)(self.recognizer.pipe.crf.theta)


@experiment("tagger-for-entities", "Spanish tags tuned for the entity recognizer that reads them", 5)
def tagger_for_entities(options: Options) -> list[Row]:
    """Tune a tagger by a recognizer's errors, and compare with what else it could learn from."""
    import spacy

    settings, nlp = config("tagger-for-entities"), spacy.blank("es")
    parts = {
        part: read(nlp, options, settings, part, options.few(limit))
        for part, limit in (("train", 400), ("dev", 100), ("test", 100))
    }
    rows = []
    for seed in range(options.seed, options.seed + options.few(2, settings["split"]["seeds"])):
        corpus = TaggedEntities(nlp, parts, seed, options)
        for known in (FIRST, AGAIN, ERRORS, ERRORS_F1, TAUGHT):
            begun = process_time()
            theta = corpus.start if known == FIRST else corpus.adapt(known)
            seconds = {} if known == FIRST else {"seconds": round(process_time() - begun, 1)}
            found_in = {part: corpus.entities(part, theta) for part in corpus.parts}
            rows.append(tagger_row(seed, known, corpus.tagger.score("test", theta), found_in, **seconds))
        theta = corpus.recognizer.pipe.crf.theta
        rows.append(
            tagger_row(seed, GOLD, 100.0, {part: corpus.recognizer.score(part, theta) for part in corpus.parts})
        )
    return rows


def tagger_row(seed: int, known: str, tags: float, entities: Mapping[str, float], **more: Any) -> Row:
    scores = {"tags": tags, "entities": entities["test"], "dev entities": entities["dev"]}
    row = {"seed": seed, "known": known, **{name: round(score, 3) for name, score in scores.items()}, **more}
    say(f"    {', '.join(f'{key} {value}' for key, value in row.items())}")
    return row


# The page


def scores_of(rows: Sequence[Row], known: str, score: str) -> list[float]:
    """Return a score for each seed, in their order."""
    return [row[score] for row in sorted(rows, key=lambda row: row["seed"]) if row["known"] == known]


class Gap(NamedTuple):
    """From the score with the least known to that with the most."""

    least: str
    most: str
    score: str

    def shares(self, rows: Sequence[Row], known: str) -> list[float]:
        """Return, for each seed, the share of the gap that some knowledge closes."""
        parts = [scores_of(rows, name, self.score) for name in (self.least, known, self.most)]
        return [_part(*scores) for scores in zip(*parts, strict=True)]

    def share(self, rows: Sequence[Row], known: str) -> float:
        """Return the share of the gap between mean scores."""
        parts = (some(scores_of(rows, name, self.score)) for name in (self.least, known, self.most))
        low, here, high = (float(np.mean(scores)) for scores in parts)
        return _part(low, here, high)

    def told(self, rows: Sequence[Row], known: str) -> list[str]:
        """Return the share of the gap, and the smallest and the largest one of a seed, as text."""
        per_seed = self.shares(rows, known)
        return [f"{self.share(rows, known):.0%}", f"{min(per_seed):.0%} to {max(per_seed):.0%}"]


QUESTIONS = Gap(NOTHING, ALL, "questions")
ENTITIES = Gap(AGAIN, GOLD, "entities")
DEV_ENTITIES = Gap(AGAIN, GOLD, "dev entities")


def _part(low: float, here: float, high: float) -> float:
    return (here - low) / (high - low) if high != low else float("nan")


def some(scores: list[float]) -> list[float]:
    if not scores:
        raise ValueError("no scores")
    return scores


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return mean and standard deviation."""
    if not values:
        return ""
    sd = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{sd}"


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return a line for each thing known."""
    lines = []
    for known in dict.fromkeys(row["known"] for row in rows):
        means = [spread(scores_of(rows, known, score)) for score in ("questions", "main verbs", "as verbs", "others")]
        parts = [""] * 3
        if known in (VERB, TAG):
            parts = [*QUESTIONS.told(rows, known), f"{QUESTIONS._replace(most=MORE).share(rows, known):.0%}"]
        lines.append([known, *means, *parts])
    return lines


@section("questions")
def questions_section(results: Results) -> str:
    """Table 1."""
    head = [
        "tags", "known of questions", "published", "questions", "main verbs", "tagged as verbs", "other sentences",
        "share of the gap", "by seed", "share of the gap to other questions' tags",
    ]  # fmt: skip
    own, universal = (found(results, f"questions-{attr}") for attr in ("tag", "pos"))
    published = paper_rows("questions")
    content = [[name, *line] for name, rows in (("own", own), ("universal", universal)) for line in _lines(rows)]
    content = [[name, known, published.get(known) if name == "own" else None, *line] for name, known, *line in content]

    def fall(rows: list[Row]) -> float:
        before, after = (np.mean(some(scores_of(rows, known, "others"))) for known in (NOTHING, TAG))
        return float(before - after)

    wanted = [
        Check(
            "own tags: the main verb's tag closes at least a third of the gap",
            lambda: QUESTIONS.share(own, TAG) >= 1 / 3,
        ),
        Check("own tags: it does so with every seed", lambda: min(QUESTIONS.shares(own, TAG)) >= 1 / 3),
        Check("own tags: it closes more than half of the gap, as published", lambda: QUESTIONS.share(own, TAG) > 1 / 2),
        Check(
            "own tags: knowing that the main verb is a verb closes at least a third",
            lambda: QUESTIONS.share(own, VERB) >= 1 / 3,
        ),
        Check(
            "universal tags: the main verb's tag closes at least a third",
            lambda: QUESTIONS.share(universal, TAG) >= 1 / 3,
        ),
        Check("other sentences lose less than 0.1 points", lambda: max(fall(own), fall(universal)) < 0.1),
    ]
    return f"{table(Table(head, content))}\n\n{checks(wanted)}"


@section("tagger-for-entities")
def tagger_section(results: Results) -> str:
    """Table 2."""
    rows = found(results, "tagger-for-entities")
    head = [
        "the tagger learns from",
        "tags",
        "entities",
        "over more rounds",
        "share of the gap",
        "by seed",
        "share on testa",
        "seconds",
    ]
    content = [_tagger_line(rows, known) for known in dict.fromkeys(row["known"] for row in rows)]
    losses = (ERRORS, ERRORS_F1)
    wanted = [
        Check(
            "either loss helps the recognizer more than the same number of rounds without it",
            lambda: all(np.mean(some(gains(rows, known))) > 0 for known in losses),
        ),
        Check("they do so with every seed", lambda: all(min(gains(rows, known)) > 0 for known in losses)),
        Check(
            "with every seed, the recognizer is better than with the original tagger",
            lambda: all(min(gains(rows, known, FIRST)) > 0 for known in losses),
        ),
        Check(
            "they close at least a third of the gap to gold tags",
            lambda: all(ENTITIES.share(rows, known) >= 1 / 3 for known in losses),
        ),
        Check(
            "the F1 term improves on the errors alone, on both parts",
            lambda: all(gap.share(rows, ERRORS_F1) > gap.share(rows, ERRORS) for gap in (ENTITIES, DEV_ENTITIES)),
        ),
        Check(
            "tags get worse by no more than 0.1 points",
            lambda: all(
                np.mean(some(scores_of(rows, known, "tags"))) > np.mean(some(scores_of(rows, AGAIN, "tags"))) - 0.1
                for known in losses
            ),
        ),
    ]
    return f"{table(Table(head, content))}\n\n{checks(wanted)}"


def _tagger_line(rows: Sequence[Row], known: str) -> list[str]:
    tags, entities = (spread(scores_of(rows, known, score)) for score in ("tags", "entities"))
    if known == FIRST:
        return [known, tags, entities]
    gain = spread(gains(rows, known))
    if known == GOLD:
        return [known, "", entities, gain]
    seconds = f"{np.mean(scores_of(rows, known, 'seconds')):.1f}"
    if known == AGAIN:
        return [known, tags, entities, *[""] * 4, seconds]
    return [known, tags, entities, gain, *ENTITIES.told(rows, known), f"{DEV_ENTITIES.share(rows, known):.0%}", seconds]


def gains(rows: Sequence[Row], known: str, before: str = AGAIN) -> list[float]:
    """Return, for each seed, what some knowledge adds to the recognizer's F1."""
    parts = [scores_of(rows, name, ENTITIES.score) for name in (before, known)]
    return [after - low for low, after in zip(*parts, strict=True)]
