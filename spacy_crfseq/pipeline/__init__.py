"""The spaCy integration; `factories`, which every `Language` imports, does not import numba."""
