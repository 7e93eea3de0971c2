"""Where the package runs: read-only installs, several processes and threads, scripts from stdin."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spacy_crfseq
from spacy_crfseq import files, registry, threads
from spacy_crfseq.corpora import outputs
from tests import forks

TRAIN = """\
import spacy
from spacy.training import Example

def trained():
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("crf_ner")
    texts = [("Anna saw Oslo", [(0, 4, "PER"), (9, 13, "LOC")]), ("rain in Oslo", [(8, 12, "LOC")])]
    corpus = [Example.from_dict(nlp.make_doc(text), {"entities": ents}) for text, ents in texts]
    nlp.initialize(lambda: corpus)
    pipe.fit()
    return nlp
"""
NO_CACHE = """\
import numpy as np
from spacy_crfseq.kernels import _compile
_compile.NOTICE_AFTER = 0.0
from spacy_crfseq.kernels import vectors
print(_compile.__file__)
print(vectors.dot(np.ones(3), np.ones(3)))
"""
READ_ONLY = """\
import errno, os, tempfile

def refuse(*args, **settings):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))

tempfile.TemporaryFile = refuse
"""
PROCESSES = """
import multiprocessing
import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("error")
    multiprocessing.set_start_method("spawn")
    nlp = trained()
    texts = ["Anna saw Oslo", "rain", "", "Bob saw rain in Oslo"] * 5
    one, two = ([[(e.start, e.end, e.label_) for e in doc.ents] for doc in nlp.pipe(texts, n_process=n, batch_size=4)]
                for n in (1, 2))
    assert any(one)
    print(one == two)
"""
LIGHT = """\
import sys
from importlib.metadata import entry_points
import spacy_crfseq
print({"numba", "numpy", "spacy", "thinc"} & set(sys.modules))
import spacy_crfseq.registry
for name in spacy_crfseq.registry.NAMES:
    for entry_point in entry_points(group=f"spacy_{name}"):
        entry_point.load()
print({"numba", "spacy", "thinc", "scipy"} & set(sys.modules))
import spacy
nlp = spacy.blank("en")
nlp("Anna saw Oslo")
nlp.get_factory_meta("crf_ner")
import spacy_crfseq.pipeline.readers, spacy_crfseq.pipeline.spacy_train
print({"numba"} & set(sys.modules))
doc = nlp.make_doc("a")
print(doc.has_extension("crf_weight"))
spacy_crfseq.register_extensions()
print(doc._.crf_weight, doc._.crf_attributes, doc[0].has_extension("crf_score"))
"""
FIRST_TEXTS = """\
import sys, spacy
nlp = spacy.load({path!r})
docs = [nlp("Anna saw Oslo"), nlp("rain in Oslo and Bergen")]
print({{"numba", "spacy_crfseq.papers.neural"}} & set(sys.modules))
docs += nlp.pipe([docs[1].text] * 500)
print("numba" in sys.modules, sorted(set(str(doc.ents) for doc in docs)))
"""


def run(script: str) -> list[str]:
    """Run a script in a new process without warnings to be printed, and return the lines of its output."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("cached", [True, False])
def test_a_read_only_install_without_a_home(cached: bool, tmp_path: Path) -> None:
    """As in a container: neither the package nor a home can be written; kernels are kept only where numba is told to.

    A file in the place of a folder is as good as a read-only folder, which does not stop the superuser.
    """
    kernels = tmp_path / "spacy_crfseq" / "kernels"
    shutil.copytree(Path(spacy_crfseq.__file__).parent, kernels.parent, ignore=shutil.ignore_patterns("__pycache__"))
    (kernels / "__pycache__").touch()
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "PYTHONPATH": str(tmp_path)}
    cache = tmp_path / "cache"
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    kept |= {**nowhere, "PYTHONDONTWRITEBYTECODE": "1", **({"NUMBA_CACHE_DIR": str(cache)} if cached else {})}
    for number, script in enumerate((NO_CACHE, READ_ONLY + NO_CACHE) if cached else (READ_ONLY + NO_CACHE,)):
        command = [sys.executable, "-W", "error", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [str(kernels / "_compile.py"), "3.0"]
        if number and cached:
            assert done.stderr == "", "it was kept"
        else:
            assert done.stderr.count("spacy_crfseq compiles the kernels") == 1
            assert (str(cache) if cached else "No folder can be written to keep them") in done.stderr


def test_folders_are_locked_without_fcntl_and_files_replaced_once_windows_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no fcntl, and a file cannot be replaced for a moment while another program looks at it."""
    refusing = Mock(wraps=os.replace, side_effect=[PermissionError()] * 3 + [DEFAULT])
    monkeypatch.setattr(os, "replace", refusing)
    monkeypatch.setattr(files, "sleep", lambda seconds: None)
    with pytest.raises(PermissionError):  # elsewhere, the folder cannot be written
        files.write_text(tmp_path / "a.txt", "new")
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(outputs, "fcntl", None)
    with outputs.locked_folder(tmp_path):
        files.replace_folder(tmp_path / "model", Path.mkdir)
    assert (refusing.call_count, [path.name for path in tmp_path.iterdir()]) == (4, ["model"])


def test_several_processes(tmp_path: Path) -> None:
    """The script is a file, since spawned processes import it."""
    script = TRAIN + PROCESSES
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_the_package_its_plugins_and_factories_are_light() -> None:
    """`spacy.load` imports every plug-in; neither they nor the factories may import a compiler.

    Extension attributes are registered by the first component, or by a call.
    """
    assert run(LIGHT) == ["set()"] * 3 + ["False", "1.0 None True"]


def test_the_first_texts_do_not_import_numba(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(TRAIN, names)
    names["trained"]().to_disk(tmp_path)
    assert run(FIRST_TEXTS.format(path=str(tmp_path))) == ["set()", "True ['(Anna, Oslo)', '(Oslo, Bergen)']"]


def test_the_installed_entry_points_are_those_of_the_project() -> None:
    """Else tests miss new plug-ins and commands: run pip install -e . again."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf8")
    written = set(re.findall(r'^"?([\w.-]+)"? = "(spacy_crfseq\.[\w.:]+)"$', text, re.MULTILINE))
    installed = {(entry_point.name, entry_point.value) for entry_point in distribution("spacy-crfseq").entry_points}
    assert written == installed, "reinstall: pip install -e ."


