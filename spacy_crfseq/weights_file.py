"""The weights of a model as bytes: one msgpack map, described in docs/model-file.md, "Weights".

Components and estimators store it inside of their own files.  Arrays are packed, and no weight that is zero is stored.
Reading runs no code, checks whatever kernels rely on, and takes no more memory than the size of the data warrants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import srsly

from .errors import DAMAGED, ModelFileError
from .files import collecting
from .model import Added, LinearChainCRF
from .packing import pack, unpack
from .potentials.layout import DenseRows, Layout, SparseRows, WeightRows
from .potentials.tag_dictionary import TagDictionary
from .types import Floats, Hashes, Numbers, Stateful

FORMAT = "spacy_crfseq.LinearChainCRF"
VERSION = 1
BLOCKS = "state", "pair"
"""Names of both blocks of features in a file."""
KINDS = "float32", "float64"
"""Types of parameters."""


def weights_to_bytes(crf: LinearChainCRF) -> bytes:
    """Return the labels, features and weights of a model, and the data of its added potentials."""
    used, layout = crf.theta != 0, crf.layout
    message: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "labels": crf.labels,
        "boundaries": layout.boundaries,
        "steps": None if layout.steps is None else layout.steps.astype(np.uint8),
        "theta": pack(crf.theta[used]),
        "precision": crf.theta.dtype.name,
        "used": np.packbits(used),
        "n_theta": len(used),
    }
    for number, (name, rows) in enumerate(zip(BLOCKS, (layout.unigrams, layout.bigrams), strict=True)):
        keys = crf.keys[number]
        message[name] = {
            "n": len(keys),
            "keys": pack(np.diff(keys, prepend=np.uint64(0)), counted=True),
            "kind": "dense",
        }
        if isinstance(rows, SparseRows):
            lengths, cols = pack(np.diff(rows.ptr).astype(np.uint32)), pack(rows.cols.astype(np.uint32))
            message[name] |= {"kind": "sparse", "lengths": lengths, "cols": cols}
        if crf.templates is not None:
            message[name]["templates"] = pack(crf.templates[number].astype(np.uint16))
    if crf.dictionary is not None:
        words, allowed = crf.dictionary
        message["dictionary"] = {"words": words, "allowed": np.packbits(allowed, axis=1)}
    states = [plugin.to_state() for plugin in crf.added_potentials if isinstance(plugin, Stateful)]
    if states:
        message["potentials"] = states
    data: bytes = srsly.msgpack_dumps(message)
    return data


def weights_from_bytes(data: bytes, source: str = "model data", added: tuple[Added, ...] = ()) -> LinearChainCRF:
    """Return the model stored by `weights_to_bytes`.

    source (str): Name of the data for error messages.
    added (tuple[Added, ...]): The potentials of its training, in addition to the linear one; they get their data.
    RAISES ModelFileError: If the data are foreign, truncated, of another version, or hold impossible numbers.
    """
    message = _unpack(data, source)
    try:
        labels, steps = message["labels"], message["steps"]
        names = labels if isinstance(labels, list) else []
        if not names or any(type(name) is not str for name in names) or len(set(names)) < len(names):
            raise ValueError(f"the labels are {labels!r} instead of a list of distinct names")
        n = len(names)
        theta = _unpack_theta(message)
        (unigrams, keys, numbers), (bigrams, pair_keys, pair_numbers) = (
            _unpack_block(message[name], width, len(theta)) for name, width in zip(BLOCKS, (n, n * n), strict=True)
        )
        steps = None if steps is None else np.array(steps, np.bool_)
        layout = Layout(n, unigrams, bigrams, steps, bool(message["boundaries"]))
        dictionary = _unpack_dictionary(message["dictionary"], n) if "dictionary" in message else None
        stateful = [plugin for plugin in added if isinstance(plugin, Stateful)]
        states = [*zip(stateful, message.get("potentials", ()), strict=True)]
    except DAMAGED as error:
        raise ModelFileError(f"{source}: the stored model is damaged ({error!r}); train or copy it again.") from error
    for plugin, state in states:
        restore(plugin, state, type(plugin).__name__, source)
    _check(layout, theta, source, sum(plugin.size(n) for plugin in added))
    templates = None if numbers is None or pair_numbers is None else (numbers, pair_numbers)
    return LinearChainCRF(labels, layout, theta, (keys, pair_keys), dictionary, templates, added)


def restore(plugin: Stateful, state: Any, name: str, source: str) -> None:
    """Give a plug-in the data that a model has stored, which the error calls `name`.

    The digest of a file is checked before, so data of another form were written by another build of the plug-in.
    RAISES ModelFileError: If it cannot read them.
    """
    try:
        plugin.from_state(state)
    except DAMAGED as error:
        raise ModelFileError(
            f"{source}: the data of {name!r} were not written by this build of it, but by an earlier or a newer one "
            f"({error!r}). Train the model again, or load it with the release that wrote it."
        ) from error


def check_version(stored: Any, version: int, source: str) -> None:
    """RAISES ModelFileError: If a stored format is of another version than the one that this release reads."""
    if type(stored) is int and stored > version:
        raise ModelFileError(
            f"{source}: stored by a newer release of spacy_crfseq, in version {stored} of the format; this one reads "
            f"version {version}. Run 'pip install --upgrade spacy-crfseq'."
        )
    if type(stored) is not int or stored != version:
        raise ModelFileError(
            f"{source}: stored by an earlier release, in version {stored!r} of the format; this one reads version "
            f"{version}. Train it again."
        )


def check_finite(theta: Floats, source: str) -> None:
    """RAISES ModelFileError: If a weight is NaN or infinite."""
    if not np.isfinite(theta).all():
        count = int((~np.isfinite(theta)).sum())
        raise ModelFileError(
            f"{source}: {count} of {len(theta)} weights are NaN or infinite. The training diverged or the file is "
            "damaged: train again, with a smaller learning rate or a stronger regularizer."
        )


def _unpack(data: bytes, source: str) -> dict[str, Any]:
    try:
        with collecting():
            message = srsly.msgpack_loads(data)
    except Exception as error:  # msgpack raises many kinds on foreign bytes
        raise ModelFileError(
            f"{source}: this is no spacy_crfseq model, or it was cut short ({error}). Train or copy it again."
        ) from error
    head: dict[str, Any] = message if isinstance(message, dict) else {}
    if not isinstance(head.get("format"), str) or head["format"] != FORMAT:
        raise ModelFileError(f"{source}: this is no spacy_crfseq model. Train a model, or check the path.")
    check_version(head.get("version"), VERSION, source)
    return head


def _unpack_theta(stored: dict[str, Any]) -> Floats:
    size, packed, kind = int(stored["n_theta"]), np.array(stored["used"], np.uint8), stored["precision"]
    if packed.ndim != 1 or size < 0 or len(packed) != -(-size // 8):
        raise ValueError(f"{8 * packed.size} parameters where {size} are marked")
    if kind not in KINDS:
        raise ValueError(f"parameters of type {kind!r}, not {' or '.join(KINDS)}")
    used = np.unpackbits(packed, count=size).astype(np.bool_)
    theta = np.zeros(size, kind)
    theta[used] = unpack(stored["theta"], kind, int(used.sum()))
    return theta


def _unpack_words(stored: Any) -> Hashes:
    words = np.array(stored)
    if words.ndim != 1 or words.dtype != np.uint64:
        raise ValueError(f"the words are {words.ndim}-dimensional {words.dtype} instead of a list of uint64")
    return words


def _unpack_dictionary(stored: dict[str, Any], n_labels: int) -> TagDictionary:
    words = _unpack_words(stored["words"])
    allowed = np.unpackbits(np.array(stored["allowed"], np.uint8), axis=1)[:, :n_labels].astype(np.bool_)
    if allowed.shape != (len(words), n_labels) or not allowed.any(1).all():
        raise ValueError("the tag dictionary does not fit the labels")
    return TagDictionary(words, allowed)


def _unpack_block(stored: dict[str, Any], width: int, most: int) -> tuple[WeightRows, Hashes, Numbers | None]:
    """Return the rows, keys and templates of a block, whose arrays fit each other: kernels do not check bounds.

    most (int): The number of its weights is at most this.
    """
    n, templates = int(stored["n"]), None
    if not 0 <= n <= len(stored["keys"]):
        raise ValueError(f"{n} features in {len(stored['keys'])} bytes")
    keys = np.cumsum(unpack(stored["keys"], np.uint64, n), dtype=np.uint64)
    if "templates" in stored:
        templates = unpack(stored["templates"], np.uint16, n)
    if stored["kind"] == "dense":
        return DenseRows(n, width), keys, templates
    if stored["kind"] != "sparse":
        raise ValueError(f"the weights are stored as {stored['kind']!r}, which is not supported")
    ptr = np.append(0, np.cumsum(unpack(stored["lengths"], np.uint32, n), dtype=np.int64))
    if ptr[-1] > most:
        raise ValueError(f"{ptr[-1]} weights where there are {most} parameters")
    cols = unpack(stored["cols"], np.uint32, int(ptr[-1]))
    if cols.size and cols.max() >= width:
        raise ValueError("weights of labels that are not there")
    return SparseRows(ptr, cols.astype(np.int32), width), keys, templates


def _check(layout: Layout, theta: Floats, source: str, n_added: int) -> None:
    """Refuse parameters that do not fit the layout."""
    wrong = ""
    if layout.steps is not None and layout.steps.shape != (layout.n_labels, layout.n_labels):
        wrong = f"its transitions do not fit its {layout.n_labels} labels; copy it again."
    elif len(theta) != layout.size + n_added:
        wrong = (
            f"{theta.size} parameters where {layout.size + n_added} are needed. Copy it again, with the config beside "
            "it: [potentials] must be those of the training."
        )
    if wrong:
        raise ModelFileError(f"{source}: {wrong}")
    check_finite(theta, source)
