"""What can be told of a model, of predictions, of a corpus: contributions, errors, intervals, counts; without spaCy."""
