"""Features: from columns of token hashes to sets of feature ids.

`templates` defines the language and groups templates into slots, `attributes` has its built-in names, `sets` ready-made
lists of templates; `encoder` collects the features of texts or finds those of a model, `encoded` is its result.
Attributes of one's own are plug-ins (`protocol`), such as `word_classes`, `phrases` and `documents`; or functions of a
token, whose results `entries` reads.  `interned` does for the estimator what `encoder` does for Docs.
"""
