"""Evaluation: what a model's weights, its predictions and a corpus show, without spaCy."""
