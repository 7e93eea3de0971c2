"""Training on a cluster: parts of corpora are read and encoded on workers and stay there; the model is on the driver.

A shard numbers its features as it meets them.  Vocabularies are merged by keys, which are stable hashes, in the order
of the shards.  Then each shard has the weights of its own features, and their places among those of the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from itertools import chain
from threading import RLock
from typing import Any, NamedTuple, cast

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.training import Example
from thinc.api import Config

from .. import threads
from ..corpora.lines import Part
from ..errors import ConfigError
from ..evaluation.weights import features_with_largest_weights
from ..features.encoder import Encoder
from ..features.index import HashIndex
from ..model import LinearChainCRF
from ..potentials.layout import Layout
from ..potentials.rows import placed, taken
from ..potentials.tag_dictionary import TagDictionary, make_dictionary
from ..regularizers.none import NoRegularizer
from ..training.dataset import Dataset
from ..training.distributed import Distributed, Work
from ..training.fit import FitResult
from ..training.mixing import Mixed
from ..training.objective import Objective
from ..training.terms import Term
from ..types import Floats, Hashes, Ints, Numbers, Offsets, Optimizer, SupportPotential
from .build import layout_for
from .cluster import Cluster, Share
from .doc_model import DocModel
from .encode import EncodedCorpus
from .evaluator import Evaluator
from .examples import Corpus
from .feature_names import Origins
from .labels import PartialTable
from .session import Session
from .settings import TermSettings
from .terms import TermData, Texts, annotated, find_texts, reader_of
from .training import Collected, Training

TRAIN = "the training corpus"
SHARDS = "the number of shards"
"""Name of a fact of checkpoints, because the order in which shards are added up changes the last digits."""
PARTS, PART_BYTES, SHARD_BYTES = 8, 16 << 20, 32 << 20
"""Parts of a shard, at least; bytes of a part and of a shard, at most, of some ten bytes per token."""

MOST = 8
"""Shards of a thread, at most: each costs the scheduler a task in every iteration."""
TIGHT = 0.5
"""Share of a worker's memory beyond which it keeps no preparations for passes."""


class ConfigPart(NamedTuple):
    """A part of a corpus that a config names; None for all of it."""

    corpus: str
    part: Part | None

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


