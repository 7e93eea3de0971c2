"""From encoded texts to a model: features, layout, tag dictionary; its weights are zero, or those of a trained model.

The features of a trained model get the first ids, so that all of its weights have a place in the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray
from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.training import Example

from .. import threads
from ..errors import ConfigError
from ..features.encoder import Encoded, Encoder
from ..features.templates import Plan
from ..model import Added, LinearChainCRF
from ..potentials.layout import Layout, Rows, cells, make_layout, used_rows
from ..potentials.tag_dictionary import TagDictionary, make_dictionary
from ..prf import SEQUENCES
from ..schemes import TagTable, count_spans, span_f1, spans_of
from ..training.compatibility import is_unlabelled, needs_labels, part_name
from ..training.dataset import join
from ..training.fit import Scores
from ..training.selection import most_informative
from ..types import MISSING, Bools, Floats, Hashes, Ints, Numbers, Offsets, SupportPotential
from .doc_model import DocModel
from .encode import TRAIN, TrainingSet
from .labels import gold_tags, known_tags, same_words
from .prediction import DocColumns, allowed_labels

OLD_TO_NEW = 4.0
"""How many new sequences one sequence behind the old weights counts as; chosen on references and entities."""


def build_model(model: DocModel, data: TrainingSet, source: DocModel | None) -> tuple[LinearChainCRF, TrainingSet]:
    """End the growth of an encoder; return a model for the tags that were set, and the texts in its numbers.

    source (DocModel | None): A trained model whose features are the encoder's first ones: the new one has its weights
        and its tag dictionary, too.
    """
    method, encoder, tags = model.method, data.encoder, model.labels.tags
    data, old = data.numbered(model), None if source is None else aligned(source, model)
    layout = _choose_weights(model, data)
    if old is not None:
        layout = layout.united(old.layout)
    dictionary, words = None, data.corpus.data.encoded.words
    if encoder.words is not None and words is not None:
        dictionary, data = _choose_words(
            model, data, encoder.words.keys, words, None if old is None else old.dictionary
        )
    keys = encoder.unigrams.index.keys, encoder.bigrams.index.keys
    templates = encoder.unigrams.template_of, encoder.bigrams.template_of
    added = tuple(method.potentials.values())
    for number, potential in enumerate(added):
        if isinstance(potential, SupportPotential):
            potential.bind(data.corpus.data.encoded, number)
            if old is not None and (known_keys := old.small[number].keys) is not None:
                potential.from_state(np.union1d(potential.to_state(), known_keys))
    theta = np.zeros(layout.size + sum(potential.size(len(tags)) for potential in added), method.precision)
    crf = LinearChainCRF(tags, layout, theta, keys, dictionary, templates, added)
    if old is not None:
        carry_over(old, crf)
    return crf, data


def _choose_weights(model: DocModel, data: TrainingSet) -> Layout:
    """Return the layout, with the ids of all texts its rows."""
    method, encoder, corpora = model.method, data.encoder, data.corpora.values()
    texts, first = [corpus.known for corpus in corpora], data.corpus
    everything = texts + [corpus.data.encoded for corpus in corpora]
    encoder.freeze(texts, method.min_count)
    encoder.renumber(everything)
    layout = layout_for(model, data)
    if not method.max_features:
        return layout
    known = first.data._replace(encoded=first.known)
    layout = most_informative(layout, known, method.max_features, method.n_threads or threads.available())
    encoder.unigrams.keep(used_rows(layout.unigrams))
    encoder.bigrams.keep(used_rows(layout.bigrams))
    encoder.renumber(everything)
    return layout.without_empty()


def layout_for(model: DocModel, data: TrainingSet) -> Layout:
    """Return the layout of the weights of a model for texts with its labels, which their encoder has met.

    With support = "observed", features of texts without labels have weights for all labels, because any label is
    possible there; those seen only with labels keep to the labels seen.
    """
    method, blocks = model.method, (data.encoder.unigrams, data.encoder.bigrams)
    terms = [corpus for name, corpus in data.corpora.items() if name != TRAIN]
    labelled = [data.corpus] + [corpus for corpus in terms if not is_unlabelled(corpus.settings.loss)]
    observed = join([corpus.data._replace(encoded=corpus.known).observed() for corpus in labelled])
    texts = [corpus.known[:2] for corpus in terms if not needs_labels(corpus.settings.loss)]
    unlabelled = None
    if texts:
        there = [
            np.sum([block.count(ids) for ids in each], axis=0) > 0
            for block, each in zip(blocks, zip(*texts, strict=True), strict=True)
        ]
        unlabelled = there[0], there[1]
    return make_layout(
        observed.encoded, observed.gold, len(model.labels.tags), (blocks[0].index.size, blocks[1].index.size),
        support=method.support, boundaries=method.boundaries, transitions=method.transitions, unlabelled=unlabelled,
    )  # fmt: skip


def _choose_words(
    model: DocModel, data: TrainingSet, hashes: Hashes, words: Ints, old: TagDictionary | None
) -> tuple[TagDictionary, TrainingSet]:
    """Return the tag dictionary of the training corpus, and all corpora with the numbers of its words.

    hashes, words: Of all words, and for each token [T] of the training corpus the number of its word.
    """
    gold, limits = (
        data.corpus.data.gold,
        (model.method.tag_dictionary_size, model.method.tag_dictionary_min_count),
    )
    dictionary, _ = make_dictionary(hashes, words, gold, model.labels.constraints, *limits)
    if old is not None:
        dictionary = dictionary.united(old, hashes, words, gold)
    data.encoder.words, places = dictionary.word_index(), dictionary.rows(hashes)
    corpora = {}
    for name, corpus in data.corpora.items():
        encoded = corpus.data.encoded
        text = encoded._replace(words=places[encoded.words])
        corpora[name] = corpus._replace(data=corpus.data._replace(encoded=text))
    return dictionary, data._replace(corpora=corpora)


def carry_over(old: LinearChainCRF, new: LinearChainCRF) -> None:
    """Write the weights of one model to another with the same labels, as far as that has their features."""
    blocks = ((model.layout.unigrams, model.layout.bigrams) for model in (old, new))
    each = zip(zip(*blocks, strict=True), zip(old.keys, new.keys, strict=True), old.views, new.views, strict=False)
    for (rows, new_rows), keys, weights, new_weights in each:
        source, target = _common_weights(rows, new_rows, *keys)
        new_weights[target] = weights[source]
    for weights, new_weights in list(zip(old.views, new.views, strict=True))[2:]:
        new_weights[...] = weights
    views = zip(old.added_views, new.added_views, strict=True)
    for before, after, (own, target) in zip(old.small, new.small, views, strict=True):
        if before.keys is not None and after.keys is not None:
            _, source, places = np.intersect1d(before.keys, after.keys, assume_unique=True, return_indices=True)
            target.reshape(-1, len(new.labels))[places] = own.reshape(-1, len(old.labels))[source]
        elif len(own) == len(target):
            target[:] = own


def _common_weights(
    rows: Rows, new_rows: Rows, keys: Hashes, new_keys: Hashes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places in two blocks of the weights that both have."""
    _, places, there = np.intersect1d(keys, new_keys, assume_unique=True, return_indices=True)
    moved = np.full(len(keys), -1, np.int64)
    moved[places] = there
    old_cells, new_cells = cells(rows), cells(new_rows)
    row, column = np.divmod(old_cells, max(1, rows.width))
    wanted = np.where(moved[row] >= 0, moved[row] * rows.width + column, -1)
    target = np.searchsorted(new_cells, wanted)
    source = np.flatnonzero(np.append(new_cells, -2)[target] == wanted)
    return source, target[source]


