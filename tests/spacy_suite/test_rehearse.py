"""spaCy's tests of training that goes on."""

from tests.spacy_suite.suite import load

load("training.test_rehearse", globals())
