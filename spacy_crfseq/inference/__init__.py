"""Inference: what follows from scores, such as labels, probabilities and alternatives."""