# From a trained model


def penalty_factor(source: DocModel, model: DocModel) -> float:
    """Return the factor of the penalty on changes of what is known about labels, 1 for new labels.

    The more texts the old weights come from, the more certain they are.  Where their number is unknown, as in a
    converted model, it counts as that of the new ones.
    """
    n_new = max(1, model.n_sequences)
    return 1 + OLD_TO_NEW * (source.n_sequences or n_new) / n_new


def label_factors(source: DocModel, model: DocModel) -> Floats:
    """Return the factors of `Shifted` [L], which are to the penalty as 1 to the root of its factor."""
    new = ~np.isin(model.labels.tags, source.labels.tags)
    return np.where(new, 1.0, penalty_factor(source, model) ** -0.5)


def check_source(source: DocModel, model: DocModel) -> None:
    """RAISES ConfigError: If a model cannot begin with the weights of another."""
    crf, _ = source.trained()
    tasks = [(type(plugin.annotation).__name__, plugin.annotation.scheme) for plugin in (source, model)]
    where = f"Component {model.name!r}: training cannot continue from the trained component"
    if tasks[0] != tasks[1]:
        (task, scheme), (own, own_scheme) = tasks
        raise ConfigError(
            f"{where}, whose task is {task} with the scheme {scheme}; the config says {own} with {own_scheme}. "
            "Use the factory and the scheme of the trained component."
        )
    for plugin in (*crf.added, *model.method.potentials.values()):
        if not getattr(plugin, "transferable", True) or not isinstance(plugin, SupportPotential):
            raise ConfigError(f"{where} with the potential {part_name(plugin)}. Train on all texts.")
    if model.method.optimizer.requires & {"likelihood", "log_likelihood", "joint"}:
        name = part_name(model.method.optimizer)
        raise ConfigError(f"{where} with {name}. Use for example spacy_crfseq.LBFGS.v1 or AdaGrad.v1.")
    if model.method.max_features:
        raise ConfigError(f"{where} with max_features, which selects among new features only. Set max_features = 0.")
    had, has = (
        {plugin.name for plan in part.features.plans() for plugin in plan.templates} for part in (source, model)
    )
    if had and not had & has:
        hint = "Copy its block of features, or use its config.cfg."
        raise ConfigError(f"{where}: the config has none of its templates, such as {min(had)}. {hint}")


