"""A component's place on disk: its settings, and the model with the templates it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import srsly
from spacy import util

from ..errors import ModelFileError
from ..features.protocol import Stateful
from ..features.sets import FeatureSet
from ..features.template_file import TemplateFile
from ..files import collecting, replacing
from ..model import LinearChainCRF, check_version
from .settings import Method

if TYPE_CHECKING:
    from typing_extensions import Self
from .feature_names import LargestNames

VERSION = 1
HEAD: dict[str, Any] = {
    "version": int, "template_file": list | None, "templates": list, "bigram_templates": list, "functions": dict,
    "attributes": dict | None, "names": list, "largest": list, "n_sequences": int, "seen_all": bool,
    "first": bytes | None, "model": bytes, "digest": bytes,
}  # fmt: skip
"""The types of the entries of a model file."""


class Packed(NamedTuple):
    """What a model file holds under these names, beside weights, templates and the data of plug-ins.

    names (list[str]): Readable names of both blocks' features, empty where they were not kept.
    largest (LargestNames): Names of the features with the largest weights, where not all are kept.
    n_sequences (int): Size of the training set, with which online training continues.
    seen_all (bool): See `Session`.
    first (bytes | None): The model file of the first stage.
    """

    names: list[str]
    largest: LargestNames
    n_sequences: int
    seen_all: bool = True
    first: bytes | None = None


def pack(crf: LinearChainCRF, packed: Packed, method: Method, features: FeatureSet, is_first: bool = False) -> bytes:
    """Return the bytes of a model file.

    features (FeatureSet): Those of the method, with those of its attribute plug-ins.
    is_first (bool): Whether this is a first stage: the data of plug-ins are in the file around it.

    Features whose weights are all zero are left out, unless the optimizer may have to visit them yet.
    """
    names, whole = packed.names, crf
    if packed.seen_all and any(weights.any() for weights in crf.views[:2]):
        crf = crf.without_unused()
        names = names_left(names, whole, crf)
    largest = [{key: of_block[key] for key in sorted(of_block)} for of_block in packed.largest]
    head = {
        "version": VERSION,
        "template_file": method.features.to_state() if isinstance(method.features, TemplateFile) else None,
        "templates": list(features.templates),
        "bigram_templates": list(features.bigram_templates),
        "functions": {} if is_first else _states(_functions(features)),
        "attributes": None if is_first else _states(method.attributes),
        **packed._replace(names=names, largest=largest)._asdict(),  # type: ignore[arg-type]
        "model": crf.to_bytes(),
    }
    data: bytes = srsly.msgpack_dumps({**head, "digest": None})
    seal: bytes = srsly.msgpack_dumps(blake2b(data, digest_size=16).digest())
    return data[:-1] + seal  # in place of None, which is one byte


def _states(plugins: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.to_state() for name, one in plugins.items() if isinstance(one, Stateful)}


def names_left(names: list[str], before: LinearChainCRF, after: LinearChainCRF) -> list[str]:
    """Return the names of a model's features that another one has kept."""
    if not names or before is after:
        return names
    kept = np.concatenate([np.isin(*keys) for keys in zip(before.keys, after.keys, strict=True)])
    return [name for name, stays in zip(names, kept, strict=True) if stays]


def _digest(head: dict[str, Any]) -> bytes:
    """Return a hash of all entries of a model file but itself: a flipped bit of a weight cannot be seen otherwise."""
    return blake2b(srsly.msgpack_dumps({**head, "digest": None}), digest_size=16).digest()


def _functions(features: FeatureSet) -> dict[str, Any]:
    return {**features.functions, **features.token_functions}


