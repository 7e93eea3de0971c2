"""Fixtures of tests of commands."""

from tests.commands import configure, corpus, local, optimizers, paths, run, train_on, trained  # noqa: F401
