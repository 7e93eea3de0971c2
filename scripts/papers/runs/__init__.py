"""Functions that return the rows of experiments, which experiments.yml describes."""
