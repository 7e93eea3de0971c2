"""Optimizers.  See `types.Optimizer` for the contract.

`batch` has parts of those that work on all data in every iteration, `lbfgs` L-BFGS and OWL-QN;
`online` is part of the others, `mistakes` has those that step where something is wrong.
"""
