"""Texts with their annotation: `show`."""
