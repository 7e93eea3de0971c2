"""Methods of single papers, one folder each: its computation, its command, its kernels.  Nothing else needs them."""
