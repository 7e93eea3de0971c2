"""Kernel perceptron of Altun, Johnson & Hofmann (2003), section 6."""
