"""Batch optimizers besides L-BFGS and OWL-QN: conjugate gradients, RPROP and FISTA."""
