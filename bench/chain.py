"""The CRF layer for scores of other programs, against those that people have: pytorch-crf, torch-struct, hmmlearn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bench._harness import Measure, Options, Row, benchmark, in_turn, need, optional, say, seconds
from scripts.kit import ROOT
from spacy_crfseq import Chain

SHAPES = ((32, 20, 9), (32, 50, 20), (256, 50, 20), (32, 200, 50), (256, 20, 9))
"""Sequences of a batch, tokens of each, labels."""
CUBES = 1 << 26
"""Numbers that torch-struct may hold, L x L x L for each token; with more it takes seconds."""
WORK, FEWEST = 2e7, 30
"""Products of a measurement of ours, B x T x L x L times repetitions, and repetitions at least; a peer does a tenth."""


class Problem(NamedTuple):
    """Random scores and labels of a batch, all tokens of the chain."""

    emissions: np.ndarray
    transitions: np.ndarray
    start: np.ndarray
    end: np.ndarray
    labels: np.ndarray
    mask: np.ndarray

    @staticmethod
    def of(shape: tuple[int, int, int], dtype: Any = np.float32) -> Problem:
        """Return a problem of this size."""
        rng = np.random.default_rng(0)
        n_sequences, n_tokens, n = shape
        sizes = (shape, (n, n), (n,), (n,))
        scores = (rng.standard_normal(size).astype(dtype) for size in sizes)
        return Problem(*scores, rng.integers(0, n, shape[:2]), np.ones((n_sequences, n_tokens), np.bool_))

    def label(self) -> str:
        """Return the size in words."""
        return " x ".join(map(str, self.emissions.shape))

    def from_arrays(self) -> float:
        """Return the log-likelihood of the labels after computing its gradient, by our engine alone."""
        return Chain(*self[:4], mask=self.mask).log_prob_and_grad(self.labels)[0]

    def repeated(self, work: Callable[[], object], name: str, quick: bool) -> Measure:
        """Return a contender that measures the milliseconds of `work`."""
        wanted = 0 if quick else round(WORK / (self.emissions.size * self.emissions.shape[-1]))
        times = max(FEWEST, wanted) // (1 if name == "ours" else 10)

        def repeat() -> None:
            for _ in range(times):
                work()

        def measure() -> float:
            work()  # after another contender, memory has to be had and caches filled
            return seconds(repeat) / times * 1e3

        return measure


@benchmark("chain-gradient", minutes=1)
def gradient(options: Options) -> list[Row]:
    """The log-likelihood of the labels of a batch (sequences x tokens x labels) and its gradient for emissions,
    transitions, start and end scores, from tensors to gradients by PyTorch's autograd, with a mask; float32, one
    thread. Ours is the module of `examples/torch`, its checks included."""
    torch = _torch()
    rows: list[Row] = []
    for problem in map(Problem.of, SHAPES):
        ours = _ours(torch, problem)
        for name, make in (("pytorch-crf", _pytorch_crf), ("torch-struct", _torch_struct)):
            theirs = make(torch, problem)
            if theirs is None:
                continue
            assert np.isclose(theirs(), ours(), rtol=1e-4)
            rows += _rows(problem, "through autograd", {"ours": ours, name: theirs}, options, 30)
            if name == "pytorch-crf":
                alone = {"ours": problem.from_arrays, name: theirs}
                rows += _rows(problem, "ours from arrays, without autograd", alone, options, None)
                bound = {"ours": _nothing(torch, problem), name: theirs}
                rows += _rows(problem, "an autograd function that returns zeros", bound, options, None)
                inside = {"ours": _nothing(torch, problem, problem.from_arrays), name: theirs}
                rows += _rows(problem, "the same around ours from arrays", inside, options, None)
    return rows


@benchmark("chain-viterbi", minutes=0.5)
def viterbi(options: Options) -> list[Row]:
    """The best labels of the same batches, and of one in float64 the best labels and the marginals, against hmmlearn
    with the same scores (implementation "scaling"); one thread."""
    torch = _torch()
    rows: list[Row] = []
    for problem in map(Problem.of, SHAPES):
        there = {"ours": lambda problem=problem: Chain(*problem[:4], mask=problem.mask).viterbi().tolist()}
        if (layer := _pytorch_layer(torch, problem)) is not None:
            tensors = torch.from_numpy(problem.emissions), torch.from_numpy(problem.mask)
            there["pytorch-crf"] = lambda layer=layer, tensors=tensors: layer.decode(*tensors)
            assert there["pytorch-crf"]() == there["ours"]()
        rows += _rows(problem, "best labels", there, options, 20)
    return rows + _against_hmmlearn(options)


def _torch() -> Any:
    torch = need("torch")
    torch.set_num_threads(1)
    return torch


def _rows(
    problem: Problem, what: str, there: dict[str, Callable[[], object]], options: Options, target: float | None
) -> list[Row]:
    contenders = {name: problem.repeated(work, name, options.quick) for name, work in there.items()}
    figures = in_turn(options.rounds, contenders, warm=contenders)
    return [
        Row(
            f"{what}, {problem.label()}",
            "ms",
            figures["ours"],
            figures[name],
            name,
            target=target if name == "pytorch-crf" else None,
        )
        for name in there
        if name != "ours"
    ]


def _ours(torch: Any, problem: Problem) -> Callable[[], float]:
    sys.path[:0] = [str(ROOT / "examples" / "torch")]
    layer = need("crf").CRF(len(problem.start))
    return _training(torch, problem, layer, ("transitions", "start", "end"), layer, [layer.weights])


def _nothing(torch: Any, problem: Problem, before: Callable[[], object] = lambda: None) -> Callable[[], float]:
    """Return the bound of all functions of Python: the work of `_training` with one that computes nothing.

    before: What it does first, to see how much longer that takes between calls of PyTorch than by itself.
    """

    class Nothing(torch.autograd.Function):  # type: ignore[misc]
        """Zero, with gradients of zero that exist already."""

        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            before()
            return torch.scalar_tensor(0.0)

        @staticmethod
        def backward(ctx: Any, factor: Any) -> tuple[Any, ...]:
            return *zeros, None, None

    layer = need("crf").CRF(len(problem.start))
    zeros = [torch.zeros(problem.emissions.shape), torch.zeros(layer.weights.shape)]
    return _training(
        torch, problem, layer, (), lambda e, *rest: Nothing.apply(e, layer.weights, *rest), [layer.weights]
    )


def _pytorch_layer(torch: Any, problem: Problem) -> Any:
    torchcrf = optional("torchcrf")
    if torchcrf is None:
        say("    pytorch-crf is not installed (pip install pytorch-crf): left out")
        return None
    layer = torchcrf.CRF(len(problem.start), batch_first=True)
    names = ("transitions", "start_transitions", "end_transitions")
    with torch.no_grad():
        for name, array in zip(names, problem[1:4], strict=True):
            getattr(layer, name).copy_(torch.from_numpy(array))
    return layer


def _pytorch_crf(torch: Any, problem: Problem) -> Callable[[], float] | None:
    layer = _pytorch_layer(torch, problem)
    if layer is None:
        return None
    names = ("transitions", "start_transitions", "end_transitions")
    shared = [getattr(layer, name) for name in names]
    return _training(torch, problem, layer, names, lambda e, labels, mask: layer(e, labels, mask=mask), shared)


def _training(
    torch: Any, problem: Problem, layer: Any, names: tuple[str, ...], value_of: Callable[..., Any], shared: list[Any]
) -> Callable[[], float]:
    """Return a function that computes the log-likelihood and all gradients, and returns the former.

    names: Where the layer gets the scores of transitions, start and end; shared: its tensors that have a gradient.
    """
    emissions = torch.from_numpy(problem.emissions).requires_grad_()
    labels, mask = torch.from_numpy(problem.labels), torch.from_numpy(problem.mask)
    with torch.no_grad():
        for name, array in zip(names, problem[1:4], strict=False):
            getattr(layer, name).copy_(torch.from_numpy(array))

    wanted = emissions, *shared

    def work() -> float:
        value = value_of(emissions, labels, mask)
        torch.autograd.grad(value, wanted)
        return float(value.item())

    return work


def _torch_struct(torch: Any, problem: Problem) -> Callable[[], float] | None:
    """Return the same for torch-struct, whose potentials [B, T - 1, L, L] have the emissions in them."""
    torch_struct = optional("torch_struct")
    if torch_struct is None:
        say("    torch-struct is not installed (pip install torch-struct): left out")
        return None
    n_sequences, n_tokens, n = problem.emissions.shape
    if n_sequences * n_tokens * n**3 > CUBES:
        say(f"    torch-struct takes too long for {problem.label()}: left out")
        return None
    arrays = [torch.from_numpy(array).requires_grad_() for array in problem[:4]]
    labels = torch.from_numpy(problem.labels)
    lengths = torch.full((n_sequences,), n_tokens)

    def work() -> float:
        emissions, transitions, start, end = arrays
        edges = transitions.T[None, None] + emissions[:, 1:, :, None]  # the later label first
        first = torch.zeros_like(edges[:, :1]) + (start + emissions[:, 0])[:, None, None, :]
        last = torch.zeros_like(edges[:, -1:]) + end[None, None, :, None]
        zeros = torch.zeros_like(edges[:, 1:])
        potentials = edges + torch.cat([first, zeros], 1) + torch.cat([zeros, last], 1)
        chain = torch_struct.LinearChainCRF(potentials.contiguous(), lengths)
        gold = torch_struct.LinearChainCRF.struct.to_parts(labels, n, lengths).type_as(emissions).contiguous()
        value = chain.log_prob(gold).sum()
        torch.autograd.grad(value, arrays)
        return float(value.item())

    return work


def _against_hmmlearn(options: Options) -> list[Row]:
    base = optional("hmmlearn.base")
    if base is None:
        say("    hmmlearn is not installed (pip install hmmlearn): left out")
        return []

    class Given(base.BaseHMM):  # type: ignore[misc]
        """A hidden Markov model whose observations are the log-likelihoods of the states themselves."""

        def _compute_log_likelihood(self, x: np.ndarray) -> np.ndarray:
            return x

        def _compute_likelihood(self, x: np.ndarray) -> np.ndarray:
            likelihood: np.ndarray = np.exp(x)
            return likelihood

    problem = Problem.of((256, 50, 20), np.float64)
    n = len(problem.start)
    model = Given(n, implementation="scaling")
    shares = np.exp(problem.transitions)
    model.transmat_ = shares / shares.sum(1, keepdims=True)
    model.startprob_ = np.full(n, 1 / n)
    table, lengths = problem.emissions.reshape(-1, n), [problem.emissions.shape[1]] * len(problem.emissions)
    scores = problem.emissions, np.log(model.transmat_), np.log(model.startprob_)
    works = {
        "best labels": (lambda: Chain(*scores).viterbi(), lambda: model.decode(table, lengths)[1]),
        "marginals": (lambda: Chain(*scores).marginals(), lambda: model.score_samples(table, lengths)[1]),
    }
    rows: list[Row] = []
    for what, (ours, theirs) in works.items():
        np.testing.assert_allclose(ours().reshape(len(table), -1), theirs().reshape(len(table), -1), atol=1e-6)
        rows += _rows(problem, f"{what} of an HMM", {"ours": ours, "hmmlearn": theirs}, options, None)
    return rows
