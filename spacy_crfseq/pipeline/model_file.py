"""The files of a trained component, as docs/model-file.md describes them: ``cfg`` and ``model``.

``cfg`` is JSON: the tags, the settings that say what these mean, and what `calibrate` has fitted to the weights.
``model`` is a msgpack map, the *head*, with the templates of the training, the data of plug-ins, names of features, and
the weights, whose form is that of `weights_file`.  A digest seals it, since a flipped bit of a weight cannot be seen
otherwise.  Reading runs no code, takes no more memory than the size of a file warrants, and refuses in words whatever
is damaged, foreign, of another version, or trained with other features than the config names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import srsly

from ..errors import DAMAGED, ModelFileError
from ..features.sets import FeatureSet
from ..features.template_file import TemplateFile
from ..files import collecting
from ..model import LinearChainCRF
from ..types import LearnedDecoder, Stateful
from ..weights_file import check_version, weights_from_bytes, weights_to_bytes
from .cfg import UNCALIBRATED, is_learned
from .feature_names import LargestNames
from .settings import Method

VERSION = 1
HEAD: dict[str, Any] = {
    "version": int, "template_file": list | None, "templates": list, "bigram_templates": list, "functions": dict,
    "attributes": dict | None, "names": list, "largest": list, "n_sequences": int, "seen_all": bool,
    "first": bytes | None, "model": bytes, "digest": bytes,
}  # fmt: skip
"""The types of the entries of the head; a decoder that has learned something adds "decoder"."""
MADE_OF = ("attr", "scheme")
"""Settings of a task that say what the tags of a model mean; the config must have those of the training."""


class StoredModel(NamedTuple):
    """The content of a file ``model`` but templates and the data of plug-ins, which are in the component's method.

    names (list[str]): Readable names of both blocks' features, empty where they were not kept.
    largest (LargestNames): Names of the features with the largest weights, where not all are kept.
    n_sequences (int): Size of the training set, with which online training continues.
    seen_all (bool): Whether the optimizer has visited all of it, so that weights of zero stay zero.
    first (bytes | None): The model file of the first stage.
    """

    crf: LinearChainCRF
    names: list[str]
    largest: LargestNames
    n_sequences: int
    seen_all: bool = True
    first: bytes | None = None


def model_to_bytes(stored: StoredModel, method: Method, features: FeatureSet, *, is_first: bool = False) -> bytes:
    """Return the bytes of a file ``model``.

    features (FeatureSet): Those of the method, with those of its attribute plug-ins.
    is_first (bool): Whether this is a first stage: the data of plug-ins are in the file around it.

    Features whose weights are all zero are left out, unless the optimizer may have to visit them yet.
    """
    crf = stored.crf
    if stored.seen_all and any(weights.any() for weights in crf.views[:2]):
        crf = crf.without_unused()
    head = {
        "version": VERSION,
        "template_file": method.features.to_state() if isinstance(method.features, TemplateFile) else None,
        "templates": list(features.templates),
        "bigram_templates": list(features.bigram_templates),
        "functions": {} if is_first else _states(_functions(features)),
        "attributes": None if is_first else _states(method.attributes),
        **_states({"decoder": method.decoder}),
        "names": names_left(stored.names, stored.crf, crf),
        "largest": [{key: of_block[key] for key in sorted(of_block)} for of_block in stored.largest],
        "n_sequences": stored.n_sequences,
        "seen_all": stored.seen_all,
        "first": stored.first,
        "model": weights_to_bytes(crf),
    }
    data: bytes = srsly.msgpack_dumps({**head, "digest": None})
    seal: bytes = srsly.msgpack_dumps(blake2b(data, digest_size=16).digest())
    return data[:-1] + seal  # in place of None, which is one byte


def model_from_bytes(data: bytes, method: Method, component: str, source: str) -> StoredModel:
    """Return the content of a file ``model``, and give the plug-ins of a method the data that they have stored.

    method (Method): Features and potentials of the config, which must be those of the model.
    source (str): What to call the data in an error.
    RAISES ModelFileError: If the data are damaged or foreign, or the model was trained with other features.
    """
    head, largest = _read_head(data, source)
    features = _restore_plugins(head, method, component, source)
    crf = weights_from_bytes(head["model"], source, tuple(method.potentials.values()))
    if crf.theta.dtype != method.precision:
        crf = crf.at(crf.theta.astype(method.precision))
    for numbers, plan in zip(crf.templates or (), features.plans(), strict=False):
        if len(numbers) and numbers.max() >= len(plan.templates):
            raise ModelFileError(f"{source}: it has attributes of templates that are not there; copy it again.")
    names = list(map(str, head["names"]))
    return StoredModel(crf, names, largest, head["n_sequences"], head["seen_all"], head["first"])


def names_left(names: list[str], before: LinearChainCRF, after: LinearChainCRF) -> list[str]:
    """Return the names of a model's features that another model has kept."""
    if not names or before is after:
        return names
    kept = np.concatenate([np.isin(*keys) for keys in zip(before.keys, after.keys, strict=True)])
    return [name for name, stays in zip(names, kept, strict=True) if stays]


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
        method.features.from_state(head["template_file"])
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
        try:
            plugins[name].from_state(state)
        except DAMAGED as error:
            raise ModelFileError(f"{source}: the data of {name!r} are damaged ({error!r}).") from error


# The settings beside it


def stored_settings(cfg: Mapping[str, Any], tags: Sequence[str]) -> dict[str, Any]:
    """Return the content of a file ``cfg`` for the settings of a component and its tags; no empty calibration."""
    return {key: value for key in (*MADE_OF, *UNCALIBRATED) if (value := cfg.get(key))} | {"tags": list(tags)}


def read_settings(file: Path) -> dict[str, Any]:
    """Return the content of a file ``cfg``.  RAISES ModelFileError: If it is not a map in JSON."""
    try:
        stored = srsly.read_json(file)
    except ValueError as error:
        raise ModelFileError(f"{file}: this is no JSON file ({error}). Train or copy the model again.") from error
    if not isinstance(stored, dict):
        raise ModelFileError(f"{file}: expected the settings of a component. Train or copy the model again.")
    return stored


def check_settings(stored: Mapping[str, Any], cfg: Mapping[str, Any], component: str) -> None:
    """Refuse stored settings that are damaged, or of another task than the config's.

    RAISES ModelFileError: If a value is of the wrong type or out of range, or the config says another one.
    """
    tags: Any = stored.get("tags")
    wrong = [key for key in UNCALIBRATED if key in stored and not is_learned(key, stored[key])]
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        wrong.append("tags")
    if wrong:
        values = ", ".join(f"{key} = {stored.get(key)!r}" for key in wrong)
        raise ModelFileError(f"component {component!r}: its stored settings are damaged: {values}. Copy it again.")
    for key in MADE_OF:
        if key in cfg and stored.get(key, cfg[key]) != cfg[key]:
            raise ModelFileError(
                f"component {component!r}: the model was trained with {key} = {stored[key]!r}, but the config says "
                f"{cfg[key]!r}. Use the config that lies beside the model, or train again."
            )
