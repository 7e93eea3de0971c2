"""The settings that the three factories share, with their defaults: how a component models and learns.

Light, since every `Language` imports it.  (No deferred annotations here: the factories have these in their signatures,
which spaCy checks configs against.)
"""

import math
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConfigError, suggest

if TYPE_CHECKING:
    from ..features.protocol import Attributes as Plugin
    from ..features.sets import FeatureSet
    from ..features.template_file import Features
    from ..types import Decoder, Loss, Optimizer, Regularizer, SupportPotential, TokenPotential

    Attributes = dict[str, Plugin]
    Potentials = dict[str, TokenPotential | SupportPotential]
    Terms = dict[str, Any]
else:  # blocks of a config are resolved before they come here
    Features = FeatureSet = Decoder = Loss = Optimizer = Regularizer = Any
    Attributes = Potentials = Terms = dict[str, Any]

SUPPORTS = ("observed", "all", "auto")
PLUGINS = ("loss", "regularizer", "optimizer", "decoder")
PRECISIONS = ("float32", "float64")
_LEAST = {
    **dict.fromkeys(("min_count", "inner_iterations", "tag_dictionary_min_count"), (1, "at least 1")),
    "max_features": (0, "0 (all) or more"), "n_threads": (0, "0 (all cores) or more"),
    "tag_dictionary_size": (0, "0 (no dictionary) or more"),
}  # fmt: skip


class TermSettings(NamedTuple):
    """A term of the objective in addition to the training corpus, ``[components.NAME.terms.TERM]``.

    loss (Loss): Of the term's texts; their gold labels count unless it provides "unlabelled".
    corpus (str | None): Block of the config with the texts, such as "corpora.news", which only training reads; None if
        they are given in Python.
    weight (float): Factor of the loss.
    visits (float): How often an epoch of an online optimizer visits each text.  With 0.1, it visits a tenth of the
        texts, drawn at random for each epoch.
    """

    loss: Loss
    corpus: str | None = None
    weight: float = 1.0
    visits: float = 1.0