@pytest.mark.parametrize("name", sorted({*registry.NAMES} - {"crf_potentials"}))  # the linear one is no plug-in
def test_names_of_plugins_carry_a_version(name: str) -> None:
    plugins = [plugin for plugin in registry.ALL[name].get_all() if plugin.startswith("spacy_crfseq.")]
    assert plugins
    assert all(re.fullmatch(r"spacy_crfseq\.\w+\.v\d+", plugin) for plugin in plugins)


def test_classes_come_from_the_top_level() -> None:
    """They are the very classes, imported when they are asked for."""
    names: dict[str, Any] = {}
    exec("from spacy_crfseq import *", names)
    for home in ("model.LinearChainCRF", "pipeline.component.CRFComponent", "pipeline.doc_posterior.DocPosterior"):
        module, _, name = home.rpartition(".")
        assert names[name] is getattr(import_module(f"spacy_crfseq.{module}"), name)
    assert {*spacy_crfseq.__all__} <= {*dir(spacy_crfseq)} & names.keys()
    assert not hasattr(spacy_crfseq, "Nothing")


def test_interactive_code_and_threads() -> None:
    """Code without a file: given on the command line, and through exec; pipelines of several threads at one time."""
    threads = TRAIN + (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(3) as pool:\n"
        "    pipelines = list(pool.map(lambda _: trained(), range(3)))\n"
        "    print(set(pool.map(lambda nlp: str(nlp('Anna saw Oslo').ents), pipelines)))\n"
    )
    body = TRAIN + "print(len(trained()('Anna saw Oslo').ents))\n"
    done = forks.run(["-W", "error", "-c", f"{threads}exec({body!r}, {{}})\n"])
    assert (done.stdout.splitlines(), done.stderr) == (["{'(Anna, Oslo)'}", "2"], "")


# --- sharing work among threads: order, errors, and parts that cover everything -------------------------------------


def test_results_come_in_the_order_of_the_tasks() -> None:
    barrier = threading.Barrier(3, timeout=10)  # passes only if all three run at the same time

    def task(number: int) -> int:
        barrier.wait()
        return number

    assert threads.run([partial(task, number) for number in range(3)]) == [0, 1, 2]
    assert threads.run([lambda: 5]) == [5]
    assert threads.run([]) == []


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_is_raised_after_all_have_ended(failing: int, kind: type[BaseException]) -> None:
    done: list[int] = []

    def task(number: int) -> None:
        if number == failing:
            raise kind("mistake")
        done.append(number)

    with pytest.raises(kind, match="mistake"):
        threads.run([partial(task, number) for number in range(3)])
    assert sorted(done) == sorted({0, 1, 2} - {failing})


def test_a_failure_releases_those_that_wait_for_it() -> None:
    released = threading.Event()

    def fail() -> None:
        raise ValueError("mistake")

    with pytest.raises(ValueError, match="mistake"):
        threads.run([fail, lambda: released.wait(10) and None], released.set)
    assert released.is_set()


@given(st.integers(0, 30), st.integers(1, 5))
def test_each_item_is_taken_once(n_items: int, n: int) -> None:
    taken: list[int] = []

    def square(item: int) -> int:
        taken.append(item)
        return item * item

    assert threads.over(square, range(n_items), n) == [item * item for item in range(n_items)]
    assert sorted(taken) == list(range(n_items))


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_no_item_is_taken_after_an_error(kind: type[BaseException]) -> None:
    taken: list[int] = []

    def fail_first(item: int) -> None:
        taken.append(item)
        if item == 0:
            raise kind
        time.sleep(0.002)  # the other thread would need two seconds for all items

    with pytest.raises(kind):
        threads.over(fail_first, range(1000), 2)
    assert len(taken) < 1000


def test_worker_processes_get_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads.available() >= 1
    monkeypatch.setattr(threads.multiprocessing, "parent_process", lambda: object())
    assert threads.available() == 1


@given(st.integers(0, 50), st.integers(1, 60))
def test_parts_cover_everything_once(length: int, n: int) -> None:
    parts = threads.parts(length, n)
    assert [i for part in parts for i in range(length)[part]] == list(range(length))
    sizes = [part.stop - part.start for part in parts]
    assert len(parts) <= n
    assert max(sizes) - min(sizes) <= 1
    assert length == 0 or min(sizes) > 0