def corpora_of(
    nlp: Language, settings: Mapping[str, TermSettings], n_shards: int, n_threads: int
) -> tuple[dict[str, list[ConfigPart]], int]:
    """Return the parts of the corpora of a config, that of the training and those of terms, and a number of shards.

    A reader without the methods `parts` and `part`, such as one of a user, is one part.
    n_shards (int): The number to return; 0 for one that suits the size and the threads.
    """
    names = {TRAIN: str(nlp.config.interpolate()["training"]["train_corpus"])}
    names |= {name: one.corpus for name, one in settings.items() if one.corpus is not None}
    found: dict[str, list[ConfigPart]] = {}
    for name, corpus in names.items():
        reader: Any = reader_of("[training]", corpus, nlp)
        if not hasattr(reader, "parts"):
            found[name], n_shards = [ConfigPart(corpus, None)], n_shards or n_threads
            continue
        whole = sum(ConfigPart(corpus, part).n_bytes for part in reader.parts(0))
        n_shards = n_shards or n_threads * min(MOST, -(-max(1, whole) // (n_threads * SHARD_BYTES)))
        parts = reader.parts(min(PART_BYTES, whole // (PARTS * n_shards) + 1))
        # workers may have another working directory
        found[name] = [ConfigPart(corpus, part and part._replace(path=part.path.absolute())) for part in parts]
    return found, n_shards


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

    @property
    def nlp(self) -> Language:
        """The pipeline of this process."""
        return _pipeline(self)

    @property
    def model(self) -> DocModel:
        """The model of the component; it has no weights."""
        found: DocModel = self.nlp.get_pipe(self.component).doc_model  # type: ignore[attr-defined]
        return found

    def training(self, tags: Sequence[str], partials: PartialTable) -> Training:
        """Return the training of the component with these tags."""
        model = self.model
        model.set_tags(tags)
        model.partials = partials
        return Training(model)


@lru_cache(maxsize=4)
def _pipeline(recipe: Recipe) -> Language:
    if recipe.code is not None:
        util.import_file("python_code", recipe.code)
    config = Config().from_str(recipe.config, interpolate=False)
    return util.load_model_from_config(config, auto_fill=True).from_bytes(recipe.data, exclude=recipe.others)


def make_recipe(nlp: Language, component: str, annotators: Sequence[str], code: str | None) -> Recipe:
    """Return the recipe of a pipeline."""
    others = tuple(name for name in nlp.component_names if name not in annotators)
    return Recipe(component, tuple(annotators), others, nlp.config.to_str(), nlp.to_bytes(exclude=others), code)


class Facts(NamedTuple):
    """What the driver needs to know of a shard.

    keys, templates, counts: Of the features of both blocks, in the order of the shard; counts in tokens.
    corpora (dict): By the names of terms.
    """

    keys: tuple[Hashes, Hashes]
    templates: tuple[Numbers, Numbers]
    counts: tuple[Offsets, Offsets] | None
    corpora: dict[str, CorpusFacts]


class CorpusFacts(NamedTuple):
    """See `Facts`."""

    n_docs: int
    n_tokens: int
    n_sequences: int
    tags: list[str]
    absent: list[str]
    unset: list[str]


class Observed(NamedTuple):
    """What a shard needs weights for, in its own numbers.

    states: Those of the potentials that depend on the training text.
    words: Hashes of words, and of each pair of word and label the numbers of both and its number of tokens.
    """

    layout: Layout
    states: list[Any]
    words: tuple[Hashes, Ints, Ints, Offsets] | None


class Own(NamedTuple):
    """The part of the model that a shard has.

    ids: Numbers of its features of both blocks in the model, -1 for none.
    places: [D of the shard] places of its weights in the parameters of the model.
    size: D of the model.
    n_total: Sequences in all shards.
    """

    tags: Sequence[str]
    layout: Layout
    ids: tuple[Ints, Ints]
    places: Offsets
    size: int
    dictionary: TagDictionary | None
    states: list[Any]
    n_total: int


@dataclass
class Shard:
    """A part of the training set on a worker; `objective` is made where it is needed.

    found (dict): By the names of terms, the texts as they were compiled.
    memory (dict): What work keeps between calls.
    """

    encoder: Encoder
    found: dict[str, EncodedCorpus]
    partials: PartialTable
    strings: dict[int, str]
    own: Own | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    objective: Objective | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "objective": None}

    def __sizeof__(self) -> int:
        own = 0 if self.own is None else self.own.places.nbytes
        texts = [one.data.encoded for one in self.found.values()]
        return own + sum(ids.n_bytes for text in texts for ids in (text.unigrams, text.bigrams))

    def terms(self, training: Training) -> list[TermData]:
        """Return the terms that this shard has texts of, without the training corpus."""
        return [training.numbered(name, one) for name, one in self.found.items() if name != TRAIN]


def encode(shard: None, recipe: Recipe, parts: Mapping[str, Sequence[ConfigPart]]) -> Shard:
    """Return parts of corpora, by the names of terms, as numbers.  RAISES CrfError: If one cannot be read."""
    with LOCK:
        nlp, training = recipe.nlp, Training(recipe.model)
        training.annotators = [nlp.get_pipe(name) for name in recipe.annotators]
        settings = training.settings
        texts: dict[str, Texts] = {name: partial(_read, nlp, each) for name, each in parts.items() if name != TRAIN}
        training.texts = find_texts(recipe.component, settings, texts, None)
        readers = [part(nlp) for part in parts[TRAIN]]
        fast = not training.annotators and all(hasattr(reader, "portions") for reader in readers)
        portions = partial(_portions, nlp, readers) if fast else None
        found = training.collect(Corpus(partial(_read, nlp, parts[TRAIN], training.annotators), False, None, portions))
        found.encoder.end()
        return Shard(found.encoder, {TRAIN: found.found, **found.terms}, training.model.partials, found.strings or {})


def _read(nlp: Language, parts: Sequence[ConfigPart], annotators: Sequence[Any] = ()) -> Iterator[Example]:
    readers = (part(nlp) for part in parts)
    examples: Iterable[Example] = chain.from_iterable(getattr(one, "stream", one)(nlp) for one in readers)
    return iter(reduce(lambda each, pipe: annotated(pipe, each), annotators, examples))


def _portions(nlp: Language, readers: Sequence[Any], *given: Any) -> Iterator[Any]:
    return chain.from_iterable(reader.portions(nlp, *given) for reader in readers)


def describe(shard: Shard, count: bool) -> Facts:
    """Return the facts about a shard, with counts of its features if these are needed."""
    blocks, counts = (shard.encoder.unigrams, shard.encoder.bigrams), None
    if count:
        texts = [one.known for one in shard.found.values()]
        counts = (
            reduce(np.add, [blocks[0].count(text.unigrams) for text in texts]),
            reduce(np.add, [blocks[1].count(text.bigrams) for text in texts]),
        )
    corpora = {
        name: CorpusFacts(one.n_docs, one.data.encoded.n_tokens, one.data.n_sequences, one.tags, one.absent, one.unset)
        for name, one in shard.found.items()
    }
    keys, templates = [block.index.keys for block in blocks], [block.template_of for block in blocks]
    return Facts((keys[0], keys[1]), (templates[0], templates[1]), counts, corpora)


def observe(shard: Shard, recipe: Recipe, tags: Sequence[str]) -> Observed:
    """Return what a shard needs weights for, given the tags of the model."""
    with LOCK:
        training = recipe.training(tags, shard.partials)
        method, found = training.model.method, shard.found[TRAIN]
        data = training.relabelled(found)
        known = data._replace(encoded=found.known)
        layout = layout_for(method, shard.encoder, known, len(tags), shard.terms(training))
        states = []
        for number, one in enumerate(method.potentials.values()):
            if isinstance(one, SupportPotential):
                one.bind(found.data.encoded, number)
                states.append(one.to_state())
    words = None
    if shard.encoder.words is not None and data.encoded.words is not None:
        labelled = (data.gold >= 0) & (data.encoded.words >= 0)
        pairs = data.encoded.words[labelled].astype(np.int64) * len(tags) + data.gold[labelled]
        pairs, counts = np.unique(pairs, return_counts=True)
        numbers, labels = np.divmod(pairs, len(tags))
        words = shard.encoder.words.keys, numbers.astype(np.int32), labels.astype(np.int32), counts
    return Observed(layout, states, words)


def install(shard: Shard, own: Own) -> Shard:
    """Return a shard with its part of the model."""
    shard.encoder.unigrams.index = shard.encoder.bigrams.index = HashIndex()  # its keys are no longer needed
    return Shard(shard.encoder, shard.found, shard.partials, shard.strings, own)


def work_on(shard: Shard, theta: Floats, work: Work, recipe: Recipe) -> tuple[Any, ...]:
    """Return the result of `work` at theta [D of the model], with arrays of parameters as long as theta."""
    own = shard.own
    assert own is not None
    with LOCK:
        if shard.objective is None:
            shard.objective = _objective(shard, own, recipe)
    part = theta[own.places]

    def spread(found: Any) -> Any:
        if not isinstance(found, np.ndarray) or found.shape != part.shape:
            return found
        whole = np.zeros(own.size, found.dtype)
        whole[own.places] = found
        return whole

    found = tuple(map(spread, work(shard.objective, part, shard.memory)))
    if _is_short_of_memory():
        shard.objective = None  # it takes two thirds of a shard, and less time to make than to read from disk
    return found


def _is_short_of_memory() -> bool:
    from distributed import get_worker

    worker: Any = get_worker()
    limit = getattr(getattr(worker, "memory_manager", None), "memory_limit", None) or 0
    return bool(0 < TIGHT * limit < worker.monitor.get_process_memory())


def _objective(shard: Shard, own: Own, recipe: Recipe) -> Objective:
    from distributed import get_worker

    training = recipe.training(own.tags, shard.partials)
    method, index = training.model.method, None if own.dictionary is None else own.dictionary.word_index()
    added = tuple(method.potentials.values())
    for one, state in zip([one for one in added if isinstance(one, SupportPotential)], own.states, strict=True):
        one.from_state(state)
    nothing = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    zeros = np.zeros(len(own.places), method.precision)
    crf = LinearChainCRF(own.tags, own.layout, zeros, nothing, own.dictionary, None, added)

    def with_words(data: Dataset) -> Dataset:
        words, known = data.encoded.words, shard.encoder.words
        if words is None or known is None or index is None:
            return data
        places = np.append(index.find(known.keys)[0], np.int32(-1))  # the last is for -1
        return data._replace(encoded=data.encoded._replace(words=places[words]))

    first = Term(training.relabelled(shard.found[TRAIN]), method.loss, name=TRAIN)
    terms = [first, *(one.term() for one in shard.terms(training) if one.settings.weight)]
    return Objective(
        crf.potential,
        [term._replace(data=with_words(term.data), sample=None, loss=training.bound(term.loss)) for term in terms],
        NoRegularizer(),
        n_total=own.n_total,
        n_threads=get_worker().state.nthreads,
        dictionary=own.dictionary,
    )


def name(shard: Shard, recipe: Recipe, numbers: tuple[Offsets, Offsets]) -> tuple[dict[int, str], dict[int, str]]:
    """Return the names of some features [F], numbers of the model, that a shard knows."""
    assert shard.own is not None
    encoder = copy(shard.encoder)  # from which the origins of features can be moved
    encoder.unigrams, encoder.bigrams = copy(encoder.unigrams), copy(encoder.bigrams)
    origins = Origins(encoder, shard.strings, recipe.nlp.vocab)
    found: tuple[dict[int, str], dict[int, str]] = ({}, {})
    for block, ids in enumerate(shard.own.ids):
        mine = np.flatnonzero(np.isin(ids, numbers[block]))
        names = zip(ids[mine].tolist(), origins.names(block, mine), strict=True)
        found[block].update((number, text) for number, text in names if text is not None)
    return found


# On the driver


class DistributedTraining(Training):
    """Training on the workers of a Dask cluster.

    client (Client): Of `distributed`.
    n_shards (int): Number of shards, the same for the same result; 0 for one for each thread, or more of large corpora.
    code (str | None): See `Recipe`.
    made (Callable): Called with the numbers of shards that are encoded, and of all.
    """

    def __init__(
        self,
        model: DocModel,
        client: Any,
        *,
        n_shards: int = 0,
        code: str | None = None,
        made: Callable[[int, int], None] = lambda n, of: None,
    ) -> None:
        super().__init__(model)
        self._client, self._code, self._made = client, code, made
        self._parts: dict[str, list[ConfigPart]] = {}
        self.n_shards = n_shards
        self._nlp: Language | None = None
        self._cluster: Cluster | None = None

    def optimizer(self, seed: int | None = None) -> Optimizer:
        """Return the optimizer of the config; online ones are mixed.

        RAISES ConfigError: If it does not work on a cluster.
        """
        found = super().optimizer(seed)
        if found.online:
            return cast(Optimizer, Mixed(found))
        if "value_and_grad" not in found.requires:
            raise ConfigError(
                f"Component {self.model.name!r}: {type(found).__name__} does not work on a cluster, because it needs "
                "the tokens of single features. Use for example spacy_crfseq.LBFGS.v1 or spacy_crfseq.AdaGrad.v1."
            )
        return found

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        labels: Sequence[str] | None,
        nlp: Language | None,
        terms: Mapping[str, Texts] | None = None,
    ) -> None:
        """Do what `Training.initialize` does, on the cluster."""
        method, wrong = self.model.method, ""
        if self.model.first is not None:
            wrong = "attributes that read labels of a first stage"
        elif method.max_features:
            wrong = "max_features"
        elif self.source is not None:
            wrong = "a trained model to continue from"
        if nlp is None or wrong:
            raise ConfigError(
                f"Component {self.model.name!r}: training on a cluster does not support {wrong or 'a missing nlp'}. "
                "Train it in one process."
            )
        self.optimizer()
        self._nlp = nlp
        super().initialize(get_examples, labels, nlp, terms)

    def sum(self, work: Work, theta: Floats) -> tuple[Any, ...]:
        """See `training.distributed.Shards`."""
        assert self._cluster is not None
        return self._cluster.sum(work_on, theta, work, self._recipe)

    def collect(self, examples: Iterable[Example]) -> Collected:
        """Encode all parts on the workers, and merge the vocabularies."""
        model, nlp = self.model, self._nlp
        assert nlp is not None
        names = [name for name, pipe in nlp.pipeline if any(pipe is one for one in self.annotators)]
        n_threads = sum(self._client.nthreads().values()) or 1
        self._parts, self.n_shards = corpora_of(nlp, self.settings, self.n_shards, n_threads)
        n_shards = min(self.n_shards, len(self._parts[TRAIN]))
        self._cluster = Cluster(self._client, n_shards, self.report)
        self._recipe = Share(make_recipe(nlp, model.name, names, self._code))
        self._cluster.make(encode, self._shard, lambda n: self._made(n, n_shards))
        facts = self._cluster.each(describe, model.method.min_count > 1)
        self._merge(facts)
        corpora = {name: _joined([one.corpora[name] for one in facts if name in one.corpora]) for name in self._parts}
        first = corpora.pop(TRAIN)
        self._n_sequences = first.n_sequences, sum(one.n_sequences for one in corpora.values())
        if isinstance(examples, Corpus):
            examples.count(first.n_docs, first.n_tokens)
        # the texts are in the shards, and `start` does not ask for them
        return Collected(
            model.new_encoder(), cast(EncodedCorpus, first), cast("dict[str, EncodedCorpus]", corpora), None
        )

    def _shard(self, number: int) -> tuple[Any, dict[str, list[ConfigPart]]]:
        """Return the arguments of `encode` for a shard."""
        assert self._cluster is not None
        found = {}
        for name, parts in self._parts.items():
            bounds = _bounds([one.n_bytes for one in parts], self._cluster.n_shards)
            if name == TRAIN or bounds[number] < bounds[number + 1]:
                found[name] = parts[bounds[number] : bounds[number + 1]]
        return self._recipe, found

    def _merge(self, facts: Sequence[Facts]) -> None:
        """Number the features of all shards."""
        least = self.model.method.min_count
        self._keys, self._templates, self._ids = [], [], []
        for block in (0, 1):
            index, templates, ids = HashIndex(), [], []
            for one in facts:
                numbers, new = index.add(one.keys[block])
                templates.append(one.templates[block][new])
                ids.append(numbers)
            keys, owners = index.keys, np.concatenate(templates)
            if least > 1:
                counts = np.zeros(len(keys), np.int64)
                for numbers, one in zip(ids, facts, strict=True):
                    counts[numbers] += one.counts[block] if one.counts else 0
                kept = counts >= least
                places = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
                keys, owners, ids = keys[kept], owners[kept], [places[numbers] for numbers in ids]
            self._keys.append(keys)
            self._templates.append(owners)
            self._ids.append(ids)

    def start(self, collected: Collected) -> LinearChainCRF:
        """Begin with a model of zero weights for the features and tags of all shards."""
        model, cluster, tags = self.model, self._cluster, self.model.labels.tags
        assert cluster is not None
        observed = cluster.each(observe, self._recipe, tags)
        sizes = [len(keys) for keys in self._keys]
        layouts = (
            one.layout._replace(
                unigrams=placed(one.layout.unigrams, self._ids[0][number], sizes[0]),
                bigrams=placed(one.layout.bigrams, self._ids[1][number], sizes[1]),
            )
            for number, one in enumerate(observed)
        )
        layout = reduce(lambda one, other: one.united(other), layouts)
        states = [_state(model.name, each) for each in zip(*(one.states for one in observed), strict=True)]
        added = tuple(model.method.potentials.values())
        for one, state in zip([one for one in added if isinstance(one, SupportPotential)], states, strict=True):
            one.from_state(state)
        dictionary = self._dictionary([one.words for one in observed if one.words is not None])
        theta = np.zeros(layout.size + sum(one.size(len(tags)) for one in added), model.method.precision)
        keys, templates = (self._keys[0], self._keys[1]), (self._templates[0], self._templates[1])
        crf = LinearChainCRF(tags, layout, theta, keys, dictionary, templates, added)

        def own(number: int) -> tuple[Any]:
            ids = self._ids[0][number], self._ids[1][number]
            unigrams, places = taken(layout.unigrams, ids[0])
            bigrams, others = taken(layout.bigrams, ids[1])
            shared = np.arange(layout.unigrams.size + layout.bigrams.size, len(theta))
            places = np.concatenate([places, layout.unigrams.size + others, shared])
            part = layout._replace(unigrams=unigrams, bigrams=bigrams)
            places = places.astype(np.min_scalar_type(-len(theta)), copy=False)
            known = Own(tags, part, ids, places, len(theta), dictionary, states, sum(self._n_sequences))
            return (cluster.send(number, known),)

        cluster.make(install, own)
        model.start(crf, model.encoder_of(crf), Session(self.optimizer(), n_total=self._n_sequences[0]), [])
        return crf

    def _facts(self, objective: Objective) -> dict[str, str]:
        return {**super()._facts(objective), SHARDS: str(self.n_shards)}

    def _dictionary(self, words: Sequence[tuple[Hashes, Ints, Ints, Offsets]]) -> TagDictionary | None:
        method, constraints = self.model.method, self.model.labels.constraints
        if not words:
            return None
        index, each = HashIndex(), []
        for hashes, numbers, labels, counts in words:
            each.append((index.add(hashes)[0][numbers], labels, counts))
        numbers, labels, counts = map(np.concatenate, zip(*each, strict=True))
        limits = method.tag_dictionary_size, method.tag_dictionary_min_count
        return make_dictionary(index.keys, numbers, labels, constraints, *limits, counts)[0]

    @contextmanager
    def training_on(
        self,
        examples: Iterable[Example] | None = None,
        dev: Iterable[Example] | None = None,
        terms: Mapping[str, Texts] | None = None,
    ) -> Iterator[tuple[Objective, Evaluator | None]]:
        """Yield the objective over all shards, and the score on `dev` as a function of parameters."""
        model = self.model
        if examples is not None or terms or self._cluster is None:
            raise ConfigError(
                f"Component {model.name!r}: on a cluster, fit learns from what initialize has read there."
            )
        nothing = cast(Dataset, None)  # the data are in the shards
        each = [Term(nothing, model.method.loss, name=TRAIN)]
        each += [Term(nothing, one.loss, one.weight, name=name) for name, one in self.settings.items() if one.weight]
        with model.lock:
            model.encoder.pinned = True
            evaluate = self.evaluator(list(dev)) if dev is not None else None
        n_workers, n_shards = len(self._client.nthreads()), self._cluster.n_shards
        moved = 2 * n_workers * model.crf.theta.nbytes / 1e6  # parameters to each worker, a gradient from each
        self.report(f"{n_shards} shards on {n_workers} workers; a pass over them moves {moved:,.1f} MB")
        try:
            yield (
                Distributed(
                    self, model.crf.potential, [term._replace(loss=self.bound(term.loss)) for term in each],
                    model.method.regularizer, n_total=sum(self._n_sequences), n_threads=model.method.n_threads,
                ),
                evaluate,
            )  # fmt: skip
        finally:
            self._release()

    def fit(self, *given: Any, **settings: Any) -> FitResult:
        """Do what `Training.fit` does, then take the names of features from the shards, and release these."""
        result = super().fit(*given, **settings)
        assert self._cluster is not None
        crf, keep = self.model.crf, self.model.method.keep_names
        sizes = crf.layout.unigrams.n_rows, crf.layout.bigrams.n_rows
        numbers = (np.arange(sizes[0]), np.arange(sizes[1])) if keep else features_with_largest_weights(crf)
        names: tuple[dict[int, str], dict[int, str]] = ({}, {})
        for found in self._cluster.each(name, self._recipe, numbers):
            for known, more in zip(names, found, strict=True):
                known.update(more)
        if keep:
            each = zip(names, sizes, strict=True)
            every = [known.get(number, "") for known, size in each for number in range(size)]
            self.model.name_features(every, ({}, {}))
        else:
            unigrams, bigrams = (
                {int(keys[number]): text for number, text in known.items()}
                for known, keys in zip(names, crf.keys, strict=True)
            )
            self.model.name_features([], (unigrams, bigrams))
        self._cluster.close()
        self._cluster = None
        return result


def _bounds(sizes: Sequence[int], n: int) -> Ints:
    """Return the bounds [n + 1] of n groups of parts, of about equal size; none is empty if there are n parts."""
    each, steps = np.asarray(sizes) + 1, np.arange(n + 1)  # sizes may be unknown: 0
    ends = np.cumsum(each)
    bounds: Ints = np.searchsorted(ends - each / 2, ends[-1] * steps / n).astype(np.int32)  # by middles of parts
    if len(sizes) >= n:
        bounds[:] = np.minimum(np.maximum.accumulate(bounds - steps) + steps, len(sizes) - n + steps)
    return bounds


def _joined(parts: Sequence[CorpusFacts]) -> CorpusFacts:
    """Return the facts about a corpus, of which these are parts."""
    tags, absent, unset = (
        list(dict.fromkeys(chain.from_iterable(each))) for each in list(zip(*parts, strict=True))[3:]
    )
    return CorpusFacts(
        sum(one.n_docs for one in parts),
        sum(one.n_tokens for one in parts),
        sum(one.n_sequences for one in parts),
        tags,
        [name for name in absent if all(name in one.absent for one in parts)],
        [name for name in unset if all(name in one.unset for one in parts)],
    )


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
