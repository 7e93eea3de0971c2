"""A slow, readable oracle: everything the fast code computes, by writing out all label sequences.

Scores are those of one sequence of n tokens: emissions [n, L], transitions [1 or n, L, L], start and end [L]; minus
infinity forbids.  All arithmetic is float64.  Nothing here calls the package beyond its tuples and constants.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product

import numpy as np

from spacy_crfseq.types import Batch, Scores

IMPOSSIBLE = -np.inf


# --- label sequences ------------------------------------------------------------------------------------------------


def all_paths(length: int, n_labels: int) -> np.ndarray:
    """Return every label sequence [L ** n, n]."""
    return np.array(list(product(range(n_labels), repeat=length)), np.int64).reshape(n_labels**length, length)


def sequence(scores: Scores, first: int, last: int) -> Scores:
    """Return the scores of the tokens first..last-1 in float64; transition 0 of a per-position array is not used."""
    emissions, transitions, start, end = (np.asarray(array, np.float64) for array in scores)
    steps = transitions if len(transitions) == 1 else transitions[first:last]
    return Scores(emissions[first:last], steps, start, end)


def step(scores: Scores, t: int) -> np.ndarray:
    """Return the [L, L] scores of the step from token t - 1 to token t."""
    return scores.transitions[0 if len(scores.transitions) == 1 else t]


def path_score(scores: Scores, path: Sequence[int]) -> float:
    """Return ``start(y_1) + sum_t emissions_t(y_t) + sum_{t > 1} transitions_t(y_{t-1}, y_t) + end(y_n)``."""
    return float(all_path_scores(scores, np.array(path, np.int64)[None])[0])


def all_path_scores(scores: Scores, paths: np.ndarray) -> np.ndarray:
    """Return `path_score` of each row of paths [P, n]."""
    if not paths.shape[1]:
        return np.zeros(len(paths))
    total = scores.start[paths[:, 0]] + scores.end[paths[:, -1]]
    for t in range(paths.shape[1]):
        total = total + scores.emissions[t, paths[:, t]]
        if t:
            total = total + step(scores, t)[paths[:, t - 1], paths[:, t]]
    return total


def completions(scores: Scores, gold: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return every label sequence [P, n] that has the gold label wherever one is known, and their scores [P]."""
    paths = all_paths(*scores.emissions.shape)
    if gold is not None:
        paths = paths[agrees(paths, gold)]
    return paths, all_path_scores(scores, paths)


def log_sum(values: np.ndarray) -> float:
    """Return ``log sum exp(values)``, minus infinity for no finite value."""
    largest = values.max(initial=IMPOSSIBLE)
    return float(largest + np.log(np.exp(values - largest).sum())) if largest > IMPOSSIBLE else IMPOSSIBLE


def agrees(paths: np.ndarray, gold: Sequence[int]) -> np.ndarray:
    """Return which paths [P, n] have the gold label wherever it is known (not negative)."""
    labelled = np.asarray(gold) >= 0
    return (paths[:, labelled] == np.asarray(gold)[labelled]).all(1)


def log_partition(scores: Scores, gold: Sequence[int] | None = None) -> float:
    """Return ``log Z = log sum_y exp(score(y))``, y over the completions of `gold` where it is given."""
    return log_sum(completions(scores, gold)[1])


def expectations(scores: Scores, gold: Sequence[int] | None = None) -> Scores:
    """Return the expected counts ``sum_y P(y) count(y)`` under ``P(y) = exp(score(y)) / Z``; see `log_partition`.

    Emissions hold P(y_t = k), transitions P(y_{t-1} = i, y_t = j), added up where positions share them.
    """
    paths, path_scores = completions(scores, gold)
    log_z = log_sum(path_scores)
    return weighted_counts(scores, paths, np.exp(path_scores - log_z) if log_z > IMPOSSIBLE else np.zeros(len(paths)))


