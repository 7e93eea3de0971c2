"""Tagging, chunking and entity recognition: where labels come from in gold Docs, and where predictions go."""
