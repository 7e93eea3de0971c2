"""The files of a corpus or of texts: a file, a folder, a pattern such as train-*.conll, or several, comma-separated.

Every command and every reader finds its files by `resolve`, those of annotated corpora by `corpus_files`: they are read
with one layout, while texts may be in files of several kinds.  A path that names several files is still one `Path`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import ConfigError, FormatError
from .lines import STDIN, ZIPPED

COMMA = ","
COMPANIONS = frozenset({
    "dataset_info.json", "dataset_dict.json", "state.json", "labels.txt",
    "annotation.conf", "visual.conf", "tools.conf", "kb_shortcuts.conf",
})  # fmt: skip
"""Files beside those of a data set of Hugging Face, and of brat."""
_SIGNS = frozenset("*?[")
_SHOWN = 4


def resolve(path: Path | str) -> list[Path]:
    """Return the files of a path, each once, in the order of their names.

    Of a folder, these are all files in it and its folders, but those that are hidden or in hidden folders, such as the
    records of ``tag``; of a pattern, also those in folders that it matches, and ``**`` stands for any folders.
    Standard input and a file that exists are themselves.
    RAISES FormatError: If a file or folder does not exist.
    RAISES ConfigError: If a folder or pattern has no file.
    """
    path = Path(path)
    if path == STDIN or path.is_file():
        return [path]
    files = {file.resolve(): file for part in _parts(path) for file in reversed(_files_of(part))}
    return sorted(files.values())


def corpus_files(path: Path | str) -> list[Path]:
    """Return the files of an annotated corpus, as `resolve`, without those that only belong to one of them.

    RAISES ConfigError: Also if a folder or pattern has files of several kinds, by their endings.
    """
    files = resolve(path)
    if len(files) > 1:
        files = _without_companions(files)
        for part in _parts(Path(path)):
            _check_kinds(part, _without_companions(_files_of(part)))
    return files


def resolve_all(paths: Iterable[Path | str]) -> list[Path]:
    """Return the files of several paths, each once, in the order of the paths; RAISES CrfError: As `resolve`."""
    files: dict[Path, Path] = {}
    for path in paths:
        for file in resolve(path):
            files.setdefault(file.resolve(), file)
    return list(files.values())


def joined(paths: Sequence[Path]) -> Path:
    """Return several paths as one; RAISES ConfigError: If a name has a comma, which would divide it."""
    if len(paths) == 1:
        return paths[0]
    for path in paths:
        if COMMA in str(path):
            raise ConfigError(f"{path}: a comma stands between files. Rename the file, or give it alone.")
    return Path(COMMA.join(map(str, paths)))


def ending_of(path: Path) -> str:
    """Return the ending of a file's name, below that of packed files."""
    return Path(path.name.removesuffix(ZIPPED)).suffix


def _parts(path: Path) -> list[Path]:
    """Return the parts between commas, unless there is a folder of this name."""
    return [path] if path.exists() else [Path(part.strip()) for part in str(path).split(COMMA) if part.strip()]


def _check_kinds(path: Path, files: Sequence[Path]) -> None:
    kinds = {ending_of(file): file for file in reversed(files)}
    if kinds.keys() == {".ann", ".txt"}:
        alone = [file for file in files if ending_of(file) == ".txt"]
        raise FormatError(
            alone[0],
            0,
            f"there is no {alone[0].with_suffix('.ann').name} beside it, as for {len(alone)} of the texts. If nothing "
            "is annotated in them, make empty files of these names, as brat does; else move the texts away.",
        )
    if len(kinds) > 1:
        some = ", ".join(f"{kind or 'no ending'} ({file.name})" for kind, file in sorted(kinds.items())[:_SHOWN])
        kind = max(filter(None, kinds), key=[ending_of(file) for file in files].count)
        folder = path if path.is_dir() else path.parent
        raise ConfigError(
            f"{path}: there are files of {len(kinds)} kinds: {some}{', ...' if len(kinds) > _SHOWN else ''}. "
            f"Give a pattern of one kind, such as {folder}/**/*{kind}."
        )


def _files_of(path: Path) -> list[Path]:
    """Return the files of one file, folder or pattern."""
    if path.is_file():
        return [path]
    is_pattern = not path.exists() and not _SIGNS.isdisjoint(str(path))
    if not (path.is_dir() or is_pattern):
        what = "this is a device or a pipe" if path.exists() else f"no such file or folder (in {Path.cwd()})"
        raise FormatError(path, 0, f"{what}.")
    places = [path] if path.is_dir() else Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    files = [file for name in places for file in (name.rglob("*") if name.is_dir() else [name])]
    files = sorted({file for file in files if file.is_file() and not _is_hidden(file, path)})
    if not files:
        raise ConfigError(f"{path}: there is no file {'of this pattern' if is_pattern else 'in this folder'}.")
    return files


def _without_companions(files: Sequence[Path]) -> list[Path]:
    """Return files without descriptions of data sets, and without the texts of brat's annotation."""
    annotated = {file.with_suffix(".txt") for file in files if file.suffix == ".ann"}
    return [file for file in files if file not in annotated and file.name not in COMPANIONS] or [*files]


def _is_hidden(file: Path, path: Path) -> bool:
    """Whether the name of a file, or of a folder on the way, begins with a dot, unless the path asks for such names."""
    hidden = {name for name in file.parts if name.startswith(".")}.difference(path.parts)
    return bool(hidden) and not any(name.startswith(".") and not _SIGNS.isdisjoint(name) for name in path.parts)