def weighted_counts(scores: Scores, paths: np.ndarray, weights: np.ndarray) -> Scores:
    """Return ``sum_y weight(y) count(y)`` over the rows y of paths [P, n], weights [P]."""
    counts = Scores(*(np.zeros_like(array) for array in scores))
    if paths.shape[1]:
        np.add.at(counts.start, paths[:, 0], weights)
        np.add.at(counts.end, paths[:, -1], weights)
    for t in range(paths.shape[1]):
        np.add.at(counts.emissions[t], paths[:, t], weights)
        if t:
            np.add.at(step(counts, t), (paths[:, t - 1], paths[:, t]), weights)
    return counts


def marginals(scores: Scores) -> np.ndarray:
    """Return P(y_t = k), [n, L]; zeros where no label sequence is allowed."""
    return expectations(scores).emissions


def logarithmic(u: float) -> tuple[float, float]:
    """Return the log-loss of a probability exp(-u), and its derivative with respect to u."""
    return u, 1.0


def capped_exponential(cap: float) -> Callable[[float], tuple[float, float]]:
    """Return the function exp(u) - 1, its tangent at the cap beyond it, and the derivative."""

    def phi(u: float) -> tuple[float, float]:
        if u <= cap:
            return math.expm1(u), math.exp(u)
        return math.expm1(cap) + math.exp(cap) * (u - cap), math.exp(cap)

    return phi


def log_loss(scores: Scores, batch: Batch) -> tuple[float, Scores]:
    """Return `sequential_loss` for phi(u) = u."""
    return sequential_loss(scores, batch, logarithmic)


def sequential_loss(scores: Scores, batch: Batch, phi: Callable[[float], tuple[float, float]]) -> tuple[float, Scores]:
    """Return ``sum_n w_n phi(u_n)``, u_n = log Z_n - log Z_n(gold), and its gradient.

    That is ``sum_n w_n phi'(u_n) (E[count] - E[count | gold])``.
    Z(gold) sums over the completions of a gold sequence with missing labels; it is Z where all are missing.
    """
    total, gradient = 0.0, Scores(*(np.zeros(array.shape) for array in scores))
    for sequence_scores, gold, weight, target in _sequences(scores, batch, gradient):
        value, slope = phi(log_partition(sequence_scores) - log_partition(sequence_scores, gold))
        total += weight * value
        free, clamped = expectations(sequence_scores), expectations(sequence_scores, gold)
        for array, all_counts, gold_counts in zip(target, free, clamped, strict=True):
            array += weight * slope * (all_counts - gold_counts)
    return total, gradient


def partial_nll(scores: Scores, batch: Batch) -> np.ndarray:
    """Return [N] ``-log P(C_n) - sum_s log(1 - P(s | C_n))`` of each sequence, 0 of those without a token.

    C are the labellings with the gold label or one of the candidates at each token where they are known, and s those
    spans that a candidate set says are not there.
    """
    out = np.zeros(len(batch.weights))
    for n in range(len(out)):
        first, last = int(batch.offsets[n]), int(batch.offsets[n + 1])
        gold = batch.gold[first:last].tolist()
        paths, path_scores = completions(sequence(scores, first, last))
        agree = np.array([all(_fits(g, k, batch) for g, k in zip(gold, path, strict=True)) for path in paths])
        out[n] = log_sum(path_scores) - log_sum(path_scores[agree])
        for t, number in enumerate(gold):
            for span in batch.candidates.incorrect:
                if number == -2 - span.number and t + span.n_tokens <= len(gold):
                    there = agree & np.array([_has_span(path[t:], span.labels) for path in paths])
                    out[n] += log_sum(path_scores[agree]) - log_sum(path_scores[agree & ~there])
    return out


def _fits(gold: int, label: int, batch: Batch) -> bool:
    return gold in (-1, label) if gold >= -1 else bool(batch.candidates.sets[-2 - gold, label])


def _has_span(labels: Sequence[int], pattern: np.ndarray) -> bool:
    return all(row[label] for row, label in zip(pattern, labels, strict=False))


