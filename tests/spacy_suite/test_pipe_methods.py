"""spaCy's tests of the methods of a pipeline."""

from tests.spacy_suite.suite import load

load("pipeline.test_pipe_methods", globals())
