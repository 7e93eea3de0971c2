"""spaCy's tests of components on disk and in bytes."""

from tests.spacy_suite.suite import load

load("serialize.test_serialize_pipeline", globals())
