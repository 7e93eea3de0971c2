"""Many doubtful sources of labels in, one distribution of the true labels out.

`label_model` and `em` say how far to trust the votes of sources, `source_report` has a row for each source.
The modules that read sources need spaCy: `texts` calls `given_texts`, `source_tags` and, for each kind, `source_kinds`.
"""
