"""Regularization paths: `find-regularization`."""
