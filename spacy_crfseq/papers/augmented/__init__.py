"""Augmented-loss training of Hall, McDonald & Petrov (2011): several corpora, several losses, `fine-tune`."""
