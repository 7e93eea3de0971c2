"""Optimizers, one a file.  See `types.Optimizer` for the contract."""
