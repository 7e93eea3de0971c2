"""Training on a model's own predictions: `self-train`."""
