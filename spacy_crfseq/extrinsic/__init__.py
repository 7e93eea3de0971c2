"""Extrinsic losses, one a file: costs for augmented training.  See `types.ExtrinsicLoss` for the contract."""
