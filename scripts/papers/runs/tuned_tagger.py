"""Hall, McDonald & Petrov (2011), table 2: a tagger tuned by the entities of sentences, which a recognizer finds.

On CoNLL-2003, the tagger knows the tags of another corpus, and a recognizer is trained with the tags of each tagger.
On CoNLL-2002, both are trained on parts of one corpus, and the recognizer stays as it is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.papers._harness import Options, Row, say
from scripts.papers.adapting import GOLD_LABELS, adapted, ranker
from scripts.papers.corpora import Examples, read, read_parts
from scripts.papers.corpus import Corpus
from scripts.papers.task import Task, changed

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_crfseq.types import Floats

FIRST, AGAIN, TAUGHT, GOLD = (
    "as first trained", "more rounds on its own sentences", "gold tags of the same sentences",
    "gold tags instead of a tagger",
)  # fmt: skip
"""The lessons of a tagger.  The last one is no tagger."""
NOUNS, NOUNS_F1, ERRORS, ERRORS_F1 = (
    "proper nouns in entities", "proper nouns in entities and 1 - F1", "the recognizer's errors",
    "its errors and 1 - F1",
)  # fmt: skip
"""Losses: those of the paper, and ours."""
LOSSES = {"tagger-for-names": (NOUNS, NOUNS_F1, ERRORS), "tagger-for-entities": (ERRORS, ERRORS_F1)}


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


def read_with_tags(nlp: Language, options: Options, settings: Mapping[str, Any]) -> dict[str, Examples]:
    """Return the parts of the corpus with entities, and "tags", a corpus for the tagger alone where there is one."""
    parts: dict[str, Examples] = {**read_parts(nlp, options, settings, 400)}
    if "tags" in settings:
        parts["tags"] = read(nlp, options, settings["tags"], "train", options.few(100))
    return parts


class TunedTagger:
    """A tagger, a recognizer of entities that reads its tags, and sentences to tune the tagger and to score both.

    judged, labelled: Sentences with entities, without and with the tags of the file.
    start (Floats): Weights of the tagger before it is tuned.
    recognizer: That which judges taggers.
    """

    def __init__(self, corpus: Corpus, seed: int, options: Options) -> None:
        nlp, settings, parts = corpus.nlp, corpus.settings, corpus.parts
        self._nlp, self._seed, self._quick, self.settings = nlp, seed, options.quick, settings
        self._retrained: bool = settings["setting"]["retrained"]
        sizes = {part: options.few(min(most, 100), most) for part, most in settings["sizes"].items()}
        self._method = changed(settings["methods"]["default"], optimizer={"seed": seed})
        shuffled = random.Random(seed).sample(parts["train"], len(parts["train"]))
        if "tags" in parts:
            self.tagged = random.Random(seed).sample(parts["tags"], sizes["tagger"])
        else:
            self.tagged, shuffled = shuffled[: sizes["tagger"]], shuffled[sizes["tagger"] :]
        self._to_read, others = shuffled[: sizes["recognizer"]], shuffled[sizes["recognizer"] :]
        self.labelled = [example for example in others if example.reference.ents][: sizes["judged"]]
        self.judged = [untagged(nlp, example) for example in self.labelled]
        self.parts = {part: parts[part] for part in ("dev", "test")}

        # all sentences contribute attributes and tags; no weight is learned from the judged ones here
        seen = [*self.tagged, *self.labelled]
        self.tagger = Task(nlp, settings["tagger"], settings["tagger_features"], seen, self.parts, quick=self._quick)
        self.tagger.data = self.tagger.data.slice(0, len(self.tagged))
        self.start = self.tagger.fit(self._method).theta
        self.recognizer = self._recognizer(self.start if self._retrained else None, nlp)

    def _read_by(self, theta: Floats | None, examples: Examples) -> Examples:
        """Return examples with the tags of a tagger in the place of those of the file, which they keep for None."""
        from spacy.training import Example

        if theta is None:
            return examples
        self.tagger.pipe.set_parameters(theta)
        docs = self.tagger.pipe.pipe(words_of(self._nlp, example) for example in examples)
        return [Example(doc, example.reference) for doc, example in zip(docs, examples, strict=True)]

    def _recognizer(self, theta: Floats | None, nlp: Language) -> Task:
        """Return a recognizer of entities, trained with the tags of a tagger, or with those of the file for None."""
        block, features = self.settings["recognizer"], self.settings["recognizer_features"]
        task = Task(nlp, block, features, self._read_by(theta, self._to_read), {}, quick=self._quick)
        task.pipe.set_parameters(task.fit(self._method).theta)
        return task

    def adapt(self, lesson: str) -> Floats:
        """Return the weights after augmented-loss training, with as many visits for all evidence."""
        examples = {AGAIN: [], TAUGHT: self.labelled}.get(lesson, self.judged)
        loss = GOLD_LABELS if lesson in (AGAIN, TAUGHT) else ranker(self._cost(lesson))
        return adapted(self.tagger, self.settings["augmented"], self.start, examples, loss, self._seed)

    def _cost(self, lesson: str) -> Row:
        reader = {"recognizer": self._nlp, "component": self.recognizer.pipe.name}
        if lesson in (ERRORS, ERRORS_F1):
            return {"@crf_costs": "spacy_crfseq.EntityAgreement.v1", **reader, "f1": lesson == ERRORS_F1}
        cost = {"@crf_costs": "spacy_crfseq.EntityTags.v1", **self.settings["proper_nouns"]}
        return {**cost, **reader} if lesson == NOUNS_F1 else cost

    def tags(self, theta: Floats | None) -> float:
        """Return the accuracy of tags on the test part, in per cent, where none are known to be proper nouns.

        Otherwise, it is the share of tokens in entities that have the tag of a proper noun.
        """
        if "proper_nouns" not in self.settings:
            return 100.0 if theta is None else self.tagger.score("test", theta)
        labels = self.settings["proper_nouns"]["labels"]
        pairs = (
            zip(example.predicted, example.reference, strict=True)
            for example in self._read_by(theta, self.parts["test"])
        )
        return 100 * float(np.mean([mine.tag_ in labels for pair in pairs for mine, gold in pair if gold.ent_type]))

    def entities(self, theta: Floats | None) -> dict[str, float]:
        """Return the F1 of a recognizer on each part, in per cent, when it reads the tags of a tagger."""
        import spacy

        from spacy_crfseq.pipeline.evaluator import Evaluator

        task = self.recognizer
        if self._retrained:
            task = self._recognizer(theta, spacy.blank(self._nlp.lang, vocab=self._nlp.vocab))
        read_by = {part: self._read_by(theta, examples) for part, examples in self.parts.items()}
        return {
            part: 100 * Evaluator(task.pipe.doc_model, list(examples))(task.pipe.crf.theta)
            for part, examples in read_by.items()
        }


def lessons(options: Options, config: str) -> list[Row]:
    """Tune a tagger by each loss, and compare with what else it could learn from."""
    corpus, rows = Corpus(config, options, read_with_tags), list[Row]()
    for seed in range(options.seed, options.seed + options.few(2, corpus.settings["split"]["seeds"])):
        tuned = TunedTagger(corpus, seed, options)
        for lesson in (FIRST, AGAIN, *LOSSES[config], TAUGHT, GOLD):
            begun = process_time()
            theta = {FIRST: tuned.start, GOLD: None}[lesson] if lesson in (FIRST, GOLD) else tuned.adapt(lesson)
            seconds = {} if lesson in (FIRST, GOLD) else {"seconds": round(process_time() - begun, 1)}
            f1 = tuned.entities(theta)
            scores = {"tags": tuned.tags(theta), "entities": f1["test"], "dev entities": f1["dev"]}
            rows.append(
                {"seed": seed, "known": lesson, **{key: round(score, 3) for key, score in scores.items()}, **seconds}
            )
            say(f"    {', '.join(f'{key} {value}' for key, value in rows[-1].items())}")
    return rows
