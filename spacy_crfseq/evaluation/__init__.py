"""Scores of models and of corpora, and search over settings: what is computed about models, without spaCy."""
