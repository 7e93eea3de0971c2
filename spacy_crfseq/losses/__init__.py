"""Losses: functions of scores, one a file.  See `types.Loss` for the contract.

`_sums` is no loss: it adds up those that are functions of likelihoods; `_candidates` does where labels are candidate
sets.
"""
