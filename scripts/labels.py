"""Train on doubtful labels by the commands of docs/labels-from-models.md, and print a table of the models.

    CRFSEQ_DATA=... python scripts/labels.py [--only ROW ...] [--part test] [--force]

The rows are models of the distant labels of CoNLL-2003 (Liang et al. 2020): `matches` learns them as they are, `unsure`
as those of a source that misses many spans, and `again` what the model of `unsure` finds in the same texts;
`unsure-gold` and `again-gold` have the gold labels of 100 training sentences, too.  Rows that were run have a JSON file
in scripts/labels; one that has a score for the part is not run again.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random
from typing import Annotated, Any

sys.path[:1] = [str(Path(__file__).resolve().parents[1])]  # so that this checkout is run

import typer  # noqa: E402

from scripts.accuracy import CommandError, command  # noqa: E402
from scripts.kit import ROOT, Skip, corpus_file, data_folder, load, save, table  # noqa: E402
from spacy_crfseq.files import write_text  # noqa: E402

RESULTS = ROOT / "scripts" / "labels"
WORK = ROOT / "output" / "labels"
"""Labels, configs and models of all rows."""
PARTS = ("dev", "test")
FOLDER = "conll2003-distant"
GOLD_SENTENCES = 100
MODEL = Path("model", "model-best")


def labels(
    only: Annotated[list[str] | None, typer.Option(help="Row; may be repeated.")] = None,
    part: Annotated[str, typer.Option(help="Part to score on: dev or test.")] = "dev",
    force: Annotated[bool, typer.Option("--force", help="Run rows that have results again.")] = False,
) -> None:
    """Train and score models of doubtful labels, and print a table."""
    if part not in PARTS:
        raise typer.BadParameter(f"--part is {' or '.join(PARTS)}, not {part}.")
    if unknown := {*(only or ())} - {*ROWS}:
        raise typer.BadParameter(f"No row is called {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}.")
    try:
        data = corpus_file(data_folder(), FOLDER)
    except Skip as missing:
        raise typer.BadParameter(f"{missing}.") from None
    for row in only or ROWS:
        score(row, data, part, force=force)
    results = load(RESULTS)
    lines = [[row, *_cells(results[row])] for row in ROWS if row in results]
    typer.echo(table(["row", "dev", "P", "R", "test", "P", "R", "seconds"], lines, "lrrrrrrr"))


def _cells(result: dict[str, Any]) -> list[str]:
    scores = [f"{100 * result[part][key]:.2f}" if part in result else "" for part in PARTS for key in ("f", "p", "r")]
    return [*scores, f"{result['seconds']:.0f}"]


def score(row: str, data: Path, part: str, *, force: bool = False) -> None:
    """Train the model of a row, unless it is there, score it on a part, and keep the result."""
    path, folder = RESULTS / f"{row}.json", WORK / row
    result: dict[str, Any] = json.loads(path.read_text("utf8")) if path.exists() and not force else {}
    if part in result:
        return
    if not result or not (folder / MODEL).exists():
        folder.mkdir(parents=True, exist_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ROWS[row](data, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        result = {"date": date.today().isoformat(), "seconds": round(seconds, 1)}
    output = folder / f"{part}.json"
    command("evaluate", str(folder / MODEL), str(data / f"{part}.iob"), "--output", str(output))
    metrics = json.loads(output.read_text("utf8"))
    result[part] = {key: round(metrics[f"ents_{key}"], 6) for key in "fpr"}
    save(RESULTS, row, result)


def _train(folder: Path, goal: str, train: Path, data: Path) -> None:
    """Make a config and train it."""
    config = str(folder / "config.cfg")
    options = ("--task", "ner", "--lang", "en", "--goal", goal, "--dev", str(data / "dev.iob"), "--force")
    command("init-config", config, "--train", str(train), *options)
    command("fit", config, "--output", str(folder / MODEL.parent), "--force")


def matches(data: Path, folder: Path) -> None:
    """Train on the labels as they are."""
    _train(folder, "fast", data / "train.distant.iob", data)


def unsure(data: Path, folder: Path, *options: str) -> None:
    """Train on the labels of a source that misses spans."""
    train, texts = data / "train.distant.iob", folder / "labels.spacy"
    command("aggregate", str(train), "-o", str(texts), "--source", f"kb={train},outside=unsure", "--force", *options)
    _train(folder, "fast", texts, data)


def unsure_gold(data: Path, folder: Path) -> None:
    """Train on these labels, and on gold labels of some of the texts."""
    sentences = (data / "train.gold.iob").read_text(encoding="utf8").strip().split("\n\n")
    gold = folder / "gold.iob"
    write_text(gold, "\n\n".join(Random(0).sample(sentences, GOLD_SENTENCES)) + "\n")
    unsure(data, folder, "--gold", str(gold))


def again(data: Path, folder: Path, first: Callable[..., None] = unsure) -> None:
    """Train an accurate model on what a first one finds in the training texts."""
    begin, tagged, texts = folder / "first", folder / "tagged.iob", data / "train.distant.iob"
    begin.mkdir(exist_ok=True)
    first(data, begin)
    command("tag", str(begin / MODEL), str(texts), "--output", str(tagged), "--to", "iob", "--force")
    _train(folder, "accurate", tagged, data)


def again_gold(data: Path, folder: Path) -> None:
    """Train on what a model with some gold labels finds."""
    again(data, folder, unsure_gold)


ROWS: dict[str, Callable[[Path, Path], None]] = {
    "matches": matches,
    "unsure": unsure,
    "again": again,
    "unsure-gold": unsure_gold,
    "again-gold": again_gold,
}


if __name__ == "__main__":
    try:
        typer.run(labels)
    except CommandError as error:
        sys.exit(str(error))
