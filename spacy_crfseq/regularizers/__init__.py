"""Penalties on the weights, one a file.  See `types.Regularizer` for the contract."""
