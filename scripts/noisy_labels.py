"""Train on labels that a seed has spoilt, and on a few gold texts, by the commands of docs/labels-from-models.md.

    CRFSEQ_DATA=... python scripts/noisy_labels.py [--only ROW ...] [--seeds 3] [--curve] [--tokens]

A text has up to five sentences of a document of CoNLL-2003.  Of 400 texts there are labels as a language model gives
them: a fifth of the entities is missing, one in twenty has a wrong edge, and the scores of these are lower.  60 other
texts have gold labels, 300 more are scored; all are of the training part.  Models use no data of other packages.  Rows
that were run have a JSON file in scripts/noisy_labels with the figures of each seed; a seed that has them is not run
again.  Methods were chosen with the seeds 100, 101 and 102, which are not those of the table.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from shutil import copyfile
from typing import Annotated, Any, NamedTuple

sys.path[:1] = [str(Path(__file__).resolve().parents[1])]  # so that this checkout is run

import numpy as np  # noqa: E402
import typer  # noqa: E402
from thinc.api import Config  # noqa: E402

from scripts.accuracy import CommandError, command, sources  # noqa: E402
from scripts.kit import ROOT, Skip, corpus_file, data_folder, load, save, table  # noqa: E402
from scripts.robust import Text, read  # noqa: E402
from spacy_crfseq.files import write_text  # noqa: E402
from spacy_crfseq.schemes import TagSpan, decode_lenient, encode  # noqa: E402

RESULTS = ROOT / "scripts" / "noisy_labels"
WORK = ROOT / "output" / "noisy_labels"
"""Texts, configs and models of all seeds."""
SENTENCES = 5
"""Sentences of a text, at most."""
HELD_OUT = 300
MISSED, MOVED = 0.2, 0.05
"""Shares of the entities that are missing, and of the others that have a wrong edge."""
SURE, UNSURE = (8, 2), (3, 3)
"""Parameters of the beta distributions of the scores of right spans, with the mean 0.8, and of wrong ones, with 0.5."""
CURVE, CURVE_SEED = ((100, 400, 1000), (20, 60, 200)), 100
"""Numbers of texts with labels of a model and with gold labels whose models are compared, and the seed."""
CHARACTERS, INSTRUCTION = 4, 100
"""Characters of English to a token of a language model, as a rule, and tokens that say what to do before each text."""


class Size(NamedTuple):
    """Numbers of texts with spoilt labels and with gold labels."""

    noisy: int = 400
    gold: int = 60


class Scored(NamedTuple):
    """A span and its score."""

    span: TagSpan
    score: float


def passages(path: Path) -> list[list[Text]]:
    """Return the texts of a file: consecutive sentences of a document, with tags in IOB2."""
    result = list[list[Text]]()
    for sentence in read(path):
        if not sentence or not result or len(result[-1]) == SENTENCES:
            result.append([])
        if sentence:
            result[-1].append(sentence)
    return [*filter(None, result)]


def spoilt(rng: random.Random, sentence: Text) -> list[Scored]:
    """Return the entities of a sentence as a language model might find them."""
    spans, answers = decode_lenient([tag for _, tag in sentence]), list[Scored]()
    taken = {place for span in spans for place in range(span.start, span.end)}
    for span in spans:
        if rng.random() < MISSED:
            continue
        start, end, label = span
        moved = [(start + 1, end), (start, end - 1), (start - 1, end), (start, end + 1)]
        possible = [
            TagSpan(a, b, label)
            for a, b in moved
            if (answers[-1].span.end if answers else 0) <= a < b <= len(sentence)
            and taken.isdisjoint({*range(a, b)} - {*range(start, end)})
        ]
        wrong = rng.random() < MOVED and bool(possible)
        score = rng.betavariate(*(UNSURE if wrong else SURE))
        answers.append(Scored(rng.choice(possible) if wrong else span, round(score, 3)))
    return answers


def _record(sentence: Text, answers: list[Scored]) -> str:
    """Return a line of JSON with the spans of a sentence."""
    starts, words = [0], [word for word, _ in sentence]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    spans = [
        {"start": starts[span.start], "end": starts[span.end] - 1, "label": span.label, "score": score}
        for span, score in answers
    ]
    return json.dumps({"text": " ".join(words), "spans": spans})


def _columns(sentences: list[Text]) -> str:
    return "\n".join("".join(f"{word} {tag}\n" for word, tag in sentence) for sentence in sentences)


def draw(seed: int, size: Size, data: Path, folder: Path) -> None:
    """Write the texts of a seed: spoilt and gold ones, all of them, and those to score."""
    rng, texts = random.Random(seed), passages(corpus_file(data, "conll2003/eng.train"))
    rng.shuffle(texts)
    noisy, gold, held_out = (
        [sentence for text in part for sentence in text]
        for part in (texts[: size.noisy], texts[-HELD_OUT - size.gold : -HELD_OUT], texts[-HELD_OUT:])
    )
    answers = [spoilt(rng, sentence) for sentence in noisy]
    given = []
    for sentence, spans in zip(noisy, answers, strict=True):
        tags = encode([span for span, _ in spans], len(sentence), "IOB2")
        given.append([(word, tag) for (word, _), tag in zip(sentence, tags, strict=True)])
    files = {"noisy.iob": given, "gold.iob": gold, "texts.iob": [*given, *gold], "held-out.iob": held_out}
    for name, sentences in files.items():
        write_text(folder / name, _columns(sentences))
    write_text(folder / "answers.jsonl", "".join(f"{_record(*pair)}\n" for pair in zip(noisy, answers, strict=True)))


# Rows


def _train(folder: Path, name: str, train: Path, goal: str = "fast") -> Path:
    """Make a config without data of other packages, train it, and return the model."""
    file = folder / f"{name}.cfg"
    options = ("--task", "ner", "--lang", "en", "--goal", goal, "--format", "spacy" if train.suffix else "iob")
    command("init-config", str(file), "--train", str(train), *options, "--force")
    config = Config().from_disk(file, interpolate=False)
    for pipe, setting, block in sources(config):
        del config["components"][pipe][setting][block]
    config.to_disk(file, interpolate=False)
    command("fit", str(file), "--output", str(folder / name), "--force")
    return folder / name / "model-best"


def _folder_of(folder: Path, name: str, *files: str) -> Path:
    """Return a folder with copies of files."""
    result = folder / name
    result.mkdir(exist_ok=True)
    for file in files:
        copyfile(folder / file, result / file)
    return result


def gold(folder: Path) -> Path:
    """Train on the gold texts."""
    return _train(folder, "gold", _folder_of(folder, "texts-gold", "gold.iob"))


def noisy(folder: Path) -> Path:
    """Train on the labels of the model as they are."""
    return _train(folder, "noisy", _folder_of(folder, "texts-noisy", "noisy.iob"))


def both(folder: Path) -> Path:
    """Train on both as they are."""
    return _train(folder, "both", _folder_of(folder, "texts-both", "noisy.iob", "gold.iob"))


def unsure(folder: Path) -> Path:
    """Train on the labels of a source that misses spans, and on the gold labels."""
    labels, source = folder / "labels.spacy", f"llm={folder / 'answers.jsonl'},texts=some,outside=unsure"
    options = ("--source", source, "--gold", str(folder / "gold.iob"))
    command("aggregate", str(folder / "texts.iob"), "-o", str(labels), *options, "--force")
    return _train(folder, "unsure", labels)


def joined(folder: Path) -> Path:
    """Train on the spans of the labels and of the model of `unsure`, where a label model believes them."""
    return _join(folder, "joined", unsure(folder))


def again(folder: Path) -> Path:
    """Train as for `joined`, with its model in place of that of `unsure`."""
    return _join(folder, "again", joined(folder))


def _join(folder: Path, name: str, first: Path) -> Path:
    """Train on the spans of the labels and of a first model, where a label model believes them."""
    labels, answers = folder / f"{name}.spacy", f"llm={folder / 'answers.jsonl'},texts=some,outside=unknown"
    options = ("--source", answers, "--source", f"first={first}", "--gold", str(folder / "gold.iob"))
    command("aggregate", str(folder / "texts.iob"), "-o", str(labels), *options, "--min-probability", "0.5", "--force")
    return _train(folder, name, labels)


ROWS: dict[str, Callable[[Path], Path]] = {
    "gold": gold,
    "noisy": noisy,
    "both": both,
    "unsure": unsure,
    "joined": joined,
    "again": again,
}


def measure(row: str, seed: int, size: Size, data: Path) -> dict[str, float]:
    """Return the figures of a row: F1, precision, recall, calibration error of spans, seconds of processor time."""
    from spacy_crfseq.tools.calibrate import calibrate

    folder = WORK / f"{seed}-{size.noisy}-{size.gold}"
    folder.mkdir(parents=True, exist_ok=True)
    draw(seed, size, data, folder)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    model = ROWS[row](folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    held_out, metrics = folder / "held-out.iob", folder / f"{row}.json"
    command("evaluate", str(model), str(held_out), "--output", str(metrics))
    scores = json.loads(metrics.read_text("utf8"))
    with redirect_stderr(StringIO()):
        checked = calibrate(model, held_out, output=folder / "calibrated", force=True).results["crf_ner"].before.whole
    return {
        **{key: round(scores[f"ents_{key}"], 6) for key in "fpr"},
        "ece": round(checked.error, 6),
        "seconds": round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 1),
    }


def run(name: str, row: str, seed: int, size: Size, data: Path) -> None:
    """Keep the figures of a row and a seed in a file, unless they are there."""
    path = RESULTS / f"{name}.json"
    result: dict[str, Any] = json.loads(path.read_text("utf8")) if path.exists() else {}
    if str(seed) not in result:
        result[str(seed)] = measure(row, seed, size, data)
        save(RESULTS, name, result)


def curve(data: Path) -> str:
    """Return a table of the F1 of `joined` by the numbers of texts, and of the gold texts alone."""
    lines = list[list[str]]()
    for few in CURVE[1]:
        run(f"curve-0-{few}", "gold", CURVE_SEED, Size(0, few), data)
        for many in CURVE[0]:
            run(f"curve-{many}-{few}", "joined", CURVE_SEED, Size(many, few), data)
        cells = [load(RESULTS)[f"curve-{many}-{few}"][str(CURVE_SEED)] for many in (0, *CURVE[0])]
        lines.append([str(few), *(f"{100 * cell['f']:.1f} ({cell['seconds']:.0f} s)" for cell in cells)])
    return table(["gold texts", "none", *map(str, CURVE[0])], lines, "rrrrr")


def tokens(data: Path) -> str:
    """Return a table of about how many tokens a language model reads and writes for the texts of the curve."""
    lines = list[list[str]]()
    texts = passages(corpus_file(data, "conll2003/eng.train"))
    random.Random(CURVE_SEED).shuffle(texts)  # as `draw` does
    for many in CURVE[0]:
        asked, written = float(many * INSTRUCTION), 0.0
        for text in texts[:many]:
            words = [word for sentence in text for word, _ in sentence]
            spans = decode_lenient([tag for sentence in text for _, tag in sentence])
            entities = [{"text": " ".join(words[start:end]), "label": label} for start, end, label in spans]
            asked += len(" ".join(words)) / CHARACTERS
            written += len(json.dumps({"entities": entities})) / CHARACTERS
        lines.append([f"{many:,}", f"{asked:,.0f}", f"{written:,.0f}"])
    return table(["texts", "tokens read", "tokens written"], lines, "rrr")


def report(seeds: list[int]) -> str:
    """Return a table of the rows that have figures of these seeds."""
    results, lines = load(RESULTS), list[list[str]]()
    for row in ROWS:
        cells = [results[row][str(seed)] for seed in seeds if str(seed) in results.get(row, {})]
        if cells:
            means = {key: float(np.mean([cell[key] for cell in cells])) for key in cells[0]}
            by_seed = ", ".join(f"{100 * cell['f']:.1f}" for cell in cells)
            shares = [f"{100 * means[key]:.1f}" for key in "fpr"]
            lines.append([row, *shares, by_seed, f"{means['ece']:.3f}", f"{means['seconds']:.0f}"])
    return table(["row", "F1", "P", "R", "F1 of the seeds", "ECE", "seconds"], lines, "lrrrlrr")


def noisy_labels(
    only: Annotated[list[str] | None, typer.Option(help="Row; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    first: Annotated[int, typer.Option(min=0, help="First seed.")] = 0,
    of_sizes: Annotated[bool, typer.Option("--curve", help="Compare numbers of texts instead of rows.")] = False,
    count: Annotated[bool, typer.Option("--tokens", help="Count the tokens of these texts instead.")] = False,
) -> None:
    """Train and score models of spoilt labels, and print a table."""
    if unknown := {*(only or ())} - {*ROWS}:
        raise typer.BadParameter(f"No row is called {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}.")
    try:
        data = corpus_file(data_folder(), "conll2003").parent
    except Skip as missing:
        raise typer.BadParameter(f"{missing}.") from None
    if of_sizes or count:
        typer.echo(curve(data) if of_sizes else tokens(data))
        return
    chosen = [*range(first, first + seeds)]
    for row in only or ROWS:
        for seed in chosen:
            run(row, row, seed, Size(), data)
    typer.echo(report(chosen))


if __name__ == "__main__":
    try:
        typer.run(noisy_labels)
    except CommandError as error:
        sys.exit(str(error))
