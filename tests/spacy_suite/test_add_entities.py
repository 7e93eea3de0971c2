"""spaCy's tests of entities that are set after a prediction."""

from tests.spacy_suite.suite import load

load("doc.test_add_entities", globals())
