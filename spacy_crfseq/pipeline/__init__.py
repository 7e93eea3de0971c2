"""The rooms that know spaCy: factories, the component and its tasks, readers, batchers and scorers.

`factories` is imported by every `Language` and therefore imports nothing heavy; the component, and with it numba, come
in when a pipe is made and first used.
"""
