"""Probabilities that agree with frequencies: `calibrate`."""
