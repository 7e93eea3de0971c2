"""Losses that know shares of labels: among all tokens, or among those with a feature."""
