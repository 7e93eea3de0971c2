"""How good predictions are, and what is in a corpus: values in, figures out, without spaCy and without printing."""
