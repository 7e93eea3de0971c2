"""Array aliases, the tuples that the packages exchange, and the protocols of the plug-ins.

Letters in all docstrings: N sequences, T tokens in all of them together, L labels, F features, D parameters.
Sequence n owns the tokens ``offsets[n]:offsets[n + 1]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[Any]
"""float32 or float64, C-contiguous; one batch never mixes the two."""
Ints: TypeAlias = NDArray[np.int32]
Offsets: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.uint16]
"""Small numbers, such as those of templates."""

MISSING = -1
"""The gold label of a token whose label is unknown.  Gold labels below it number candidate sets, see `Candidates`."""


class Constraints(NamedTuple):
    """Which labels may begin and end a sequence [L], may follow each other [L, L], and make up spans.

    step (Bools): ``step[i, j]``: j may follow i.
    inside (Bools): [L, L], ``inside[i, j]``: j right after i continues the span that i is part of.
    outside (Bools): [L] labels of tokens in no span; a plain label is a span of one token.
    """

    start: Bools
    step: Bools
    end: Bools
    inside: Bools
    outside: Bools


class OccurrenceRules(NamedTuple):
    """Which of L labels may occur only once in a sequence, or only in an order; each limited label has a bit.

    goes_on (Bools): ``goes_on[i, j]``: j right after i goes on with the same occurrence.
    bits (Offsets): [L] the bit of the label that j begins, 0 if it is not limited.
    barred (Offsets): [L] bits of what must not have begun before j does.
    kept (Offsets): [L] bits that still count when j has begun.
    """

    goes_on: Bools
    bits: Offsets
    barred: Offsets
    kept: Offsets


class Scores(NamedTuple):
    """Log-potentials of a batch, or the gradient with respect to them.

    emissions (Floats): [T, L].
    transitions (Floats): [1 or T, L, L], 1 if all positions share them; else entry t is the step from token t - 1 to
        token t (unused at the first token of a sequence).  Axis 1 is the earlier label.
    start, end (Floats): [L], added at the first and at the last token of each sequence.
    """

    emissions: Floats
    transitions: Floats
    start: Floats
    end: Floats

    def zeros_like(self) -> Scores:
        """Return zeros of the same shapes, for a loss to add its gradient to.

        They are pieces of one array of the type of `start`: copy a piece to keep it without the memory of the others.
        """
        # pieces of one array, which takes half as long as four
        n_emissions, n_steps, n = self.emissions.size, self.transitions.size, self.start.size
        zeros = np.zeros(n_emissions + n_steps + 2 * n, self.start.dtype)
        emissions, steps = zeros[:n_emissions], zeros[n_emissions : n_emissions + n_steps]
        shapes = self.emissions.shape, self.transitions.shape
        return Scores(emissions.reshape(shapes[0]), steps.reshape(shapes[1]), zeros[-2 * n : -n], zeros[-n:])

    def wide(self) -> Scores:
        """Return the scores in float64."""
        return self if self.start.dtype == np.float64 else Scores(*(array.astype(np.float64) for array in self))

    def constrained(self, constraints: Constraints, allowed: Bools | None = None) -> Scores:
        """Return the scores with minus infinity where `constraints`, or `allowed` [T, L], forbid a label or step."""
        arrays, impossible = list(self), self.start.dtype.type(-np.inf)
        for place, mask in enumerate((allowed, constraints.step, constraints.start, constraints.end)):
            if mask is not None and not mask.all():
                arrays[place] = np.where(mask, arrays[place], impossible)
        return Scores(*arrays)


class IncorrectSpan(NamedTuple):
    """A span that is known to be wrong if it begins at a token with a certain candidate set.

    number (int): The candidate set, a row of `Candidates.sets`.
    n_tokens (int): Length of the span, which must fit into its sequence.
    labels (Bools): [n_tokens or n_tokens + 1, L] labels of its tokens; the additional row is for the token after it, if
        the sequence has one.
    """

    number: int
    n_tokens: int
    labels: Bools


class Shares(NamedTuple):
    """Probabilities of the labels in candidate sets: those of set s are the entries ``ptr[s]:ptr[s + 1]``, if any.

    ptr (Offsets): [S + 1], or empty if no set has probabilities.
    before, labels (Ints): [P] the label of the token before, and the label; `MISSING` if nothing is said of the former.
    values (NDArray): [P] probabilities of the two, which add up to 1 for each set that has some.
    """

    ptr: Offsets
    before: Ints
    labels: Ints
    values: NDArray[np.float64]

    def has(self, numbers: Offsets) -> Bools:
        """Return which sets, given by their numbers, have probabilities."""
        return self.ptr[numbers] < self.ptr[numbers + 1] if len(self.ptr) else np.zeros(len(numbers), np.bool_)


NO_SHARES = Shares(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))


class Candidates(NamedTuple):
    """The possible labels of tokens whose gold label is `MISSING` - 1 - s, for each s below S.

    sets (Bools): [S, L] the candidate labels; one of them is correct.
    shares (Shares): Probabilities of the labels in some of the sets, for losses that provide "distributions".
    """

    sets: Bools
    incorrect: tuple[IncorrectSpan, ...] = ()
    shares: Shares = NO_SHARES


NO_CANDIDATES = Candidates(np.zeros((0, 0), np.bool_))
"""The candidates of a data set in which every token has one label or none."""


class Batch(NamedTuple):
    """The input of a loss in addition to the scores.

    offsets (Offsets): [N + 1] token offsets.
    gold (Ints): [T] gold labels; `MISSING` if nothing is known of a token, lower if a candidate set is.
    weights (NDArray): [N] weight of each sequence in the sum.
    candidates (Candidates): Passed only to losses that provide "candidates".
    inputs (NDArray | None): [T, ...] what `TextLoss.read` returned for the tokens.
    """

    offsets: Offsets
    gold: Ints
    weights: NDArray[np.float64]
    candidates: Candidates = NO_CANDIDATES
    inputs: NDArray[Any] | None = None

    @property
    def n_tokens(self) -> int:
        """T."""
        return int(self.offsets[-1])


class StepReport(NamedTuple):
    """The report of one iteration of an optimizer.

    value (float): Objective: loss summed over the sequences, plus penalty (an estimate for online methods).
    loss (float): Loss alone.
    grad_norm (float): Euclidean norm of the objective's gradient, nan if it is not computed.
    evaluations (int): Passes over the data.
    converged (bool): Whether the method's own stopping rule is met.
    message (str): The reason for stopping, empty while it runs.
    """

    value: float
    loss: float
    grad_norm: float
    evaluations: int
    converged: bool
    message: str


NO_REPORT = StepReport(0.0, 0.0, 0.0, 0, False, "")
"""Stands for a report of an iteration that has not been run."""


LossProperty: TypeAlias = Literal[
    "value_and_grad", "minibatches", "best_path", "margin", "likelihood", "log_likelihood", "softmax_margin", "joint",
    "local", "candidates", "distributions", "unlabelled", "evidence",
]  # fmt: skip
"""The abilities that a loss may provide and an optimizer may require, see `Loss`."""


class Loss(Protocol):
    """A function of scores, such as the negative log-likelihood.  Never sees features or weights.

    A loss says what it makes of a missing label: it sums over all labels of the token, or leaves out the terms in which
    the token occurs.  Either way, a label in its place never lowers the loss, and sequences without any label cost
    nothing.  Losses that provide "unlabelled", "joint" or "evidence" may learn from these as well, and only those with
    "evidence" may prefer some labels of a token of which nothing is known.

    Optimizers do not call a loss where they have a faster kernel for what it provides: the default, AdaGrad with
    `SequentialLog`, does so.

    provides (frozenset[LossProperty]): What an optimizer may rely on, see `Optimizer.requires`.
        "value_and_grad" and "minibatches": it is differentiable; the default of losses without this attribute.
        "minibatches" alone: its gradient is a subgradient, which makes line searches fail.
        "best_path": it is the score by which the best rival exceeds the gold labels.
        "margin": it is positive until the gold labels win by a margin.
        "likelihood": it is a sum of functions of -log P(gold | x), the method `phi`, whose derivative is positive.
            Boosting computes -log P itself, and calls `phi` only.
        "log_likelihood": it is the sum of -log P itself.  AdaGrad, and LBFGS for its first epochs, then train with the
            kernel `lockstep.pass_over` where `OnlineObjective.chains` returns texts; methods that process one feature
            at a time have kernels of their own.
        "softmax_margin": it is the same after the costs of wrong labels were added to their scores; its method `costs`
            returns them [L, L], the correct label on axis 0, for a number of labels.  AdaGrad trains with the same
            kernel.
        "joint": it is -log P(x, known labels) if scores are log-probabilities, also of texts without labels; the
            gradient is minus the expected counts.
        "local": probabilities are normalised at each token given the previous label; the decoder must be local as well.
        "candidates": it supports gold labels that are candidate sets.
        "distributions": it supports candidate sets with probabilities.
        "unlabelled": it ignores gold labels, so it learns from texts that have none.
        "evidence": it learns from whatever is annotated, so it may prefer any label where gold labels are unknown.
    """

    @property
    def provides(self) -> frozenset[LossProperty]: ...  # noqa: D102

    def __call__(self, scores: Scores, batch: Batch, grad: Scores) -> float:
        """Return the weighted sum over sequences and ADD its gradient to `grad`.

        Scores are all float32, the default of training, or all float64; `grad` has their types and shapes.
        """


@runtime_checkable
class NamedLoss(Loss, Protocol):
    """A loss that depends on the names of labels."""

    def bind(self, labels: Sequence[str], scheme: str | None) -> Loss:
        """Return the loss for a component with these tags [L], of a scheme or plain (None).

        RAISES ConfigError: If the loss names a label that the component does not have.
        """


@runtime_checkable
class TextLoss(NamedLoss, Protocol):
    """A loss that depends on what it reads from texts, too."""

    def read(self, docs: Sequence[Any], gold: Sequence[Any]) -> NDArray[Any]:
        """Return facts on the tokens of some Docs [T, ...], which the loss needs; they become `Batch.inputs`.

        gold (Sequence[Doc]): The annotated Docs of the same texts.
        RAISES DataError: If the loss cannot learn from them.
        """


@runtime_checkable
class SelectiveLoss(Loss, Protocol):
    """A loss that learns from some of its texts only."""

    def learns_from(self, batch: Batch) -> Bools:
        """Return which sequences [N] the loss learns from."""


AddGradient: TypeAlias = Callable[[Scores, Batch, Scores], float]
"""Adds a gradient with respect to scores to the last argument, and returns a value, as a loss does."""


@runtime_checkable
class CorpusLoss(Loss, Protocol):
    """A function of sums over a whole data set, such as expected counts; not itself a sum over sequences.

    The loss and its gradient take two passes: one that adds up `totals`, and one for the gradient of the loss that `at`
    returns.  Calling a corpus loss does both for the sequences of the batch, as if they were the whole data set.
    """

    def totals(self, scores: Scores, batch: Batch) -> NDArray[np.float64]:
        """Return the sums for some sequences; those of all parts of a data set are added."""

    def at(self, totals: NDArray[np.float64], weight: float) -> tuple[float, AddGradient]:
        """Return `weight` times the loss at these sums, and a function that adds its gradient, called like a loss."""


class Strengths(NamedTuple):
    """Strengths of the elastic net: l1 ||w||_1 + l2/2 ||w||^2."""

    l1: float
    l2: float


NO_PENALTY = Strengths(0.0, 0.0)


@runtime_checkable
class Regularizer(Protocol):
    """A penalty on the weights.

    smooth (bool): Whether it is differentiable everywhere.  In a non-smooth penalty, the smooth part is a quadratic
        form, such as a multiple of the squared norm.
    strengths (Strengths | None): Strengths of a penalty that is exactly an elastic net, a sum over weights, so that
        methods can process single weights and threads separate parts.  None for any other penalty.
    """

    @property
    def smooth(self) -> bool: ...  # noqa: D102
    @property
    def strengths(self) -> Strengths | None: ...  # noqa: D102

    def over(self, blocks: Sequence[RowBlock]) -> Regularizer:
        """Return the penalty for parameters in these groups; the same object if it does not depend on groups."""

    def value(self, weights: Floats) -> float:
        """Return the penalty of `weights` [D]."""

    def add_grad(self, weights: Floats, grad: Floats) -> None:
        """Add the gradient of the smooth part to `grad` [D]."""

    def prox(self, weights: Floats, step: float) -> None:
        """Apply the proximal map of the non-smooth part with step size `step`, in place."""


class RowBlock(NamedTuple):
    """The group of parameters ``theta[begin:end]`` in R rows, such as the weights of one feature for every label.

    first (int): Number of its first row among the rows of all groups.
    width (int): C, columns of a full row.
    ptr, cols: [R + 1] the start of each row, [end - begin] the column of each parameter; both empty if rows are full.
    """

    begin: int
    end: int
    first: int
    n_rows: int
    width: int
    ptr: Offsets
    cols: Ints

    def of(self, theta: Floats) -> Floats:
        """Return the group's part of theta [D], or of an array like it."""
        return theta[self.begin : self.end]

    def rows_of(self, table: NDArray[Any]) -> NDArray[Any]:
        """Return the group's part of a table with an entry for each row of all groups."""
        part: NDArray[Any] = table[self.first : self.first + self.n_rows]
        return part