def pointwise_loss(scores: Scores, batch: Batch, phi: Callable[[float], tuple[float, float]]) -> tuple[float, Scores]:
    """Return ``sum_n w_n sum_t phi(-log P(y_t = gold_t | x_n))`` over known labels, and its gradient.

    That of -log P(y_t = gold_t) is ``sum_y (P(y) - P(y | y_t = gold_t)) count(y)``.
    """
    total, gradient = 0.0, Scores(*(np.zeros(array.shape) for array in scores))
    for sequence_scores, gold, weight, target in _sequences(scores, batch, gradient):
        paths, path_scores = completions(sequence_scores)
        log_z = log_sum(path_scores)
        weights = np.zeros(len(paths))
        for t in np.flatnonzero(gold >= 0):
            agree = paths[:, t] == gold[t]
            log_gold = log_sum(path_scores[agree])
            value, slope = phi(log_z - log_gold)
            total += weight * value
            weights += slope * np.exp(path_scores - log_z)
            weights[agree] -= slope * np.exp(path_scores[agree] - log_gold)
        for array, counts in zip(target, weighted_counts(sequence_scores, paths, weight * weights), strict=True):
            array += counts
    return total, gradient


def covariance_loss(scores: Scores, batch: Batch, own: np.ndarray | None = None) -> tuple[float, Scores]:
    """Return ``sum_n w_n E[S_n]`` and ``sum_n w_n Cov(S_n, count)``, the gradient if S is held constant.

    S(y) is the sum of ``own[t, y_t]`` over the tokens, own [T, L]; without it, -log P(y), whose mean is the entropy.
    """
    total, gradient = 0.0, Scores(*(np.zeros(array.shape) for array in scores))
    for weight, (first, last) in zip(batch.weights, pairwise(batch.offsets), strict=True):
        sequence_scores = sequence(scores, first, last)
        paths, path_scores = completions(sequence_scores)
        paths, path_scores = paths[path_scores > IMPOSSIBLE], path_scores[path_scores > IMPOSSIBLE]
        if first == last or weight == 0 or not len(paths):
            continue
        logs = path_scores - log_sum(path_scores)
        shares, sums = np.exp(logs), -logs if own is None else own[np.arange(first, last), paths].sum(1)
        mean = shares @ sums
        total += weight * mean
        counts = weighted_counts(sequence_scores, paths, weight * shares * (sums - mean))
        for array, added in zip(sequence(gradient, first, last), counts, strict=True):
            array += added
    return total, gradient


def expected_labels(scores: Scores, batch: Batch, kinds: np.ndarray, n_kinds: int) -> np.ndarray:
    """Return ``sum w P(y_t = k)`` over the tokens of each kind, [n_kinds, L]."""
    totals = np.zeros((n_kinds, scores.emissions.shape[1]))
    for weight, (first, last) in zip(batch.weights, pairwise(batch.offsets), strict=True):
        np.add.at(totals, kinds[first:last], weight * marginals(sequence(scores, first, last)))
    return totals


def kl_divergence(wanted: dict[tuple[int, ...], float], totals: np.ndarray) -> tuple[float, np.ndarray]:
    """Return ``sum_g s_g log(s_g / p_g)`` of shares of groups of labels, and its derivatives with respect to p_k.

    The labels in no group are one more, with the rest of the shares; p = totals / sum, or 1e-30 where it is zero.
    """
    p, slope, value = totals / totals.sum(), np.zeros(len(totals)), 0.0
    others = tuple(set(range(len(p))) - {k for group in wanted for k in group})
    for group, share in {**wanted, others: 1 - sum(wanted.values())}.items():
        here = p[list(group)].sum()
        if share > 1e-12:
            value += share * math.log(share / max(here, 1e-30))
            slope[list(group)] = -share / here if here > 0 else 0
    return value, slope


def _sequences(scores: Scores, batch: Batch, gradient: Scores) -> Iterator[tuple[Scores, np.ndarray, float, Scores]]:
    """Yield scores, gold labels, weight, and place of the gradient of each sequence that has a label and a weight."""
    for n, weight in enumerate(batch.weights):
        first, last = batch.offsets[n], batch.offsets[n + 1]
        gold = batch.gold[first:last]
        if weight != 0 and (gold >= 0).any():
            yield sequence(scores, first, last), gold, weight, sequence(gradient, first, last)


