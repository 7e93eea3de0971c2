"""Compare the scores of `CRFRecognizer` with those of Presidio's own recognizer for spaCy.

    python compare.py MODEL [MODEL ...] [--gold gold.spacy] [--tests test_spacy_recognizer.py]

A pipeline with a CRF gets `CRFRecognizer`, another one Presidio's `SpacyRecognizer`.  With --gold, it prints how many
words of persons are found with at least some score, and how many of the words that are found are of persons.  With
--tests, it prints how many cases of this file of Presidio's tests are found with at least some score.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crf_recognizer import ENTITIES, CRFRecognizer
from presidio_analyzer.nlp_engine import SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import SpacyRecognizer
from spacy.tokens import DocBin

from spacy_crfseq.pipeline.component import CRFComponent

TESTED = ("PERSON", "DATE_TIME")
"""The entities that Presidio's tests number from 0 on."""
SCORES = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95)


class Case(NamedTuple):
    """A text and the only entity in it."""

    text: str
    entity: str
    start: int
    end: int


class Recognizer:
    """A pipeline as Presidio's engine, with the recognizer for it."""

    def __init__(self, model: str) -> None:
        self.engine = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": model}])
        self.engine.load()
        self.nlp = self.engine.nlp["en"]
        has_crf = any(isinstance(pipe, CRFComponent) for _, pipe in self.nlp.pipeline)
        self.recognizer: Any = CRFRecognizer() if has_crf else SpacyRecognizer()

    def results(self, text: str, *entities: str) -> list[Any]:
        """Return the results for a text."""
        results: list[Any] = self.recognizer.analyze(text, list(entities), self.engine.process_text(text, "en"))
        return results

    def score_of(self, case: Case) -> float:
        """Return the score of the only entity of a text, -1 if it is not found, or another one is."""
        results = self.results(case.text, *TESTED)
        places = [(result.entity_type, result.start, result.end) for result in results]
        return float(results[0].score) if places == [case[1:]] else -1.0

    def persons(self, gold: Path) -> Iterator[tuple[float, bool]]:
        """Yield the score of each word, -1 if it is not found, and whether it is of a person."""
        for doc in DocBin().from_disk(gold).get_docs(self.nlp.vocab):
            results = self.results(doc.text, "PERSON")
            for token in doc:
                places = [result.score for result in results if result.start <= token.idx < result.end]
                yield max(places, default=-1.0), ENTITIES.get(token.ent_type_) == "PERSON"


def cases_of(path: Path) -> list[Case]:
    """Return the cases that a file of Presidio's tests lists: texts, the number of results, places, and entities."""
    rows = [
        ast.literal_eval(node)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8")))
        if isinstance(node, ast.Tuple) and len(node.elts) == 4 and isinstance(node.elts[2], ast.Tuple)
    ]
    return [Case(text, TESTED[number], *places[0]) for text, _, places, number in rows]


def main() -> None:
    """Print the comparisons that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--tests", type=Path)
    options = parser.parse_args()
    for model in options.models:
        recognizer = Recognizer(model)
        if options.tests is not None:
            scores = [recognizer.score_of(case) for case in cases_of(options.tests)]
            counts = ", ".join(f"{sum(score >= least for score in scores)} from {least:g}" for least in SCORES)
            print(f"{model}: of {len(scores)} cases, {counts}")
        if options.gold is not None:
            words = list(recognizer.persons(options.gold))
            n_persons = sum(is_person for _, is_person in words)
            for least in SCORES:
                kept = [is_person for score, is_person in words if score >= least]
                recall, precision = sum(kept) / n_persons, sum(kept) / max(1, len(kept))
                print(f"{model}: from {least:g}, recall {100 * recall:.1f}, precision {100 * precision:.1f}")


if __name__ == "__main__":
    main()