class RowGradient(NamedTuple):
    """The gradient of a few rows of a group: position t adds d[t] [C] to each of the rows ``ids[ptr[t]:ptr[t + 1]]``.

    block (int): Number of the group in `BatchObjective.blocks`.
    """

    block: int
    ptr: Offsets
    ids: Ints
    d: Floats


class Occurrences(NamedTuple):
    """Rows of each token and tokens of each row, for methods that process one feature at a time.

    Token t activates the rows ``ids[ptr[t]:ptr[t + 1]]``; row r is active at the tokens
    ``tokens[row_ptr[r]:row_ptr[r + 1]]``, ascending.
    """

    ptr: Offsets
    ids: Ints
    row_ptr: Offsets
    tokens: Ints


class ChainText(NamedTuple):
    """Sequences whose scores are sums of rows and shared by all positions otherwise; their loss is -log P(gold).

    offsets, gold, weights: As in `Batch`.
    ptr, ids: Token t has the rows ``ids[ptr[t]:ptr[t + 1]]`` of the first group of parameters.
    trainable (Bools): [L * (L + 2)] which parameters of the last group, the shared scores, are learned.
    costs (NDArray): [L, L] added to the score of each label where the one on axis 0 is correct; [0, 0] without costs.
    """

    offsets: Offsets
    gold: Ints
    weights: NDArray[np.float64]
    ptr: Offsets
    ids: Ints
    trainable: Bools
    costs: NDArray[np.float64]


