"""Training on a cluster: parts of corpora are read and encoded on workers and stay there; the model is on the driver.

A shard numbers its features as it meets them.  Vocabularies are merged by keys, which are stable hashes, in the order
of the shards.  Then each shard gets the keys of all features, and is a training set with the numbers of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from itertools import chain
from threading import RLock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.training import Example
from thinc.api import Config

from ... import threads
from ...corpora.lines import FilePart
from ...errors import ConfigError, count_of
from ...features.encoded import renumbering
from ...features.encoder import CollectedFeatures
from ...features.index import HashIndex
from ...model import LinearChainCRF
from ...pipeline.build import layout_for
from ...pipeline.clusters import RemoteTags
from ...pipeline.corpus import Corpus
from ...pipeline.corpus_encoder import EncodedCorpus
from ...pipeline.doc_model import DocModel
from ...pipeline.feature_names import Origins, features_with_largest_weights
from ...pipeline.labels import PartialTable
from ...pipeline.objectives import FIRST, bound, corpus_term, further_terms
from ...pipeline.plan import TrainingPlan
from ...pipeline.settings import Method, TermSettings
from ...pipeline.terms import Texts, annotated, find_texts, reader_of
from ...pipeline.training_set import collect, number_tags
from ...potentials import layout as layouts
from ...potentials.layout import DenseRows, Layout, WeightRows, cells, rows_of
from ...potentials.tag_dictionary import TagDictionary, make_dictionary
from ...regularizers.none import NoRegularizer
from ...training.objective import Objective, Term
from ...types import Bools, Floats, Hashes, Ints, Numbers, Offsets, Optimizer, SupportPotential
from .objective import OWN, Distributed, Mixed, TermLoss, Work
from .workers import ShardFutures

SHARDS = "the number of shards"
"""Name of a fact of checkpoints, because the order in which shards are added up changes the last digits."""
PARTS, PART_BYTES, SHARD_BYTES = 8, 16 << 20, 32 << 20
"""Parts of a shard, at least; bytes of a part and of a shard, at most, of some ten bytes per token."""
MOST = 8
"""Shards of a thread, at most: each costs the scheduler a task in every iteration."""
TIGHT = 0.5
"""Share of a worker's memory beyond which it keeps no preparations for passes."""

Both: TypeAlias = tuple[Any, Any]
"""Something of the features that score labels, and of those that score label pairs."""


class ConfigPart(NamedTuple):
    """A part of a corpus that a config names; None for all of it."""

    corpus: str
    part: FilePart | None

    def __call__(self, nlp: Language) -> Any:
        """Return the reader of this part."""
        reader: Any = reader_of("[training]", self.corpus, nlp)
        return reader.part(self.part) if self.part is not None else reader

    @property
    def n_bytes(self) -> int:
        """Its size in its file."""
        if self.part is None:
            return 0
        end = self.part.end
        return (self.part.path.stat().st_size if end is None else end) - self.part.begin


class Parts(NamedTuple):
    """Parts of the training corpus, and of the texts of terms."""

    corpus: Sequence[ConfigPart]
    terms: Mapping[str, Sequence[ConfigPart]]


