"""Weightings of labelled texts by texts of a target, one per file.  See `types.Weighting` for the contract."""