@runtime_checkable
class Resumable(Protocol):
    """The state of an optimizer's run that a checkpoint can store, see `optimizers.states.StoredState`."""

    def to_state(self) -> dict[str, Any]:
        """Return the state as values of msgpack and NumPy arrays, by names."""

    def from_state(self, stored: Any, blocks: Sequence[RowBlock]) -> None:
        """Continue from a stored state instead of from the start; blocks: Those of the objective.

        RAISES ValueError: If it is not of this kind: kernels do not check the sizes of arrays.
        """


class OnlineBatch(Protocol):
    """A mini-batch of an online optimizer."""

    @property
    def n_sequences(self) -> int: ...  # noqa: D102

    def loss_and_grad(self, theta: Floats, scale: float = 1.0) -> tuple[float, list[RowGradient]]:
        """Return the loss at ``scale * theta`` and its gradient, in arrays that the next batch reuses."""


class BatchObjective(Protocol):
    """Losses of data sets plus one penalty, as a function of the parameters theta [D], which consist of `blocks`."""

    regularizer: Regularizer
    blocks: list[RowBlock]
    n_threads: int

    @property
    def n_sequences(self) -> int:
        """Number of sequences in the current data."""

    @property
    def n_total(self) -> int:
        """Number of sequences in the whole training set, of which the current data may be a part."""

    @property
    def approachable(self) -> bool:
        """Whether epochs of AdaGrad from zero come near the optimum."""

    def value(self, theta: Floats) -> float:
        """Return the objective."""

    def value_and_grad(self, theta: Floats, out: Floats | None = None) -> tuple[float, float, Floats]:
        """Return objective, loss alone, and the objective's gradient [D], written to `out` if given."""


