"""Weights of labelled texts by texts of a target: `weigh`, a reader, and the functions of crf_weightings."""
