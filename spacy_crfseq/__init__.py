"""Linear-chain conditional random fields as spaCy components.

``nlp.add_pipe("crf_ner")``, ``"crf_tagger"`` and ``"crf_chunker"`` are found through entry points; nothing has to be
imported.  The rooms of the package, from the ground up: `types` and `errors`, `registry`, `schemes`, `kernels`
(numba), the plug-ins (`losses`, `regularizers`, `optimizers`, `decoders`, `features`, `costs`), `potentials`, `model`,
`training` and `evaluation`, `pages`, `pipeline` (spaCy) and `cli`.
"""

__version__ = "0.1.0"
