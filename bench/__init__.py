"""Benchmarks against other tools and against the machine's own limits; `python bench/run.py` runs them."""
