"""The CRF layer in examples/torch: gradients under masks with holes, and the LSTM-CRF that it trains."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from spacy_crfseq import Chain
from spacy_crfseq.errors import DataError
from spacy_crfseq.types import Scores
from tests import reference

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
ROOT = Path(__file__).parents[2]
MASK = [[False, True, False, True, True], [False, False, True, False, True], [True] * 5, [False] * 5]


@pytest.fixture
def crf(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "torch"))
    for name in ("crf", "train"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import crf

    return crf


def random_scores() -> list[Any]:
    torch.manual_seed(0)
    shapes = ((4, 5, 3), (3, 3), (3,), (3,))
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def test_values_and_gradients_under_masks_with_holes(crf: ModuleType) -> None:
    scores, mask = random_scores(), torch.tensor(MASK)
    labels = torch.randint(0, 3, mask.shape)
    labels[~mask] = -100
    total = 0.0
    emissions, transitions, start, end = (tensor.detach().numpy() for tensor in scores)
    for row, own, kept in zip(emissions, labels.numpy(), np.array(MASK), strict=True):
        total += reference.log_probability(Scores(row[kept], transitions[None], start, end), own[kept])
    weights = torch.cat([scores[1], scores[2][None], scores[3][None]]).detach().requires_grad_()
    assert crf.LogProb.apply(scores[0], weights, labels, mask).item() == pytest.approx(total)
    assert torch.autograd.gradcheck(lambda *given: crf.LogProb.apply(*given, labels, mask), [scores[0], weights])


def test_second_derivatives_are_refused(crf: ModuleType) -> None:
    layer, emissions = crf.CRF(3), torch.randn(2, 5, 3, requires_grad=True)
    value = layer(emissions, torch.zeros(2, 5, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(value, emissions, create_graph=True)


def test_without_a_mask_all_tokens_count(crf: ModuleType) -> None:
    torch.manual_seed(0)
    layer, emissions, labels = crf.CRF(3), torch.randn(4, 5, 3), torch.randint(0, 3, (4, 5))
    mask = torch.ones(4, 5)
    assert layer(emissions, labels).item() == layer(emissions, labels, mask).item()
    assert (layer.chain(emissions).viterbi() == layer.chain(emissions, mask).viterbi()).all()


def test_values_without_gradients_are_those_of_training_and_minus_infinity_for_forbidden_labels(
    crf: ModuleType,
) -> None:
    torch.manual_seed(0)
    layer, emissions = crf.CRF(3), torch.randn(4, 5, 3)
    mask, labels = torch.tensor(MASK), torch.randint(0, 3, (4, 5))
    labels[~mask] = -100
    trained = layer(emissions, labels, mask).item()
    with torch.no_grad():
        assert layer(emissions, labels, mask).item() == pytest.approx(trained, rel=1e-6)
        emissions[2, 1, labels[2, 1]] = -torch.inf
        assert layer(emissions, labels, mask).item() == -torch.inf
    with pytest.raises(DataError, match="Sequence 2 has labels that its scores forbid"):
        layer(emissions, labels, mask)


def test_a_value_that_float32_cannot_hold_is_minus_infinity(crf: ModuleType) -> None:
    emissions = torch.zeros(1, 5, 3)
    emissions[..., 0] = torch.finfo(torch.float32).min
    assert crf.CRF(3)(emissions, torch.zeros(1, 5, dtype=torch.int64)).item() == -torch.inf


def test_an_lstm_crf_learns(crf: ModuleType, tmp_path: Path) -> None:
    import train

    for name in ("train.conll", "dev.conll"):
        sentences = (ROOT / "assets" / "corpus" / name).read_text(encoding="utf8").split("\n\n")
        (tmp_path / name).write_text("\n\n".join(sentences[:40]), encoding="utf8")
    losses, accuracy = train.train(tmp_path, epochs=4)
    assert losses[-1] < 0.7 * losses[0]
    assert accuracy > 0.3


def test_tensors_that_cannot_be_read_are_refused_in_words() -> None:
    emissions, transitions, _, _ = random_scores()
    with pytest.raises(DataError, match=r"emissions cannot be read as an array: .*detach"):
        Chain(emissions, transitions)
    with pytest.raises(DataError, match=r"emissions cannot be read as an array: .*numpy\(force=True\)"):
        Chain(emissions.detach().to(torch.bfloat16), transitions.detach())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_loss_and_gradients_of_long_sequences_in_half_precision_are_finite_and_near_those_of_float32(
    crf: ModuleType, dtype: str
) -> None:
    torch.manual_seed(0)
    layer, mask = crf.CRF(4), torch.ones(64, 2000, dtype=torch.bool)
    labels, half = torch.randint(0, 4, mask.shape), torch.randn(64, 2000, 4).to(getattr(torch, dtype))
    losses, gradients = [], []
    for emissions in (half, half.float()):
        layer.zero_grad()
        losses.append(layer(emissions.requires_grad_(), labels, mask))
        losses[-1].backward()
        gradients.append(layer.weights.grad.clone())
        assert emissions.grad.dtype == emissions.dtype
    assert losses[0].dtype == torch.float32
    assert abs(losses[0]) > torch.finfo(torch.float16).max
    assert losses[0].item() == losses[1].item()
    assert torch.equal(*gradients)


def test_a_chain_keeps_its_parameters_when_an_optimizer_writes_the_next_ones(crf: ModuleType) -> None:
    layer, emissions = crf.CRF(3), torch.randn(2, 5, 3)
    chain = layer.chain(emissions, torch.ones(2, 5, dtype=torch.bool))
    before = chain.log_z()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 1
    assert (chain.log_z() == before).all()
