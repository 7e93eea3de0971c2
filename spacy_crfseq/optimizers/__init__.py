"""Optimizers, one per file.  See `types.Optimizer` for the contract.

No optimizers but parts of several: `batch`, `quasi_newton` and `line_search` of those that work on all data in every
iteration, `online` of the others, `seeds` of those that draw random numbers.
"""
