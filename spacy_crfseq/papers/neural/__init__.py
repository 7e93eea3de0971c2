"""Scores from a neural network: a thinc model from Docs to one vector per token, and a linear layer to emissions.

Collobert et al. (2011), "Natural language processing (almost) from scratch", section 3.  The network is trained by
spaCy's optimizer, and all other parameters (transitions, weights of features) by the optimizer of the component.  A
training step computes the emissions of a batch, minimises the loss in mini-batches over all other parameters, and
passes the gradient of the emissions, which was collected on the way, back to the network.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConfigError
from ...types import Floats, Offsets, Scores

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from thinc.api import Model


class Neural:
    """The scores of a neural network (``spacy_crfseq.Neural.v1``).

    It has no parameters in theta.  What it needs of a vocab, such as static vectors, is that of the Docs.

    tok2vec (Model[list[Doc], list[Floats2d]]): Vectors [tokens, width] of each Doc, for example
        "spacy.HashEmbedCNN.v2", or "spacy.Tok2VecListener.v1" for those that other components share.
    sparse_epochs (int): Epochs in which features are trained alone, before the network is.
    RAISES ConfigError: If tok2vec is no model, or sparse_epochs negative.
    """

    def __init__(self, tok2vec: Any, sparse_epochs: int = 0) -> None:
        from thinc.api import Linear, Model, chain, with_array, zero_init

        if not isinstance(tok2vec, Model) or sparse_epochs < 0:
            raise ConfigError(
                "spacy_crfseq.Neural.v1: tok2vec must be a block with @architectures, such as spacy.HashEmbedCNN.v2, "
                "and sparse_epochs 0 or more."
            )
        self._listens = any(node.name == "tok2vec-listener" for node in tok2vec.walk())
        self.sparse_epochs, self._output = sparse_epochs, Linear(init_W=zero_init)
        self.model: Model[list[Doc], list[Any]] = chain(tok2vec, with_array(self._output))
        self.model.set_ref("tok2vec", tok2vec)

    def read(self, docs: Sequence[Doc]) -> Floats:
        """Return the emissions [T, L] of some Docs."""
        if not any(map(len, docs)):
            return np.zeros((0, self._output.get_dim("nO")), np.float32)
        if self._listens and any(len(doc) and not doc.tensor.size for doc in docs):
            self._listens = False  # once
            logging.getLogger("spacy").warning(
                "A neural network reads the vectors of another component, such as tok2vec, which has not processed "
                "these Docs: zeros are used. Apply nlp to them first, or list that component in annotating_components."
            )
        ops = self.model.ops
        return np.asarray(ops.to_numpy(ops.flatten(self.model.predict(list(docs)))))

    def size(self, n_labels: int) -> int:
        return 0

    def forward(
        self, theta: Floats, inputs: Floats, offsets: Offsets, n_labels: int
    ) -> tuple[Scores, Callable[[Scores], Floats]]:
        shared = np.zeros((1, n_labels, n_labels), theta.dtype), *np.zeros((2, n_labels), theta.dtype)
        return Scores(inputs.astype(theta.dtype), *shared), lambda d: theta

    def initialize(self, docs: Sequence[Doc], n_labels: int) -> None:
        """Make new parameters for so many labels; sizes are inferred from some Docs."""
        if self._output.has_dim("nO"):  # of an earlier initialization, perhaps for other labels
            self._replace(n_labels)
        ops, sample = self.model.ops, list(docs)
        self.model.initialize(sample, [ops.alloc2f(len(doc), n_labels) for doc in sample])

    def grow(self, n_labels: int) -> None:
        """Add labels, whose scores are zero."""
        layer = self._output
        self._replace(n_labels)
        for name in layer.param_names:
            weights: Any = self._output.get_param(name)
            weights[: layer.get_dim("nO")] = layer.get_param(name)

    def _replace(self, n_labels: int) -> None:
        """Use a new output layer for so many labels."""
        from thinc.api import Linear, zero_init

        layer, grown = self._output, Linear(n_labels, self._output.get_dim("nI"), init_W=zero_init)
        grown.initialize()
        self.model.replace_node(layer, grown)
        self._output = grown
        for node in (self.model, self.model.layers[-1]):
            if node.has_dim("nO"):
                node.set_dim("nO", n_labels, force=True)

    def begin_update(self, docs: Sequence[Doc], drop: float) -> tuple[Floats, Callable[[Floats], None]]:
        """Return the emissions [T, L] of a batch under dropout, and a function that takes their gradient."""
        from thinc.api import set_dropout_rate

        model, ops, lengths = self.model, self.model.ops, [len(doc) for doc in docs]
        set_dropout_rate(model, drop)
        outputs, backprop = model.begin_update(list(docs))
        emissions = np.asarray(ops.to_numpy(ops.flatten(outputs)))

        def take(gradient: Floats) -> None:
            whole: Any = ops.asarray_f(gradient)  # type: ignore[arg-type]
            backprop(ops.unflatten(whole, ops.asarray1i(lengths)))

        return emissions, take

    def to_state(self) -> bytes:
        return self.model.to_bytes()

    def from_state(self, state: Any) -> None:
        self.model.from_bytes(state)
