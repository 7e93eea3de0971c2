"""The six registries through which losses, regularizers, optimizers, decoders, features and costs are found.

Each is a `catalogue` registry under spaCy's name space, so that a plug-in package needs nothing but an entry point,
for instance ``[project.entry-points.spacy_crf_losses]``.  The package's own plug-ins come in by the same door.
Importing this module costs a millisecond and imports neither spaCy nor numba.
"""

from __future__ import annotations

from typing import Any

import catalogue

NAMES = ("crf_losses", "crf_regularizers", "crf_optimizers", "crf_decoders", "crf_features", "crf_costs")

losses: Any = catalogue.create("spacy", "crf_losses", entry_points=True)
regularizers: Any = catalogue.create("spacy", "crf_regularizers", entry_points=True)
optimizers: Any = catalogue.create("spacy", "crf_optimizers", entry_points=True)
decoders: Any = catalogue.create("spacy", "crf_decoders", entry_points=True)
features: Any = catalogue.create("spacy", "crf_features", entry_points=True)
costs: Any = catalogue.create("spacy", "crf_costs", entry_points=True)

ALL: dict[str, Any] = dict(zip(NAMES, (losses, regularizers, optimizers, decoders, features, costs), strict=True))
