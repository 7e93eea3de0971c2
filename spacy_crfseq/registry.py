"""The registries of losses, regularizers, optimizers, decoders, features, potentials and costs.

Each is a `catalogue` registry under spaCy's name space, so a plug-in package needs only an entry point, for instance
``[project.entry-points.spacy_crf_losses]``.  The package registers its own plug-ins the same way.
Importing this module costs a millisecond and imports neither spaCy nor numba.
"""

from __future__ import annotations

from typing import Any

import catalogue

KINDS = ("losses", "regularizers", "optimizers", "decoders", "features", "potentials", "costs")
NAMES = tuple(f"crf_{kind}" for kind in KINDS)

ALL: dict[str, Any] = {name: catalogue.create("spacy", name, entry_points=True) for name in NAMES}
losses, regularizers, optimizers, decoders, features, potentials, costs = ALL.values()
