"""A command in a process of its own that dies, fails or waits at one of its file operations."""

import os
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink")


class Running(NamedTuple):
    """A command that runs: its process, and the pipes that its messages and the number of its operations come from."""

    pid: int
    stderr: int
    count: int


class Ended(NamedTuple):
    """How a command has ended: its exit code (negative: the signal), file operations, and what it said."""

    code: int
    operations: int
    stderr: str


class Fault(NamedTuple):
    """The fault before the file operation of number `at`: death, an error, or a stop; at: -1 for never.

    limit (int): The most bytes that a file may have, as on a disk that is full.
    closed (bool): Nobody reads what is printed.
    """

    at: int = -1
    errno: int = 0
    stops: bool = False
    limit: int = -1
    closed: bool = False


def start(arguments: list[str], folder: Path, fault: Fault = Fault()) -> Running:  # noqa: B008
    """Run a command in `folder`, in a fork of this process."""
    (stderr, to_stderr), (count, to_count) = os.pipe(), os.pipe()  # a limit on files holds for a log, too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: those of kernels are gone
        pid = os.fork()
    if pid:
        os.close(to_stderr)
        os.close(to_count)
        return Running(pid, stderr, count)
    code = 70
    try:
        code = _run(arguments, folder, fault, to_stderr, to_count)
    finally:
        os._exit(code)


def ended(running: Running) -> Ended:
    """Wait for a command."""
    with os.fdopen(running.stderr, errors="replace") as stderr, os.fdopen(running.count) as count:
        said, operations = stderr.read(), int(count.read() or 0)
    _, status = os.waitpid(running.pid, 0)
    return Ended(os.waitstatus_to_exitcode(status), operations, said)


def run(arguments: list[str], folder: Path, fault: Fault = Fault()) -> Ended:  # noqa: B008
    """Run a command to its end."""
    return ended(start(arguments, folder, fault))


def _run(arguments: list[str], folder: Path, fault: Fault, stderr: int, count: int) -> int:
    os.chdir(folder)
    null = os.open(os.devnull, os.O_RDWR)
    for stream, number in ((null, 0), (null, 1), (stderr, 2)):
        os.dup2(stream, number)
    if fault.closed:
        read, write = os.pipe()
        os.dup2(write, 1)
        os.close(read)
        os.close(write)
    os.close(stderr)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    if fault.limit >= 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.limit, fault.limit))
    operations = _watch(folder, fault)
    code = _call(arguments)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120  # as Python does when it cannot write what is left
    os.write(count, str(len(operations)).encode())
    return code


def _watch(folder: Path, fault: Fault) -> list[str]:
    operations: list[str] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            writes = isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        else:
            writes = event in CHANGES
        if not writes or not isinstance(args[0], (str, bytes, os.PathLike)):
            return
        if not Path(os.fsdecode(args[0])).absolute().is_relative_to(folder):
            return
        operations.append(event)
        if len(operations) - 1 != fault.at:
            return
        if fault.errno:
            raise OSError(fault.errno, os.strerror(fault.errno), os.fsdecode(args[0]))
        os.kill(os.getpid(), signal.SIGSTOP if fault.stops else signal.SIGKILL)

    sys.addaudithook(hook)
    return operations


def _call(arguments: list[str]) -> int:
    from spacy_crfseq.cli.program import crfseq_cli

    try:
        crfseq_cli(arguments)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 70
    return 0
