"""Hall, McDonald & Petrov (2011): a tagger learns from evidence other than its own gold labels.

Table 1: from questions with only the main verb annotated.  Table 2: from an entity recognizer that reads its tags.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scripts.papers._harness import Options, Results, Row, config, experiment, say
from scripts.papers.page import Section, found, paper_rows, section, table
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


def mean(scores: Sequence[float]) -> float:
    """Return the mean of scores.  Raises StatisticsError, a ValueError, where there are none."""
    return statistics.fmean(scores)


class Gap(NamedTuple):
    """The scores of some rows, and from the least to the most that a tagger knows."""

    rows: Sequence[Row]
    least: str
    most: str
    score: str

    def shares(self, known: str) -> list[float]:
        """Return, for each seed, the share of the gap that some knowledge closes."""
        parts = [scores_of(self.rows, name, self.score) for name in (self.least, known, self.most)]
        return [_part(*scores) for scores in zip(*parts, strict=True)]

    def share(self, known: str) -> float:
        """Return the share of the gap between mean scores."""
        return _part(*(mean(scores_of(self.rows, name, self.score)) for name in (self.least, known, self.most)))

    def told(self, known: str) -> list[str]:
        """Return the share of the gap, and the smallest and the largest of a seed, as texts."""
        per_seed = self.shares(known)
        return [f"{self.share(known):.0%}", f"{min(per_seed):.0%} to {max(per_seed):.0%}"]

    def gains(self, known: str, before: str = "") -> list[float]:
        """Return, for each seed, what some knowledge adds to the score before, that of the least by default."""
        parts = [scores_of(self.rows, name, self.score) for name in (before or self.least, known)]
        return [after - low for low, after in zip(*parts, strict=True)]


def _part(low: float, here: float, high: float) -> float:
    return (here - low) / (high - low) if high != low else float("nan")


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return mean and standard deviation."""
    if not values:
        return ""
    sd = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{sd}"


@section("questions")
def questions_section(results: Results) -> Section:
    """Table 1."""
    lines, gaps, falls = [], dict[str, Gap](), dict[str, float]()
    for name, attr in (("own", "tag"), ("universal", "pos")):
        rows = found(results, f"questions-{attr}")
        gap = gaps[name] = Gap(rows, NOTHING, ALL, "questions")
        for known in dict.fromkeys(row["known"] for row in rows):
            line = [name, known, paper_rows("questions").get(known) if name == "own" else None]
            line += [
                spread(scores_of(rows, known, score)) for score in ("questions", "main verbs", "as verbs", "others")
            ]
            if known in (VERB, TAG):
                line += [*gap.told(known), f"{gap._replace(most=MORE).share(known):.0%}"]
            lines.append(line)
        if rows:
            falls[name] = mean(scores_of(rows, NOTHING, "others")) - mean(scores_of(rows, TAG, "others"))
    head = [
        "tags", "known of questions", "published", "questions", "main verbs", "tagged as verbs", "other sentences",
        "share of the gap", "by seed", "share of the gap to other questions' tags",
    ]  # fmt: skip
    return Section(table(head, lines), {**gaps, "falls": falls})


@section("tagger-for-entities")
def tagger_section(results: Results) -> Section:
    """Table 2."""
    rows = found(results, "tagger-for-entities")
    gap, dev = (Gap(rows, AGAIN, GOLD, score) for score in ("entities", "dev entities"))
    lines = []
    for known in dict.fromkeys(row["known"] for row in rows):
        seconds = scores_of([row for row in rows if "seconds" in row], known, "seconds")
        judged = known not in (FIRST, AGAIN)
        shares = [*gap.told(known), f"{dev.share(known):.0%}"] if judged and known != GOLD else [""] * 3
        lines.append([
            known, "" if known == GOLD else spread(scores_of(rows, known, "tags")),
            spread(scores_of(rows, known, "entities")), spread(gap.gains(known)) if judged else "", *shares,
            f"{mean(seconds):.1f}" if seconds else "",
        ])  # fmt: skip
    head = ["the tagger learns from", "tags", "entities", "over more rounds", "share of the gap", "by seed"]
    names = {"gap": gap, "dev": dev, "losses": (ERRORS, ERRORS_F1), "tags": partial(scores_of, rows, score="tags")}
    return Section(table([*head, "share on testa", "seconds"], lines), names)
