"""Checks on outputs: a command never replaces its input or a foreign folder, and earlier work only if forced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError

STDOUT = "-"
PIPELINE = ("config.cfg", "meta.json")
"""Files that the folder of every pipeline has."""


def check_output_file(output: str | Path | None, *inputs: str | Path | None, force: bool = True) -> None:
    """Check that a file can be written without the loss of another; before anything is computed.

    output: The file; None for none, "-" for standard output.
    inputs: Files that the command reads; other arguments, such as a text, are ignored.
    force: Whether a file of this name may be replaced; False where people may have worked on it.
    RAISES ConfigError: If it is a folder, its parent is a file, it is one of the inputs, or it exists without `force`.
    """
    if output is None or str(output) == STDOUT:
        return
    path = Path(output)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Give the name of a file to write.")
    _check_parents(path)
    if any(one is not None and _same(path, one) for one in inputs):
        raise ConfigError(f"{path} is read by this command; the output would replace it. Give another name.")
    _check_new(path, force)


def check_output_folder(output: Path, *inputs: str | Path, pipelines: Sequence[str] = (), force: bool = False) -> None:
    """Check that a folder can take the results of training.

    inputs: Pipelines that the command reads, folders or names of packages.
    pipelines: Names of the pipelines that will be written to it.
    RAISES ConfigError: If it is a file or lies in one, or as `check_output_pipeline` for each pipeline.
    """
    if output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output} is a file. Give a folder.")
    _check_parents(output)
    for name in pipelines:
        check_output_pipeline(output / name, *inputs, force=force)


def check_output_pipeline(output: Path, *inputs: str | Path, force: bool = False) -> None:
    """Check that a pipeline can be saved, which replaces the folder with all that it holds.

    inputs: Pipelines that the command reads, folders or names of packages.
    force: Whether an existing pipeline may be replaced.
    RAISES ConfigError: If it is, holds or is inside one of the inputs, if there is a file or folder that is no
        pipeline, or a pipeline without `force`.
    """
    for one in inputs:
        new, old = output.resolve(), Path(one).resolve()
        if old.exists() and (_same(output, one) or new in (old, *old.parents) or old in new.parents):
            how = "is inside" if old in new.parents else "holds" if new in old.parents else "is"
            where = "the model" if how == "is" else one
            raise ConfigError(f"The output folder {output} {how} {where} that this command reads. Give another folder.")
    if output.exists() and not all((output / name).is_file() for name in PIPELINE):
        raise ConfigError(f"{output} exists and is not a pipeline. Give a folder that does not exist yet.")
    _check_parents(output)
    _check_new(output, force)


def _check_new(path: Path, force: bool) -> None:
    if not force and path.exists():
        raise ConfigError(f"{path} exists. Give another name, or --force to replace it.")


def _check_parents(path: Path) -> None:
    there = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if there is not None and not there.is_dir():
        raise ConfigError(f"{path}: {there} is a file, not a folder.")


def _same(path: Path, other: str | Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one does not exist, or is not a file name
        return False
