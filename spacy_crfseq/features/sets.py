"""Ready-made lists of templates: for each task a default and a larger set, and the feature sets of papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ConfigError, suggest
from ..threads import cached_property
from ..types import LexemeFunction, TokenFunction
from .attributes import BUILT_IN, SPELLING, TOKEN_COLUMNS
from .protocol import Attributes, DocAttributes, LabelAttributes, WordAttributes
from .templates import Plan, plan_of


@dataclass(frozen=True)
class FeatureSet:
    """Templates of a component.

    templates (tuple[str, ...]): Templates whose attributes score a label.
    bigram_templates (tuple[str, ...]): Templates whose attributes score a label together with the previous label: the
        features lambda_{y',y,x} of Sokolovska (2010), section 3.1.  The plain transitions remain.
    functions (Mapping[str, LexemeFunction]): Your own attributes by name: functions of a word's text.
    token_functions (Mapping[str, TokenFunction]): Your own sets of attributes by name: functions of a token in its
        sequence.  A function that reads columns of earlier components has an attribute ``reads = ("TAG",)``.
    doc_attributes (Mapping): Plug-ins that read attributes from Docs, some of them from the labels of a first stage, by
        the names of their blocks.
    numbers (bool): Whether numbers that token functions return are left to a potential, and no features.
    RAISES ConfigError: If a template cannot be read, a function has the name of a built-in attribute, or no template
        names a token function.
    """

    templates: tuple[str, ...]
    bigram_templates: tuple[str, ...] = ()
    functions: Mapping[str, LexemeFunction] = field(default_factory=dict)
    token_functions: Mapping[str, TokenFunction] = field(default_factory=dict)
    doc_attributes: Mapping[str, DocAttributes | LabelAttributes] = field(default_factory=dict)
    numbers: bool = False

    def __post_init__(self) -> None:
        names = {*self.functions, *self.token_functions}
        if BUILT_IN & names:
            raise ConfigError(
                f"Feature functions {sorted(BUILT_IN & names)} have the names of built-in attributes; rename them."
            )
        if len(names) < len(self.functions) + len(self.token_functions):
            twice = sorted(set(self.functions) & set(self.token_functions))
            raise ConfigError(f"Feature functions {twice} have the names of token functions; rename one of each.")
        for name, function in (*self.functions.items(), *self.token_functions.items()):
            if not callable(function):
                raise ConfigError(f"Feature function {name!r} must be callable, but {function!r} was given.")
        for name, function in self.token_functions.items():
            unknown = sorted(set(columns_read(function)) - set(TOKEN_COLUMNS))
            if unknown:
                raise ConfigError(
                    f"Token function {name!r} declares reading {unknown[0]!r}. {suggest(unknown[0], TOKEN_COLUMNS)}"
                )
        unigrams, bigrams = self.plans()
        unused = sorted(self.token_functions and self.token_functions.keys() - unigrams.functions - bigrams.functions)
        if unused:
            raise ConfigError(f"Token functions {unused} are in no template; add '{unused[0]}[0]' to templates.")

    def plans(self) -> tuple[Plan, Plan]:
        """Return the parsed templates as plans: for single labels and for label pairs."""
        sets = frozenset(self.set_names)
        names = sets.union(BUILT_IN, self.functions), sets
        return plan_of(tuple(self.templates), *names), plan_of(tuple(self.bigram_templates), *names)

    def with_attributes(self, attributes: Mapping[str, Attributes]) -> FeatureSet:
        """Return the features with the attributes of plug-ins, given by the names of their blocks.

        RAISES ConfigError: If two attributes share a name, or a name or a template cannot be read.
        """
        functions, templates = dict[str, LexemeFunction](self.functions), list(self.templates)
        in_docs = dict[str, DocAttributes | LabelAttributes]()
        taken = {*BUILT_IN, *functions, *self.token_functions}
        for name, plugin in attributes.items():
            block = name.upper()
            if not (block.isascii() and block.isidentifier()):
                raise ConfigError(f"[attributes.{name}]: rename the block, to letters, digits and underscores.")
            own = plugin.functions(block) if isinstance(plugin, WordAttributes) else {}
            names = set(own)
            if isinstance(plugin, DocAttributes | LabelAttributes):
                in_docs[block] = plugin
                names.update(plugin.names(block))
            if twice := names & taken:
                raise ConfigError(f"The attributes {sorted(twice)} are there twice; rename the block {name!r}.")
            taken |= names
            functions.update(own)
            templates += plugin.templates(block)
        return replace(self, templates=tuple(templates), functions=functions, doc_attributes=in_docs)

    @cached_property
    def by_docs(self) -> Mapping[str, DocAttributes]:
        """The plug-ins of `doc_attributes` that read Docs alone."""
        return {block: plugin for block, plugin in self.doc_attributes.items() if isinstance(plugin, DocAttributes)}

    @cached_property
    def by_labels(self) -> Mapping[str, LabelAttributes]:
        """Those that read the labels of a first stage, too."""
        return {block: plugin for block, plugin in self.doc_attributes.items() if isinstance(plugin, LabelAttributes)}

    @property
    def set_names(self) -> set[str]:
        """Names of attributes that have several values for a token."""
        in_docs = [plugin.names(block) for block, plugin in self.doc_attributes.items()]
        return set(self.token_functions).union(*in_docs)


def columns_read(function: TokenFunction) -> tuple[str, ...]:
    """Return the token columns that a function declares to read."""
    return tuple(getattr(function, "reads", ()))


def custom(
    templates: list[str],
    bigram_templates: list[str] | None = None,
    functions: dict[str, Any] | None = None,  # FeatureSet checks it, because confection would check before resolving
    token_functions: dict[str, Any] | None = None,
) -> FeatureSet:
    """Return exactly the given templates (registered as ``spacy_crfseq.Templates.v1``).

    templates (list[str]): Templates whose attributes score a label.
    bigram_templates (list[str] | None): Templates whose attributes score a label together with the previous label.
    functions (dict | None): Your own attributes: their names, and blocks of functions of a word's text.
    token_functions (dict | None): Your own sets of attributes: their names, and blocks of functions of a token in
        its sequence.
    """
    return FeatureSet(tuple(templates), tuple(bigram_templates or ()), functions or {}, token_functions or {})


def _affixes(*lengths: int) -> list[str]:
    return [f"{kind}{n}" for kind in ("PREFIX", "SUFFIX") for n in lengths]


def _at(offset: int, names: list[str] | tuple[str, ...]) -> list[str]:
    return [f"{name}[{offset}]" for name in names]


def _grams(name: str, n: int, first: int) -> list[str]:
    """Return the conjunctions of n neighbours in the symmetric window that starts at `first`."""
    return ["|".join(f"{name}[{i + k}]" for k in range(n)) for i in range(first, -first - n + 2)]


def tagging() -> FeatureSet:
    """Return the default of `crf_tagger`: the word, its affixes, shape and spelling, its neighbours, word bigrams."""
    near = ["LOWER", "SUFFIX2", "SUFFIX3", "SHAPE"]
    word = _at(0, ["ORTH", "LOWER", *_affixes(1, 2, 3, 4), "SHAPE", *SPELLING])
    return FeatureSet((*word, *_at(-1, near), *_at(1, near), "LOWER[-2]", "LOWER[2]", *_grams("LOWER", 2, -1)))


def chunking() -> FeatureSet:
    """Return the default of `crf_chunker`: words and tags around the token; an earlier component must set the tags."""
    tags = ("TAG[-2..2]", *_grams("TAG", 2, -2), *_grams("TAG", 3, -2))
    return FeatureSet(("LOWER[-2..2]", *tags, *_grams("LOWER", 2, -1), "SUFFIX3[0]", "SHAPE[0]"))


def large_tagging(pairs: bool = False) -> FeatureSet:
    """Return `tagging` with longer affixes, pairs of a prefix and a suffix, and brief shapes of the word and around.

    pairs (bool): With pairs of suffixes and words next to each other, too, and the suffixes of words two away: a
        suffix stands for rare words, whose pairs with a neighbour are hardly ever seen.
    """
    affixes = (*_affixes(5, 6), "PREFIX1|SUFFIX3", "PREFIX2|SUFFIX2")
    shapes = ("BRIEF_SHAPE", *_grams("BRIEF_SHAPE", 2, -1), *_grams("BRIEF_SHAPE", 3, -1))
    near = (*_grams("SUFFIX3", 2, -1), "SUFFIX2[-1]|SUFFIX2[1]", "SUFFIX2[-1]|LOWER[0]", "LOWER[0]|SUFFIX2[1]")
    around = (*near, "SUFFIX3[-2]", "SUFFIX3[2]") if pairs else ()
    return FeatureSet((*tagging().templates, *affixes, *shapes, *around))


def large_chunking(lean: bool = False) -> FeatureSet:
    """Return `chunking` with conjunctions of words and tags, more word bigrams, affixes and shapes.

    lean (bool): Without these bigrams and the affixes of the word itself, which word classes in pairs replace.
    """
    mixed = [f"LOWER[{i}]|TAG[{k}]" for i, k in ((-1, 0), (0, -1), (0, 0), (0, 1), (1, 0), (-1, 1))]
    words = ("LOWER[-2]|LOWER[-1]", "LOWER[1]|LOWER[2]", "SUFFIX2", "SUFFIX4", "PREFIX2", "PREFIX3")
    around = ("SUFFIX3[-1]", "SUFFIX3[1]", "BRIEF_SHAPE[-1..1]")
    return FeatureSet((*chunking().templates, *mixed, *(() if lean else words), *around))


def entities() -> FeatureSet:
    """Return the default of `crf_ner`: words, affixes and shapes in a window of two; no other component is needed."""
    near, far = ["ORTH", "LOWER", "SHAPE", "SUFFIX3", "INITIAL_UPPER"], ["LOWER", "SHAPE"]
    word = _at(0, ["ORTH", "LOWER", *_affixes(1, 2, 3, 4), "SHAPE", "BRIEF_SHAPE", *SPELLING])
    context = (*_at(-1, near), *_at(1, near), *_at(-2, far), *_at(2, far))
    return FeatureSet((*word, *context, *_grams("LOWER", 2, -1), *_grams("BRIEF_SHAPE", 3, -1)))


def large_entities() -> FeatureSet:
    """Return `entities` with longer affixes, and pairs of shapes."""
    return FeatureSet((*entities().templates, *_affixes(5, 6), *_grams("SHAPE", 2, -1)))


def characters() -> FeatureSet:
    """Return features of text whose tokens are single characters: n-grams and brief shapes of three on each side.

    Character n-grams in such a window are the features of word segmenters (Neubig, Nakata & Mori 2011).
    """
    words = [text for n in (1, 2, 3, 4) for text in _grams("ORTH", n, -3)]
    return FeatureSet((*words, *(text for n in (1, 2, 3) for text in _grams("BRIEF_SHAPE", n, -2))))


def crfpp_chunking() -> FeatureSet:
    """Return the template file that CRF++ ships for CoNLL-2000: 19 attributes per token."""
    tags = ("TAG[-2..2]", *_grams("TAG", 2, -2), *_grams("TAG", 3, -2))
    return FeatureSet(("ORTH[-2..2]", *_grams("ORTH", 2, -1), *tags))


def s1() -> FeatureSet:
    """Return S1 of Altun, Johnson & Hofmann (2003), section 5: the current word, as in an HMM."""
    return FeatureSet(("ORTH[0]",))


def s2() -> FeatureSet:
    """Return S2 of Altun, Johnson & Hofmann (2003): S1 and the spelling of the current word."""
    return FeatureSet(("ORTH[0]", *_at(0, _spelling_attributes())))


def s3(window: int = 1) -> FeatureSet:
    """Return S3 of Altun, Johnson & Hofmann (2003): S2 for every word up to `window` tokens away.

    window (int): Tokens on each side.
    RAISES ConfigError: If `window` is less than 1.
    """
    if window < 1:
        raise ConfigError(f"S3: window must be at least 1, but {window} was given; S2 is the set without a window.")
    offsets = range(-window, window + 1)
    return FeatureSet(tuple(text for i in offsets for text in _at(i, ("ORTH", *_spelling_attributes()))))


def _spelling_attributes() -> tuple[str, ...]:
    return (*SPELLING, "SUFFIX1", "SUFFIX2", "SUFFIX3")
