"""Features whose labels a person may know: those that predict a label and occur in texts without labels.

Druck, Mann & McCallum (2008), "Learning from labeled features using generalized expectation criteria", section 5: the
features of highest mutual information with a label (Sokolovska 2010, eq. 6.3).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.util import minibatch
from tqdm import tqdm

from ...cli.inputs import gold_tags_of, layout_of, read_file
from ...corpora.layouts import Format
from ...errors import DataError
from ...pipeline.select import load_pipeline, one_crf_of
from ...schemes import split_tag

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

BATCH = 200
"""Texts read at a time."""
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


class ProposalSettings(NamedTuple):
    """The features to propose.

    templates (Sequence[str]): Over built-in attributes, see `features.templates`.
    per_label (int): Features for a label, at most.
    min_count (int): Labelled tokens that a feature has at least; also tokens without labels, if there are any.
    """

    templates: Sequence[str] = ("LOWER",)
    per_label: int = 6
    min_count: int = 3


WORDS = ProposalSettings()


def propose_features(
    model: str | Path,
    labelled: Path,
    raw: Sequence[Path] = (),
    *,
    component: str | None = None,
    settings: ProposalSettings = WORDS,
    layout: Format = None,
    raw_layout: Format = None,
) -> list[Proposal]:
    """Return candidates for labelled features, those of files, as `propose` does.

    model (str | Path): A config, or a trained pipeline, whose component the features are for.
    labelled, raw: A file with labels, and files without.
    layout, raw_layout (Format): Layouts of both.
    RAISES CrfError: If there is no such component, a file cannot be read, or no feature occurs often enough.
    """
    from ...pipeline.gold_file import read_gold

    nlp = _pipeline(model)
    _, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    examples = read_gold(nlp, labelled, layout_of(labelled, layout, nlp)).examples
    tags = [tag for example in examples for tag in gold_tags_of(pipe, example)]
    if not any(tags):
        raise DataError(f"{labelled} holds no labels for the component {pipe.name!r}. Choose another with --component.")
    labels = [tag and (split_tag(tag)[1] or tag) for tag in tags] if pipe.annotation.scheme else tags
    docs, texts = [example.predicted for example in examples], _raw_docs(nlp, raw, raw_layout)
    proposals = propose(docs, labels, texts, settings)
    if not proposals:
        times = f"{settings.min_count} times"
        raise DataError(f"No feature occurs {times} and predicts a label. Give more text, or --min-count 1.")
    return proposals


def _pipeline(model: str | Path) -> Language:
    from spacy.util import load_model_from_config

    from ...pipeline.configs import load_config

    if not Path(model).is_file():
        return load_pipeline(model)
    return load_model_from_config(load_config(Path(model), {}), auto_fill=True)


def _raw_docs(nlp: Language, files: Sequence[Path], layout: Format) -> Iterator[list[Doc]]:
    texts = chain.from_iterable(read_file(nlp, file, layout) for file in files)
    with tqdm(disable=None if files else True, leave=False, file=sys.stderr, unit=" texts") as bar:
        for batch in minibatch(texts, BATCH):
            yield [text.doc for text in batch]
            bar.update(len(batch))


class FeatureCounts(NamedTuple):
    """Counts of F features: tokens of labelled texts with each label [F, L], and tokens of texts without labels [F].

    has_raw (bool): Whether there are texts without labels.
    """

    names: list[str]
    labels: list[str]
    labelled: NDArray[np.float64]
    of_labels: NDArray[np.float64]
    raw: NDArray[np.int64]
    has_raw: bool


def propose(
    labelled: Sequence[Doc],
    labels: Sequence[str | None],
    raw: Iterable[list[Doc]],
    settings: ProposalSettings = WORDS,
) -> list[Proposal]:
    """Return some features for each label, those that say most about it first.

    labels (Sequence): Label of each token of the labelled Docs, None if unknown.
    raw (Iterable): Lists of Docs without labels.
    RAISES ConfigError: On a template that cannot be used.
    """
    templates, per_label, min_count = settings
    counts = _count(labelled, labels, raw, templates)
    totals, information = counts.labelled.sum(1), _information(counts)
    prior = counts.of_labels / max(1.0, counts.of_labels.sum())
    best = np.argmax(counts.labelled, axis=1) if counts.labels else np.zeros(len(totals), np.int64)
    proposals: dict[str, list[Proposal]] = {label: [] for label in counts.labels}
    for number in np.lexsort((counts.names, -information[np.arange(len(totals)), best])).tolist():
        label, total, name = int(best[number]), int(totals[number]), counts.names[number]
        with_label = counts.labelled[number, label]
        share, in_raw = with_label / max(1, total), int(counts.raw[number])
        frequent = total >= min_count and (not counts.has_raw or in_raw >= min_count)
        if frequent and share > prior[label] and not any(map(str.isspace, name)):
            safe, text = (with_label + prior[label]) / (total + 1), counts.labels[label]
            proposals[text].append(Proposal(name, text, share, safe, total, in_raw, float(information[number, label])))
    return [proposal for of_label in proposals.values() for proposal in of_label[:per_label]]


def _count(
    labelled: Sequence[Doc], labels: Sequence[str | None], raw: Iterable[list[Doc]], templates: Sequence[str]
) -> FeatureCounts:
    """Return the counts of the features of labelled Docs; arguments as of `propose`."""
    from ...features.attributes import BUILT_IN
    from ...features.encoder import GrowingEncoder, new_lexicon
    from ...features.templates import lexical_names, make_plan, parse
    from ...pipeline.feature_names import text_of
    from ...pipeline.prediction import VocabInUse, lexeme_reader, read_docs
    from ...potentials.linear import listed

    plan, strings, vocab = make_plan(parse(templates, BUILT_IN)), dict[int, str](), labelled[0].vocab
    nothing, read = make_plan([]), lexeme_reader(VocabInUse(vocab), lexical_names(plan), {}, strings)
    encoder = GrowingEncoder(plan, nothing, new_lexicon(plan, nothing, read))
    columns = read_docs(labelled, encoder.columns)
    encoded, labels = encoder.encode(columns.text), [*columns.only_words(labels)]
    features = encoder.features[0]
    names = [_short(name) for name in features.names(lambda value: text_of(value, strings, vocab))]
    frozen, _ = encoder.frozen(encoder.keys)
    names_of_labels = sorted({label for label in labels if label is not None})
    gold = np.array([-1 if label is None else names_of_labels.index(label) for label in labels], np.int64)
    ptr, ids = listed(encoded.unigrams)
    of_token = np.repeat(gold, np.diff(ptr))
    both = np.zeros((len(names), len(names_of_labels)))
    np.add.at(both, (ids[of_token >= 0], of_token[of_token >= 0]), 1.0)
    in_raw, has_raw = np.zeros(len(names), np.int64), False
    for docs in raw:
        has_raw = True
        in_raw += frozen.encode(read_docs(docs, frozen.columns).text).unigrams.counts(len(names))
    of_labels = np.bincount(gold[gold >= 0], minlength=len(names_of_labels)).astype(np.float64)
    return FeatureCounts(names, names_of_labels, both, of_labels, in_raw, has_raw)


def _information(counts: FeatureCounts) -> NDArray[np.float64]:
    """Return the mutual information of each feature and each label [F, L], in nats."""
    from ...training.selection import Counts, mutual_information

    both, of_labels = counts.labelled, counts.of_labels
    tables = np.repeat(both.sum(1), len(of_labels)), np.tile(of_labels, len(both)), float(of_labels.sum())
    information: NDArray[np.float64] = mutual_information(Counts(both.ravel(), *tables)).reshape(both.shape)
    return information


def _short(name: str) -> str:
    """Return a word in place of the feature that stands for it, unless it could be read as something else."""
    word = name.removeprefix(_WORD)
    return word if name.startswith(_WORD) and "=" not in word and not word.startswith(("#", "_B")) else name


def as_file(proposals: Sequence[Proposal]) -> str:
    """Return the proposals as a file of labelled features, to be edited."""
    lines = ["# Labelled features: a word or TEMPLATE=value, a tab, and LABEL=share. Correct the shares; delete lines."]
    label = ""
    for proposal in proposals:
        if proposal.label != label:
            label = proposal.label
            lines.append(f"# {label}")
        lines.append(f"{proposal.feature}\t{label}={proposal.safe_share:.2f}")
    return "\n".join(lines) + "\n"