class Method(NamedTuple):
    """How a component models and learns; the same for all tasks.

    features (Features): Templates, a block that names a function of the registry ``crf_features``.
    loss, regularizer, optimizer, decoder: Blocks that name functions of their registries.
    support (str): "observed" gives weights to the feature-label pairs and transitions seen in training, as CRFsuite
        does by default; "all" to every pair, as CRF++ does: more accurate and larger; "auto" to every pair if these are
        not more than thirty million.
    min_count (int): Features on fewer training tokens are dropped; those of terms count, too.
    max_features (int): Weights that features may have: those whose feature and label, or label pair, have the highest
        mutual information (`training.selection`) in the training corpus; 0 for all.
    boundaries (bool): Learn scores for the first and last label of a sequence.
    transitions (bool): Learn a score for each pair of neighbouring labels; off, label pairs count only through pair
        templates.
    tag_dictionary_size (int): The number of most frequent words that may only have the labels that they had in the
        training data, in training and in tagging; 0 for none.
    tag_dictionary_min_count (int): Words on fewer labelled training tokens are left out of the tag dictionary.
    precision (str): "float32" or "float64".
    inner_iterations (int): Iterations of the optimizer for each of spaCy's training steps.  spaCy copies every
        example in every step, which costs as much as the iteration itself with batch optimizers.
    keep_names (bool): Keep readable feature names in the model; it grows by about the size of the names.
    attributes (dict): Blocks that name functions of the registry ``crf_attributes``, each under its own name: word
        classes, lists of phrases, the rest of the document.  They add templates to the features.
    once (list[str]): Labels that occur at most once in a sequence, ``["*"]`` for all; equal tags of neighbouring tokens
        are one occurrence, and so is a span.  It holds for predictions and queries, not for training.
    order (list[str]): Labels that occur only in this order, one several times in a row unless it is in `once`.
    potentials (dict): Blocks that name functions of the registry ``crf_potentials``, each under its own name.  Their
        scores are added to those of the features.
    terms (dict): Blocks `TermSettings`, each under its own name: losses of further texts, such as raw text, that are
        added to the objective.  With support = "observed", a feature of texts without labels has a weight for every
        label.
    n_threads (int): Threads for training and for tagging many texts; 0 for one per core.  The same number of threads
        gives the same results.
    """

    features: Features
    loss: Loss
    regularizer: Regularizer
    optimizer: Optimizer
    decoder: Decoder
    support: str = "observed"
    min_count: int = 1
    max_features: int = 0
    boundaries: bool = True
    transitions: bool = True
    tag_dictionary_size: int = 0
    tag_dictionary_min_count: int = 10
    precision: str = "float32"
    inner_iterations: int = 1
    keep_names: bool = False
    once: list[str] = []  # noqa: RUF012 (never changed)
    order: list[str] = []  # noqa: RUF012 (never changed)
    attributes: Attributes = {}  # noqa: RUF012 (never changed)
    potentials: Potentials = {}  # noqa: RUF012 (never changed)
    terms: Terms = {}  # noqa: RUF012 (never changed)
    n_threads: int = 0

    def check(self, component: str) -> None:
        """Refuse settings that cannot work.  RAISES ConfigError: With the setting and what to write instead."""
        from ..features.sets import FeatureSet
        from ..features.template_file import TemplateFile
        from ..registry import check_types
        from ..training.compatibility import check_network, check_occurrences, check_plugins, check_term
        from ..types import NetworkPotential

        where = f"[components.{component}]"
        check_types(where, self.__annotations__, self._asdict())
        if not isinstance(self.features, FeatureSet | TemplateFile):
            raise ConfigError(f"{where}: features must name a feature set, for example spacy_crfseq.Templates.v1.")
        for name, value, choices in (("support", self.support, SUPPORTS), ("precision", self.precision, PRECISIONS)):
            if value not in choices:
                raise ConfigError(f"{where}: {name} = {value!r} is not supported. {suggest(str(value), choices)}")
        for name, (least, words) in _LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{where}: {name} must be {words}, but {getattr(self, name)} was given.")
        self._check_blocks(component)
        if isinstance(self.features, FeatureSet):  # a template file is read when it is needed
            features = self.feature_set()
            if not features.templates and not features.bigram_templates and not self.potentials:
                raise ConfigError(
                    f"{where}: the feature set needs at least one template, for example 'LOWER[-1..1]', or the "
                    "component a potential."
                )
        check_plugins(component, **{name: getattr(self, name) for name in PLUGINS})
        if any(isinstance(potential, NetworkPotential) for potential in self.potentials.values()):
            check_network(component, self.optimizer, self.terms, self.first_stage())
        if self.once or self.order:
            check_occurrences(component, self.decoder, self.tag_dictionary_size)
        if first := self.first_stage():
            if len(self.attributes) - len(first.attributes) > 1:
                raise ConfigError(f"{where}: several attributes read the labels of a first stage; keep one of them.")
            check_plugins(component, **{name: getattr(first, name) for name in PLUGINS})
        for name, term in self.each_term(component).items():
            check_term(component, name, self.loss, self.optimizer, term.loss, term.visits)

    def _check_blocks(self, component: str) -> None:
        """Refuse blocks of attributes and potentials whose functions returned something else."""
        from ..features.protocol import DocAttributes, LabelAttributes, WordAttributes
        from ..types import SupportPotential, TokenPotential

        for name, plugin in self.attributes.items():
            if not isinstance(plugin, WordAttributes | DocAttributes | LabelAttributes):
                raise ConfigError(
                    f"[components.{component}.attributes.{name}] is {plugin!r}, which has no attributes: it lacks "
                    "templates, and functions, or names and read or read_labels."
                )
        for name, potential in self.potentials.items():
            if not isinstance(potential, TokenPotential | SupportPotential):
                raise ConfigError(
                    f"[components.{component}.potentials.{name}] is {potential!r}, which is not a potential: it lacks "
                    "read, size or forward."
                )

    def plain_changes(self, before: "Method") -> dict[str, Any]:
        """Return the settings with values of a config, no plug-ins, that differ from those of another method."""
        plain = {name: value for name, value in self._asdict().items() if isinstance(value, bool | int | str | list)}
        return {name: value for name, value in plain.items() if value != getattr(before, name)}

    def feature_set(self) -> FeatureSet:
        """Return the features, with those of the attribute plug-ins; errors as in `FeatureSet.with_attributes`."""
        numbers = any(getattr(potential, "reads_numbers", False) for potential in self.potentials.values())
        return replace(self.features.with_attributes(self.attributes), numbers=numbers)

    def first_stage(self) -> "Method | None":
        """Return the method of the stage whose labels attributes read; None if none do."""
        from ..features.protocol import LabelAttributes

        readers = [plugin for plugin in self.attributes.values() if isinstance(plugin, LabelAttributes)]
        if not readers:
            return None
        others = {name: plugin for name, plugin in self.attributes.items() if plugin not in readers}
        return self._replace(attributes=others, optimizer=readers[0].optimizer or self.optimizer).rehearsal()

    @property
    def staged(self) -> bool:
        """Whether other models are trained before this one, of all the texts that it will learn from."""
        from ..types import CorrectingDecoder

        return self.first_stage() is not None or isinstance(self.decoder, CorrectingDecoder)

    def rehearsal(self) -> "Method":
        """Return the method of models that learn from parts of a corpus, to show what to expect of new texts."""
        from ..types import LearnedDecoder

        decoder = self.decoder.base if isinstance(self.decoder, LearnedDecoder) else self.decoder
        potentials = {name: copy(potential) for name, potential in self.potentials.items()}
        return self._replace(decoder=decoder, potentials=potentials, terms={}, keep_names=False)

    def each_term(self, component: str) -> dict[str, TermSettings]:
        """Return the settings of each term by its name.  RAISES ConfigError: If one is unknown or out of range."""
        terms = {}
        for name, block in self.terms.items():
            where = f"[components.{component}.terms.{name}]"
            if not isinstance(block, dict) or "loss" not in block:
                raise ConfigError(f'{where} has no loss. Add a block {where[:-1]}.loss] with @crf_losses = "...".')
            for key in set(block) - set(TermSettings._fields):
                raise ConfigError(f"{where} has no setting {key!r}. {suggest(key, TermSettings._fields)}")
            terms[name] = term = TermSettings(**block)
            for setting in ("weight", "visits"):
                value = getattr(term, setting)
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise ConfigError(f"{where}: {setting} must be a number, but {value!r} was given.")
                if not 0 <= value < math.inf:
                    raise ConfigError(f"{where}: {setting} must be 0 or more, but {value} was given.")
            if not isinstance(term.corpus, str | None):
                raise ConfigError(
                    f"{where}: corpus must name a block of the config, such as corpora.{name}, but {term.corpus!r} was "
                    "given. In Python, give texts to fit or initialize."
                )
        return terms


METHOD: dict[str, Any] = {
    "loss": {"@crf_losses": "spacy_crfseq.SequentialLog.v1"},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 1.0},
    "optimizer": {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1"},
    "decoder": {"@crf_decoders": "spacy_crfseq.Viterbi.v1"},
    **{name: value for name, value in Method._field_defaults.items() if name != "n_threads"},
    "scores": False,  # of the component itself
    "n_threads": Method._field_defaults["n_threads"],
}
"""The defaults of a config, in its order, except those that differ between tasks."""
