"""spaCy's tests of labels that are added."""

from tests.spacy_suite.suite import load

load("parser.test_add_label", globals())
