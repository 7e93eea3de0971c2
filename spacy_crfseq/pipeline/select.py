"""The CRF components of a pipeline, and Docs as earlier components leave them for one of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from catalogue import RegistryError
from thinc.api import ConfigValidationError

from ..errors import ConfigError, CrfError, DataError, ModelFileError, suggest
from ..files import restore_folder

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from .component import CRFComponent

CONFIG = "config.cfg"
"""A file that the folder of every pipeline has."""


def model_folder(model: str | Path) -> Path:
    """Return the folder of a trained pipeline, given as a folder or by the name of a package.

    RAISES ConfigError: If it is neither; names the pipelines inside a folder, such as the output of training.
    """
    from spacy.util import get_package_path, is_package

    folder = Path(model)
    restore_folder(folder)
    if folder.is_file():
        raise ConfigError(f"{model} is a file. Give the folder of a trained pipeline.")
    if not folder.is_dir():
        if not is_package(str(model)):
            raise ConfigError(f"{model}: no such folder (in {Path.cwd()}), and no package of this name.")
        return Path(get_package_path(str(model)))
    if not (folder / CONFIG).is_file():
        inside = sorted(file.parent for file in folder.glob(f"*/{CONFIG}"))
        where = f"Give {' or '.join(map(str, inside))}." if inside else "Give the folder of a trained pipeline."
        raise ConfigError(f"{model} is not a pipeline: it has no {CONFIG}. {where}")
    return folder


def load_pipeline(model: str | Path) -> Language:
    """Return a trained pipeline from its folder or package.

    RAISES ConfigError: If there is no pipeline, see `model_folder`.
    RAISES ModelFileError: If one of its files is missing or damaged and no other error says so.
    """
    import spacy

    model_folder(model)
    try:
        return spacy.load(model)
    except (CrfError, ConfigValidationError, RegistryError, OSError, ImportError):
        raise
    except Exception as error:  # spaCy reads its own files without a check
        if re.match(r"\[E\d", str(error)):  # its messages to users
            raise
        what = f"{model}: the pipeline cannot be loaded ({error!r}). A file in it is missing or damaged"
        raise ModelFileError(f"{what}: copy or train it again.") from error


def crfs_of(pipes: Mapping[str, object], wanted: Sequence[str], model: str) -> dict[str, CRFComponent]:
    """Return the CRF components named in `wanted`, all if it is empty, in the order of the pipeline.

    model (str): What to call the pipeline in an error.
    RAISES ConfigError: If there is no CRF component, or none with a name that was given.
    """
    from .component import CRFComponent

    crfs = {name: pipe for name, pipe in pipes.items() if isinstance(pipe, CRFComponent)}
    unknown = [name for name in wanted if name not in crfs]
    if unknown or not crfs:
        if unknown and crfs:
            raise ConfigError(f"{model} has no CRF component {unknown[0]!r}. {suggest(unknown[0], crfs)}")
        raise ConfigError(f"{model} has no CRF component. Its components are {', '.join(pipes) or 'none'}.")
    return {name: pipe for name, pipe in crfs.items() if name in wanted or not wanted}


def one_crf_of(nlp: Language, wanted: str | None, model: str, *, spans_first: bool = False) -> tuple[str, CRFComponent]:
    """Return the CRF component with a name, or the only one.

    spans_first (bool): Without a name, take the only one that predicts spans, if there is one.
    RAISES ConfigError: If there is none, or several and no name.
    """
    crfs = crfs_of(dict(nlp.pipeline), [wanted] if wanted else [], model)
    if spans_first and not wanted:
        crfs = {name: pipe for name, pipe in crfs.items() if "scheme" in pipe.cfg} or crfs
    if len(crfs) > 1:
        raise ConfigError(f"{model} has several CRF components. Choose one: --component {' or '.join(crfs)}.")
    return next(iter(crfs.items()))


def run_between(nlp: Language, docs: Iterable[Doc], first: str | None, last: str) -> list[Doc]:
    """Annotate docs by the components from `first` (or all) up to `last`.  RAISES DataError: If tokens change."""
    docs, names = list(docs), nlp.pipe_names
    between = names[0 if first is None else names.index(first) : names.index(last)]
    if not between:
        return docs
    sizes = [len(doc) for doc in docs]
    with nlp.select_pipes(enable=between):
        done = list(nlp.pipe(docs))
    for doc, size in zip(done, sizes, strict=True):
        if len(doc) != size:
            raise DataError(
                f"The components {between} change the tokens of {doc.text[:60]!r}. Remove the one that merges or "
                f"splits tokens: the predictions of {last} must be about the tokens of the file."
            )
    return done


def start_from(pipes: Mapping[str, CRFComponent], model: str) -> list[str]:
    """Let components continue from those of the same name in a trained pipeline; return the names of the others.

    RAISES ConfigError: If none has the name of another, or training cannot go on from it.
    """
    there = dict(load_pipeline(model).pipeline)
    trained = crfs_of(there, [], model)
    if not trained.keys() & pipes:
        crfs_of(there, list(pipes), model)
    for name, pipe in pipes.items():
        pipe.start_from(trained.get(name))
    return [name for name in pipes if name not in trained]
