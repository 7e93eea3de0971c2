"""What can be told of a model: contributions, weights, templates; without spaCy."""