class OnlineObjective(BatchObjective, Protocol):
    """An objective for online methods."""

    def minibatches(self, size: int, rng: np.random.Generator | None) -> Iterator[OnlineBatch]:
        """Yield all sequences once, `size` at a time, shuffled by `rng`."""

    def chains(self, size: int, rng: np.random.Generator | None, n_threads: int) -> Iterator[ChainText] | None:
        """Return the sequences of `minibatches` as texts of many; None unless `ChainText` describes it.

        n_threads (int): Threads that prepare texts; each holds one in memory.
        """

    def sample(self) -> OnlineObjective:
        """Return the objective on a fixed sample of the training data, for choosing a learning rate."""


class IndexedObjective(BatchObjective, Protocol):
    """An objective for methods that process one feature at a time and compute scores themselves."""

    @property
    def trainable(self) -> Bools:
        """Which parameters of the last group, the shared scores, are learned; the others stay zero."""

    @property
    def loss(self) -> Loss:
        """The loss."""

    @property
    def batch(self) -> Batch:
        """All sequences of the current data."""

    @property
    def allowed(self) -> Bools | None:
        """The labels that each token may have [T, L], including gold labels; None for all.  Methods must respect it."""

    def occurrences(self, block: int) -> Occurrences:
        """Return the active rows of each token, and the tokens of each row, in a group (0 unigrams, 1 bigrams)."""


