"""Potentials: functions from an encoded text to scores, and from gradients of scores to gradients of parameters."""
