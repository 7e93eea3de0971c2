"""Augmented-loss training of Hall, McDonald & Petrov (2011): costs of labellings, and the inline ranker."""
