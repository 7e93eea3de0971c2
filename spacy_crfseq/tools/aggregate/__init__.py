"""Many doubtful sources of labels in, one distribution of the true labels out.

`votes` has the labels that sources give, `label_model` and `em` how far to trust them, `source_report` a row for each
source.
The modules that read sources need spaCy: `texts` calls `given_texts`, `source_tags` and, for each kind, `source_kinds`.
"""