@runtime_checkable
class Optimizer(Protocol):
    """A method that minimises an objective, one iteration at a time.

    A report with `converged` ends a run.  An online method can continue after it, because callers that pass the data in
    parts decide when to stop.

    requires (frozenset[LossProperty]): Required properties of the loss, see `Loss.provides`.
    penalties (frozenset[str]): Kinds of regularizer it can minimise: "none", "l2", "elastic" (see `Strengths`; each
        contains the previous one), "smooth", "prox" (any).
    online (bool): Whether it can run an iteration on part of the data.
    """

    @property
    def requires(self) -> frozenset[LossProperty]: ...  # noqa: D102
    @property
    def penalties(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def online(self) -> bool: ...  # noqa: D102
    @property
    def max_iterations(self) -> int: ...  # noqa: D102

    def start(self, theta: Floats) -> Any:
        """Return the state of a run that begins at `theta` [D]; it is `Resumable` if checkpoints can store it."""

    def iterate(self, objective: Any, state: Any) -> StepReport:
        """Run one iteration on all data of `objective`."""

    def export(self, state: Any) -> Floats:
        """Return the parameters for prediction [D], in any precision; the next step may change the array."""


ONLINE_PATIENCE = 5
"""The default patience of online optimizers."""


class Schedule(NamedTuple):
    """When a run is scored, and when it stops before its optimizer does.

    evaluate_every (int | None): Iterations between two scores; None for 1 with an online optimizer, 10 with another.
    patience (int | None): Scores without a gain before the run stops; 0 never stops it, None means `ONLINE_PATIENCE`
        with an online optimizer, 0 with another.
    iterations (int | None): Iterations after which the run stops in any case; None for no such limit.
    """

    evaluate_every: int | None = None
    patience: int | None = None
    iterations: int | None = None

    def filled(self, optimizer: Optimizer) -> tuple[int, int]:
        """Return both numbers, those of an optimizer in the place of None."""
        every, patience = (1, ONLINE_PATIENCE) if optimizer.online else (10, 0)
        return max(1, self.evaluate_every or every), patience if self.patience is None else self.patience


BY_OPTIMIZER = Schedule()


class Decoder(Protocol):
    """Chooses one label per token; a decoder for losses that provide "local" has an attribute ``local = True``."""

    def __call__(
        self, scores: Scores, offsets: Offsets, constraints: Constraints, allowed: Bools | None = None
    ) -> Ints:
        """Return labels [T].  `allowed` [T, L] restricts single tokens; None allows all.

        RAISES DataError: If the constraints leave a sequence without any labelling.
        """


@runtime_checkable
class Stateful(Protocol):
    """A plug-in whose data are stored with the model, so that a trained pipeline needs no other file."""

    def to_state(self) -> Any:
        """Return the data as values of msgpack; NumPy arrays are allowed."""

    def from_state(self, state: Any) -> None:
        """Use data that a model has stored.  RAISES ValueError, TypeError or KeyError: If they are damaged."""


Calibrated: TypeAlias = Callable[[NDArray[np.float64], Ints], NDArray[np.float64]]
"""From probabilities of spans [S] and the labels of their first tokens [S] to calibrated probabilities [S]."""


@runtime_checkable
class LearnedDecoder(Decoder, Stateful, Protocol):
    """A decoder that learns what to expect from texts that are new to their models.

    These are parts of the training corpus, by models of the others, where such are trained, and the dev corpus.  Its
    state is what it has learned; ``from_state(None)`` forgets that.
    """

    @property
    def base(self) -> Decoder:
        """The decoder of models of parts, which has learned nothing."""

    @property
    def learned(self) -> bool:
        """Whether it has learned from parts."""

    def observe(self, posterior: Any, gold: Ints) -> Any:
        """Return the evidence in the `Posterior` of a text new to its model; gold [T] is negative where unknown."""

    def learn(self, observed: Sequence[Any]) -> None:
        """Learn from the evidence that `observe` returned."""

    def adapt(self, evidence: Any | None) -> None:
        """Learn from the evidence of the dev corpus, too, by the whole model; a second time replaces the first.

        evidence (Any | None): None forgets that of the dev corpus, when training goes on.
        """


@runtime_checkable
class CorrectingDecoder(LearnedDecoder, Protocol):
    """A decoder that learns to correct the probabilities of spans, from models that are trained for it if need be."""

    def span_probabilities(
        self, posterior: Any, labels: Ints, starts: Offsets, ends: Offsets, calibrated: Calibrated
    ) -> NDArray[np.float64]:
        """Return the corrected probabilities of spans [S]; other arguments as of `Posterior.span_probabilities`.

        At each token, those of all spans that the decoder corrects add up to 1 at most.
        calibrated (Calibrated): Calibrates corrected probabilities.
        """


@runtime_checkable
class TokenPotential(Protocol):
    """A plug-in of ``crf_potentials``: scores of tokens that are added to those of the linear potential."""

    def read(self, docs: Sequence[Any]) -> NDArray[Any]:
        """Return the input of `forward` [T, ...] for the tokens of some Docs."""

    def size(self, n_labels: int) -> int:
        """Return the number of parameters."""

    def forward(
        self, theta: Floats, inputs: NDArray[Any], offsets: Offsets, n_labels: int
    ) -> tuple[Scores, Callable[[Scores], Floats]]:
        """Return scores of sequences (new arrays of theta's type), and a function from their gradient to that of theta.

        inputs (NDArray): [T, ...] the result of `read` for their tokens; `offsets` [N + 1] begins at 0.
        """


@runtime_checkable
class NetworkPotential(TokenPotential, Stateful, Protocol):
    """A `TokenPotential` without parameters in theta: a neural network, which spaCy's optimizer trains.

    Its `read` returns emissions [T, L], with the present parameters of the network, which are its state.

    model (thinc.api.Model): The network; spaCy finds listeners in it.
    sparse_epochs (int): Epochs in which all other parameters are trained without it, before it is trained.
    """

    model: Any
    sparse_epochs: int

    def initialize(self, docs: Sequence[Any], n_labels: int) -> None:
        """Make new parameters for `n_labels` labels; sizes are inferred from some Docs."""

    def grow(self, n_labels: int) -> None:
        """Add labels, whose scores are zero."""

    def begin_update(self, docs: Sequence[Any], drop: float) -> tuple[Floats, Callable[[Floats], None]]:
        """Return the emissions [T, L] of a batch under dropout, and a function that takes their gradient."""


@runtime_checkable
class SupportPotential(Stateful, Protocol):
    """A plug-in of ``crf_potentials`` whose parameters [R, L] belong to what its training text has.

    What `bind` has found is its state.
    """

    def read(self, docs: Sequence[Any]) -> NDArray[Any]:
        """Return the inputs [T, ...] of the tokens of some Docs."""

    def bind(self, text: Any, number: int) -> None:
        """Take up a training text, `features.encoded.Encoded`, with the results of `read` in ``inputs[number]``."""

    def size(self, n_labels: int) -> int:
        """Return the number of parameters, R * L."""

    def potential(self, n_labels: int, number: int) -> Any:
        """Return the potential of its scores, a `potentials.sums.SmallPotential`; `number` is that of its inputs."""


LexemeFunction: TypeAlias = Callable[[str], "str | None"]
"""Maps a word's text to the value of a user-defined attribute, None for no value."""

TokenFunction: TypeAlias = Callable[[Sequence[Any], int], Any]
"""Maps the tokens of a sequence and a position in it to features, see `features.entries.names_in`."""
