"""Many doubtful sources of labels in, one distribution of the true labels out; without spaCy.

The module `votes` has what sources say, `label_model` how far to trust them, `sources` what became of each.
"""
