"""A pipeline from the trained model of another program, with the same scores and so the same predictions.

Attributes are the names that a token function returns.  Each has its weights twice, as a feature and in the potential
`Values`, because CRFsuite multiplies the same weights by the number that comes with a name, if any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]

from ...corpora.layouts import check_choice
from ...corpora.saved_models import LEAST, MOST, NO_WEIGHTS, NamedWeights, SavedModel
from ...corpora.tags import typed
from ...errors import ConfigError, DataError, ModelFileError, NotFittedError, count_of
from ...features.encoder import Columns
from ...features.index import hash_of_name
from ...features.template_file import DOLLAR
from ...features.token_sets import make_token_sets
from ...model import LinearChainCRF
from ...pipeline.component import CRFComponent
from ...potentials.layout import Layout, SparseRows
from ...potentials.values import Values
from ...schemes import LETTERS, MODEL_SCHEMES, describe_unreadable, scheme_named, tag_table
from ...types import Floats
from .settings import AS_TAGGER, FACTORIES, ImportSettings

if TYPE_CHECKING:
    from spacy.language import Language

NAME = "WORD2FEATURES"


def settings_for(
    model: SavedModel, function: str | None = None, columns: Sequence[str] = (), *, numbers: bool = True
) -> dict[str, Any]:
    """Return the settings of a component for a model.

    function (str | None): Token function of the registry ``crf_features``: of a model of CRFsuite the attributes, of
        one of Wapiti the columns of a token; None for those in ``doc._.crf_attributes``.
    columns (Sequence[str]): Names of the columns, as in `WapitiPatterns`, instead of a function.
    numbers (bool): Whether attributes of CRFsuite may have values other than 0 and 1.
    """
    block = None if function is None else {"@crf_features": function}
    settings: dict[str, Any] = {"support": "observed", "boundaries": False, "precision": "float64", "keep_names": True}
    functions: dict[str, Any]
    if model.patterns is None:
        name, block = ("GIVEN", {"@crf_features": "spacy_crfseq.Attributes.v1"}) if block is None else (NAME, block)
        items = {"@crf_features": "spacy_crfseq.CRFsuiteItems.v1", "function": block}
        functions, templates = {name: items}, {"templates": [f"{name}[0]"]}
        values = {"@crf_potentials": "spacy_crfseq.Values.v1", "function": items}
        settings["potentials"] = {"values": values} if numbers else {}
    else:
        own: dict[str, Any] = {
            "@crf_features": "spacy_crfseq.WapitiPatterns.v1",
            "patterns": [pattern.replace("$", DOLLAR) for pattern in model.patterns],
            "columns": list(columns),
            "function": block,
        }
        functions, templates = {"WAPITI": own}, {"templates": ["WAPITI[0]"]}
        if model.pairs.names:
            functions["WAPITI_PAIRS"] = {**own, "pairs": True}
            templates["bigram_templates"] = ["WAPITI_PAIRS[0]"]
    settings["features"] = {"@crf_features": "spacy_crfseq.Templates.v1", **templates, "token_functions": functions}
    return settings


def model_of(crf: Any) -> SavedModel:
    """Return the model of a `spacy_crfseq.CRF` or ``sklearn_crfsuite.CRF``; NotFittedError if it is not fitted."""
    if not crf.classes_:
        raise NotFittedError("This CRF is not fitted yet; call fit first.")
    labels, state = list(crf.classes_), crf.state_features_
    number, row = (
        {name: i for i, name in enumerate(dict.fromkeys(values))} for values in (labels, (a for a, _ in state))
    )
    cells = np.array([(row[name], number[label]) for name, label in state], np.int64).reshape(-1, 2)
    transitions = np.zeros((len(labels), len(labels)))
    for (before, label), weight in crf.transition_features_.items():
        transitions[number[before], number[label]] = weight
    return SavedModel(
        labels, NamedWeights(list(row), cells[:, 0], cells[:, 1], np.array([*state.values()])), NO_WEIGHTS, transitions
    )


def import_pipeline(nlp: Language, model: SavedModel, asked: ImportSettings = AS_TAGGER) -> str:
    """Add a component with the settings of `settings_for`, as `import_model`; return in words what was imported.

    RAISES CrfError: On settings that do not fit the model, and a function that does not.
    """
    check_choice("--labels", asked.labels, FACTORIES)
    if asked.columns and model.patterns is None:
        raise ConfigError("--columns are for models of Wapiti; a model of CRFsuite has attributes (--features).")
    settings = settings_for(model, asked.features, asked.columns, numbers=asked.numbers)
    if asked.labels != "tag":
        model = model._replace(labels=_typed(model.labels))
        settings["scheme"] = scheme_named(asked.scheme, "--scheme") if asked.scheme else _scheme_of(model.labels)
    import_model(nlp, model, asked.labels, settings)
    names = len(model.attributes.names) + len(model.pairs.names)
    return f"{count_of(len(model.labels), 'label')} and {count_of(names, 'attribute')} to a {FACTORIES[asked.labels]}"


def _typed(labels: Sequence[str]) -> list[str]:
    """Return labels with prefix and type.  RAISES DataError: If some are not tags of spans, or become the same."""
    tags = [typed(label) for label in labels]
    for label, tag in zip(labels, tags, strict=True):
        if tag is None or tags.count(tag) > 1:
            what = describe_unreadable(label) if tag is None else f"{label!r} and another label are both {tag}"
            raise DataError(f"Label {what}. Import a model with other labels as a tagger, --labels tag.")
    return [tag for tag in tags if tag is not None]


def _scheme_of(labels: Sequence[str]) -> str:
    """Return the first scheme that has all labels; RAISES DataError: If none has."""
    for scheme in MODEL_SCHEMES:
        with suppress(DataError):
            tag_table(tuple(labels), scheme)
            return scheme
    schemes = ", ".join(f"{name} ({' '.join(LETTERS[name])})" for name in MODEL_SCHEMES)
    raise DataError(
        f"The labels {', '.join(labels[:12])} are tags of no scheme: {schemes}. Import it with --labels tag."
    )


def import_model(nlp: Language, model: SavedModel, labels: str, settings: Mapping[str, Any]) -> CRFComponent:
    """Add a component with the weights of a model to a pipeline, and return it.

    labels (str): What they annotate: tag, ent or chunk.  Only a tagger has the labels of the model whatever they are.
    settings (Mapping[str, Any]): Those of the component, whose only features are one token function per block.
    RAISES CrfError: If the labels are no tags of the scheme, or as the factory raises.
    """
    defaults = {"overwrite": True} if labels == "tag" else {}  # features may read the tags of other components
    pipe: Any = nlp.add_pipe(FACTORIES[labels], config={**defaults, **settings})
    own, n, tables = pipe.doc_model, len(model.labels), (model.attributes, model.pairs)
    if not model.labels:
        raise ModelFileError("The model has no labels, so there is nothing to predict.")
    if "" in (*model.labels, *model.attributes.names):
        raise ModelFileError("The model has a label or an attribute without a name, which a pipeline cannot have.")
    try:
        own.set_tags(model.labels)
        own.labels.check_tags()
    except DataError as error:
        raise DataError(f"{error} Import a model with other labels as a tagger, --labels tag.") from None
    encoder, sets = own.growing_encoder({}), {}
    for block, table in zip((encoder.unigrams, encoder.bigrams), tables, strict=True):
        hashes = dict.fromkeys(int(hash_string(name)) for name in table.names)
        sets.update(dict.fromkeys(block.plan.functions, make_token_sets([len(hashes)], list(hashes))))
    token = Columns(np.zeros(1, np.uint64), np.zeros((1, len(encoder.columns)), np.uint64), np.array([0, 1]), sets)
    encoder.encode(token)  # it has all attributes, in their order
    keys, features = encoder.keys, encoder.features
    if [len(column) for column in keys] != [len(table.names) for table in tables]:
        raise ModelFileError(f"Component {pipe.name!r}: two names of the model have the same hash; drop one of them.")
    (unigrams, weights), (bigrams, pair_weights) = _rows(model.attributes, n), _rows(model.pairs, n * n)
    steps, added = model.transitions != 0, tuple(own.method.potentials.values())
    layout = Layout(n, unigrams, bigrams, None if steps.all() else steps, own.method.boundaries)
    values = [_bound(potential, model.attributes, n) for potential in added]
    theta = np.concatenate([weights, pair_weights, model.transitions.ravel(), np.zeros(2 * n), *values])
    templates = features[0].templates, features[1].templates
    crf = LinearChainCRF(model.labels, layout, theta.astype(own.method.precision), keys, None, templates, added)
    blocks = zip(features, tables, strict=True)
    names = [f"{block.plan.templates[0].name}={name}" for block, table in blocks for name in table.names]
    own.start(crf, own.encoder_of(crf), seen_all=True, names=names)
    return pipe  # type: ignore[no-any-return]


def _rows(table: NamedWeights, width: int) -> tuple[SparseRows, Floats]:
    """Return the weights of a table by row and column, and where each is."""
    cells, places = np.unique(table.rows * width + table.columns, return_inverse=True)
    ends = np.cumsum(np.bincount(cells // width, minlength=len(table.names)))
    rows = SparseRows(np.append(0, ends).astype(np.int64), (cells % width).astype(np.int32), width)
    return rows, np.bincount(places, table.values, len(cells))


def _bound(potential: Any, table: NamedWeights, n_labels: int) -> Floats:
    """Return the parameters of a potential, for `Values` the weights of a table."""
    if not isinstance(potential, Values):
        return np.zeros(potential.size(n_labels))
    needed, entries = 8 * len(table.names) * n_labels, 8 * (3 * len(table.values) + 4 * len(table.names))
    if needed > max(LEAST, MOST * entries):
        raise ModelFileError(
            f"The model has {len(table.names):,} attributes and {n_labels:,} labels, but few weights: a table of them "
            f"for attributes with values would take {needed:,} bytes. Give --no-numbers to read values as names."
        )
    hashes = np.array([hash_of_name(name) for name in table.names], np.uint64)
    weights, order = np.zeros((len(hashes), n_labels)), np.argsort(hashes)
    weights[table.rows, table.columns] = table.values
    potential.from_state(hashes[order])
    return weights[order].ravel()