def aligned(source: DocModel, model: DocModel) -> LinearChainCRF:
    """Return a trained model with the labels and potentials of another, new ones with weights of zero."""
    crf = known_part(source, model.features.plans())[0]
    views = dict(zip(source.method.potentials, crf.added_views, strict=True))
    added, weights = list[Added](), [crf.theta[: crf.layout.size]]
    for name, potential in model.method.potentials.items():
        old = source.method.potentials.get(name, potential)
        shared = name in views and type(old) is type(potential)
        added.append(old if shared else copy(potential))
        weights.append(views[name] if shared else np.zeros(potential.size(crf.layout.n_labels), crf.theta.dtype))
    same = crf.keys, crf.dictionary, crf.templates
    crf = LinearChainCRF(crf.labels, crf.layout, np.concatenate(weights), *same, tuple(added))
    return crf.with_labels(model.labels.tags, model.method.transitions)


def known_part(source: DocModel, plans: Sequence[Plan]) -> tuple[LinearChainCRF, list[Numbers]]:
    """Return a trained model without features of templates that `plans` lack, and each feature's template in them."""
    crf, wanted, numbers = source.crf, list[Bools](), list[Numbers]()
    own = crf.templates or [np.zeros(len(keys), np.uint16) for keys in crf.keys]
    for templates, old, new in zip(own, source.features.plans(), plans, strict=True):
        names = [template.name for template in new.templates]
        moved = [names.index(template.name) if template.name in names else -1 for template in old.templates]
        places = np.append(np.array(moved, np.int64), -1)[templates]
        wanted.append(places >= 0)
        numbers.append(places[places >= 0].astype(np.uint16))
    return crf.with_features(wanted), numbers


def begin_with(encoder: Encoder, source: DocModel, strings: dict[int, str]) -> None:
    """Give the first ids of an encoder to the features of a trained model, and their names to `strings`."""
    blocks = encoder.unigrams, encoder.bigrams
    crf, numbers = known_part(source, [block.plan for block in blocks])
    for block, keys, templates in zip(blocks, crf.keys, numbers, strict=True):
        block.begin_with(keys, templates)
    for names in source.largest_names():
        strings.update(names)
    keys = np.concatenate(source.crf.keys).tolist()
    strings.update({key: name for key, name in zip(keys, source.feature_names, strict=False) if name})


def summary(source: DocModel, model: DocModel) -> str:
    """Return how much of a model in training comes from a trained one, as a line of text."""
    crf, old, known = model.crf, source.crf, known_part(source, model.features.plans())[0]
    total, had, kept = (sum(map(len, model_.keys)) for model_ in (crf, old, known))
    left = f"; {had - kept:,} features of templates that the config lacks left out" if had > kept else ""
    return (
        f"{len(old.labels)} labels and {kept:,} features taken over, {len(crf.labels) - len(old.labels)} and "
        f"{total - kept:,} new{left}; penalty on changes of the former times {penalty_factor(source, model):.3g}"
    )


# The scores of parameters on a development corpus


