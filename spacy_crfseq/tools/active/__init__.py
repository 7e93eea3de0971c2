"""Texts to annotate next: `active`."""
