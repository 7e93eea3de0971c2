"""Costs of labellings for augmented training, one per file.  See `types.Cost` for the contract."""
