"""The config file of a training, with the overrides of a command line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from configparser import Error as ConfigSyntaxError
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy import util
from thinc.api import ConfigValidationError

from ..corpora.outputs import PIPELINE
from ..errors import ConfigError
from ..registry import in_words
from .overrides import check_components, check_overrides, check_settings, check_variables

if TYPE_CHECKING:
    from thinc.api import Config

_OF_ANOTHER_TYPE = re.compile(r"(?:at root: )?(?P<value>.+) is not <class '(?:\w+\.)*(?P<kind>\w+)'>", re.DOTALL)
"""The message of spaCy's check of a value by the annotation of a parameter."""


def check_config_file(path: Path) -> None:
    """RAISES ConfigError: If there is no such file, it is empty or not in UTF-8."""
    path = Path(path)
    if str(path) == "-":
        return
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Give a config file.")
    if not path.is_file():
        raise ConfigError(f"{path}: no such config file (in {Path.cwd()}).")
    try:
        text = path.read_text(encoding="utf8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} of this config is not utf8. Save it as UTF-8.") from error
    if not text.strip():
        advice = f"To write a config, run: python -m spacy crfseq init-config {path} --force"
        raise ConfigError(f"{path} is empty. {advice}")


def load_config(config_path: Path, overrides: dict[str, Any], sections: Collection[str] = ()) -> Config:
    """Return a config without interpolating its variables.

    A block that an override gives another function loses the settings of the former one, which are not its own.
    sections (Collection[str]): Sections that the caller reads, beside those of spaCy.
    RAISES ConfigError: As `check_config_file`, if a section stands twice, and if nothing reads a setting of spaCy's
        sections or an override, or a variable or a component is not there.
    """
    check_config_file(config_path)
    try:
        config = util.load_config(config_path, interpolate=False)
    except ConfigSyntaxError as error:
        raise ConfigError(f"{config_path}: {error}") from error
    except ConfigValidationError as error:
        if "no section headers" not in str(error):
            raise
        raise ConfigError(
            f"{config_path} is no config: it does not begin with a section, such as [paths]. For a config of a corpus, "
            "run: python -m spacy crfseq init-config ner.cfg --train CORPUS"
        ) from error
    if overrides:
        check_overrides(config, overrides, sections)
    for key, function in overrides.items():
        *parts, name = key.split(".")
        if name.startswith("@"):
            block: Any = reduce(lambda outer, part: outer.get(part, {}), parts, config)
            if block.get(name, function) != function:
                block.clear()
                block[name] = function
    text = config.to_str(interpolate=False)
    replaced: Config = util.load_config_from_str(text, overrides=overrides, interpolate=False)
    try:
        check_settings(replaced)
        check_variables(replaced)
        check_components(replaced)
    except ConfigError as error:
        raise ConfigError(f"{config_path}: {error}") from None
    return replaced


def pipelines_in(value: Any) -> Iterator[str]:
    """Yield the folders of pipelines that a value of a config names: sources of components, teachers, vectors.

    A folder with a config alone is the place of a project.
    """
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from pipelines_in(inner)
    elif isinstance(value, str) and value:
        with suppress(OSError, ValueError):  # a text that is no name of a file
            if all((Path(value) / name).is_file() for name in PIPELINE):
                yield value


@contextmanager
def naming_block(config: Config) -> Iterator[None]:
    """Name the block of a component or a corpus whose registered function refuses its settings.

    Registered functions know their settings, not where these stand; a config may call a function more than once.
    RAISES ConfigError: As in the body, with the block in front of the message; and for a value of another type, which
        spaCy refuses by the annotations of a function.
    """
    try:
        yield
    except ConfigError as error:
        blocks = config.interpolate()
        for section in ("components", "corpora"):
            if block := _refused(section, blocks.get(section, {}), str(error)):
                raise ConfigError(f"[{block}] {error}") from error
        raise
    except ConfigValidationError as error:
        if lines := _types_refused(config.interpolate(), error):
            raise ConfigError("\n".join(lines)) from None
        raise


def _types_refused(blocks: Mapping[str, Any], error: ConfigValidationError) -> list[str]:
    """Return a line for each value of another type than its setting; none if there are other faults, too."""
    lines = []
    for fault in error.errors or ():
        refused = _OF_ANOTHER_TYPE.fullmatch(fault["msg"])
        words = in_words(refused["kind"]) if refused else None
        end, _, name = "".join(f".{part}" for part in fault["loc"]).rpartition(".")  # the last blocks, and the setting
        places = (
            place
            for place, block in _blocks(blocks)
            if refused and f".{place}".endswith(end) and name in block and repr(block[name]) == refused["value"]
        )
        if refused is None or words is None or (place := next(places, None)) is None:
            return []
        lines.append(f"[{place}] {name} must be {words}, but {refused['value']} was given.")
    return lines


def _blocks(block: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names of the blocks inside of a block, and these."""
    for name, inner in block.items():
        if isinstance(inner, Mapping):
            yield f"{before}{name}", inner
            yield from _blocks(inner, f"{before}{name}.")


def _refused(name: str, block: Mapping[str, Any], message: str) -> str | None:
    """Return the name of the innermost block in `block` whose function refuses its settings with a message."""
    for key, inner in block.items():
        if isinstance(inner, Mapping) and (place := _refused(f"{name}.{key}", inner, message)):
            return place
    if any(key.startswith("@") for key in block):
        try:
            util.registry.resolve({"block": dict(block)})
        except ConfigError as error:
            return name if str(error) == message else None
        except Exception:  # of another fault, which is not the one to name
            return None
    return None
