"""spaCy's tests of its entity recognizer."""

from tests.spacy_suite.suite import load

load("parser.test_ner", globals())
