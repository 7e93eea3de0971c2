"""Features: from columns of token hashes to sets of feature ids.

`templates` defines the language, `attributes` its built-in names, `plan` groups templates into slots, `lexicon` keeps
the values of each distinct word, `encoder` turns columns into ids, `sets` has ready-made lists of templates.
"""
