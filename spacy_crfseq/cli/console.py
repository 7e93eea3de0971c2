"""Output of commands: results on stdout, errors as a paragraph on stderr, colour only on a terminal."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from configparser import Error as ConfigSyntaxError
from contextlib import contextmanager, redirect_stdout, suppress
from inspect import signature
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TextIO

import typer
from catalogue import RegistryError
from spacy.cli._util import show_validation_error
from spacy.util import import_file, registry
from thinc.api import Config, ConfigValidationError
from wasabi import msg
from wasabi.printer import Printer
from wasabi.tables import row
from wasabi.tables import table as text_table
from wasabi.util import ENV_ANSI_DISABLED

from ..errors import ConfigError, CrfError, DataError, FormatError, ModelFileError, suggest

FAILED, INTERRUPTED = 1, 130
TITLES: dict[type[Exception], str] = {
    ConfigSyntaxError: "Config validation error",
    ConfigError: "Cannot run this",
    FormatError: "The file cannot be read",
    DataError: "The data cannot be used",
    ModelFileError: "The model cannot be loaded",
}
FACTORIES = ("crf_chunker", "crf_ner", "crf_tagger")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NAME_KEPT = 6
"""The fewest characters of a feature's name that are shown beside its value."""


def table(rows: Collection[Any], **settings: Any) -> str:
    """Return a table made by wasabi, whose columns are as wide as their longest cells, however long these are."""
    return str(text_table(rows, max_col=sys.maxsize, **settings))


class _Printer(Printer):
    """A printer of such tables."""

    def table(self, data: Collection[Any] | dict[Any, Any], **kwargs: Any) -> Any:
        return super().table(data, max_col=sys.maxsize, **kwargs)


def printer() -> Any:
    """Return a printer for stdout, plain unless stdout is a terminal."""
    return _Printer(pretty=sys.stdout.isatty())


def say(kind: str, line: str) -> None:
    """Print a line of progress; its kind, "text", "info" or "warn", says how."""
    getattr(printer(), kind)(line)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def advise(*commands: str) -> None:
    """Suggest next commands on a terminal, and nothing in a pipe."""
    if sys.stdout.isatty():
        print("\n".join(["", *(f"  python -m spacy crfseq {command}" for command in commands)]))


class Rows:
    """A table printed row by row: aligned on a terminal, NAME=VALUE (VALUE if unnamed) in a pipe."""

    def __init__(self, columns: Sequence[str], names: Sequence[str], widths: Sequence[int], aligns: Any) -> None:
        self._columns, self._names, self._widths, self._aligns = columns, names, widths, aligns
        self._pretty = sys.stdout.isatty()

    def begin(self) -> None:
        """Print the header."""
        if self._pretty:
            self.add(self._columns)
            self.add(["-" * width for width in self._widths])

    def add(self, cells: Sequence[str]) -> None:
        """Print a row."""
        if self._pretty:
            text = row(list(cells), widths=self._widths, aligns=tuple(self._aligns), spacing=2)
        else:
            pairs = [pair for pair in zip(self._names, cells, strict=True) if pair[1] not in ("", "-")]
            text = " ".join(f"{name}={value}" if name else value for name, value in pairs)
        print(text, flush=True)


def cut(words: str, room: int) -> str:
    """Shorten a text to at most `room` characters."""
    return words if len(words) <= room else words[: max(0, room - 3)] + "..."


def cut_name(feature: str, room: int) -> str:
    """Shorten a feature, NAME=VALUE or NAME (note), to at most `room` characters; the name is cut before its value."""
    at = min((i for i in (feature.find("="), feature.find(" (")) if i > 0), default=0)
    name, end = feature[:at], feature[at:]
    kept = room - len(end) - len("...")
    return f"{name[:kept]}...{end}" if NAME_KEPT <= kept < len(name) - 3 else cut(feature, room)


def fail(title: str, text: str = "") -> NoReturn:
    """Print a message to stderr and exit with code 1."""
    # not printed by wasabi, which writes to stdout only and wraps long paths at 80 columns
    mark = Printer(pretty=sys.stderr.isatty(), no_print=True).fail(title)
    text = CONTROL.sub(lambda match: repr(match[0])[1:-1], text)  # of a file name or a config: it may steer a terminal
    print(f"{mark}\n{text}" if text else mark, file=sys.stderr)
    raise SystemExit(FAILED)


@contextmanager
def reported_errors(config: Path | None = None, code: Path | None = None) -> Iterator[None]:
    """Report a user's mistakes without a traceback; other exceptions propagate.

    config (Path | None): The config file, for hints on missing values and unknown sections.
    code (Path | None): A Python file to import first.
    """
    for stream in (sys.stdout, sys.stderr):
        _prepare(stream)
    if os.environ.get("NO_COLOR"):
        os.environ[ENV_ANSI_DISABLED] = "1"  # the variable that wasabi reads
    plain, warnings.formatwarning = warnings.formatwarning, _format_warning
    interrupts, restore = _watch_interrupts()
    try:
        load_code(code)
        yield
    except ConfigValidationError as error:
        _fail_validation(error, config)
    except RegistryError as error:
        fail("Unknown function in the config", _unknown_function(str(error)))
    except (ConfigSyntaxError, CrfError) as error:
        fail(TITLES.get(type(error), "Error"), f"{error}{_cure(str(error))}")
    except BrokenPipeError:
        raise  # the reader of the output has gone; typer exits quietly
    except typer.Exit:
        raise  # of a command that has reported an interrupt itself
    except (OSError, ValueError, ImportError) as error:
        if re.match(r"\[E\d", str(error)):  # spaCy numbers its messages to users
            fail("spaCy raised an error", f"{error}{_cure(str(error))}")
        if not isinstance(error, OSError):
            raise
        first = error.args[0][0][-1] if isinstance(error, shutil.Error) else error  # of a copy: a list of all
        fail("Cannot read or write", str(first))
    except KeyboardInterrupt:
        _end_interrupted()
    except Exception:
        # compilers that call back into Python lose the interrupt and fail later, with an error of another kind
        if not interrupts:
            raise
        _end_interrupted()
    finally:
        warnings.formatwarning = plain
        restore()


