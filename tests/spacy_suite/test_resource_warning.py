"""spaCy's tests of files that stay open."""

from tests.spacy_suite.suite import load

load("serialize.test_resource_warning", globals())
