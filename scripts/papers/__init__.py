"""The papers' experiments, run again: see run.py."""
