"""spaCy's tests of configs."""

from tests.spacy_suite.suite import load

load("serialize.test_serialize_config", globals())