def unpack(data: bytes, method: Method, component: str, source: str) -> tuple[LinearChainCRF, Packed]:
    """Return what `pack` stored; features that keep a state get it back.

    method (Method): Features and potentials of the config, which must be those of the model.
    source (str): What to call the data in an error.
    RAISES ModelFileError: If the data are damaged or foreign, or the model was trained with other features.
    """
    try:
        with collecting():
            head = srsly.msgpack_loads(data)
        if isinstance(head["version"], int):
            check_version(head["version"], VERSION, source)
        wrong = [name for name, kind in HEAD.items() if not isinstance(head[name], kind)]
        if wrong or head["digest"] != _digest(head):
            raise ValueError(f"{', '.join(wrong) or 'its parts'} are not what was written")
        templates = head["templates"], head["bigram_templates"]
        unigrams, bigrams = ({int(key): str(name) for key, name in one.items()} for one in head["largest"])
        packed = Packed(
            list(map(str, head["names"])), (unigrams, bigrams), *(head[name] for name in Packed._fields[2:])
        )
    except ModelFileError:
        raise
    except Exception as error:  # msgpack raises many kinds on foreign bytes
        raise ModelFileError(
            f"{source}: this is no model of spacy_crfseq, or it was cut short ({error!r}). Train or copy it again."
        ) from error
    lines, functions, attributes = head["template_file"], head["functions"], head["attributes"]
    if lines and isinstance(method.features, TemplateFile):
        method.features.from_state(lines)
    if attributes is not None:
        _restore(method.attributes, attributes, source)
    features = method.feature_set()
    same_templates = templates == (list(features.templates), list(features.bigram_templates))
    if not same_templates or not functions.keys() <= _functions(features).keys():
        raise ModelFileError(
            f"{source}: the model was trained with other feature templates than the config of component "
            f"{component!r} names. Use the config that lies beside the model, or train again."
        )
    _restore({name: _functions(features)[name] for name in functions}, functions, source)
    crf = LinearChainCRF.from_bytes(head["model"], source, tuple(method.potentials.values()))
    for numbers, plan in zip(crf.templates or (), features.plans(), strict=False):
        if len(numbers) and numbers.max() >= len(plan.templates):
            raise ModelFileError(f"{source}: it has attributes of templates that are not there; copy it again.")
    return crf, packed


def _restore(attributes: Mapping[str, Any], states: Mapping[str, Any], source: str) -> None:
    """Give attribute plug-ins the data that a model has stored.  RAISES ModelFileError: If they do not fit."""
    expected = {name for name, plugin in attributes.items() if isinstance(plugin, Stateful)}
    if expected != states.keys():
        raise ModelFileError(
            f"{source}: the model has data for the attributes {sorted(states)}, but the config names "
            f"{sorted(expected)}. Use the config that lies beside the model, or train again."
        )
    for name, state in states.items():
        try:
            attributes[name].from_state(state)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise ModelFileError(f"{source}: the data of {name!r} are damaged ({error!r}).") from error


def read_settings(file: Path) -> dict[str, Any]:
    """Return the settings stored as JSON.  RAISES ModelFileError: If the file holds something else."""
    try:
        stored = srsly.read_json(file)
    except ValueError as error:
        raise ModelFileError(f"{file}: this is no JSON file ({error}). Train or copy the model again.") from error
    if not isinstance(stored, dict):
        raise ModelFileError(f"{file}: expected the settings of a component. Train or copy the model again.")
    return stored


class Saved:
    """The methods of a component that save and load it, with its `DocModel`, as spaCy calls them."""

    doc_model: Any  # untyped, because its module imports this one
    _loaded: Callable[[], None]

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return settings, vocab, labels and weights as bytes."""
        model, packed = self.doc_model, self.doc_model.pack()
        serialize: dict[str, Callable[[], Any]] = {
            "cfg": lambda: srsly.json_dumps(model.settings()),
            "vocab": lambda: model.vocab.to_bytes(exclude=exclude),
            **({} if packed is None else {"model": lambda: packed}),
        }
        data: bytes = util.to_bytes(serialize, exclude)
        return data

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_bytes` returned.  RAISES ModelFileError: If the data are damaged or foreign."""
        model = self.doc_model
        load = {
            "cfg": lambda data: model.use_settings(srsly.json_loads(data)),
            "vocab": lambda data: model.vocab.from_bytes(data, exclude=exclude),
            "model": lambda data: model.unpack(data, f"component {model.name!r}"),
        }
        util.from_bytes(bytes_data, load, exclude)
        self._loaded()
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the component to a folder; the model goes to a temporary name first and is then moved."""
        model, packed = self.doc_model, self.doc_model.pack()

        def write(file: Path) -> None:
            if packed is not None:
                with replacing(file) as temporary:
                    temporary.write_bytes(packed)

        serialize: dict[str, Callable[[Path], Any]] = {
            "cfg": lambda file: srsly.write_json(file, model.settings()),
            "vocab": lambda folder: model.vocab.to_disk(folder, exclude=exclude),
            "model": write,
        }
        util.to_disk(path, serialize, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_disk` wrote; errors as in `from_bytes`."""
        model = self.doc_model
        load: dict[str, Callable[[Path], Any]] = {
            "cfg": lambda file: model.use_settings(read_settings(file)),
            "vocab": lambda folder: model.vocab.from_disk(folder, exclude=exclude),
            "model": lambda file: model.unpack(file.read_bytes(), str(file)) if file.exists() else None,
        }
        util.from_disk(path, load, exclude)
        self._loaded()
        return self
