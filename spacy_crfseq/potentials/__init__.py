"""Potentials: they turn an encoded text into scores, and gradients of scores into those of their parameters."""
