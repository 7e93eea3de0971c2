"""Trained models of other programs: pipelines made of them, and models made of pipelines, with the same predictions."""
