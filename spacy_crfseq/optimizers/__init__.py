"""Optimizers.  See `types.Optimizer` for the contract.

`batch` and `line_search` are parts of those that work on all data in every iteration, `lbfgs` has L-BFGS and OWL-QN;
`online` is part of the others, `mistakes` has those that step where something is wrong.
"""
