"""spaCy's tests of factories and sources of components."""

from tests.spacy_suite.suite import load

load("pipeline.test_pipe_factories", globals())
