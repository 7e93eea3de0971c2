"""Costs of labellings for augmented training, one a file.  See `types.Cost` for the contract."""
