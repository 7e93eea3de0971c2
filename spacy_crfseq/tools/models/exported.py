"""A trained component as a model of CRFsuite or Wapiti, which predicts the same labels.

Weights of these programs belong to names of attributes.  A component stores hashes: names that it does not keep are
found in texts, such as its training corpus.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.util import minibatch

from ...corpora.saved_models import NamedWeights, SavedModel, write_crfsuite_model, write_wapiti_model
from ...corpora.template_files import format_template_line
from ...errors import ConfigError, DataError
from ...features import items
from ...features.entries import CRFsuiteItems, names_in
from ...features.index import hash_of_name
from ...features.noted import noted_attributes
from ...features.template_file import DOLLAR, TemplateFile, WapitiPatterns
from ...features.word_classes import WordClasses
from ...files import write_text
from ...pipeline.white_space import words_of
from ...potentials.layout import cells
from ...potentials.values import Values
from ...training.compatibility import check_global
from ...types import Bools

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ...pipeline.component import CRFComponent

EDGES = ["u:_start=%x[-1,0]", "u:_end=%x[1,0]"]
"""Patterns of Wapiti that stand for the first and for the last token, of which each has a marker as its neighbour."""
NEVER = -1e4
"""The weight of what the tags of a component may not do: its exponential is 0."""
BATCH = 1000


class Exported(NamedTuple):
    """A model, and what computes its attributes.

    module (str): The source of a Python module with a function `items`; empty if other programs have the attributes.
    tables (dict): Classes of words, for a JSON file beside the module.
    notes (list[str]): What the other program does in another way.
    """

    model: SavedModel
    module: str
    tables: dict[str, dict[str, str]]
    notes: list[str]


def exported_model(pipe: CRFComponent, docs: Iterable[Doc], *, wapiti: bool) -> Exported:
    """Return a trained component as a model of CRFsuite, or of Wapiti.

    docs (Iterable[Doc]): Texts in which the features occur; read only where names are missing.
    RAISES ConfigError: If the format cannot hold the model, with the setting that makes models that it can hold.
    RAISES DataError: If a feature is in none of the texts.
    """
    own, crf, n = pipe.doc_model, pipe.crf, len(pipe.tags)
    plans, features = own.features.plans(), own.method.features
    firsts = [(plan, template.parts[0]) for plan in plans for template in plan.templates]
    given = all(part.attribute in plan.functions and part.offset == 0 for plan, part in firsts)
    patterns = _patterns(pipe, features, given) if wapiti else None
    _check(pipe, given, wapiti)
    observed = wapiti and isinstance(features, TemplateFile)
    named = _observed(pipe, docs, features) if observed else _named(pipe, docs, given)
    attributes, pairs = (_weights(pipe, block, names) for block, names in enumerate(named))
    if not wapiti:
        attributes = _with_values(pipe, attributes, docs)
    # weights divided by the temperature have calibrated probabilities without one
    heat, allowed, notes = own.cfg["temperature"], own.labels.constraints, list[str]()
    if any(share < 1 for share in own.cfg["cover"].values()):
        notes.append("Thresholds for recall stay behind: a format of weights cannot say them")
    attributes, pairs = (weights._replace(values=weights.values / heat) for weights in (attributes, pairs))
    transitions, start, end = (
        np.asarray(scores, np.float64) / heat for scores in (crf.views.transitions, crf.views.start, crf.views.end)
    )
    transitions[~allowed.step] = NEVER
    start[~allowed.start], end[~allowed.end] = NEVER, NEVER
    module, tables, edges = "", dict[str, dict[str, str]](), list[str]()
    if wapiti and patterns is not None and not set(EDGES) <= {*patterns}:
        patterns += EDGES if start.any() or end.any() else ()
        edges = [pattern.replace("%x[-1,0]", "_x-1").replace("%x[1,0]", "_x+1") for pattern in EDGES]
    elif not given and not wapiti:
        edges = [items.START, items.END]
        module, tables = _module(pipe)
    elif not wapiti and (start.any() or end.any()):
        notes.append("A text may begin or end with a tag that is not valid there: the format has no weights for that")
    if edges:
        attributes = NamedWeights(
            [*attributes.names, *edges],
            np.append(attributes.rows, len(attributes.names) + np.repeat([0, 1], n)),
            np.append(attributes.columns, np.tile(np.arange(n), 2)),
            np.concatenate([attributes.values, start, end]),
        )
    return Exported(SavedModel(list(pipe.tags), attributes, pairs, transitions, patterns), module, tables, notes)


def _patterns(pipe: CRFComponent, features: Any, given: bool) -> list[str]:
    if isinstance(features, TemplateFile):
        lines = [*map(format_template_line, features.lines)]
    else:
        functions = pipe.doc_model.features.token_functions.values()
        plugins = [function for function in functions if isinstance(function, WapitiPatterns)]
        if not plugins or not given or not plugins[0].patterns:
            raise ConfigError(
                f"{pipe.name!r}: Wapiti computes its attributes by patterns, and this component does not. Train one "
                "with the features spacy_crfseq.TemplateFile.v1 or spacy_crfseq.WapitiPatterns.v1, or write a model of "
                "CRFsuite."
            )
        lines = [pattern.replace(DOLLAR, "$") for pattern in plugins[0].patterns]
    return [line[0].lower() + line[1:] for line in lines]


def _check(pipe: CRFComponent, given: bool, wapiti: bool) -> None:
    """RAISES ConfigError: If a format cannot hold a model."""
    own, crf, method = pipe.doc_model, pipe.crf, pipe.doc_model.method
    check_global(pipe.name, method.loss, "a model for another program")
    edges = crf.views.start.any() or crf.views.end.any()
    others = [name for name, potential in method.potentials.items() if not isinstance(potential, Values) or wapiti]
    portable = {*items.LEXEME_FUNCTIONS, *items.TEXT_FUNCTIONS, *items.COLUMNS}
    classes = {name for block, function in _classes(pipe) for name in function.functions(block)}
    functions = own.features.token_functions.values()
    foreign = [
        function
        for function in functions
        if function is not noted_attributes and not isinstance(function, CRFsuiteItems)
    ]
    names = {part.attribute for template in own.features.plans()[0].templates for part in template.parts}
    for wrong, what, instead in (
        (edges and given and not wapiti, "weights of first and last labels", "boundaries = false"),
        (crf.views.bigrams.any() and not wapiti, "weights of label pairs with features", "bigram_templates = []"),
        (given and not wapiti and foreign,
         "a token function with other names than python-crfsuite makes", "spacy_crfseq.CRFsuiteItems.v1 around it"),
        (crf.dictionary is not None, "a tag dictionary", "tag_dictionary_size = 0"),
        (own.features.doc_attributes, "attributes of documents", "no attributes but word classes"),
        (method.once or method.order, "once or order", "neither"),
        (others, f"the potential {', '.join(others)}", "no potentials"),
        (not (given or wapiti) and names - portable - classes, f"the attributes {sorted(names - portable - classes)}",
         "templates of other attributes"),
    ):  # fmt: skip
        if wrong:
            program = "Wapiti" if wapiti else "CRFsuite"
            raise ConfigError(f"{pipe.name!r} has {what}, which {program} cannot have. Train with {instead}.")


def _named(pipe: CRFComponent, docs: Iterable[Doc], given: bool) -> tuple[list[set[str]], ...]:
    """Return the name of each feature of both blocks; that of a token function alone if all are of one."""
    own, crf, wanted = pipe.doc_model, pipe.crf, _wanted(pipe)
    names: list[list[set[str]]] = [[set() for _ in keys] for keys in crf.keys]
    if own.feature_names:
        both = iter(own.feature_names)
        names = [[{next(both)} for _ in keys] for keys in crf.keys]
    else:
        reader = own.feature_reader()
        texts = (reader.active(batch) for batch in minibatch(docs, BATCH))
        for block, number, name in reader.find(texts, wanted):
            names[block][number].add(name)
        _check_all(pipe, wanted)
    if given:
        return tuple([{name.partition("=")[2] for name in names_of_row} for names_of_row in block] for block in names)
    return tuple(names)


def _wanted(pipe: CRFComponent) -> tuple[Bools, Bools]:
    """Return which features of both blocks have weights other than zero."""
    crf, views = pipe.crf, pipe.crf.views
    wanted = tuple(np.zeros(len(keys), np.bool_) for keys in crf.keys)
    blocks = (crf.layout.unigrams, views.unigrams), (crf.layout.bigrams, views.bigrams)
    for is_wanted, (rows, weights) in zip(wanted, blocks, strict=True):
        is_wanted[cells(rows)[weights != 0] // rows.width] = True
    return wanted[0], wanted[1]


def _check_all(pipe: CRFComponent, missing: tuple[Bools, Bools]) -> None:
    n_missing = sum(int(rows.sum()) for rows in missing)
    if n_missing:
        raise DataError(
            f"{pipe.name!r}: {n_missing:,} of {sum(map(len, missing)):,} features occur in none of the texts, so that "
            "their names are unknown. Give the training corpus with --texts, or train with keep_names = true."
        )


def _observed(pipe: CRFComponent, docs: Iterable[Doc], features: Any) -> tuple[list[set[str]], ...]:
    """Return the observations that Wapiti makes where each feature of both blocks is.

    RAISES DataError: If two features are one observation, as some characters are for Wapiti, which reads bytes.
    """
    own, lines, wanted = pipe.doc_model, features.imported.lines, _wanted(pipe)
    reader, plans = own.feature_reader(), own.features.plans()
    kinds = [features.observations(pairs) for pairs in (False, True)]
    homes: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for batch in minibatch(docs, BATCH):
        sequences = [sequence for doc in words_of(batch) for sequence in _sequences(doc)]
        for block, actives in enumerate(reader.active(batch)):
            of_kind, observe = kinds[block]
            seen = [observe(sequence, i) for sequence in sequences for i in range(len(sequence))]
            for active in actives:
                line = lines.get((bool(block), plans[block].templates[active.template].name))
                if line is None:  # a token function, which names observations
                    names = [name.partition("=")[2] for name in reader.names(block, active)]
                else:
                    names = [seen[token][of_kind.index(line)] for token in active.tokens.tolist()]
                for name, number in set(zip(names, active.features.tolist(), strict=True)):
                    if number >= 0 and wanted[block][number] and homes[block].setdefault(name, number) != number:
                        raise DataError(
                            f"{pipe.name!r}: two features are the observation {name!r} of Wapiti, which reads bytes. "
                            "Train with the features spacy_crfseq.WapitiPatterns.v1, which do so, too."
                        )
    names_of: tuple[list[set[str]], ...] = tuple([set() for _ in keys] for keys in pipe.crf.keys)
    for block, of_block in enumerate(homes):
        for name, number in of_block.items():
            names_of[block][number].add(name)
            wanted[block][number] = False
    _check_all(pipe, wanted)
    return names_of


def _sequences(doc: Doc) -> Iterator[Sequence[Any]]:
    tokens = list(doc)
    starts = [i for i, token in enumerate(tokens) if not i or token.is_sent_start]
    return (tokens[begin:end] for begin, end in pairwise([*starts, len(tokens)]))


def _weights(pipe: CRFComponent, block: int, names: Sequence[set[str]]) -> NamedWeights:
    """Return the weights of the features of a block under their names, those of several under each of them.

    RAISES DataError: If two features have the same name, so that each would get the weights of both.
    """
    layout, views = pipe.crf.layout, pipe.crf.views
    rows, weights = (layout.bigrams, views.bigrams) if block else (layout.unigrams, views.unigrams)
    numbers: dict[str, int] = {}
    owners = [[numbers.setdefault(name, len(numbers)) for name in sorted(of_row)] for of_row in names]
    if sum(map(len, owners)) > len(numbers):
        twice, _ = Counter(name for of_row in names for name in of_row).most_common(1)[0]
        raise DataError(
            f"{pipe.name!r}: two features have the name {twice!r}, under which other programs would add their weights. "
            "Let token functions return names of their own."
        )
    sizes, flat = [len(of_row) for of_row in owners], [number for of_row in owners for number in of_row]
    places, values = cells(rows)[weights != 0], weights[weights != 0].astype(np.float64)
    feature, column = np.divmod(places, max(1, rows.width))
    several = np.array(sizes, np.int64)[feature]
    first = np.append(0, np.cumsum(sizes)).astype(np.int64)[feature]
    at = np.repeat(first, several) + np.arange(several.sum()) - np.repeat(np.cumsum(several) - several, several)
    return NamedWeights(
        [*numbers], np.array(flat, np.int64)[at], np.repeat(column, several), np.repeat(values, several)
    )


def _with_values(pipe: CRFComponent, weights: NamedWeights, docs: Iterable[Doc]) -> NamedWeights:
    """Return weights of attributes with those of a potential `Values`.

    RAISES ConfigError: If an attribute has other weights with a value than without one.
    RAISES DataError: If an attribute with values occurs in none of the texts.
    """
    n, potentials = len(pipe.tags), list(pipe.doc_model.method.potentials.values())
    number = next((i for i, potential in enumerate(potentials) if isinstance(potential, Values)), None)
    if number is None:
        return weights
    plugin: Any = potentials[number]
    table = pipe.crf.added_views[number].reshape(-1, n).astype(np.float64)
    numbers, names = {name: i for i, name in enumerate(weights.names)}, dict[int, str]()
    for name in weights.names:
        names[hash_of_name(name)] = name
    active = {key: row for key, row in zip(plugin.names.tolist(), table, strict=True) if row.any()}
    for doc in words_of([*docs]) if active.keys() - names.keys() else ():
        for sequence in _sequences(doc):
            for i in range(len(sequence)):
                values: dict[str, float] = {}
                names_in((plugin.function or noted_attributes)(sequence, i), values)
                names.update((hash_of_name(name), name) for name in values)
    own = np.zeros((len(numbers), n))
    own[weights.rows, weights.columns] = weights.values
    rows, columns, new = [weights.rows], [weights.columns], [weights.values]
    for key, row in active.items():
        if key not in names:
            raise DataError(
                f"{pipe.name!r}: an attribute with values occurs in none of the texts. Give the training corpus."
            )
        if (place := numbers.get(names[key])) is None:
            place = numbers[names[key]] = len(numbers)
        elif not np.array_equal(own[place], row):
            raise ConfigError(
                f"{pipe.name!r}: {names[key]!r} has other weights with the value 1 than with others, but only one in "
                "CRFsuite. Import its model with --no-numbers, train with spacy_crfseq.CRF, or give the values as text."
            )
        else:
            continue
        rows, columns, new = [*rows, np.full(n, place)], [*columns, np.arange(n)], [*new, row]
    return NamedWeights([*numbers], np.concatenate(rows), np.concatenate(columns), np.concatenate(new))


def _classes(pipe: CRFComponent) -> list[tuple[str, WordClasses]]:
    """Return the word classes of a component, by the names of their attributes."""
    attributes = pipe.doc_model.method.attributes.items()
    return [(name.upper(), plugin) for name, plugin in attributes if isinstance(plugin, WordClasses)]


def _module(pipe: CRFComponent) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the source of a Python module that computes the attributes of a component, and its tables of classes."""
    templates = [list(map(tuple, plugin.parts)) for plugin in pipe.doc_model.features.plans()[0].templates]
    classes = {name: (block, n) for block, plugin in _classes(pipe) for name, n in plugin.lengths(block).items()}
    tables = {}
    for block, plugin in _classes(pipe):
        of_words = zip(plugin.table.hashes, plugin.table.numbers, strict=True)
        tables[block] = {str(word): plugin.table.names[number] for word, number in of_words}
    source = Path(items.__file__).read_text(encoding="utf8")
    for name, value in (("TEMPLATES", templates), ("CLASSES", classes)):
        source = re.sub(rf"^({name}: .* = ).*$", lambda match: match[1] + repr(value), source, flags=re.MULTILINE)  # noqa: B023
    return source, tables


def module_files(path: Path) -> list[Path]:
    """Return the files beside a model of CRFsuite that compute its attributes: a module and its tables."""
    return [path.with_name(f"{path.stem}_items{ending}") for ending in (".py", ".json")]


def write_exported(path: Path, exported: Exported, encoding: str = "utf8") -> list[Path]:
    """Write a model, and what computes its attributes, under the same name; return the files."""
    if exported.model.patterns is not None:
        write_wapiti_model(path, exported.model)
        return [path]
    write_crfsuite_model(path, exported.model, encoding)
    texts = [exported.module, json.dumps(exported.tables) if exported.tables else ""]
    written = [(other, text) for other, text in zip(module_files(path), texts, strict=True) if text]
    for other, text in written:
        write_text(other, text)
    return [path, *(other for other, _ in written)]
