"""A recognizer for Presidio whose scores are the probabilities of a CRF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import spacy
from presidio_analyzer import AnalysisExplanation, LocalRecognizer, RecognizerResult

from spacy_crfseq import register_extensions

register_extensions()  # so that entities of an engine without a CRF are refused in words
ENTITIES = {
    "PER": "PERSON",
    "PERSON": "PERSON",
    "LOC": "LOCATION",
    "GPE": "LOCATION",
    "ORG": "ORGANIZATION",
    "DATE": "DATE_TIME",
    "TIME": "DATE_TIME",
    "NORP": "NRP",
}
"""Presidio's names of labels; other labels keep theirs."""


class CRFRecognizer(LocalRecognizer):
    """Entities of a pipeline with `crf_ner`, with the probability that they are there as their scores.

    model (str | Path | None): A trained pipeline.  None for the one that is Presidio's NLP engine, which runs once.
    entities (Mapping[str, str]): Presidio's name of each label.
    supported_entities (Sequence[str] | None): Entities to report; None for all of `entities`, and the other labels of
        `model`.
    other_score (float): Score of entities that have no probability, such as those of an entity ruler.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        entities: Mapping[str, str] = ENTITIES,
        supported_entities: Sequence[str] | None = None,
        supported_language: str = "en",
        other_score: float = 0.85,
        **settings: Any,
    ) -> None:
        self.nlp = None if model is None else spacy.load(model)
        self.entities, self.other_score = dict(entities), other_score
        labels = [] if self.nlp is None else [label for name in self.nlp.pipe_labels.values() for label in name]
        names = dict.fromkeys([*self.entities.values(), *(self.entities.get(label, label) for label in labels)])
        super().__init__(list(supported_entities or names), supported_language=supported_language, **settings)

    def load(self) -> None:
        """Do nothing: the pipeline is there already."""

    def analyze(self, text: str, entities: Sequence[str], nlp_artifacts: Any = None) -> list[RecognizerResult]:
        """Return the entities of a text that are asked for and supported.

        nlp_artifacts (NlpArtifacts | None): What Presidio's NLP engine made of the text; without a pipeline of its own,
            the recognizer reads the Doc in it.
        RAISES ConfigError: If the pipeline has found entities and has no `crf_ner`.
        """
        if self.nlp is None and nlp_artifacts is None:
            return []
        doc = nlp_artifacts.tokens if self.nlp is None else self.nlp(text)
        wanted, results = set(entities).intersection(self.supported_entities), []
        for ent in doc.ents:
            name = self.entities.get(ent.label_, ent.label_)
            if name in wanted:
                probability = ent._.crf_score
                score = self.other_score if probability is None else probability
                reason = f"{ent.label_} with a probability of {score:.4f}" if probability is not None else ent.label_
                results.append(
                    RecognizerResult(
                        entity_type=name,
                        start=ent.start_char,
                        end=ent.end_char,
                        score=score,
                        analysis_explanation=AnalysisExplanation(self.name, score, textual_explanation=reason),
                        recognition_metadata={
                            RecognizerResult.RECOGNIZER_NAME_KEY: self.name,
                            RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
                        },
                    )
                )
        return results
