"""The files of a trained component, as docs/model-file.md describes them: ``cfg`` and ``model``.

``cfg`` is JSON: the tags, the settings that say what these mean, and what `calibrate` has fitted to the weights.
``model`` is a msgpack map, the *head*, with the templates of the training, the data of plug-ins, names of features, and
the weights, whose form is that of `weights_file`.  A digest seals it, since a flipped bit of a weight cannot be seen
otherwise.  Reading runs no code, takes no more memory than the size of a file warrants, and refuses in words whatever
is damaged, foreign, of another version, or trained with other features than the config names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import srsly
from spacy import util

from ..errors import ModelFileError
from ..features.sets import FeatureSet
from ..features.template_file import TemplateFile
from ..files import collecting, replacing
from ..types import LearnedDecoder, Stateful
from ..weights_file import check_version, restore, weights_from_bytes, weights_to_bytes
from .cfg import UNCALIBRATED, is_learned
from .doc_model import DocModel
from .feature_names import LargestNames, names_left
from .settings import Method

VERSION = 1
HEAD: dict[str, Any] = {
    "version": int, "template_file": list | None, "templates": list, "bigram_templates": list, "functions": dict,
    "attributes": dict | None, "names": list, "largest": list, "n_sequences": int, "seen_all": bool,
    "first": bytes | None, "model": bytes, "digest": bytes,
}  # fmt: skip
"""The types of the entries of the head; a decoder that learns adds "decoder"."""
MADE_OF = ("attr", "scheme")
"""Settings of a task that say what the tags of a model mean; the config must have those of the training."""


class ModelSize(NamedTuple):
    """The size of a model: weights (zeros included), features of both blocks, bytes of its file."""

    weights: int
    features: int
    n_bytes: int


# Both files, in a folder or as bytes


def to_bytes(model: DocModel, packed: bytes | None, exclude: Iterable[str] = ()) -> bytes:
    """Return vocab, settings and the packed model of a component as bytes."""
    serialize: dict[str, Callable[[], Any]] = {
        "cfg": lambda: srsly.json_dumps(settings_of(model)),
        "vocab": lambda: model.vocab.to_bytes(exclude=exclude),
        **({} if packed is None else {"model": lambda: packed}),
    }
    data: bytes = util.to_bytes(serialize, exclude)
    return data


def from_bytes(model: DocModel, data: bytes, exclude: Iterable[str] = ()) -> None:
    """Load the bytes that `to_bytes` returned.  RAISES ModelFileError: If they are damaged or foreign."""
    load = {
        "cfg": lambda data: use_settings(model, srsly.json_loads(data)),
        "vocab": lambda data: model.vocab.from_bytes(data, exclude=exclude),
        "model": lambda data: unpack(model, data, f"component {model.name!r}"),
    }
    util.from_bytes(data, load, exclude)


def to_disk(model: DocModel, packed: bytes | None, path: str | Path, exclude: Iterable[str] = ()) -> None:
    """Write vocab, settings and the packed model to a folder; the model gets a temporary name, and is then moved."""

    def write(file: Path) -> None:
        if packed is not None:
            with replacing(file) as temporary:
                temporary.write_bytes(packed)

    serialize: dict[str, Callable[[Path], Any]] = {
        "cfg": lambda file: srsly.write_json(file, settings_of(model)),
        "vocab": lambda folder: model.vocab.to_disk(folder, exclude=exclude),
        "model": write,
    }
    util.to_disk(path, serialize, exclude)


def from_disk(model: DocModel, path: str | Path, exclude: Iterable[str] = ()) -> None:
    """Load the folder that `to_disk` wrote; errors as in `from_bytes`."""
    load: dict[str, Callable[[Path], Any]] = {
        "cfg": lambda file: use_settings(model, read_settings(file)),
        "vocab": lambda folder: model.vocab.from_disk(folder, exclude=exclude),
        "model": lambda file: unpack(model, file.read_bytes(), str(file)) if file.exists() else None,
    }
    util.from_disk(path, load, exclude)


# The file ``model``


def pack(model: DocModel, *, is_first: bool = False) -> bytes | None:
    """Return the bytes of a file ``model``, None if there is no model.

    is_first (bool): Whether this is the first stage of another model, in whose file are names and the data of plug-ins.

    Features whose weights are all zero are left out, unless the optimizer may have to visit them yet.
    """
    if not model.has_weights:
        return None
    method, features, whole = model.method, model.features, model.crf
    crf = whole.without_unused() if model.seen_all and any(weights.any() for weights in whole.views[:2]) else whole
    largest: LargestNames = ({}, {}) if is_first else model.largest_names()
    head = {
        "version": VERSION,
        "template_file": method.features.to_state() if isinstance(method.features, TemplateFile) else None,
        "templates": list(features.templates),
        "bigram_templates": list(features.bigram_templates),
        "functions": {} if is_first else _states(_functions(features)),
        "attributes": None if is_first else _states(method.attributes),
        **_states({"decoder": method.decoder}),
        "names": names_left(model.feature_names, whole, crf),
        "largest": [{key: of_block[key] for key in sorted(of_block)} for of_block in largest],
        "n_sequences": model.n_sequences,
        "seen_all": model.seen_all,
        "first": None if model.first is None else pack(model.first, is_first=True),
        "model": weights_to_bytes(crf),
    }
    data: bytes = srsly.msgpack_dumps({**head, "digest": None})
    seal: bytes = srsly.msgpack_dumps(blake2b(data, digest_size=16).digest())
    return data[:-1] + seal  # in place of None, which is one byte


def size_of(model: DocModel, packed: bytes | None) -> ModelSize:
    """Return the size of a model that was packed."""
    layout = model.crf.layout
    return ModelSize(layout.size, layout.unigrams.n_rows + layout.bigrams.n_rows, len(packed or b""))


def unpack(model: DocModel, data: bytes, source: str) -> None:
    """Load the bytes that `pack` returned, and give the plug-ins of the model's method the data that they have stored.

    The features and potentials of the method, which is that of the config, must be those of the training.
    source (str): What to call the data in an error.
    RAISES ModelFileError: If the data are damaged or foreign, or the model was trained with other features.
    """
    head, largest = _read_head(data, source)
    method = model.method
    features = _restore_plugins(head, method, model.name, source)
    crf = weights_from_bytes(head["model"], source, tuple(method.potentials.values()))
    if crf.theta.dtype != method.precision:
        crf = crf.at(crf.theta.astype(method.precision))
    for numbers, plan in zip(crf.templates or (), features.plans(), strict=False):
        if len(numbers) and numbers.max() >= len(plan.templates):
            raise ModelFileError(f"{source}: it has attributes of templates that are not there; copy it again.")
    first = None if model.first is None else model.new_first()
    if first is not None and head["first"] is not None:
        unpack(first, head["first"], source)
    model.use_method(method)  # the features of a template file are in the model
    model.set_tags(crf.labels)
    model.start(
        crf, model.encoder_of(crf), head["n_sequences"], seen_all=head["seen_all"],
        names=list(map(str, head["names"])), largest=largest, first=first,
    )  # fmt: skip


def digest_of(head: Mapping[str, Any]) -> bytes:
    """Return the hash of all entries of a head but the digest itself."""
    return blake2b(srsly.msgpack_dumps({**head, "digest": None}), digest_size=16).digest()


def _read_head(data: bytes, source: str) -> tuple[dict[str, Any], LargestNames]:
    """Return the head of a file whose entries have the types of `HEAD`, and its names of the largest features."""
    try:
        with collecting():
            head = srsly.msgpack_loads(data)
        if isinstance(head["version"], int):
            check_version(head["version"], VERSION, source)
        wrong = [name for name, kind in HEAD.items() if not isinstance(head[name], kind)]
        if wrong or head["digest"] != digest_of(head):
            raise ValueError(f"{', '.join(wrong) or 'its parts'} differ from the content that was written")
        unigrams, bigrams = ({int(key): str(name) for key, name in of_block.items()} for of_block in head["largest"])
    except ModelFileError:
        raise
    except Exception as error:  # msgpack raises many kinds on foreign bytes
        raise ModelFileError(
            f"{source}: this is no model of spacy_crfseq, or it was cut short ({error!r}). Train or copy it again."
        ) from error
    return head, (unigrams, bigrams)


def _restore_plugins(head: dict[str, Any], method: Method, component: str, source: str) -> FeatureSet:
    """Give the plug-ins of a method their data; return its features, which must be those of the model."""
    if head["template_file"] and isinstance(method.features, TemplateFile):
        restore(method.features, head["template_file"], "template_file", source)
    if head["attributes"] is not None:
        _restore(method.attributes, head["attributes"], source)
    features = method.feature_set()
    functions, templates = _functions(features), (head["templates"], head["bigram_templates"])
    same_templates = templates == (list(features.templates), list(features.bigram_templates))
    if not same_templates or not head["functions"].keys() <= functions.keys():
        raise ModelFileError(
            f"{source}: the model was trained with other feature templates than the config of component "
            f"{component!r} names. Use the config that lies beside the model, or train again."
        )
    _restore({name: functions[name] for name in head["functions"]}, head["functions"], source)
    if isinstance(method.decoder, LearnedDecoder):  # the model may have been trained with another one
        _restore({"decoder": method.decoder}, {"decoder": head.get("decoder")}, source)
    return features


def _functions(features: FeatureSet) -> dict[str, Any]:
    return {**features.functions, **features.token_functions}


def _states(plugins: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plugin.to_state() for name, plugin in plugins.items() if isinstance(plugin, Stateful)}


def _restore(plugins: Mapping[str, Any], states: Mapping[str, Any], source: str) -> None:
    """Give plug-ins the data that a model has stored.  RAISES ModelFileError: If they do not fit."""
    expected = {name for name, plugin in plugins.items() if isinstance(plugin, Stateful)}
    if expected != states.keys():
        raise ModelFileError(
            f"{source}: the model has data for the attributes {sorted(states)}, but the config names "
            f"{sorted(expected)}. Use the config that lies beside the model, or train again."
        )
    for name, state in states.items():
        restore(plugins[name], state, name, source)


# The file ``cfg``


def settings_of(model: DocModel) -> dict[str, Any]:
    """Return the content of a file ``cfg``: tags and settings; no empty calibration."""
    kept = {key: value for key in (*MADE_OF, *UNCALIBRATED) if (value := model.cfg.get(key))}
    return {**kept, "tags": list(model.labels.tags)}


def read_settings(file: Path) -> dict[str, Any]:
    """Return the content of a file ``cfg``.  RAISES ModelFileError: If it is not a map in JSON."""
    try:
        stored = srsly.read_json(file)
    except ValueError as error:
        raise ModelFileError(f"{file}: this is no JSON file ({error}). Train or copy the model again.") from error
    if not isinstance(stored, dict):
        raise ModelFileError(f"{file}: expected the settings of a component. Train or copy the model again.")
    return stored


def use_settings(model: DocModel, stored: Mapping[str, Any]) -> None:
    """Restore the tags, and the settings that were fitted to the weights; all others are those of the config.

    RAISES ModelFileError: If a value is of the wrong type or out of range, or the config says another value.
    """
    tags: Any = stored.get("tags")
    fitted = {key: stored[key] for key in UNCALIBRATED if key in stored}
    wrong = [key for key, value in fitted.items() if not is_learned(key, value)]
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        wrong.append("tags")
    if wrong:
        values = ", ".join(f"{key} = {stored.get(key)!r}" for key in wrong)
        raise ModelFileError(f"component {model.name!r}: its stored settings are damaged: {values}. Copy it again.")
    for key in MADE_OF:
        if key in model.cfg and stored.get(key, model.cfg[key]) != model.cfg[key]:
            raise ModelFileError(
                f"component {model.name!r}: the model was trained with {key} = {stored[key]!r}, but the config says "
                f"{model.cfg[key]!r}. Use the config that lies beside the model, or train again."
            )
    model.cfg.update(UNCALIBRATED | fitted)
    model.set_tags(tags)
