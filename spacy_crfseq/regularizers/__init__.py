"""Penalties on the weights, one per file.  See `types.Regularizer` for the contract."""