def corpora_of(nlp: Language, settings: Mapping[str, TermSettings], n_shards: int, n_threads: int) -> tuple[Parts, int]:
    """Return the parts of the corpora of a config, and a number of shards.

    A reader without the methods `parts` and `part`, such as one of a user, is one part.
    n_shards (int): The number to return; 0 for one that suits the size and the threads.
    """
    names = [str(nlp.config.interpolate()["training"]["train_corpus"])]
    names += [term.corpus for term in settings.values() if term.corpus is not None]
    corpora: list[list[ConfigPart]] = []
    for corpus in names:
        reader: Any = reader_of("[training]", corpus, nlp)
        if not hasattr(reader, "parts"):
            corpora.append([ConfigPart(corpus, None)])
            n_shards = n_shards or n_threads
            continue
        whole = sum(ConfigPart(corpus, part).n_bytes for part in reader.parts(0))
        n_shards = n_shards or n_threads * min(MOST, -(-max(1, whole) // (n_threads * SHARD_BYTES)))
        parts = reader.parts(min(PART_BYTES, whole // (PARTS * n_shards) + 1))
        # workers may have another working directory
        corpora.append([ConfigPart(corpus, part and part._replace(path=part.path.absolute())) for part in parts])
    first, *others = corpora
    of_terms = (name for name, term in settings.items() if term.corpus is not None)
    return Parts(first, dict(zip(of_terms, others, strict=True))), n_shards


# On workers


LOCK = threads.surviving(RLock(), waits=False)
"""Held by the thread of a worker that uses a pipeline."""


@dataclass(frozen=True)
class Recipe:
    """The pipeline of the driver, which each worker makes once.

    component (str): The component in training.
    annotators (tuple[str, ...]): Trained components before it, which annotate its texts.
    others (tuple[str, ...]): All others, among them `component`: without weights.
    code (str | None): A Python file to import first, which all workers can read.
    """

    component: str
    annotators: tuple[str, ...]
    others: tuple[str, ...]
    config: str
    data: bytes
    code: str | None

    def model(self, tags: Sequence[str]) -> DocModel:
        """Return the model of the component, with these tags; it has no weights."""
        model: DocModel = pipeline_of(self).get_pipe(self.component).doc_model  # type: ignore[attr-defined]
        model.set_tags(tags)
        return model


@lru_cache(maxsize=4)
def pipeline_of(recipe: Recipe) -> Language:
    """Return the pipeline of this process."""
    if recipe.code is not None:
        util.import_file("python_code", recipe.code)
    config = Config().from_str(recipe.config, interpolate=False)
    return util.load_model_from_config(config, auto_fill=True).from_bytes(recipe.data, exclude=recipe.others)


@dataclass
class Shard:
    """A part of the training set on a worker; `objective` is made where it is needed.

    corpus, terms: Its documents of the training corpus, and of the texts of terms, by their names.
    partials (PartialTable): Partial knowledge about gold tokens.
    features (tuple): Those of the shard, by block, in the order in which it has met them.
    strings (dict): The strings that they are made of.
    words (Hashes | None): Those that a tag dictionary chooses from, in their order.
    seen (Mapping): Those that attributes keep, see `DocModel.seen`.
    ids (tuple | None): The numbers of its features in the model, -1 for those that it does not have, [F].
    n_features (tuple): The sizes of the blocks of the model.
    memory (dict): What work keeps between calls.
    """

    corpus: EncodedCorpus
    terms: Mapping[str, EncodedCorpus]
    partials: PartialTable
    features: tuple[CollectedFeatures, CollectedFeatures]
    strings: dict[int, str]
    words: Hashes | None
    seen: Mapping[str, AbstractSet[int]]
    ids: Both | None = None
    n_features: tuple[int, int] = (0, 0)
    memory: dict[str, Any] = field(default_factory=dict)
    objective: Objective | None = None

    @property
    def corpora(self) -> list[EncodedCorpus]:
        """The training corpus, and those of the terms."""
        return [self.corpus, *self.terms.values()]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "objective": None}

    def __sizeof__(self) -> int:
        texts = [corpus.data.encoded for corpus in self.corpora]
        return sum(ids.n_bytes for text in texts for ids in (text.unigrams, text.bigrams))

    def work(self, theta: Floats, work: Work, recipe: Recipe, plan: Outline) -> tuple[Any, ...]:
        """Return the result of `work` at theta [D]."""
        from distributed import get_worker

        with LOCK:
            if self.objective is None:
                self.objective = _objective(self, recipe, plan, get_worker().state.nthreads)
        result = work(self.objective, theta.copy(), self.memory)  # what comes from another process cannot be written
        # distributed has no public name for the limit of a worker; see its upper bound in pyproject.toml
        limit = getattr(getattr(get_worker(), "memory_manager", None), "memory_limit", None) or 0
        if 0 < TIGHT * limit < get_worker().monitor.get_process_memory():
            self.objective = None  # it takes two thirds of a shard, and less time to make than to read from disk
        return result


class Facts(NamedTuple):
    """The facts on a shard that the driver needs.

    keys, templates, counts: Of its features, in the order of the shard; counts in tokens.
    tags: The gold tags of the training corpus and of each term.
    size, term_sizes: The numbers of documents, tokens and sequences of the training corpus, and of each term.
    seen: See `Shard`.
    """

    keys: tuple[Hashes, Hashes]
    templates: tuple[Numbers, Numbers]
    counts: tuple[Offsets, Offsets] | None
    tags: RemoteTags
    size: Offsets
    term_sizes: dict[str, Offsets]
    seen: Mapping[str, AbstractSet[int]]


class Observed(NamedTuple):
    """The needs of a shard for weights.

    places: The `cells` of its weights, None for weights of all labels.
    states: Those of the potentials that depend on the training text.
    words: Hashes of words, and of each pair of word and label the numbers of both and its number of tokens.
    """

    layout: Layout
    places: list[Offsets | None]
    states: list[Any]
    words: tuple[Hashes, Ints, Ints, Offsets] | None


class Outline(NamedTuple):
    """The model without its weights and features.

    n_total: Sequences in all shards.
    """

    tags: Sequence[str]
    layout: Layout
    dictionary: TagDictionary | None
    states: list[Any]
    n_total: int

    def crf(self, method: Method, keys: Both, templates: Both | None) -> LinearChainCRF:
        """Return the model with weights of zero."""
        states = iter(self.states)
        added = tuple(method.potentials.values())
        for potential in added:
            if isinstance(potential, SupportPotential):
                potential.from_state(next(states))
        size = self.layout.size + sum(potential.size(len(self.tags)) for potential in added)
        theta = np.zeros(size, method.precision)
        return LinearChainCRF(self.tags, self.layout, theta, keys, self.dictionary, templates, added)


def encode(shard: None, recipe: Recipe, parts: Parts) -> Shard:
    """Return parts of corpora as numbers.  RAISES CrfError: If one cannot be read."""
    with LOCK:
        nlp, model = pipeline_of(recipe), recipe.model(())
        model.forget()  # the words of another shard
        annotators = [nlp.get_pipe(name) for name in recipe.annotators]
        texts: dict[str, Texts] = {name: partial(_read, nlp, of_term) for name, of_term in parts.terms.items()}
        plan = TrainingPlan(annotators=annotators, term_readers=find_texts(model, texts, None))
        readers = [part(nlp) for part in parts.corpus]
        fast = not annotators and all(hasattr(reader, "portions") for reader in readers)
        portions = partial(_portions, nlp, readers) if fast else None
        collected = collect(model, plan, Corpus(partial(_read, nlp, parts.corpus, annotators), False, None, portions))
        encoder, own = collected.collector, collected.example_encoder
        words = None if encoder.dictionary_words is None else encoder.dictionary_words.keys
        collection = own.partials, encoder.features, own.strings or {}, words, collected.seen
        return Shard(collected.corpus, collected.terms, *collection)


def _read(nlp: Language, parts: Sequence[ConfigPart], annotators: Sequence[Any] = ()) -> Iterator[Example]:
    readers = (part(nlp) for part in parts)
    examples: Iterable[Example] = chain.from_iterable(getattr(reader, "stream", reader)(nlp) for reader in readers)
    return iter(reduce(lambda stream, pipe: annotated(pipe, stream), annotators, examples))


def _portions(nlp: Language, readers: Sequence[Any], *given: Any) -> Iterator[Any]:
    return chain.from_iterable(reader.portions(nlp, *given) for reader in readers)


def describe(shard: Shard, count: bool) -> Facts:
    """Return the facts about a shard, with counts of its features if these are needed."""
    counts, (unigrams, bigrams) = None, shard.features
    if count:
        texts = [corpus.complete for corpus in shard.corpora]
        counts = (
            reduce(np.add, [text.unigrams.counts(len(unigrams.keys)) for text in texts]),
            reduce(np.add, [text.bigrams.counts(len(bigrams.keys)) for text in texts]),
        )
    tags = RemoteTags(shard.corpus.tags, {name: corpus.tags for name, corpus in shard.terms.items()})
    sizes = {name: _size(corpus) for name, corpus in shard.terms.items()}
    keys, templates = (unigrams.keys, bigrams.keys), (unigrams.templates, bigrams.templates)
    return Facts(keys, templates, counts, tags, _size(shard.corpus), sizes, shard.seen)


def _size(corpus: EncodedCorpus) -> Offsets:
    return np.array([corpus.n_docs, corpus.data.encoded.n_tokens, corpus.data.n_sequences])


def number(shard: Shard, keys: Both) -> Shard:
    """Return a shard whose features have the numbers of the model with these keys."""
    (unigrams, bigrams), text = shard.features, shard.corpus.complete
    tables = text.unigrams.tables, text.bigrams.tables
    by = renumbering(tables, (unigrams.keys, bigrams.keys), keys)
    own, other = (
        np.arange(len(features.keys), dtype=np.int32) if new is None else new[:-1]
        for features, new in zip(shard.features, by.ids, strict=True)
    )
    nothing = np.zeros(0, np.uint64)  # the keys are no longer needed
    return replace(
        shard,
        corpus=shard.corpus.renumbered(by),
        terms={name: corpus.renumbered(by) for name, corpus in shard.terms.items()},
        features=(unigrams._replace(keys=nothing), bigrams._replace(keys=nothing)),
        ids=(own, other),
        n_features=(len(keys[0]), len(keys[1])),
    )


def observe(shard: Shard, recipe: Recipe, tags: Sequence[str], support: str) -> Observed:
    """Return the needs of a shard for weights, given the tags of the model, and "all" or "observed"."""
    with LOCK:
        model = recipe.model(tags)
        corpus, terms = number_tags(model, shard.corpus, shard.terms, shard.partials)
        layout, data, states = layout_for(model, corpus, terms, shard.n_features, support), corpus.data, []
        for index, potential in enumerate(model.method.potentials.values()):
            if isinstance(potential, SupportPotential):
                potential.bind(data.encoded, index)
                states.append(potential.to_state())
    words = None
    if shard.words is not None and data.encoded.dictionary_ids is not None:
        labelled = (data.gold >= 0) & (data.encoded.dictionary_ids >= 0)
        pairs = data.encoded.dictionary_ids[labelled].astype(np.int64) * len(tags) + data.gold[labelled]
        pairs, counts = np.unique(pairs, return_counts=True)
        numbers, labels = np.divmod(pairs, len(tags))
        words = shard.words, numbers.astype(np.int32), labels.astype(np.int32), counts
    unigrams, bigrams = layout.unigrams, layout.bigrams
    places = [None if isinstance(rows, DenseRows) else cells(rows) for rows in (unigrams, bigrams)]
    small = layout._replace(unigrams=DenseRows(0, unigrams.width), bigrams=DenseRows(0, bigrams.width))
    return Observed(small, places, states, words)


def _objective(shard: Shard, recipe: Recipe, plan: Outline, n_threads: int) -> Objective:
    model = recipe.model(plan.tags)
    crf = plan.crf(model.method, (np.zeros(0, np.uint64),) * 2, None)
    if shard.ids is not None:
        blocks = zip((plan.layout.unigrams, plan.layout.bigrams), shard.ids, strict=True)
        own = [_weights_of(rows, ids) for rows, ids in blocks]
        shard.memory[OWN] = np.concatenate([*own, np.ones(len(crf.theta) - sum(map(len, own)), np.bool_)])
    corpus, term_corpora = number_tags(model, shard.corpus, shard.terms, shard.partials)
    terms, dictionary = list[Term](), plan.dictionary
    for term in [corpus_term(model, corpus.data), *further_terms(model, term_corpora)]:
        data = term.data
        if dictionary is not None and shard.words is not None and data.encoded.dictionary_ids is not None:
            words = dictionary.rows(shard.words)[data.encoded.dictionary_ids]
            data = data._replace(encoded=data.encoded._replace(dictionary_ids=words))
        terms.append(term._replace(data=data, sample=None))
    return Objective(
        crf.potential, terms, NoRegularizer(), n_total=plan.n_total, n_threads=n_threads, dictionary=dictionary
    )


def _weights_of(rows: WeightRows, ids: Ints) -> Bools:
    """Return which weights [size] belong to some rows."""
    is_used = np.zeros(rows.n_rows, np.bool_)
    is_used[ids[ids >= 0]] = True
    return np.repeat(is_used, rows.width if isinstance(rows, DenseRows) else np.diff(rows.ptr))


def name(shard: Shard, recipe: Recipe, numbers: Both) -> tuple[dict[int, str], dict[int, str]]:
    """Return the names of some features [F], numbers of the model, that a shard knows."""
    assert shard.ids is not None
    origins = Origins(shard.features, shard.strings, pipeline_of(recipe).vocab)
    names_of: tuple[dict[int, str], dict[int, str]] = ({}, {})
    for block, ids in enumerate(shard.ids):
        own = np.flatnonzero(np.isin(ids, numbers[block]))
        names = zip(ids[own].tolist(), origins.names(block, own), strict=True)
        names_of[block].update((number, text) for number, text in names if text is not None)
    return names_of


# On the driver


class Shards:
    """The texts of a training on the workers of a Dask cluster; implements `clusters.Remote` and `objective.ShardSums`.

    client (Client): Of `distributed`.
    facts (Mapping): Those of a run to continue; its number of shards gives the same result.
    code (str | None): See `Recipe`.
    made (Callable): Called with the numbers of shards that are encoded, and of all.
    n_shards (int): Number of shards; 0 for one for each thread, or more of large corpora.
    """

    def __init__(
        self, client: Any, facts: Mapping[str, str], code: str | None, made: Callable[[int, int], None]
    ) -> None:
        self._client, self._code, self._made, self.n_shards = client, code, made, int(facts.get(SHARDS, 0))
        self._cluster: ShardFutures | None = None

    @property
    def cluster(self) -> ShardFutures:
        """The shards.  RAISES ConfigError: If `initialize` has not encoded them."""
        if self._cluster is None:
            raise ConfigError("On a cluster, fit learns from what initialize has read there.")
        return self._cluster

    def optimizer(self, optimizer: Optimizer, component: str) -> Optimizer:
        """Return the optimizer; online ones are mixed.  RAISES ConfigError: If it does not work on a cluster."""
        if optimizer.online:
            mixed: Any = Mixed(optimizer)
            return mixed  # type: ignore[no-any-return]
        if "value_and_grad" not in optimizer.requires:
            raise ConfigError(
                f"Component {component!r}: {type(optimizer).__name__} does not work on a cluster, because it needs "
                "the tokens of single features. Use for example spacy_crfseq.LBFGS.v1 or spacy_crfseq.AdaGrad.v1."
            )
        return optimizer

    def sum(self, work: Work, theta: Floats) -> tuple[Any, ...]:
        """See `ShardSums.sum`."""
        return self.cluster.sum(Shard.work, theta, work, self._recipe, self._plan)

    def encode(
        self,
        model: DocModel,
        nlp: Language | None,
        examples: Iterable[Example],
        annotators: Sequence[Any],
        report: Callable[[str], None],
    ) -> RemoteTags:
        """Encode all parts on the workers, and merge the vocabularies."""
        method = model.method
        wrong = {
            "attributes that read labels of a first stage": model.first is not None,
            "max_features": bool(method.max_features),
            "a missing nlp": nlp is None,
        }
        if nlp is None or any(wrong.values()):
            what = next(what for what, is_wrong in wrong.items() if is_wrong)
            raise ConfigError(
                f"Component {model.name!r}: training on a cluster does not support {what}. Train it in one process."
            )
        self.optimizer(method.optimizer, model.name)
        names = [name for name, pipe in nlp.pipeline if any(pipe is annotator for annotator in annotators)]
        n_threads = sum(self._client.nthreads().values()) or 1
        parts, self.n_shards = corpora_of(nlp, method.each_term(model.name), self.n_shards, n_threads)
        n_shards = min(self.n_shards, len(parts.corpus))
        cluster = self._cluster = ShardFutures(self._client, n_shards, report)
        others = tuple(name for name in nlp.component_names if name not in names)
        stored = nlp.config.to_str(), nlp.to_bytes(exclude=others)
        self._recipe = cluster.share(Recipe(model.name, tuple(names), others, *stored, self._code))
        of_shards = _groups(parts.corpus, n_shards)
        terms_of_shards = {name: _groups(of_term, n_shards) for name, of_term in parts.terms.items()}

        def arguments(shard: int) -> tuple[Any, Parts]:
            terms = {name: groups[shard] for name, groups in terms_of_shards.items() if groups[shard]}
            return self._recipe, Parts(of_shards[shard], terms)

        cluster.make(encode, arguments, lambda n: self._made(n, n_shards))
        facts = cluster.each(describe, method.min_count > 1)
        merged = [_merged(facts, block, method.min_count) for block in (0, 1)]
        self._keys, self._templates = (merged[0][0], merged[1][0]), (merged[0][1], merged[1][1])
        for shard in facts:
            model.see(shard.seen)
        keys = cluster.share(self._keys)
        cluster.make(number, lambda shard: (keys,))
        size = np.sum([shard.size for shard in facts], axis=0)
        sizes = [size, *(size for shard in facts for size in shard.term_sizes.values())]
        self._n_sequences, self._n_total = int(size[2]), sum(int(of_corpus[2]) for of_corpus in sizes)
        if isinstance(examples, Corpus):
            examples.count(*size[:2].tolist())
        tags = [*chain.from_iterable(shard.tags.corpus for shard in facts)]
        of_terms = {name: [*chain.from_iterable(s.tags.terms.get(name, ()) for s in facts)] for name in parts.terms}
        return RemoteTags(tags, of_terms)

    def start(self, model: DocModel) -> None:
        """Begin with a model of zero weights for the features and tags of all shards."""
        tags, support = model.labels.tags, model.method.support
        if support == "auto":  # shards would decide by their own features
            widths = len(tags), len(tags) ** 2
            support = "all" if np.dot([*map(len, self._keys)], widths) <= layouts.MANY_WEIGHTS else "observed"
        observed = self.cluster.each(observe, self._recipe, tags, support)
        layout = observed[0].layout
        if any(vocabulary.layout.steps is None for vocabulary in observed):
            layout = layout._replace(steps=None)
        elif layout.steps is not None:
            layout = layout._replace(steps=np.logical_or.reduce([vocabulary.layout.steps for vocabulary in observed]))
        rows = list[WeightRows]()
        for places, keys, block in zip(
            zip(*(vocabulary.places for vocabulary in observed), strict=True), self._keys, layout[1:3], strict=True
        ):
            there = [place for place in places if place is not None]
            width = block.width
            rows.append(rows_of(there, len(keys), width) if there else DenseRows(len(keys), width))
        layout = layout._replace(unigrams=rows[0], bigrams=rows[1])
        states = [
            _state(model.name, states) for states in zip(*(vocabulary.states for vocabulary in observed), strict=True)
        ]
        dictionary = _dictionary(model, [vocabulary.words for vocabulary in observed if vocabulary.words is not None])
        plan = Outline(model.labels.tags, layout, dictionary, states, self._n_total)
        self._plan, crf = self.cluster.share(plan), plan.crf(model.method, self._keys, self._templates)
        model.start(crf, model.encoder_of(crf), self._n_sequences, names=[])

    def objective(self, model: DocModel, report: Callable[[str], None]) -> Objective:
        """Return the objective over all shards."""
        n_workers, n_shards = len(self._client.nthreads()), self.cluster.n_shards
        moved = 2 * n_workers * model.crf.theta.nbytes / 1e6  # parameters to each worker, a gradient from each
        what = f"{count_of(n_shards, 'shard')} on {count_of(n_workers, 'worker')}"
        report(f"{what}; a pass over them moves {moved:,.1f} MB")
        losses = [TermLoss(FIRST, bound(model, model.method.loss))]
        for name, term in model.method.each_term(model.name).items():
            losses += [TermLoss(name, bound(model, term.loss), term.weight)] if term.weight else []
        return Distributed(
            self, model.crf.potential, losses, model.method.regularizer,
            n_total=self._n_total, n_threads=model.method.n_threads,
        )  # fmt: skip

    def facts(self) -> dict[str, str]:
        """Return the facts that must be the same where a run continues."""
        return {SHARDS: str(self.n_shards)}

    def finish(self, model: DocModel) -> None:
        """Take the names of features from the shards, and release these."""
        crf, keep = model.crf, model.method.keep_names
        sizes = crf.layout.unigrams.n_rows, crf.layout.bigrams.n_rows
        numbers = (np.arange(sizes[0]), np.arange(sizes[1])) if keep else features_with_largest_weights(crf)
        names: tuple[dict[int, str], dict[int, str]] = ({}, {})
        for names_of_shard in self.cluster.each(name, self._recipe, numbers):
            for texts, more in zip(names, names_of_shard, strict=True):
                texts.update(more)
        if keep:
            blocks = zip(names, sizes, strict=True)
            model.name_features([texts.get(number, "") for texts, size in blocks for number in range(size)], ({}, {}))
        else:
            unigrams, bigrams = (
                {int(keys[number]): text for number, text in texts.items()}
                for texts, keys in zip(names, crf.keys, strict=True)
            )
            model.name_features([], (unigrams, bigrams))
        self.cluster.close()
        self._cluster = None


def _groups(parts: Sequence[ConfigPart], n: int) -> list[list[ConfigPart]]:
    """Return n groups of parts, of about equal size; none is empty if there are n parts."""
    sizes, steps = np.array([part.n_bytes for part in parts]) + 1, np.arange(n + 1)  # sizes may be unknown: 0
    ends = np.cumsum(sizes)
    bounds = np.searchsorted(ends - sizes / 2, ends[-1] * steps / n)  # by middles of parts
    if len(parts) >= n:
        bounds = np.minimum(np.maximum.accumulate(bounds - steps) + steps, len(parts) - n + steps)
    return [list(parts[bounds[i] : bounds[i + 1]]) for i in range(n)]


def _merged(facts: Sequence[Facts], block: int, least: int) -> tuple[Hashes, Numbers]:
    """Return the keys of the features of all shards that at least so many tokens have, and their templates."""
    index, templates, ids = HashIndex(), [], []
    for shard in facts:
        numbers, new = index.add(shard.keys[block])
        templates.append(shard.templates[block][new])
        ids.append(numbers)
    keys, owners = index.keys, np.concatenate(templates)
    if least <= 1:
        return keys, owners
    counts = np.zeros(len(keys), np.int64)
    for numbers, shard in zip(ids, facts, strict=True):
        counts[numbers] += shard.counts[block] if shard.counts else 0
    return keys[counts >= least], owners[counts >= least]


def _state(component: str, states: Sequence[Any]) -> Any:
    """Return the state of a potential for the texts of all shards."""
    if all(isinstance(state, np.ndarray) for state in states):
        return reduce(np.union1d, states)
    if any(state != states[0] for state in states):
        raise ConfigError(
            f"Component {component!r}: one of its potentials depends on the whole training text, and cannot be trained "
            "on a cluster. Train it in one process."
        )
    return states[0]


def _dictionary(model: DocModel, words: Sequence[tuple[Hashes, Ints, Ints, Offsets]]) -> TagDictionary | None:
    """Return the tag dictionary of all shards, given the `Observed.words` of each."""
    if not words:
        return None
    index, added = HashIndex(), []
    for hashes, numbers, labels, counts in words:
        added.append((index.add(hashes)[0][numbers], labels, counts))
    numbers, labels, counts = map(np.concatenate, zip(*added, strict=True))
    limits = model.method.tag_dictionary_size, model.method.tag_dictionary_min_count
    return make_dictionary(index.keys, numbers, labels, model.labels.constraints, *limits, counts)[0]
