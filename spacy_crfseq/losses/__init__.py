"""Losses: functions of scores, one per file.  See `types.Loss` for the contract.

The module `_sums` computes losses that are functions of likelihoods, also those of sets of candidates.
"""
