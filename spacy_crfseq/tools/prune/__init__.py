"""Fewer weights: `prune`."""