def long_pointwise_loss(
    scores: Scores, gold: Sequence[int], phi: Callable[[float], tuple[float, float]]
) -> tuple[float, np.ndarray]:
    """Return the pointwise loss of one labelled sequence too long to enumerate, and the gradient of its emissions.

    ``P(y_t = k | y_s = gold_s)`` for all pairs s, t comes from the chain of ``P(y_{t+1} | y_t)``, and for t < s from
    the one of ``P(y_{t-1} | y_t)``: T times the work of forward-backward.
    """
    length, n_labels = scores.emissions.shape
    alpha, beta = scores.emissions.copy(), np.zeros((length, n_labels))
    alpha[0] += scores.start
    beta[-1] = scores.end
    for t in range(1, length):
        alpha[t] += _log_sums(alpha[t - 1] + step(scores, t).T)
        beta[-1 - t] = _log_sums(step(scores, length - t) + scores.emissions[length - t] + beta[length - t])
    log_marginals = alpha + beta
    log_marginals -= _log_sums(log_marginals)[:, None]
    values, slopes = zip(*(phi(-log_marginals[t, label]) for t, label in enumerate(gold)), strict=True)
    marginals = np.exp(log_marginals)
    gradient = np.array(slopes)[:, None] * (marginals - np.eye(n_labels)[gold])
    ahead = [step(scores, t) + scores.emissions[t] + beta[t] for t in range(1, length)]
    back = [step(scores, t).T + alpha[t - 1] for t in range(1, length)][::-1]
    for logs, order in ((ahead, range(length)), (back, range(length)[::-1])):
        given = marginals[order[0]][None]  # P(y_t), and P(y_t | y_s = gold_s) for all s so far, at the present t
        for number, t in enumerate(order):
            if number:
                given = given @ np.exp(logs[number - 1] - _log_sums(logs[number - 1])[:, None])
                given /= given.sum(1, keepdims=True)
                gradient[t] += np.array(slopes)[list(order[:number])] @ (given[0] - given[1:])
            given = np.concatenate([given, np.eye(n_labels)[[gold[t]]]])
    return sum(values), gradient


def _log_sums(rows: np.ndarray) -> np.ndarray:
    return np.array([log_sum(row) for row in rows])


def best_score(scores: Scores) -> float:
    """Return ``max_y score(y)``, minus infinity where every label sequence is forbidden."""
    return float(completions(scores)[1].max(initial=IMPOSSIBLE))


def masked(
    scores: Scores, start: np.ndarray, steps: np.ndarray, end: np.ndarray, allowed: np.ndarray | None = None
) -> Scores:
    """Return the scores with minus infinity where a label [L], a step [L, L] or a token's label [n, L] is forbidden."""
    emissions = scores.emissions if allowed is None else np.where(allowed, scores.emissions, IMPOSSIBLE)
    masks = zip((steps, start, end), scores[1:], strict=True)
    return Scores(emissions, *(np.where(mask, array, IMPOSSIBLE) for mask, array in masks))


def slow_log_partition(scores: Scores) -> float:
    """Return log Z by the forward recursion in log space, for sequences too long to enumerate."""
    alpha = scores.start + scores.emissions[0]
    for t in range(1, len(scores.emissions)):
        alpha = _log_sums((alpha[:, None] + step(scores, t)).T) + scores.emissions[t]
    return log_sum(alpha + scores.end)


# --- features -------------------------------------------------------------------------------------------------------

TEXT_VALUES: dict[str, Callable[[str], str | None]] = {
    "ORTH": lambda word: word,
    "LOWER": lambda word: word.lower(),
    "PREFIX1": lambda word: word[0].lower(),
    "SUFFIX2": lambda word: word[-2:].lower() if len(word) > 1 else None,
    "SUFFIX3": lambda word: word[-3:].lower() if len(word) > 2 else None,
    "BRIEF_SHAPE": lambda word: re.sub(r"(.)\1+", r"\1", "".join(_kind(char) for char in word)),
    "INITIAL_UPPER": lambda word: "1" if word[0] != word[0].lower() else None,
    "HAS_DIGIT": lambda word: "1" if re.search(r"\d", word) else None,
    "HAS_HYPHEN": lambda word: "1" if word.count("-") else None,
}
"""Attributes of a word, written anew; None where one is absent."""
SEEN_OUTSIDE = ("ORTH", "LOWER", "BRIEF_SHAPE", "TAG", "POS")
"""Of the attributes used in tests, those that have a value beyond the ends of a sequence."""


