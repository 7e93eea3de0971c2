"""Inference: labels, probabilities and alternatives, given scores."""
