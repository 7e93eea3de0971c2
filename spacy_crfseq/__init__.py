"""Linear-chain conditional random fields as spaCy components.

``nlp.add_pipe("crf_ner")``, ``"crf_tagger"`` and ``"crf_chunker"`` are found through entry points; nothing has to be
imported.  The classes that users name, in annotations and checks, come from here: `CRFComponent` (what ``add_pipe``
returns), `DocPosterior` (what its `posterior` returns) and `LinearChainCRF` (its `crf`).  `CRF` is an estimator for
lists of feature dictionaries, `Chain` a CRF over scores that a program brings itself.  `register_extensions` registers
``doc._.crf_weight`` where no component has been created.  They are imported when they are first asked for: ``import
spacy_crfseq`` loads neither spaCy nor numba, `CRF` and `Chain` no spaCy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chain import Chain
    from .estimator import CRF
    from .model import LinearChainCRF
    from .pipeline.component import CRFComponent
    from .pipeline.doc_posterior import DocPosterior
    from .pipeline.evidence import register_extensions

__version__ = "0.1.0"
__all__ = ["CRF", "CRFComponent", "Chain", "DocPosterior", "LinearChainCRF", "__version__", "register_extensions"]

_HOMES = {
    "CRF": ("estimator", "CRF"),
    "CRFComponent": ("pipeline.component", "CRFComponent"),
    "Chain": ("chain", "Chain"),
    "DocPosterior": ("pipeline.doc_posterior", "DocPosterior"),
    "LinearChainCRF": ("model", "LinearChainCRF"),
    "register_extensions": ("pipeline.evidence", "register_extensions"),
}
"""Where the names are."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
