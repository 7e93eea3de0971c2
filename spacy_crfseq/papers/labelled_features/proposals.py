"""Features whose labels a person may know, for the loss GeneralizedExpectation.

What predicts a label in a few labelled texts, and occurs in texts without labels, is worth a look.  Druck, Mann &
McCallum (2008), "Learning from labeled features using generalized expectation criteria", section 5: the features of
highest mutual information with a label (Sokolovska 2010, eq. 6.3).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.util import minibatch
from tqdm import tqdm

from ...cli.options import gold_tags_of, layout_of, read_file
from ...corpora.layouts import Format
from ...corpora.outputs import check_output_file
from ...errors import DataError
from ...files import write_text
from ...pipeline.select import load_pipeline, one_crf_of
from ...schemes import split_tag

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

BATCH = 200
"""Texts read at a time."""
_WORD = "LOWER[0]="


def propose_features(
    model: str,
    labelled: Path,
    raw: list[Path] | None = None,
    component: str | None = None,
    templates: list[str] | None = None,
    number: int = 6,
    min_count: int = 3,
    layout: Format = None,
    raw_format: str | None = None,
    output: Path | None = None,
    force: bool = False,
) -> list[Proposal]:
    """Return candidates for labelled features, `number` for each label, and write them if there is an output.

    model (str): A config, or a trained pipeline, whose component the features are for.
    RAISES CrfError: If there is no such component, a file cannot be read, or no feature occurs `min_count` times.
    """
    from ...pipeline.readers import read_gold

    check_output_file(output, labelled, force=force)
    nlp = _pipeline(model)
    _, pipe = one_crf_of(nlp, component, str(model), spans_first=True)
    examples = read_gold(nlp, labelled, layout_of(labelled, layout, nlp)).examples
    tags = [tag for example in examples for tag in gold_tags_of(pipe, example)]
    if not any(tags):
        raise DataError(f"{labelled} holds no labels for the component {pipe.name!r}. Choose another with --component.")
    labels = [tag and (split_tag(tag)[1] or tag) for tag in tags] if pipe.annotation.scheme else tags
    docs = [example.predicted for example in examples]
    texts = _raw_docs(nlp, raw or [], raw_format)
    proposals = propose(docs, labels, texts, templates=templates or ["LOWER"], per_label=number, min_count=min_count)
    if not proposals:
        raise DataError(f"No feature occurs {min_count} times and predicts a label. Give more text, or --min-count 1.")
    if output is not None:
        write_text(output, as_file(proposals))
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
    from ...features.attributes import BUILT_IN
    from ...features.encoder import GrowingEncoder, new_lexicon
    from ...features.templates import lexical_names, make_plan, parse
    from ...pipeline.feature_names import text_of
    from ...pipeline.prediction import Place, lexeme_reader, read_docs
    from ...potentials.linear import listed
    from ...training.selection import Counts, mutual_information

    plan, strings, vocab = make_plan(parse(templates, BUILT_IN)), dict[int, str](), labelled[0].vocab
    nothing, read = make_plan([]), lexeme_reader(Place(vocab), lexical_names(plan), {}, strings)
    encoder = GrowingEncoder(plan, nothing, new_lexicon(plan, nothing, read))
    columns = read_docs(labelled, encoder.columns)
    encoded, labels = encoder.encode(columns.text), [*columns.only_words(labels)]
    features = encoder.features[0]
    names = [_short(name) for name in features.names(lambda value: text_of(value, strings, vocab))]
    frozen, _ = encoder.frozen(encoder.keys)
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
        in_raw += frozen.encode(read_docs(docs, frozen.columns).text).unigrams.counts(len(names))
    flat = Counts(both.ravel(), np.repeat(counts, len(known)), np.tile(total, len(names)), float(total.sum()))
    information = mutual_information(flat).reshape(both.shape)
    prior = total / max(1.0, total.sum())
    best = np.argmax(both, axis=1) if len(known) else np.zeros(len(names), np.int64)
    proposals: list[Proposal] = []
    for number in np.lexsort((names, -information[np.arange(len(names)), best])).tolist():
        label, count, name = int(best[number]), int(counts[number]), names[number]
        share = both[number, label] / max(1, count)
        enough = count >= min_count and (not seen or in_raw[number] >= min_count)
        if enough and share > prior[label] and not any(map(str.isspace, name)):
            safe = (both[number, label] + prior[label]) / (count + 1)
            information_here = float(information[number, label])
            proposals.append(Proposal(name, known[label], share, safe, count, int(in_raw[number]), information_here))
    return [proposal for label in known for proposal in [each for each in proposals if each.label == label][:per_label]]


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
