"""Errors and intervals of predictions, counts of a corpus; without spaCy."""
