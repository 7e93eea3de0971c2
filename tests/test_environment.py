"""Where the package runs: read-only installs, several processes and threads, scripts from stdin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_crfseq.registry import NAMES

TRAIN = """\
import spacy
from spacy.training import Example

def trained(**config):
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("crf_ner", config=config)
    texts = [("Anna saw Oslo", [(0, 4, "PER"), (9, 13, "LOC")]), ("rain in Oslo", [(8, 12, "LOC")])]
    corpus = [Example.from_dict(nlp.make_doc(text), {"entities": ents}) for text, ents in texts]
    nlp.initialize(lambda: corpus)
    pipe.fit()
    return nlp
"""
PERCEPTRON = {
    "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"},
    "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
    "optimizer": {"@crf_optimizers": "spacy_crfseq.AveragedPerceptron.v1"},
}
"""A method with few kernels, for where all are compiled."""
NO_CACHE = """\
import numba.core.caching as caching

def nowhere(cls, *args):
    return None

found = set()
for locators in (
    getattr(caching.CacheImpl, "_locator_classes", ()),
    getattr(caching.CompileResultCacheImpl, "_locator_classes", ()),
    getattr(caching.CodeLibraryCacheImpl, "_locator_classes", ()),
):
    for locator in locators:
        locator.from_function = classmethod(nowhere)
        found.add(locator.__name__)
assert found, "numba keeps its locators elsewhere"
"""


def run(script: str, *, stdin: bool = False, **environment: str | None) -> str:
    """Run a script in a new process without warnings to be printed, and return its output."""
    merged = {**os.environ, **environment}
    kept = {name: value for name, value in merged.items() if value is not None}
    command = [sys.executable, "-"] if stdin else [sys.executable, "-c", script]
    done = subprocess.run(
        command, input=script if stdin else None, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


def test_a_read_only_install_without_a_home() -> None:
    """numba finds no folder for its cache: one warning says so, and all works."""
    script = (
        "import warnings\nwarnings.simplefilter('always')\n"
        + NO_CACHE
        + TRAIN
        + "with warnings.catch_warnings(record=True) as caught:\n"
        + f"    warnings.simplefilter('always')\n    nlp = trained(**{PERCEPTRON})\n"
        + "    print([ent.text for ent in nlp('Anna saw Oslo').ents])\n"
        + "print([(w.category.__name__, 'NUMBA_CACHE_DIR' in str(w.message)) for w in caught])\n"
    )
    lines = run(script, HOME=None, NUMBA_CACHE_DIR=None).splitlines()
    assert lines == ["['Anna', 'Oslo']", "[('UserWarning', True)]"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes(method: str, tmp_path: Path) -> None:
    """The script is a file, since spawned processes import it."""
    script = (
        TRAIN
        + f"""
import multiprocessing
import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("error")
    # newer Pythons warn of every fork in a process with threads, whoever started them
    warnings.filterwarnings("ignore", ".*multi-threaded.*", DeprecationWarning)
    multiprocessing.set_start_method({method!r})
    nlp = trained()
    texts = ["Anna saw Oslo", "rain", "", "Bob saw rain in Oslo"] * 5
    one, two = ([[(e.start, e.end, e.label_) for e in doc.ents] for doc in nlp.pipe(texts, n_process=n, batch_size=4)]
                for n in (1, 2))
    assert any(one)
    print(one == two)
"""
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_a_language_alone_imports_no_compiler() -> None:
    script = "import sys, spacy\nspacy.blank('en')('Anna saw Oslo')\nprint('numba' in sys.modules)"
    assert run(script).strip() == "False"


def test_listing_the_registries_imports_no_compiler() -> None:
    script = (
        "import sys, spacy\nnlp = spacy.blank('en')\n"
        f"for name in {NAMES!r}:\n"
        "    assert any(key.startswith('spacy_crfseq.') for key in spacy.registry._get_all(name)) if hasattr("
        "spacy.registry, '_get_all') else getattr(spacy.registry, name).get_all()\n"
        "nlp.get_factory_meta('crf_ner')\nprint('numba' in sys.modules)"
    )
    assert run(script).strip() == "False"


@pytest.mark.parametrize("stdin", [False, True])
def test_interactive_code(stdin: bool) -> None:
    """Code without a file: from stdin, and through exec."""
    body = TRAIN + "print(len(trained()('Anna saw Oslo').ents))\n"
    assert run(body if stdin else f"exec({body!r}, {{}})", stdin=stdin).strip() == "2"


def test_threads() -> None:
    """Components of different pipelines may work at the same time."""
    script = TRAIN + (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    pipelines = list(pool.map(lambda _: trained(), range(4)))\n"
        "    print(set(pool.map(lambda nlp: str(nlp('Anna saw Oslo').ents), pipelines)))\n"
    )
    assert run(script).strip() == "{'(Anna, Oslo)'}"
