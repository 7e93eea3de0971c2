"""Chains of local softmaxes (MEMM): a loss and a decoder."""
