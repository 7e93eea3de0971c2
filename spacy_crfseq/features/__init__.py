"""Features: from columns of token hashes to sets of attribute ids.

`templates` holds the language, `attributes` what a word's text alone tells, `plan` groups templates into slots,
`lexicon` keeps one row of values per distinct word, `encoder` turns columns into ids, `sets` names ready-made lists.
Nothing here knows spaCy: `pipeline.extract` reads Docs and hands over arrays.
"""
