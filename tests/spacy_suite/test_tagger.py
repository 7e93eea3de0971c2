"""spaCy's tests of its tagger."""

from tests.spacy_suite.suite import load

load("pipeline.test_tagger", globals())
