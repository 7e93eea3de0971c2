"""Candidates for labelled features: what predicts a label in a few labelled texts and occurs in texts without labels.

Druck, Mann & McCallum (2008), "Learning from labeled features using generalized expectation criteria", section 5: the
features of highest mutual information with a label (Sokolovska 2010, eq. 6.3) are worth a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc

from ...features.attributes import BUILT_IN
from ...features.encoder import Encoder, feature_names
from ...features.plan import lexical_names, make_plan
from ...features.templates import parse
from ...pipeline.feature_names import text_of
from ...pipeline.prediction import lexeme_reader, read_docs
from ...potentials.row_sums import listed
from ...training.selection import Counts, mutual_information

_WORD = "LOWER[0]="


class Proposal(NamedTuple):
    """A feature that predicts a label.

    share (float): Share of the label among the labelled tokens with the feature.
    safe_share (float): The same with one more token, which has the label as often as all tokens do.
    labelled, raw (int): Labelled tokens with the feature, and tokens of texts without labels.
    information (float): Mutual information of feature and label, in nats.
    """

    feature: str
    label: str
    share: float
    safe_share: float
    labelled: int
    raw: int
    information: float


def propose(
    labelled: Sequence[Doc],
    labels: Sequence[str | None],
    raw: Iterable[list[Doc]],
    *,
    templates: Sequence[str] = ("LOWER",),
    per_label: int = 6,
    min_count: int = 3,
) -> list[Proposal]:
    """Return at most `per_label` features for each label, those that say most about it first.

    labels (Sequence): Label of each token of the labelled Docs, None if unknown.
    raw (Iterable): Lists of Docs without labels.
    templates (Sequence[str]): Over built-in attributes, see `features.templates`.
    min_count (int): Labelled tokens that a feature has at least; also tokens without labels, if there are any.
    RAISES ConfigError: On a template that cannot be used.
    """
    plan, strings, vocab = make_plan(parse(templates, BUILT_IN)), dict[int, str](), labelled[0].vocab
    encoder = Encoder(plan, make_plan([]), lexeme_reader(lambda: vocab, lexical_names(plan), {}, strings))
    encoder.keep_names()
    encoded = encoder.encode(read_docs(labelled, encoder.columns).text)
    block = encoder.unigrams
    names = [_short(name) for name in feature_names(block, lambda value: text_of(value, strings, vocab))]
    encoder.freeze([encoded])
    known = sorted({label for label in labels if label is not None})
    gold = np.array([-1 if label is None else known.index(label) for label in labels], np.int64)
    ptr, ids = listed(encoded.unigrams)
    of_token = np.repeat(gold, np.diff(ptr))
    both = np.zeros((len(names), len(known)))
    np.add.at(both, (ids[of_token >= 0], of_token[of_token >= 0]), 1.0)
    counts, total = both.sum(1), np.bincount(gold[gold >= 0], minlength=len(known)).astype(np.float64)
    in_raw, seen = np.zeros(len(names), np.int64), False
    for docs in raw:
        seen = True
        in_raw += block.count(encoder.encode(read_docs(docs, encoder.columns).text).unigrams)
    flat = Counts(both.ravel(), np.repeat(counts, len(known)), np.tile(total, len(names)), float(total.sum()))
    information = mutual_information(flat).reshape(both.shape)
    prior = total / max(1.0, total.sum())
    best = np.argmax(both, axis=1) if len(known) else np.zeros(len(names), np.int64)
    found: list[Proposal] = []
    for number in np.lexsort((names, -information[np.arange(len(names)), best])).tolist():
        label, count, name = int(best[number]), int(counts[number]), names[number]
        share = both[number, label] / max(1, count)
        enough = count >= min_count and (not seen or in_raw[number] >= min_count)
        if enough and share > prior[label] and not any(map(str.isspace, name)):
            safe = (both[number, label] + prior[label]) / (count + 1)
            information_here = float(information[number, label])
            found.append(Proposal(name, known[label], share, safe, count, int(in_raw[number]), information_here))
    return [one for label in known for one in [each for each in found if each.label == label][:per_label]]


def _short(name: str) -> str:
    """Return a word in place of the feature that stands for it, unless it could be read as something else."""
    word = name.removeprefix(_WORD)
    return word if name.startswith(_WORD) and "=" not in word and not word.startswith(("#", "_B")) else name


def as_file(proposals: Sequence[Proposal]) -> str:
    """Return the proposals as a file of labelled features, to be edited."""
    lines = ["# Labelled features: a word or TEMPLATE=value, a tab, and LABEL=share. Correct the shares; delete lines."]
    label = ""
    for one in proposals:
        if one.label != label:
            label = one.label
            lines.append(f"# {label}")
        lines.append(f"{one.feature}\t{label}={one.safe_share:.2f}")
    return "\n".join(lines) + "\n"
