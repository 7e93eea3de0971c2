"""Classes of words from raw text: `word-classes`."""
