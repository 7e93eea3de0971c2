"""The part that knows spaCy; `factories`, which every `Language` imports, brings in no numba."""