def _kind(char: str) -> str:
    if char.isalpha():
        return "X" if char != char.lower() else "x"
    return "d" if char.isdigit() else char


def attribute_sets(
    words: Sequence[str], tags: dict[str, Sequence[str]], templates: Sequence[str], unset: str = ""
) -> list[set[str]]:
    """Return the readable names of the attributes that each token of one sequence switches on.

    tags: Token columns by name; a value equal to `unset` is absent.
    """
    return [
        {name for template in expanded(templates) if (name := _name_at(template, t, words, tags, unset))}
        for t in range(len(words))
    ]


def expanded(templates: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
    """Yield the (attribute, offset) parts of each template, windows as one template per offset."""
    for text in templates:
        parts = [part.strip("] ").split("[") for part in text.split("|")]
        if ".." in text:
            first, last = parts[0][1].split("..")
            yield from ([(parts[0][0], offset)] for offset in range(int(first), int(last) + 1))
        else:
            yield [(part[0], int(part[1]) if len(part) > 1 else 0) for part in parts]


def _name_at(
    template: list[tuple[str, int]], t: int, words: Sequence[str], tags: dict[str, Sequence[str]], unset: str
) -> str | None:
    values = [_value_at(attribute, t + offset, words, tags, unset) for attribute, offset in template]
    if None in values:
        return None
    parts = "|".join(f"{attribute}[{offset}]" for attribute, offset in template)
    return f"{parts}={'|'.join(str(value) for value in values)}"


def _value_at(attribute: str, t: int, words: Sequence[str], tags: dict[str, Sequence[str]], unset: str) -> str | None:
    if t < 0:
        return f"_B-{-t}" if attribute in SEEN_OUTSIDE else None
    if t >= len(words):
        return f"_B+{t - len(words) + 1}" if attribute in SEEN_OUTSIDE else None
    if attribute in tags:
        return tags[attribute][t] if tags[attribute][t] != unset else None
    return TEXT_VALUES[attribute](words[t])


# --- losses of best paths, and of chains that are normalised at each token -------------------------------------------


def errors(paths: np.ndarray, gold: Sequence[int]) -> np.ndarray:
    """Return how many known gold labels each of paths [P, n] does not have."""
    labelled = np.asarray(gold) >= 0
    return (paths[:, labelled] != np.asarray(gold)[labelled]).sum(1)


def max_loss(scores: Scores, gold: Sequence[int], cost: float) -> float:
    """Return ``max_y [score(y) + cost * errors(y)] - max score(z)``, z over the completions of `gold`."""
    paths, path_scores = completions(scores)
    return float((path_scores + cost * errors(paths, gold)).max() - completions(scores, gold)[1].max())


def softmax_margin(scores: Scores, gold: Sequence[int], cost: float) -> float:
    """Return ``log sum_y exp(score(y) + cost * errors(y)) - log sum exp(score(z))``, z completing `gold`."""
    paths, path_scores = completions(scores)
    return log_sum(path_scores + cost * errors(paths, gold)) - log_partition(scores, gold)


def local_log_probabilities(scores: Scores, paths: np.ndarray) -> np.ndarray:
    """Return ``sum_t log softmax_j(emissions_t(j) + transitions_t(y_{t-1}, j))(y_t)`` of each of paths [P, n].

    Start and end scores belong to the first and the last token.
    """
    total = np.zeros(len(paths))
    for t in range(paths.shape[1]):
        rows = np.tile(scores.emissions[t], (len(paths), 1))
        rows += step(scores, t)[paths[:, t - 1]] if t else scores.start
        if t == paths.shape[1] - 1:
            rows = rows + scores.end
        total += rows[np.arange(len(paths)), paths[:, t]] - _log_sums(rows)
    return total


def local_log_loss(scores: Scores, gold: Sequence[int]) -> float:
    """Return ``-log sum P(z)`` over the completions z of `gold` under a chain of softmaxes."""
    return -log_sum(local_log_probabilities(scores, completions(scores, gold)[0]))


# --- lists of the best labellings ------------------------------------------------------------------------------------


def ranked(scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return all possible label sequences [P, n], best first, and their log-probabilities [P]."""
    paths, path_scores = completions(scores)
    order = np.argsort(-path_scores, kind="stable")[: np.count_nonzero(path_scores > IMPOSSIBLE)]
    return paths[order], path_scores[order] - log_sum(path_scores)


def ranked_sums(lists: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sums of all choices of one number from each of the lists, the largest first."""
    return np.sort([sum(choice) for choice in product(*lists)])[::-1]


# --- questions about the posterior ------------------------------------------------------------------------------------


def probabilities(scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return all label sequences that are possible [P, n], and the probability of each [P]."""
    paths, path_scores = completions(scores)
    possible = path_scores > IMPOSSIBLE
    return paths[possible], np.exp(path_scores[possible] - log_sum(path_scores))


def log_probability(scores: Scores, path: Sequence[int]) -> float:
    """Return log P(path)."""
    return path_score(scores, path) - log_partition(scores)


def entropy(scores: Scores) -> float:
    """Return ``-sum_y P(y) log P(y)``."""
    _, shares = probabilities(scores)
    return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


Span = tuple[int, tuple[int, ...]]
"""First token and labels of a span."""


def spans_of(path: Sequence[int], inside: np.ndarray, outside: np.ndarray) -> list[Span]:
    """Return the spans of a label sequence: labels that go on with each other, but for those that are outside."""
    begins = [t for t, label in enumerate(path) if not (t and inside[path[t - 1], label])]
    bounds = pairwise([*begins, len(path)])
    return [(first, tuple(map(int, path[first:last]))) for first, last in bounds if not outside[path[first]]]


def span_probabilities(scores: Scores, inside: np.ndarray, outside: np.ndarray) -> dict[Span, float]:
    """Return the probability of every span: the sum of those of the label sequences that have it."""
    shares: dict[Span, float] = {}
    for path, share in zip(*probabilities(scores), strict=True):
        for span in spans_of(path, inside, outside):
            shares[span] = shares.get(span, 0.0) + share
    return shares


def expected_f(
    parts: Sequence[tuple[Scores, Sequence[int]]], inside: np.ndarray, outside: np.ndarray, beta: float
) -> float:
    """Return ``(1 + beta^2) sum_s P(s) / (n + beta^2 E[n_true])`` of labelled sequences, s being their n spans."""
    right, chosen, true = 0.0, 0, 0.0
    for scores, path in parts:
        shares = span_probabilities(scores, inside, outside)
        spans = spans_of(path, inside, outside)
        right += sum(shares.get(span, 0.0) for span in spans)
        chosen += len(spans)
        true += sum(shares.values())
    total = chosen + beta**2 * true
    return (1 + beta**2) * right / total if total else 0.0


def span_values(
    scores: Scores, inside: np.ndarray, outside: np.ndarray, gain: float, cost: float
) -> dict[tuple, float]:
    """Return ``sum_s (gain P(s) - cost)`` over the spans s of every possible label sequence."""
    shares = span_probabilities(scores, inside, outside)
    return {
        tuple(path.tolist()): sum(gain * shares[span] - cost for span in spans_of(path, inside, outside))
        for path in probabilities(scores)[0]
    }


def assert_exact(labels: np.ndarray, marginals_found: np.ndarray, scores: Scores, offsets: np.ndarray) -> None:
    """Compare decoded labels [T] and marginals [T, L] of a text with the enumeration of each sequence."""
    for first, last in pairwise(offsets):
        sequence_scores = sequence(scores, first, last)
        best = best_score(sequence_scores) if last > first else 0.0
        assert math.isclose(path_score(sequence_scores, labels[first:last].tolist()), best, rel_tol=1e-6, abs_tol=1e-12)
        np.testing.assert_allclose(marginals_found[first:last], marginals(sequence_scores), atol=1e-12)
