"""spaCy's own tests, from the installed package, with the components of this package in the place of its own.

`load` puts the tests of one of spaCy's modules into a test module here; `differences.py` lists what must differ.
"""

import linecache
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec, module_from_spec
from inspect import getsource, isfunction
from pathlib import Path
from typing import Any

import pytest
import spacy.pipeline
from spacy.language import Language
from spacy.vocab import Vocab

from tests.spacy_suite.differences import ADAPTED, DIFFERENT

FACTORIES = {"ner": "crf_ner", "beam_ner": "crf_ner", "tagger": "crf_tagger"}
CLASSES = {"EntityRecognizer": "crf_ner", "Tagger": "crf_tagger"}
NEURAL = ("model", "beam_width", "beam_density", "label_smoothing", "update_with_oracle_cut_size")
"""Settings of spaCy's components that have no counterpart in a CRF."""

CONCERNED = re.compile(
    r"\bner|[Tt]agger|EntityRecognizer|test_parsers|_train_tuples|nlp_config_string|CONFIG_|objects_to_test"
)
"""Found in the source of tests in which such a component is made, or a config with one; the others are left out."""

add_pipe, create_pipe = Language.add_pipe, Language.create_pipe


def add_swapped(self: Language, factory_name: str, name: str | None = None, **settings: Any) -> Any:
    """Add a component as ``Language.add_pipe`` does, with the swapped factories; components are called as before."""
    if settings.get("source") is None and isinstance(factory_name, str) and factory_name in FACTORIES:
        settings["config"] = without_neural(settings.get("config"))
        return add_pipe(self, FACTORIES[factory_name], name or factory_name, **settings)
    return add_pipe(self, factory_name, name, **settings)


def create_swapped(self: Language, factory_name: str, *args: Any, **settings: Any) -> Any:
    """Create a component as ``Language.create_pipe`` does, with the swapped factories."""
    if factory_name in FACTORIES:
        settings["config"] = without_neural(settings.get("config"))
    return create_pipe(self, FACTORIES.get(factory_name, factory_name), *args, **settings)


def without_neural(config: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (config or {}).items() if key not in NEURAL}


def construct(factory: str, vocab: Vocab, model: Any = None, **settings: Any) -> Any:
    """Create a component as the constructor of one of spaCy's does."""
    return create_pipe(Language(vocab), factory)


@contextmanager
def swapped() -> Iterator[None]:
    """Let spaCy make components of this package where its own are asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Language, "add_pipe", add_swapped)
        patch.setattr(Language, "create_pipe", create_swapped)
        for name, factory in CLASSES.items():
            patch.setattr(spacy.pipeline, name, partial(construct, factory))
        yield


def concerned(value: Any) -> bool:
    return not isfunction(value) or CONCERNED.search(getsource(value)) is not None


def load(name: str, namespace: dict[str, Any]) -> None:
    """Put the tests and fixtures of spaCy's test module into a namespace, adapted and marked as `differences` says."""
    spec = find_spec(f"spacy.tests.{name}")
    assert spec is not None, f"this spaCy has no test module {name}"
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf8")
    for old, new, _ in ADAPTED.get(name, ()):
        assert old in source, f"this spaCy's {name} has no {old!r}: adapt it anew"
        source = source.replace(old, new)
    linecache.cache[spec.origin] = len(source), None, source.splitlines(keepends=True), spec.origin
    module = sys.modules[spec.name] = module_from_spec(spec)
    with swapped():
        exec(compile(source, spec.origin, "exec", dont_inherit=True), vars(module))
    unknown = [test for test in DIFFERENT.get(name, {}) if not hasattr(module, test.partition("[")[0])]
    assert not unknown, f"this spaCy's {name} has no {unknown}"
    result = {key: value for key, value in vars(module).items() if not key.startswith("__")}
    namespace.update((key, value) for key, value in result.items() if not key.startswith("test_") or concerned(value))
    namespace["SPACY_MODULE"] = name