def _end_interrupted() -> NoReturn:
    print("\nInterrupted.", file=sys.stderr)
    raise SystemExit(INTERRUPTED) from None


def _watch_interrupts() -> tuple[list[int], Callable[[], object]]:
    """Return a list to which each Ctrl-C adds its signal from now on, and a function that ends this."""
    seen: list[int] = []
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        return seen, lambda: None

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the output is complete when Python shuts down
    return seen, lambda: signal.signal(signal.SIGINT, usual)


def _cure(message: str) -> str:
    """Return the cure of an error of spaCy, on a line of its own, or nothing."""
    if factory := re.search(r"Can't find factory for '([^']+)'", message):
        return f"\n{suggest(factory[1], FACTORIES)}"
    if "[E048]" in message:
        return '\nGive --lang, or lang in a config, a code that spaCy has, such as en or es, or "xx" for any language.'
    return ""


def load_code(path: Path | None) -> None:
    """Import a user's file with registered functions.

    RAISES ConfigError: If there is no such file, or it cannot be imported.
    """
    if path is None:
        return
    if not path.is_file():
        raise ConfigError(f"--code {path}: no such file (in {Path.cwd()}).")
    if path.suffix != ".py":
        raise ConfigError(f"--code {path}: not a Python file. Give one, such as functions.py.")
    try:
        import_file("python_code", path)
    except Exception as error:  # whatever the user's code raises
        raise ConfigError(f"--code {path} cannot be imported: {error!r}") from error


def _prepare(stream: TextIO) -> None:
    """Make a stream accept any character: a terminal replaces those that it lacks, files and pipes become UTF-8."""
    if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf8")


def _fail_validation(error: ConfigValidationError, config: Path | None) -> NoReturn:
    pretty, msg.pretty = msg.pretty, sys.stderr.isatty()
    try:
        with redirect_stdout(sys.stderr), show_validation_error(config, show_config=False):
            raise error
    finally:
        msg.pretty = pretty
        if hint := _unknown_keys(error, config):
            print(hint, file=sys.stderr)
    raise SystemExit(FAILED)


def _unknown_function(message: str) -> str:
    """Return the registry's message in short, with the nearest name; other messages are returned unchanged."""
    match = re.search(r"function '([^']+)' in function registry '(\w+)'.*Available names: (.*)", message, re.DOTALL)
    if match is None:
        return message
    name, registry, names = match.groups()
    nearest = suggest(name, names.strip().split(", "))
    return f"The registry {registry} has no {name!r}. {nearest} Import a function of your own with --code FILE."


def _unknown_keys(error: ConfigValidationError, config: Path | None) -> str:
    """Return a line for each unknown key, with the nearest known one; empty if there is none."""
    block = error.config if isinstance(error.config, dict) else {}
    lines = []
    for detail in error.errors or ():
        if re.search("unexpected argument|extra fields|Extra inputs", detail["msg"]):
            lines.append(_unknown_key(str(detail["loc"][-1]), _known_keys(block)))
        elif "not a section value" in detail["msg"] and config is not None and config.is_file():
            lines.append(_unknown_section(detail["loc"], Config().from_disk(config, interpolate=False)))
    return "\n".join(lines)


def _known_keys(block: Mapping[str, Any]) -> set[str]:
    """Return the parameters of the function that a block names, or the keys of the block if it names none."""
    for key, name in block.items():
        if str(key).startswith("@"):
            with suppress(RegistryError):
                return {*signature(registry.get(key[1:], name)).parameters} - {"nlp", "name"}
    return set(map(str, block))


def _unknown_key(key: str, keys: set[str]) -> str:
    return f"Unknown setting {key!r}. {suggest(key, keys - {key})}"


def _unknown_section(path: Sequence[str], block: Any) -> str:
    """Return the fault of the place of an override, and how to add a block; empty if it is there."""
    for at, key in enumerate(path):
        here = ".".join(path[: at + 1])
        if not isinstance(block, dict):
            return f"{'.'.join(path[:at])} is a single value, so {here} cannot be set."
        if key not in block:
            whole: Any = "..."
            for inner in reversed(path[at + 1 :]):
                whole = {inner: whole}
            near = f" {suggest(key, block)}" if block else ""
            return f"The config has no {here}.{near} To add a block, give it whole: --{here} '{json.dumps(whole)}'"
        block = block[key]
    return ""


def _format_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> str:
    if not sys.stderr.isatty():
        return f"{category.__name__}: {message}\n"
    # on a new line, since a progress bar may be shown
    return f"\r\x1b[K{Printer(pretty=True, no_print=True).warn(str(message))}\n"
