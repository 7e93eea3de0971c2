"""Compiled loops over arrays: the only room that imports numba.

A kernel takes C-contiguous arrays and plain numbers, allocates nothing that grows with the corpus, releases the GIL
and knows nothing of Docs, templates or plug-ins.  numba keys its cache by the source file of the called function
alone, so a kernel calls only kernels of its own file; a test holds this.
"""
