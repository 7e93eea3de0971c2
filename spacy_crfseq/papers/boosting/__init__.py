"""Sequence boosting of Altun, Hofmann & Johnson (2002): an optimizer with its bounds and kernels."""