def encode_allowed(model: DocModel, docs: list[Doc]) -> tuple[Encoded, DocColumns, Bools | None]:
    """Return the words of Docs as numbers, the columns read, and the labels they may have [W, L], None if all may."""
    encoded, columns = model.encode(docs)
    return encoded, columns, allowed_labels(model.labels, docs, columns)[0]


class Evaluator:
    """A function from parameters [D] to the F1 of spans on `dev`, or the accuracy of known tags."""

    def __init__(self, model: DocModel, dev: list[Example]) -> None:
        (self._crf, _), self._model, self._rules = model.trained(), model, model.rules
        self._encoded, columns, self._allowed = encode_allowed(model, [example.predicted for example in dev])
        tokens = (tag for example in dev for tag in gold_tags(model.annotation, example, model.name))
        tags = known_tags([*columns.only_words(tokens)])
        names = [*self._crf.labels, *sorted({tag for tag in tags if tag is not None} - set(self._crf.labels))]
        numbers: dict[str | None, int] = {tag: number for number, tag in enumerate(names)}
        self._gold = np.array([numbers.get(tag, MISSING) for tag in tags], np.int32)
        self._known, scheme = self._gold >= 0, model.annotation.scheme
        self._table = None if scheme is None else TagTable(names, scheme)
        self._plain = self._is_plain(dev, columns)
        self._spaced = any(len(example.reference) and not example.reference.has_unknown_spaces for example in dev)

    def __call__(self, theta: Floats) -> float:
        """Return the score of parameters."""
        predicted, gold, known = self._decode(theta), self._gold, self._known
        if self._table is None:
            return float((predicted == gold)[known].mean()) if known.any() else 0.0
        return span_f1(np.where(known, predicted, MISSING), gold, self._encoded.offsets, self._table).f1

    def scores(self, theta: Floats) -> Scores:
        """Return the scores that `nlp.evaluate` finds on the Docs, None where they are not plain (`_is_plain`)."""
        if not self._plain:
            return None
        predicted, gold, offsets = self._decode(theta), self._gold, self._encoded.offsets
        name = self._model.annotation.score_name  # tag_acc or ents_f
        prefix = name.rpartition("_")[0]
        right = ~np.logical_or.reduceat(predicted != gold, offsets[:-1])
        sequences = {f"{prefix}_{SEQUENCES}": int(right.sum()) / len(right)}
        of_tokens = dict.fromkeys(("token_acc", "token_p", "token_r", "token_f"), 1.0 if self._spaced else None)
        if self._table is None:
            n_right = int((predicted == gold).sum())
            n_wrong = len(gold) - n_right
            return {**of_tokens, name: PRFScore(tp=n_right, fp=n_wrong, fn=n_wrong).fscore, **sequences}
        counts = count_spans(predicted, gold, offsets, self._table).tolist()
        of_type = {
            kind: PRFScore(tp=tp, fp=n_found - tp, fn=n_gold - tp)
            for kind, (tp, n_found, n_gold) in zip(self._table.types, counts, strict=True)
            if n_found or n_gold
        }
        total = sum(of_type.values(), PRFScore())
        values = (
            total.precision,
            total.recall,
            total.fscore,
            {kind: types.to_dict() for kind, types in of_type.items()},
        )
        names = (f"{prefix}_{what}" for what in ("p", "r", "f", "per_type"))
        return {**of_tokens, **dict(zip(names, values if of_type else [None] * 4, strict=True)), **sequences}

    def _decode(self, theta: Floats) -> Ints:
        trial = self._crf.at(theta).posterior(
            self._encoded, self._model.labels.constraints, self._allowed, rules=self._rules
        )
        return trial.decode(self._model.method.decoder)

    def _is_plain(self, dev: list[Example], columns: DocColumns) -> bool:
        """Whether scores of Docs are those of labels: equal tokens and sentences, nothing unknown or decided before."""
        starts = [np.append(1, e.reference.to_array(["SENT_START"])[1:]) == 1 for e in dev if len(e.reference)]
        offsets = self._encoded.offsets
        return (
            bool(starts) and bool(self._known.all()) and not columns.state.any()
            and not self._model.cfg.get("threshold")
            and all(map(same_words, dev)) and columns.gaps is None
            and np.array_equal(np.flatnonzero(np.concatenate(starts)), offsets[:-1])
            and self._n_spans(offsets) == self._n_spans(columns.doc_offsets)
        )  # fmt: skip

    def _n_spans(self, offsets: Offsets) -> int:
        return 0 if self._table is None else len(spans_of(self._gold, offsets, self._table).start)
