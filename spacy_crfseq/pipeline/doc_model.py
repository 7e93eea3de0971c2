"""The model of a component: its labels, features and weights, and how they read Docs.

A prediction sees none of this, but the value `Trained` that `DocModel.current` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from threading import RLock
from typing import Any, Protocol

import numpy as np
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model

from .. import threads
from ..errors import ConfigError
from ..features.encoded import Encoded
from ..features.encoder import FrozenEncoder, GrowingEncoder, KnownFeatures, Lexicon, new_lexicon
from ..features.index import HashIndex
from ..features.protocol import ReadingAttributes
from ..features.sets import FeatureSet, columns_read
from ..features.templates import column_names, lexical_names
from ..model import LinearChainCRF
from ..types import Floats, LearnedDecoder, NetworkPotential, OccurrenceRules
from ..weights_file import weights_to_bytes
from .cfg import UNCALIBRATED
from .feature_names import MAX_STRINGS, FeatureReader, LargestNames, Origins, names_left
from .labels import LabelSet
from .prediction import DocColumns, DocReader, Trained, VocabInUse, lexeme_reader
from .settings import Method
from .tasks import Annotation

MOST_BITS = 30
"""Bits of rounded weights after the binary point; those of float32 have fewer."""


class WeightsInTraining(Protocol):
    """Weights that a training changes in steps, between which the model predicts.

    n_sequences, seen_all: See `DocModel`; they count what this training has met.
    """

    n_sequences: int
    seen_all: bool

    def newer(self) -> Floats | None:
        """Return the parameters [D] if they have changed since the last call."""


class DocModel:
    """The model of a component; without features and weights until it is trained or loaded.

    method (Method): How the component models and learns; replaced by `use_method`.
    networks (dict): The neural networks among the potentials, by the numbers of their inputs.
    cfg (dict[str, Any]): Settings of the component; those that were fitted to the weights are stored with them.
    vocab_in_use (VocabInUse): Where new words are looked up.
    feature_names (list[str]): Readable names of both blocks' features, empty where they were not kept.
    show (Callable): Called with the thinc model that spaCy's tools see: a view of the weights, made anew when their
        sizes change.
    lock (RLock): Held while tables grow that threads share.
    first (DocModel | None): The first stage, if attributes read its labels; without weights, they have no values.
    """

    def __init__(
        self,
        vocab: Vocab,
        name: str,
        annotation: Annotation,
        method: Method,
        cfg: dict[str, Any],
        show: Callable[[Model[Any, Any]], None],
    ) -> None:
        self.vocab, self.name, self.annotation, self.cfg = vocab, name, annotation, cfg
        self.first: DocModel | None = None
        self.use_method(method)
        self.labels = LabelSet(annotation, name)
        self.feature_names: list[str] = []
        self._largest: LargestNames | Origins = ({}, {})  # of the features with the largest weights, or their origins
        self._n_sequences, self._seen_all = 0, False
        self._run: WeightsInTraining | None = None
        self._show = show
        self._make_thinc()
        self.lock = threads.surviving(RLock())
        self._crf: LinearChainCRF | None = None
        self._encoder: FrozenEncoder | None = None
        self._n_seen = 0  # words that plug-ins had seen when the encoder began with its lexicon
        self.vocab_in_use = VocabInUse(vocab)

    def use_method(self, method: Method) -> None:
        """Model and learn in this way from now on."""
        self.method, potentials = method, enumerate(method.potentials.values())
        self.networks = {number: plugin for number, plugin in potentials if isinstance(plugin, NetworkPotential)}
        self._features: FeatureSet | None = None
        self._reading = {
            name: plugin
            for name, plugin in method.attributes.items()
            if isinstance(plugin, ReadingAttributes) and plugin.seen is not None
        }
        first = method.first_stage()
        if first is None:
            self.first = None
        elif self.first is None:
            self.first = self.new_first()
        else:
            self.first.use_method(first._replace(potentials=self.first.method.potentials))

    def new_first(self) -> DocModel:
        """Return an untrained first stage; some attributes read its labels."""
        method = self.method.first_stage()
        assert method is not None
        return self._like(method)

    def new_rehearsal(self) -> DocModel:
        """Return an untrained model that learns as this one does, for parts of a corpus, see `Method.rehearsal`."""
        return self._like(self.method.rehearsal())

    def _like(self, method: Method) -> DocModel:
        return DocModel(self.vocab, self.name, self.annotation, method, dict(self.cfg), lambda model: None)

    def current(self) -> Trained:
        """Return the model as it is now, as a prediction needs it.

        RAISES ConfigError: If the component has neither been trained nor loaded.
        """
        self.sync()
        crf, encoder = self.trained()
        fitted = self.cfg["temperature"], self.cfg["calibration"], self.cfg["cover"]
        return Trained(self.reader(), self.method, crf, encoder, *fitted, self.vocab_in_use, self.lock)

    def reader(self, strings: dict[int, str] | None = None) -> DocReader:
        """Return how the model reads Docs; `strings` get the values of features while an encoder collects them."""
        features, potentials = self._features or self.features, self.method.potentials
        if strings is not None and len(strings) > MAX_STRINGS and not self.method.keep_names:
            strings = None
        first = self.first.current() if self.first is not None and self.first.has_weights else None
        return DocReader(self.labels, features, potentials, first, {}, strings)

    @property
    def features(self) -> FeatureSet:
        """The features of the method, with those of its attribute plug-ins."""
        if self._features is None:
            self._features = self.method.feature_set()
        return self._features

    @property
    def rules(self) -> OccurrenceRules | None:
        """The rules of the method on occurrences of labels; ConfigError if they name labels that are not there."""
        return self.labels.rules(self.method.once, self.method.order)

    def check_rules(self) -> None:
        """RAISES ConfigError: If the rules of the method name labels that the model does not have."""
        if self.labels.tags:
            self.labels.rules(self.method.once, self.method.order)

    @property
    def n_sequences(self) -> int:
        """The number of sequences of the training set, as far as it is known; 0 before training."""
        return self._n_sequences if self._run is None else self._run.n_sequences

    @property
    def seen_all(self) -> bool:
        """Whether the optimizer has visited the whole training set, so that weights of zero stay zero."""
        return self._seen_all or (self._run is not None and self._run.seen_all)

    @property
    def has_weights(self) -> bool:
        """Whether there is a model, initialized, trained or loaded."""
        return self._crf is not None

    @property
    def crf(self) -> LinearChainCRF:
        """The current weights; errors as in `trained`."""
        self.sync()
        return self.trained()[0]

    @property
    def encoder(self) -> FrozenEncoder:
        """The table of features; errors as in `trained`."""
        return self.trained()[1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Token columns that templates read, those of its encoders."""
        return column_names(*self.features.plans())

    @property
    def read_by_functions(self) -> frozenset[str]:
        """Token columns that token functions read."""
        return frozenset(chain.from_iterable(map(columns_read, self.features.token_functions.values())))

    @property
    def reads_docs(self) -> bool:
        """Whether it reads more of Docs than words and token columns, or their vocab is not its own."""
        of_docs = self.first is not None or self.features.set_names or self.method.potentials
        return bool(of_docs) or self.vocab_in_use.vocab is not self.vocab

    @property
    def n_active(self) -> int:
        """The number of nonzero weights."""
        return int(np.count_nonzero(self.crf.theta))

    def trained(self) -> tuple[LinearChainCRF, FrozenEncoder]:
        """Return the weights, without those of a training run since the last `sync`, and the encoder.

        RAISES ConfigError: If the component has neither been trained nor loaded.
        """
        if self._crf is None or self._encoder is None:
            raise ConfigError(
                f"Component {self.name!r} has no model yet. Train it (nlp.initialize, then its fit(); or "
                "'python -m spacy crfseq fit'), or load a trained pipeline with spacy.load."
            )
        if self._reading and self._n_seen != (n_seen := sum(map(len, self.seen.values()))):
            self._encoder, self._n_seen = self._encoder.with_lexicon(self.lexicon()), n_seen
        return self._crf, self._encoder

    @property
    def seen(self) -> Mapping[str, AbstractSet[int]]:
        """The words that attributes have seen in training texts, by their blocks, see `ReadingAttributes`."""
        return {name: plugin.seen or set() for name, plugin in self._reading.items()}

    def see(self, seen: Mapping[str, AbstractSet[int]]) -> None:
        """Let attributes see the words that those of another model have seen."""
        for name in seen.keys() & self._reading.keys():
            self._reading[name].see(seen[name])

    def forget(self) -> None:
        """Let attributes begin without words, except those of a stored model."""
        for plugin in self._reading.values():
            plugin.forget()

    def refuse_networks(self, what: str, advice: str) -> None:
        """RAISES ConfigError: If scores come from a neural network, which the caller, called `what`, cannot train."""
        if self.networks:
            raise ConfigError(
                f"Component {self.name!r}: scores come from a neural network, which {what} cannot train. {advice}"
            )

    # Labels and weights

    def set_tags(self, tags: Iterable[str]) -> None:
        """Replace the tags."""
        labels = LabelSet(self.annotation, self.name, tags)
        self.annotation.prepare(self.vocab, labels.tags)
        self.labels = labels

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add tags; a trained model gets weights of zero for them."""
        self.sync()
        self.set_tags([*self.labels.tags, *tags])
        if self._crf is not None:
            for network in self.networks.values():
                network.grow(len(self.labels.tags))
            self._use(self._crf.with_labels(self.labels.tags, self.method.transitions))
            self._seen_all = False

    def start(
        self,
        crf: LinearChainCRF,
        encoder: FrozenEncoder,
        n_sequences: int = 0,
        *,
        seen_all: bool = False,
        names: list[str] | Origins | None = None,
        largest: LargestNames | None = None,
        first: DocModel | None = None,
    ) -> None:
        """Start with new weights for the tags that were set.

        names (list[str] | Origins | None): The names of all features, or what they can be made of.
        first (DocModel | None): A first stage to use from now on; None to keep the present one.
        """
        if first is not None:
            self.first = first
        self._encoder, self._n_sequences, self._seen_all, self._run = encoder, n_sequences, seen_all, None
        self._use(crf)
        if isinstance(names, Origins):
            self._largest, names = names, names.all_names() if self.method.keep_names else None
        else:
            self._largest = largest or ({}, {})
        self.feature_names = names or []

    def name_features(self, names: list[str], largest: LargestNames) -> None:
        """Use these names of all features, and of those with the largest weights."""
        self.feature_names, self._largest = names, largest

    def _use(self, crf: LinearChainCRF) -> None:
        if self._crf is not None and any(x.shape != y.shape for x, y in zip(crf.views, self._crf.views, strict=True)):
            self._make_thinc()  # thinc lets no model with parameters change its size
        self._crf, model, n_labels = crf, self._thinc, len(crf.labels)
        if model.has_dim("nO") is None or model.get_dim("nO") != n_labels:
            model.set_dim("nO", n_labels, force=True)
        for name, values in crf.views._asdict().items():
            model.set_param(name, values)  # views of the same memory

    def _make_thinc(self) -> None:
        """Make the thinc model for spaCy's tools, from Docs to emission scores, one array [tokens, L] per Doc.

        White space has zeros.
        """

        def forward(model: Any, docs: list[Doc], is_train: bool) -> tuple[list[Floats], Callable[..., Any]]:
            return self._emissions(docs), lambda d_scores: []

        layers = [network.model for network in self.networks.values()]
        self._thinc: Model[Any, Any] = Model("linear_chain_crf", forward, dims={"nO": None}, layers=layers)
        if len(layers) == 1 and layers[0].has_ref("tok2vec"):  # for `spacy debug model` and `spacy pretrain`
            self._thinc.set_ref("tok2vec", layers[0].get_ref("tok2vec"))
        self._show(self._thinc)

    def follow(self, run: WeightsInTraining | None) -> None:
        """Predict with the weights that a training has at the time; None: with those that it has now."""
        self.sync()
        self._n_sequences, self._seen_all, self._run = self.n_sequences, self.seen_all, run

    def sync(self) -> None:
        """Take the weights that the training has now."""
        if self._run is not None and (theta := self._run.newer()) is not None:
            self._set_parameters(theta)
            if isinstance(decoder := self.method.decoder, LearnedDecoder):
                decoder.adapt(None)  # it was by the weights of the model that was saved last

    def set_parameters(self, theta: Floats, n_sequences: int | None = None) -> None:
        """Predict with these parameters [D] from now on; a calibration fitted to earlier ones is reset.

        n_sequences (int | None): How many sequences they were learnt from; None to keep the number.
        """
        self._set_parameters(theta)
        self._seen_all = True
        if n_sequences is not None:
            self._n_sequences = n_sequences

    def _set_parameters(self, theta: Floats) -> None:
        self._use(self.trained()[0].at(theta))  # predictions that have begun go on with the old ones
        self.cfg.update(UNCALIBRATED)

    def prune(self, threshold: float, bits: int | None) -> None:
        """Drop weights up to a threshold, and features without any other, see `CRFComponent.prune`.

        Features get the order in which the file is smaller.
        """
        if bits is not None and not 0 <= bits <= MOST_BITS:
            raise ConfigError(f"Component {self.name!r}: bits must be from 0 to {MOST_BITS}, but {bits} was given.")
        with self.lock:
            crf = self.crf
            compact = crf.compact(threshold, bits)
            compact = min(compact.in_order(), compact, key=lambda crf: len(weights_to_bytes(crf)))
            largest = float(max(np.abs(part).max(initial=0) for part in crf.views[:2]))
            if threshold < 0 or (largest and not compact.layout.unigrams.size + compact.layout.bigrams.size):
                raise ConfigError(
                    f"Component {self.name!r}: nothing is left with a threshold of {threshold}"
                    f"{'' if bits is None else f' and {bits} bits'}: it must be at least 0 and lower than the largest "
                    f"weight, {largest:.4g}."
                )
            names, n_sequences = names_left(self.feature_names, crf, compact), self.n_sequences
            encoder, largest_names = self.encoder_of(compact), self.largest_names()
            self.start(compact, encoder, n_sequences, seen_all=True, names=names, largest=largest_names)

    # Docs as numbers

    def lexicon(self, strings: dict[int, str] | None = None, *, learns: bool = False) -> Lexicon:
        """Return a table for words, which fills `strings` with the texts of their values.

        learns (bool): Whether these are words of texts to learn from.
        """
        plans, functions = self.features.plans(), dict(self.features.functions)
        for name, plugin in self._reading.items() if learns else ():
            functions.update(plugin.functions_of_training(name.upper()))
        return new_lexicon(*plans, lexeme_reader(self.vocab_in_use, lexical_names(*plans), functions, strings))

    def growing_encoder(
        self, strings: dict[int, str], known_features: tuple[KnownFeatures, KnownFeatures] | None = None
    ) -> GrowingEncoder:
        """Return an encoder that collects features, and their `strings`; `known_features` as in its class."""
        has_words = bool(self.method.tag_dictionary_size)
        return GrowingEncoder(*self.features.plans(), self.lexicon(strings, learns=True), known_features, has_words)

    def joining_encoder(self) -> FrozenEncoder:
        """Return an encoder for the features of this model whose texts can be joined, to learn from."""
        return self.encoder.with_lexicon(self.lexicon(learns=True), joins=True)

    def encoder_of(self, crf: LinearChainCRF, strings: dict[int, str] | None = None) -> FrozenEncoder:
        """Return an encoder for the features of a model."""
        words = None if crf.dictionary is None else crf.dictionary.word_index()
        index = HashIndex(crf.keys[0]), HashIndex(crf.keys[1])
        return FrozenEncoder(*self.features.plans(), self.lexicon(strings), index, words)

    def largest_names(self) -> LargestNames:
        """Return the names of the features with the largest weights, as far as they are known.

        After training, these are the names for the current weights; for a loaded model, those in its file.
        """
        if isinstance(self._largest, Origins):
            return ({}, {}) if self.feature_names else self._largest.largest_names(self.crf)
        return self._largest

    def feature_reader(self, crf: LinearChainCRF | None = None) -> FeatureReader:
        """Return an object that lists the features of texts, by name and by number in a model (this one if None)."""
        strings: dict[int, str] = {}
        encoder = self.encoder_of(self.crf if crf is None else crf, strings)

        def read(docs: list[Doc], preset: bool) -> DocColumns:
            return self.reader(strings).read(docs, encoder.columns, preset=preset)

        return FeatureReader(encoder, strings, self.features, read, lambda: self.vocab_in_use.vocab)

    def encode(self, docs: list[Doc]) -> tuple[Encoded, DocColumns]:
        """Return the words of Docs as numbers, and the columns read; their vocab need not be the component's."""
        encoder = self.encoder
        self.vocab_in_use.use(docs)
        columns = self.reader().read(docs, encoder.columns)
        return encoder.encode(columns.text), columns

    def _emissions(self, docs: list[Doc]) -> list[Floats]:
        with self.lock:
            crf = self.crf
            encoded, columns = self.encode(list(docs))
            source = crf.posterior(encoded, self.labels.constraints).source
            parts = [source.scores(part).emissions for part in threads.shards(source.offsets, source.score_width)]
        whole = np.concatenate([np.zeros((0, len(self.labels.tags)), crf.theta.dtype), *parts])
        offsets = columns.doc_offsets if columns.gaps is None else columns.gaps.doc_offsets
        return np.split(columns.of_tokens(whole), offsets[1:-1])
