"""What commands may write to: nothing that they read, and no folder that holds anything but a pipeline."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError

STDOUT = "-"
PIPELINE = ("config.cfg", "meta.json")
"""Files that the folder of every pipeline has."""


def check_output_file(output: str | Path | None, *inputs: str | Path | None) -> None:
    """Check that a file can be written without the loss of another; before anything is computed.

    output: The file; None for none, "-" for standard output.
    inputs: Files that the command reads; what is no file, such as a text, does not matter.
    RAISES ConfigError: If it is a folder, lies in what is no folder, or is one of the inputs.
    """
    if output is None or str(output) == STDOUT:
        return
    path = Path(output)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Give the name of a file to write.")
    _check_parents(path)
    if any(one is not None and _same(path, one) for one in inputs):
        raise ConfigError(f"{path} is read by this command; the output would take its place. Give another name.")


def check_output_folder(output: Path) -> None:
    """Check that a folder can be written to; RAISES ConfigError: If it is a file, or lies in one."""
    if output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output} is a file. Give a folder.")
    _check_parents(output)


def check_output_pipeline(output: Path) -> None:
    """Check that a pipeline can be saved, which replaces the folder with all that it holds.

    RAISES ConfigError: If there is a file or folder that is no pipeline.
    """
    if output.exists() and not all((output / name).is_file() for name in PIPELINE):
        raise ConfigError(f"{output} exists and is no pipeline. Give a folder that does not exist yet.")
    _check_parents(output)


def _check_parents(path: Path) -> None:
    there = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if there is not None and not there.is_dir():
        raise ConfigError(f"{path}: {there} is a file, not a folder.")


def _same(path: Path, other: str | Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one is not there, or is no name of a file
        return False
