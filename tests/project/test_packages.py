"""Each package of papers/ and tools/ can be taken away: its folder and its entry points are deleted from a copy.

All copies have the same path, so kernels are compiled once.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "spacy_crfseq"
PACKAGES = sorted(
    f"{path.parent.parent.name}.{path.parent.name}"
    for path in PACKAGE.glob("*/*/__init__.py")
    if path.parent.parent.name in ("papers", "tools") and path.parent.name != "_pages"  # what tools share
)
WORK = """
import sys
import spacy
from pathlib import Path
from typer.testing import CliRunner
import spacy_crfseq
from spacy_crfseq.cli.fit import fit
from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline.clusters import Workers

folder = Path(sys.argv[1])
assert Path(spacy_crfseq.__file__).is_relative_to(folder), spacy_crfseq.__file__
result = CliRunner().invoke(crfseq_cli, ["--help"])
assert result.exit_code == 0, result.output
corpus = str(folder / "a.conll")
best = fit(folder / "a.cfg", folder / "out", overrides={"paths.train": corpus, "paths.dev": corpus}, force=True)
doc = spacy.load(folder / "out/model-best")("Anna saw Oslo")
if (folder / "spacy_crfseq/tools/tag").exists():
    from spacy_crfseq.tools.tag import TagSettings, tag

    assert tag(TagSettings(str(best.best)), [folder / "a.txt"], folder / "tagged", force=True).new.texts == 1
if not (folder / "spacy_crfseq/tools/cluster").exists():
    try:
        raise SystemExit(fit(folder / "a.cfg", folder / "out", force=True, workers=Workers("local:1")))
    except ConfigError as error:
        assert "pip install 'spacy-crfseq[dask]'" in str(error), error
print([ent.text for ent in doc.ents], *[name for name in sorted(sys.modules) if "spacy_crfseq" in name])
"""


def entry_points(without: str) -> str:
    """Return the entry points of the package, without those of one in it, as in the metadata of a distribution."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]["entry-points"]
    lines = []
    for group, entries in groups.items():
        lines.append(f"[{group}]")
        lines += [
            f"{name} = {place}" for name, place in entries.items() if f"spacy_crfseq.{without}." not in f"{place}."
        ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "spacy_crfseq", ignore=shutil.ignore_patterns("__pycache__"))
    metadata = folder / "spacy_crfseq-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: spacy_crfseq\nVersion: 0\n")
    (folder / "a.conll").write_text("Anna B-PER\nsaw O\nOslo B-LOC\n\n" * 5)
    (folder / "a.txt").write_text("Anna saw Oslo\n")
    (folder / "work.py").write_text(WORK)
    command = [sys.executable, "-m", "spacy", "crfseq", "init-config", folder / "a.cfg", "--lang", "en"]
    command += ["--goal", "small", "--train", folder / "a.conll", "--columns", "word,ent"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", ["", *PACKAGES])
def test_a_package_can_be_taken_away(name: str, copy: Path) -> None:
    kept = copy / "kept"
    place = copy / "spacy_crfseq" / name.replace(".", "/")
    (copy / "spacy_crfseq-0.dist-info/entry_points.txt").write_text(entry_points(name or "none"))
    if name:
        shutil.move(place, kept)
    try:
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "work.py", str(copy)]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    finally:
        if name:
            shutil.move(kept, place)
    assert done.returncode == 0, done.stderr
    assert "['Anna', 'Oslo']" in done.stdout
    assert not name or f"spacy_crfseq.{name}" not in done.stdout.split()
