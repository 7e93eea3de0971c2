"""How good predictions are, what is in a corpus, and search over settings, without spaCy and without printing."""
