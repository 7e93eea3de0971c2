"""Optimizers, one a file.  See `types.Optimizer` for the contract.

No optimizers but parts of several: `batch`, `history` and `line_search` of those that work on all data in every
iteration, `mistakes` of those that learn from one mistake after another.
"""
