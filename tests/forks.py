"""Python in a fork of this process, which has imported spaCy and the package: a process of its own that starts at once.

For tests of signals, pipes, terminals and exit codes.  Tests of imports, and of variables that Python reads as it
starts, need a new interpreter.
"""

import logging
import os
import runpy
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, cast


def start(arguments: Sequence[object], **settings: Any) -> subprocess.Popen[str]:
    """Run ``python ARGUMENTS``, which begin with -c or -m, or -W and a filter before these; return the process.

    settings: Of `subprocess.Popen`.
    """
    command = [sys.executable, *map(str, arguments)]
    settings = {"text": True, "encoding": "utf8", **settings}
    if not hasattr(os, "fork"):
        return subprocess.Popen(command, **settings)
    become = partial(_run_instead, command[1:], settings.get("env", os.environ.copy()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of kernels are gone
        return subprocess.Popen(command, preexec_fn=become, **settings)


def run(arguments: Sequence[object], stdin: str | None = None, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Do the same to the end; return the exit code and the output."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(arguments, **pipes, **settings) as process:
        stdout, stderr = process.communicate(stdin, timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _run_instead(words: Sequence[str], environment: dict[str, str]) -> None:
    """Run Python code in a fork that was to become another program; never return."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    code = 70
    try:
        os.environ.clear()
        os.environ.update(environment)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            stream = os.fdopen(number, "w" if number else "r", buffering=1 if number == 2 else -1, encoding="utf8")
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        for logger in map(logging.getLogger, ("", "spacy")):
            for handler in logger.handlers:
                if isinstance(handler, logging.StreamHandler):
                    handler.setStream(sys.stderr)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = _call(words)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


def _call(words: Sequence[str]) -> int:
    """Run code as Python does, and return its exit code."""
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    if words[0] == "-W":
        action, *_, module = f"{words[1]}:::".split(":")[:4]
        warnings.filterwarnings(cast(Any, action), module=module)
        words = words[2:]
    option, program, *arguments = words
    try:
        if option == "-m":
            sys.argv = [program, *arguments]
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.argv = [option, *arguments]
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
