"""Settings and fixtures of all tests."""

import gc
import logging
import os
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, cast

import catalogue

# numba colours the message of each overload that does not fit while it compiles, where colorama is installed
os.environ["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"
import numba  # noqa: F401 (kernels are compiled from their first call on)
import pytest
import typer.testing
from hypothesis import settings
from spacy.lang.en import English
from spacy.lang.xx import MultiLanguage
from xdist.scheduler import LoadFileScheduling

from spacy_crfseq import kernels, threads
from spacy_crfseq.kernels import jit
from spacy_crfseq.pipeline import cfg
from tests import shapes

jit.Kernel = shapes.CheckedKernel  # type: ignore[misc] # before files of kernels are imported
threads.available = lambda: 1  # the processes of tests share the cores; tests of threads ask for them

COMPILING = (
    # large kernels of their own, while another process compiles what most tests need
    ("tests/papers/boosting/test_boosting.py", "tests/papers/coordinate/"),
    ("tests/contracts/",),
    # at their end what contracts of losses have compiled by then
    ("tests/training/", "tests/test_model.py", "tests/test_posterior.py", "tests/kernels/"),
)
"""Groups of tests that compile many kernels, most of them the same within a group.

Of two processes, one runs all of them, which is two fifths of the work, so that few kernels are compiled in both.
"""
ORDER = (
    *chain.from_iterable(COMPILING),
    "tests/cli/",
    "tests/corpora/",
    "tests/tools/",
    "tests/papers/",
    "tests/test_",
    "tests/pipeline/",
    "tests/",
)
"""Long tests come first, so that all processes end at about the same time."""

# no deadline: the first call of a kernel compiles it; the same examples each time, so that a change is what makes a
# test fail; HYPOTHESIS_PROFILE=explore draws new and more ones
settings.register_profile("spacy_crfseq", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500, print_blob=True)
settings.register_profile("uncompiled", deadline=None, max_examples=3, derandomize=True)
settings.load_profile("uncompiled" if kernels.UNCOMPILED else os.environ.get("HYPOTHESIS_PROFILE", "spacy_crfseq"))

# processes that tests start need not compile all modules anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# that kernels are compiled is no news here, and depends on the order of tests
logging.getLogger("spacy_crfseq").setLevel(logging.ERROR)


# Tests make some thousand pipelines, and call hundreds of commands, in half the time thanks to the next changes,
# about which no test is.


class GroupedEntryPoints:
    """Installed entry points, each group looked up once.

    For each function that a config names, importlib looks through those of all packages.
    """

    def __init__(self) -> None:
        self.select = lru_cache(maxsize=None)(catalogue.AVAILABLE_ENTRY_POINTS.select)


catalogue.AVAILABLE_ENTRY_POINTS = GroupedEntryPoints()


def parsing_once(parse: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return the parser of configs with a memory: each pipeline parses the defaults of spaCy several times."""
    parsed = lru_cache(maxsize=500)(lambda text, interpolate: pickle.dumps(parse(text, interpolate=interpolate)))

    def parse_config(text: str, *, interpolate: bool = True, overrides: Mapping[str, Any] = {}) -> dict[str, Any]:
        if overrides:
            return parse(text, interpolate=interpolate, overrides=overrides)
        return cast(dict[str, Any], pickle.loads(parsed(text, interpolate)))

    return parse_config


def interpolating_once(interpolate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the method of a config that fills in its references, with a memory: it writes and parses all of it."""
    interpolated_once = lru_cache(maxsize=500)(lambda stored: pickle.dumps(interpolate(pickle.loads(stored))))

    def interpolated(config: Any) -> Any:
        try:
            return pickle.loads(interpolated_once(pickle.dumps(config)))
        except (pickle.PicklingError, TypeError, AttributeError):  # a function of a test
            return interpolate(config)

    return interpolated


with suppress(ImportError, AttributeError):  # other versions have other modules
    config_module: Any = import_module("confection._config")
    config_module.parse_config = parsing_once(config_module.parse_config)
    config_module.Config.interpolate = interpolating_once(config_module.Config.interpolate)
    schemas: Any = import_module("confection.validation").Schema
    schemas.from_function = lru_cache(maxsize=1000)(schemas.from_function)  # each pipeline makes one of each plug-in

# some hundred emoticons and abbreviations, with which a tokenizer takes longer to make than a component; texts of tests
# have none
MultiLanguage.Defaults.tokenizer_exceptions = English.Defaults.tokenizer_exceptions = {}

# pipelines are made after tests were collected: those objects, which are frozen, need not be looked through for them
cfg._has_frozen = lambda: False

# typer makes all commands anew whenever a test calls one
typer.testing._get_command = lru_cache(maxsize=None)(typer.testing._get_command)  # type: ignore[attr-defined]


# compilers make millions of small objects that live on
gc.set_threshold(1_000_000, 10, 10)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests in a browser, which take a minute and need Chromium, unless their folder is asked for."""
    asked = any("annotate" in argument for argument in config.args)
    return True if collection_path.name == "test_browser.py" and not asked else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: [not item.nodeid.startswith(start) for start in ORDER])


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what thousands of tests are made of need not be looked through again and again


@pytest.fixture(scope="module", autouse=True)
def objects_of_other_files() -> None:
    """Freeze them, too: commands give up what was frozen, and a change of a setting looks through all other objects."""
    gc.freeze()


class KernelTestsTogether(LoadFileScheduling):
    """A file's tests stay in one process, as do those of groups that compile many kernels: few compile twice."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # files stay in the order above
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        groups = COMPILING if self.numnodes > 2 else [(*chain.from_iterable(COMPILING),)]
        together = (group[0] for group in groups if nodeid.startswith(group))
        return next(together, super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> KernelTestsTogether:
    return KernelTestsTogether(config, log)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the public corpora, one subfolder each (conll2000, conll2002, ...)."""
    folder = os.environ.get("CRFSEQ_DATA")
    if not folder:
        pytest.skip("CRFSEQ_DATA is not set: point it to a folder that holds the corpora to run this test on them")
    return Path(folder)
