"""Compiled loops over arrays: the only room that imports numba.

A kernel takes C-contiguous arrays, tuples of them and plain numbers, allocates nothing that grows with the corpus,
releases the GIL and knows nothing of Docs, templates or plug-ins.  Kernels may call kernels of other files: a change of
any file of this folder makes numba compile all of them again.
"""
