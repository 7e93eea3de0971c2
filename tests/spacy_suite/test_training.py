"""spaCy's tests of training."""

from tests.spacy_suite.suite import load

load("training.test_training", globals())
