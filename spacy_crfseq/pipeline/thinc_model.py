"""A thinc `Model` around the parameters, so that spaCy's tools see what they expect.

`nlp.initialize`, `use_params`, ``spacy debug model`` and the training loop look at ``component.model``; the numbers
themselves belong to `LinearChainCRF`, and the parameters shown here are views of the same memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spacy.tokens import Doc
from thinc.api import Model

from ..model import LinearChainCRF


def make_model(scores_of: Callable[[list[Doc]], list[Any]]) -> Model[Any, Any]:
    """Return a model whose forward pass maps Docs to emission scores, one [tokens, L] array a Doc."""

    def forward(model: Model[Any, Any], docs: list[Doc], is_train: bool) -> tuple[list[Any], Callable[[Any], Any]]:
        return scores_of(docs), lambda d_scores: []

    return Model("linear_chain_crf", forward, dims={"nO": None})


def show_parameters(model: Model[Any, Any], crf: LinearChainCRF) -> None:
    """Let `model` present the parameters of `crf`."""
    if model.has_dim("nO") is None or model.get_dim("nO") != len(crf.labels):
        model.set_dim("nO", len(crf.labels), force=True)
    for name, values in crf.views._asdict().items():
        model.set_param(name, values)
