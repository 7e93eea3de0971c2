"""Hall, McDonald & Petrov (2011), table 2, entities: a tagger of one corpus tuned by the entities of another.

The tagger knows the tags of CoNLL-2000.  Of the sentences of CoNLL-2003 that tune it, the entities are known.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from scripts.papers._harness import Options, Results, Row, config, experiment
from scripts.papers.hall import (
    AGAIN,
    ERRORS,
    FIRST,
    GOLD,
    GOLD_LABELS,
    TAUGHT,
    Gap,
    adapted,
    mean,
    ranker,
    scores_of,
    spread,
    tagger_row,
    untagged,
    words_of,
)
from scripts.papers.page import Section, found, paper_rows, section, table
from scripts.papers.tasks import Examples, Task, changed, read

if TYPE_CHECKING:
    from spacy.language import Language

    from spacy_crfseq.types import Floats

NOUNS, NOUNS_F1 = "proper nouns in entities", "proper nouns in entities and 1 - F1"
"""The losses of the paper."""


class Names:
    """A tagger of CoNLL-2000, and sentences of CoNLL-2003: to tune it, to train a recognizer of entities, to score it.

    judged, labelled: Sentences with entities, without and with the tags of the file.
    start (Floats): Weights of the tagger that is trained on CoNLL-2000 alone.
    """

    def __init__(self, nlp: Language, parts: Mapping[str, Examples], seed: int, options: Options) -> None:
        self._nlp, self._seed, self._quick = nlp, seed, options.quick
        self.settings = settings = config("tagger-for-names")
        sizes = {part: options.few(min(most, 100), most) for part, most in settings["sizes"].items()}
        self._method = changed(settings["methods"]["default"], optimizer={"seed": seed})
        shuffled = random.Random(seed).sample(parts["train"], len(parts["train"]))
        self._to_read = shuffled[: sizes["recognizer"]]
        named = (example for example in shuffled[sizes["recognizer"] :] if example.reference.ents)
        self.labelled = [example for _, example in zip(range(sizes["judged"]), named, strict=False)]
        self.judged = [untagged(nlp, example) for example in self.labelled]
        self.parts = {part: parts[part] for part in ("dev", "test")}
        self._tagged = random.Random(seed).sample(parts["tags"], sizes["tagger"])

        # all sentences contribute attributes and tags; no weight is learned from the judged ones here
        seen = [*self._tagged, *self.labelled]
        self.tagger = Task(nlp, settings["tagger"], settings["tagger_features"], seen, self.parts, quick=options.quick)
        self.tagger.data = self.tagger.data.slice(0, len(self._tagged))
        self.start = self.tagger.fit(self._method).theta
        self.recognizer = self._recognizer(self.start, nlp)

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
        parts = {part: self._read_by(theta, examples) for part, examples in self.parts.items()}
        block, features = self.settings["recognizer"], self.settings["recognizer_features"]
        task = Task(nlp, block, features, self._read_by(theta, self._to_read), parts, quick=self._quick)
        task.pipe.set_parameters(task.fit(self._method).theta)
        return task

    def adapt(self, known: str) -> Floats:
        """Return the weights after augmented-loss training, with as many visits for all evidence."""
        examples = {AGAIN: [], TAUGHT: self.labelled}.get(known, self.judged)
        loss = ranker(self._cost(known)) if known in (NOUNS, NOUNS_F1, ERRORS) else GOLD_LABELS
        return adapted(self.tagger, self.settings["augmented"], self.start, examples, loss, self._seed)

    def _cost(self, known: str) -> Row:
        reader = {"recognizer": self._nlp, "component": self.recognizer.pipe.name}
        if known == ERRORS:
            return {"@crf_costs": "spacy_crfseq.EntityAgreement.v1", **reader}
        cost = {"@crf_costs": "spacy_crfseq.EntityTags.v1", **self.settings["proper_nouns"]}
        return {**cost, **reader} if known == NOUNS_F1 else cost

    def nouns(self, theta: Floats | None) -> float:
        """Return the share of tokens in entities of the test part that have such a tag, in per cent."""
        labels = self.settings["proper_nouns"]["labels"]
        pairs = (zip(one.predicted, one.reference, strict=True) for one in self._read_by(theta, self.parts["test"]))
        return 100 * float(np.mean([mine.tag_ in labels for pair in pairs for mine, gold in pair if gold.ent_type]))

    def entities(self, theta: Floats | None) -> dict[str, float]:
        """Return the F1 on each part, in per cent, of a recognizer that is trained with the tags of a tagger."""
        import spacy

        task = self._recognizer(theta, spacy.blank("en", vocab=self._nlp.vocab))
        return {part: task.score(part, task.pipe.crf.theta) for part in self.parts}


@experiment("tagger-for-names", "English tags tuned for entities: proper nouns, and what a recognizer finds", 3)
def tagger_for_names(options: Options) -> list[Row]:
    """Tune a tagger by the entities of another corpus, and train a recognizer with the tags of each."""
    import spacy

    settings, nlp = config("tagger-for-names"), spacy.blank("en")
    parts = {
        part: read(nlp, options, settings["entities"], part, options.few(400)) for part in ("train", "dev", "test")
    }
    parts["tags"] = read(nlp, options, settings["tags"], "train", options.few(100))
    rows = []
    for seed in range(options.seed, options.seed + options.few(2, settings["split"]["seeds"])):
        corpus = Names(nlp, parts, seed, options)
        for known in (FIRST, AGAIN, NOUNS, NOUNS_F1, ERRORS, TAUGHT):
            begun = process_time()
            theta = corpus.start if known == FIRST else corpus.adapt(known)
            seconds = {} if known == FIRST else {"seconds": round(process_time() - begun, 1)}
            rows.append(tagger_row(seed, known, corpus.nouns(theta), corpus.entities(theta), **seconds))
        rows.append(tagger_row(seed, GOLD, corpus.nouns(None), corpus.entities(None)))
    return rows


# The page


@section("tagger-for-names")
def names_section(results: Results) -> Section:
    """Table 2, entities."""
    rows, published = found(results, "tagger-for-names"), paper_rows("tagger-for-names")
    gap, lines = Gap(rows, AGAIN, GOLD, "entities"), []
    for known in dict.fromkeys(row["known"] for row in rows):
        theirs = published.get(known)
        higher = f"{theirs - published[FIRST]:+.2f}" if theirs and known != FIRST else ""
        gains = ["" if known in (FIRST, before) else spread(gap.gains(known, before)) for before in (FIRST, AGAIN)]
        seconds = scores_of([row for row in rows if "seconds" in row], known, "seconds")
        lines.append([
            known, theirs, higher, *(spread(scores_of(rows, known, score)) for score in ("tags", "entities")), *gains,
            spread(scores_of(rows, known, "dev entities")), f"{mean(seconds):.1f}" if seconds else "",
        ])  # fmt: skip
    head = [
        "the tagger learns from", "published, F1", "over no adaptation", "proper nouns", "ours, F1",
        "over no adaptation", "over more rounds", "on testa", "seconds",
    ]  # fmt: skip
    names = {"gap": gap, "losses": (NOUNS, NOUNS_F1), "nouns": partial(scores_of, rows, score="tags")}
    return Section(table(head, lines), names)
