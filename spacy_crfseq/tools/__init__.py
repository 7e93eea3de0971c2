"""Commands beyond training, scoring and tagging, one folder each.  Nothing else needs them."""
