"""Train on doubtful labels by the commands of docs/labels-from-models.md, and print a table of the models.

    CRFSEQ_DATA=... python scripts/labels.py [--only ROW ...] [--part test] [--force]

Some rows are models of the distant labels of CoNLL-2003 (Liang et al. 2020): `matches` learns them as they are,
`unsure` as those of a source that misses many spans, and `again` what the model of `unsure` finds in the same texts;
`unsure-gold` and `again-gold` have the gold labels of 100 training sentences, too.

The others are about many sources without gold labels.  A file of scripts/sources has those of a language, a line for
each, as `--source` takes it.  The rows `en-majority`, `en-dawid-skene` and `en-hmm` are what a label model makes of
them on the part that is scored, with a line for each source alone; `en-student` is a model that has learned from such
labels of the training texts.  `en-skweak` and `en-skweak-student` are the same by the hidden Markov model of skweak,
whose Python has packages of its own, see scripts/skweak/requirements.txt; CRFSEQ_SKWEAK names it.

Rows that were run have a JSON file in scripts/labels; one that has a score for the part is not run again.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Any, NamedTuple

sys.path[:1] = [str(Path(__file__).resolve().parents[1])]  # so that this checkout is run

import typer  # noqa: E402

from scripts.accuracy import CommandError, command  # noqa: E402
from scripts.kit import ONE_THREAD, ROOT, Skip, corpus_file, data_folder, load, save, table  # noqa: E402
from spacy_crfseq.files import write_text  # noqa: E402
from spacy_crfseq.prf import prf  # noqa: E402

SCRIPTS = ROOT / "scripts"
RESULTS = SCRIPTS / "labels"
WORK = ROOT / "output" / "labels"
"""Labels, configs and models of all rows."""
PARTS = ("dev", "test")
FOLDER = "conll2003-distant"
GOLD_SENTENCES = 100
MODEL = Path("model", "model-best")
METHODS = ("majority", "dawid-skene", "hmm")
LABELS = "PER,LOC,ORG,MISC"
SKWEAK = "CRFSEQ_SKWEAK"
"""Environment variable with the Python that has skweak."""


class Row(NamedTuple):
    """A line of the table.

    score: Returns the scores on a part of a corpus, of the folders of corpora and of the row.
    train: Trains a model; None if there is none.
    """

    score: Callable[[Path, Path, str], dict[str, Any]]
    train: Callable[[Path, Path], None] | None = None


class Corpus(NamedTuple):
    """Texts that sources label.

    train, dev, test (str): Files, in the folder of corpora.
    rules (str): The module of the rules among the sources, beside this script.
    """

    lang: str
    train: str
    dev: str
    test: str
    rules: str


CORPORA = [
    Corpus("en", "conll2003/eng.train", "conll2003/eng.testa", "conll2003/eng.testb", "news_rules.py"),
    Corpus("es", "conll2002/esp.train", "conll2002/esp.testa", "conll2002/esp.testb", "news_rules_es.py"),
]


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
    data = data_folder()
    if data is None:
        raise typer.BadParameter("CRFSEQ_DATA is not set to the folder of the corpora.")
    skipped = list[str]()
    for row in only or ROWS:
        try:
            score(row, data.resolve(), part, force=force)
        except Skip as missing:
            typer.echo(f"{row} is skipped: {missing}.", err=True)
            skipped.append(row)
    results = load(RESULTS)
    lines = [line for row in ROWS if row in results for line in _lines(row, results[row])]
    typer.echo(table(["row", "dev", "P", "R", "test", "P", "R", "seconds"], lines, "lrrrrrrr"))
    if skipped:
        raise typer.Exit(1)


def _lines(row: str, result: dict[str, Any]) -> list[list[str]]:
    """Return the lines of the sources of a row, and its own."""
    by_part = {part: {row: result[part], **result[part].get("sources", {})} for part in PARTS if part in result}
    names = next(iter(by_part.values()))
    lines = []
    for name in [*[name for name in names if name != row], row]:
        scores = [by_part[part][name][key] if part in by_part else None for part in PARTS for key in "fpr"]
        seconds = f"{result['seconds']:.0f}" if name == row and "seconds" in result else ""
        cells = ["" if score is None else f"{100 * score:.2f}" for score in scores]
        lines.append([name if name == row else f"{row[:2]}: {name}", *cells, seconds])
    return lines


def score(row: str, data: Path, part: str, *, force: bool = False) -> None:
    """Train the model of a row, unless it is there, score the row on a part, and keep the result."""
    path, folder = RESULTS / f"{row}.json", WORK / row
    result: dict[str, Any] = json.loads(path.read_text("utf8")) if path.exists() and not force else {}
    if part in result:
        return
    folder.mkdir(parents=True, exist_ok=True)
    train = ROWS[row].train
    if train and not (result and (folder / MODEL).exists()):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        train(data, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        result = {"seconds": round(seconds, 1)}
    result = {"date": date.today().isoformat(), **result, part: ROWS[row].score(data, folder, part)}
    save(RESULTS, row, result)


# Sources without gold labels


def converted(corpus: Corpus, part: str, data: Path) -> Path:
    """Return a file .spacy with a part of a corpus, read as the CoNLL scorer reads it."""
    path = WORK / f"{corpus.lang}-{part}.spacy"
    if not path.exists():
        source = str(corpus_file(data, corpus._asdict()[part]))
        command("convert", source, str(path), "--to", "spacy", "--on-invalid", "conlleval", "--lang", corpus.lang)
    return path


def aggregate_sources(corpus: Corpus, texts: Path, output: Path, data: Path, *options: str) -> None:
    """Write the labels that a label model makes of the sources of a language, which see no gold label."""
    lines = (SCRIPTS / "sources" / f"{corpus.lang}.txt").read_text(encoding="utf8").splitlines()
    settings = [argument for line in lines for argument in ("--source", line)]
    where = ("-o", str(output), "--lang", corpus.lang, "--labels", LABELS, "--force")
    rules = str(SCRIPTS / corpus.rules)
    command("aggregate", str(texts), *where, "--code", rules, *settings, *options, folder=data)


def source_labels(corpus: Corpus, method: str, data: Path, folder: Path, part: str) -> dict[str, Any]:
    """Return the scores of the labels of a label model on a part, with those of each source for a Markov model."""
    gold, output = converted(corpus, part, data), folder / f"{part}.spacy"
    aggregate_sources(corpus, gold, output, data, "--label-model", method)
    docs = read_texts(output)
    spans = [_spans(doc.ents) for doc in read_texts(gold)]
    result: dict[str, Any] = _scores([_spans(doc.ents) for doc in docs], spans)
    if method == "hmm":
        result["sources"] = {
            name: _scores([_spans(doc.spans.get(name, ())) for doc in docs], spans) for name in sorted(names_of(docs))
        }
    return result


def read_texts(path: Path) -> list[Any]:
    """Return the Docs of a file .spacy."""
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    return [*DocBin().from_disk(path).get_docs(Vocab())]


def names_of(docs: Sequence[Any]) -> list[str]:
    """Return the names of the sources of Docs."""
    return [*dict.fromkeys(name for doc in docs for name in doc.spans)]


def skweak_labels(texts: Path, output: Path) -> float:
    """Write the labels that skweak makes of the sources of texts; return the seconds of processor time.

    RAISES Skip: Without skweak, or if it fails.
    """
    if not (python := os.environ.get(SKWEAK)):
        raise Skip(f"{SKWEAK} is not set to the Python of skweak, see scripts/skweak/requirements.txt")
    line = [python, str(SCRIPTS / "skweak" / "label.py"), str(texts), str(output)]
    line += [LABELS, ",".join(names_of(read_texts(texts)))]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD})
    if done.returncode:
        raise Skip(f"skweak has failed: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    return sum(json.loads(done.stdout).values())


def by_skweak(corpus: Corpus, part: str, data: Path, folder: Path) -> Path:
    """Return a file with the labels that skweak makes of the sources of a language on a part."""
    votes, output = folder / f"{part}-sources.spacy", folder / f"{part}-labels.spacy"
    aggregate_sources(corpus, converted(corpus, part, data), votes, data, "--label-model", "majority")
    skweak_labels(votes, output)
    return output


def score_skweak(corpus: Corpus, data: Path, folder: Path, part: str) -> dict[str, Any]:
    """Return the scores of the labels of skweak on a part."""
    docs, gold = (read_texts(path) for path in (by_skweak(corpus, part, data, folder), converted(corpus, part, data)))
    return _scores([_spans(doc.ents) for doc in docs], [_spans(doc.ents) for doc in gold])


def _spans(spans: Any) -> set[tuple[int, int, str]]:
    return {(span.start, span.end, span.label_) for span in spans}


def _scores(
    predicted: Sequence[set[tuple[int, int, str]]], gold: Sequence[set[tuple[int, int, str]]]
) -> dict[str, float]:
    """Return F1, precision and recall of the spans of texts."""
    right = sum(len(spans & other) for spans, other in zip(predicted, gold, strict=True))
    scores = prf(right, sum(map(len, predicted)), sum(map(len, gold)))
    return {"f": round(scores.f1, 6), "p": round(scores.precision, 6), "r": round(scores.recall, 6)}


def student(corpus: Corpus, data: Path, folder: Path) -> None:
    """Train on the labels of all sources."""
    texts = folder / "labels.spacy"
    aggregate_sources(corpus, converted(corpus, "train", data), texts, data)
    _train(folder, "fast", texts, converted(corpus, "dev", data), corpus.lang)


def skweak_student(corpus: Corpus, data: Path, folder: Path) -> None:
    """Train on the labels of skweak."""
    texts = by_skweak(corpus, "train", data, folder)
    _train(folder, "fast", texts, converted(corpus, "dev", data), corpus.lang)


def evaluate(file: Callable[[str, Path], Path], data: Path, folder: Path, part: str) -> dict[str, Any]:
    """Return the scores of the model of a row on a part; `file` returns its file, of the folder of corpora."""
    output = folder / f"{part}.json"
    command("evaluate", str(folder / MODEL), str(file(part, data)), "--output", str(output))
    metrics = json.loads(output.read_text("utf8"))
    return {key: round(metrics[f"ents_{key}"], 6) for key in "fpr"}


def _train(folder: Path, goal: str, train: Path, dev: Path, lang: str = "en") -> None:
    """Make a config and train it."""
    config = str(folder / "config.cfg")
    options = ("--task", "ner", "--lang", lang, "--goal", goal, "--dev", str(dev), "--force")
    command("init-config", config, "--train", str(train), *options)
    command("fit", config, "--output", str(folder / MODEL.parent), "--force")


# Distant labels


def distant(data: Path, name: str) -> Path:
    """Return a file of the corpus that a knowledge base has labelled.  Raises Skip where it is missing."""
    return corpus_file(data, f"{FOLDER}/{name}")


def matches(data: Path, folder: Path) -> None:
    """Train on the labels as they are."""
    _train(folder, "fast", distant(data, "train.distant.iob"), distant(data, "dev.iob"))


def unsure(data: Path, folder: Path, *options: str) -> None:
    """Train on the labels of a source that misses spans."""
    train, texts = distant(data, "train.distant.iob"), folder / "labels.spacy"
    command("aggregate", str(train), "-o", str(texts), "--source", f"kb={train},outside=unsure", "--force", *options)
    _train(folder, "fast", texts, distant(data, "dev.iob"))


def unsure_gold(data: Path, folder: Path) -> None:
    """Train on these labels, and on gold labels of some of the texts."""
    sentences = distant(data, "train.gold.iob").read_text(encoding="utf8").strip().split("\n\n")
    gold = folder / "gold.iob"
    write_text(gold, "\n\n".join(Random(0).sample(sentences, GOLD_SENTENCES)) + "\n")
    unsure(data, folder, "--gold", str(gold))


def again(data: Path, folder: Path, first: Callable[..., None] = unsure) -> None:
    """Train an accurate model on what a first one finds in the training texts."""
    begin, tagged, texts = folder / "first", folder / "tagged.iob", distant(data, "train.distant.iob")
    begin.mkdir(exist_ok=True)
    first(data, begin)
    command("tag", str(begin / MODEL), str(texts), "--output", str(tagged), "--to", "iob", "--force")
    _train(folder, "accurate", tagged, distant(data, "dev.iob"))


def again_gold(data: Path, folder: Path) -> None:
    """Train on what a model with some gold labels finds."""
    again(data, folder, unsure_gold)


def _distant(train: Callable[[Path, Path], None]) -> Row:
    return Row(partial(evaluate, lambda part, data: distant(data, f"{part}.iob")), train)


def _rows_of(corpus: Corpus) -> dict[str, Row]:
    """Return the rows of the sources of a corpus."""
    own = {f"{corpus.lang}-{method}": Row(partial(source_labels, corpus, method)) for method in METHODS}
    score_student = partial(evaluate, partial(converted, corpus))
    return {
        **own,
        f"{corpus.lang}-student": Row(score_student, partial(student, corpus)),
        f"{corpus.lang}-skweak": Row(partial(score_skweak, corpus)),
        f"{corpus.lang}-skweak-student": Row(score_student, partial(skweak_student, corpus)),
    }


ROWS: dict[str, Row] = {
    "matches": _distant(matches),
    "unsure": _distant(unsure),
    "again": _distant(again),
    "unsure-gold": _distant(unsure_gold),
    "again-gold": _distant(again_gold),
}
for _corpus in CORPORA:
    ROWS |= _rows_of(_corpus)


if __name__ == "__main__":
    try:
        typer.run(labels)
    except CommandError as error:
        sys.exit(str(error))
