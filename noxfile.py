"""Sessions of a developer: `nox -l` lists them, and `nox -s NAME -- ARGUMENTS` runs one in the active environment.

The environment is that of CONTRIBUTING.md: `pip install -e ".[dev]"`, for `docs` with the extra of that name.
"""

import os
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]

PLAIN = (
    *("tests/kernels", "tests/contracts/test_losses.py", "tests/contracts/test_decoders.py", "tests/test_posterior.py"),
    *("tests/test_model.py", "tests/pipeline/test_component.py"),
)
"""Tests of the core, which private interfaces of numba and spaCy make faster."""


@nox.session
def lint(session: nox.Session) -> None:
    """Check code and format with ruff, in seconds."""
    session.run("python", "-m", "ruff", "check", ".")
    # files are opened with an encoding, since that of Windows is another
    session.run("python", "-m", "ruff", "check", "--preview", "--select", "PLW1514", "spacy_crfseq")
    session.run("python", "-m", "ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy, and the layers of docs/design.md with import-linter."""
    session.run("python", "-m", "mypy")
    session.run("lint-imports")


@nox.session
def style(session: nox.Session) -> None:
    """Check the language of README, documentation, configs and help texts."""
    session.run("python", "scripts/check_style.py")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, or the paths and options after `--`."""
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def room(session: nox.Session) -> None:
    """Run the tests of one room in one process: `nox -s room -- kernels`, `-- boosting -x`, `-- tools/tag`."""
    if not session.posargs:
        session.error("Name a folder of tests, of tests/papers or of tests/tools, as in: nox -s room -- boosting")
    name, *options = session.posargs
    folders = [folder for parent in ("", "papers", "tools") if (folder := Path("tests", parent, name)).is_dir()]
    if not folders:
        session.error(f"There are no tests of {name!r} in tests, tests/papers or tests/tools")
    session.run("python", "-m", "pytest", "-n", "0", *map(str, folders), *options)


@nox.session
def steps(session: nox.Session) -> None:
    """Run the tests of kernels as plain Python, where a debugger can step through them."""
    session.run(
        "python", "-m", "pytest", "-n", "0", *(session.posargs or ["tests/kernels"]), env={"NUMBA_DISABLE_JIT": "1"}
    )


@nox.session
def plain(session: nox.Session) -> None:
    """Test the core without private interfaces of numba and spaCy, which other versions may not have."""
    plainly = {"SPACY_CRFSEQ_PLAIN_NUMBA": "1", "SPACY_CRFSEQ_PLAIN_SPACY": "1"}
    session.run("python", "-m", "pytest", *(session.posargs or PLAIN), env=plainly)


@nox.session
def around(session: nox.Session) -> None:
    """Test README, documentation, benchmarks and papers; run the fuzzers, spaCy's own tests and those in a browser."""
    places = ["tests/project", "tests/fuzz", "tests/spacy_suite", "tests/tools/annotate/test_browser.py"]
    session.run("python", "-m", "pytest", *(session.posargs or places))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation, where a warning is an error, and check its links."""
    with tempfile.TemporaryDirectory() as site:
        command = ["python", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site]
        session.run(*command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
        session.run("python", "scripts/check_links.py", site)
