"""Compare a CRF over a small network with spaCy's own components on equal networks, and write docs/neural.md.

    CRFSEQ_DATA=... python scripts/neural.py [--only CORPUS/SYSTEM ...] [--seeds 3] [--epochs 5]
    CRFSEQ_DATA=... python scripts/neural.py --speed
    python scripts/neural.py --report

All see the same batches in the same order, with spaCy's default optimizer and dropout, and are scored after the last
epoch.  Systems: `spacy`, its `ner` or `tagger`; the name of a loss, a CRF over the network alone; `features`, a CRF
without a network; `sum`, one over both.  Each run is an entry of scripts/neural/results.json and is not repeated.
With --speed, spaCy's `ner` and ours, trained on a part, tag the same Docs in turn.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import deque
from itertools import islice
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import Annotated, Any

sys.path[:1] = [str(Path(__file__).resolve().parents[1])]  # so that this checkout is run
os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer  # noqa: E402
from spacy import util  # noqa: E402
from spacy.language import Language  # noqa: E402
from spacy.tokens import Doc  # noqa: E402
from spacy.training import Example  # noqa: E402
from spacy.training.batchers import minibatch_by_words  # noqa: E402
from thinc.api import Config, compounding, fix_random_seed  # noqa: E402

from scripts.kit import ROOT, Skip, corpus_file, data_folder, fill, table  # noqa: E402
from spacy_crfseq.files import write_json, write_text  # noqa: E402
from spacy_crfseq.pipeline.terms import reader_of  # noqa: E402

RESULTS = ROOT / "scripts" / "neural" / "results.json"
TEMPLATE, PAGE = ROOT / "scripts" / "neural" / "neural.md.in", ROOT / "docs" / "neural.md"
PARTS = ("train", "dev", "test")
LOSSES = (
    "SequentialLog", "PointwiseLog", "SequentialExp", "PointwiseExp", "Hinge", "SoftmaxMargin", "LocalLog",
)  # fmt: skip
SYSTEMS = ("spacy", *LOSSES, "features", "sum")
CORPORA: dict[str, dict[str, Any]] = {
    "conll2003": {
        "lang": "en", "task": "ner", "score": "ents_f", "title": "English entities, CoNLL-2003 (F1)",
        "reader": {"@readers": "spacy_crfseq.ConllReader.v1", "scheme": "IOB1", "columns": ["word", "_", "_", "ent"]},
        "files": ("conll2003/eng.train", "conll2003/eng.testa", "conll2003/eng.testb"),
    },
    "conll2002": {
        "lang": "es", "task": "ner", "score": "ents_f", "title": "Spanish entities, CoNLL-2002 (F1)",
        "reader": {
            "@readers": "spacy_crfseq.ConllReader.v1", "columns": ["word", "_", "ent"], "on_invalid": "conlleval",
        },
        "files": ("conll2002/esp.train", "conll2002/esp.testa", "conll2002/esp.testb"),
    },
    "ewt": {
        "lang": "en", "task": "tagger", "score": "tag_acc", "title": "English tags, EWT (accuracy)",
        "reader": {"@readers": "spacy_crfseq.ConlluReader.v1"},
        "files": tuple(f"ud-english-ewt/en_ewt-ud-{part}.conllu" for part in PARTS),
    },
}  # fmt: skip
NETWORK = {
    "@architectures": "spacy.HashEmbedCNN.v2", "width": 96, "depth": 4, "embed_size": 2000, "window_size": 1,
    "maxout_pieces": 3, "subword_features": True, "pretrained_vectors": None,
}  # fmt: skip
PEERS: dict[str, dict[str, Any]] = {
    "ner": {
        "@architectures": "spacy.TransitionBasedParser.v2", "state_type": "ner", "extra_state_tokens": False,
        "hidden_width": 64, "maxout_pieces": 2, "use_upper": True, "nO": None, "tok2vec": NETWORK,
    },
    "tagger": {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": NETWORK},
}  # fmt: skip


def component(corpus: str, system: str) -> dict[str, Any]:
    """Return the block of a component."""
    task = CORPORA[corpus]["task"]
    if system == "spacy":
        return {"factory": task, "model": PEERS[task]}
    block: dict[str, Any] = {"factory": f"crf_{task}"}
    if system != "features":
        block["potentials"] = {"network": {"@crf_potentials": "spacy_crfseq.Neural.v1", "tok2vec": NETWORK}}
    if system in LOSSES:
        block["features"] = {"@crf_features": "spacy_crfseq.Templates.v1", "templates": []}
        block["loss"] = {"@crf_losses": f"spacy_crfseq.{system}.v1"}
        if system == "LocalLog":
            block["decoder"] = {"@crf_decoders": "spacy_crfseq.LocalViterbi.v1"}
    return block


def run(
    corpus: str, system: str, seed: int, epochs: int, data: Path | None, limit: int | None = None
) -> dict[str, float]:
    """Train a system and return its scores in per cent, and the seconds of processor time of its training."""
    settings = CORPORA[corpus]
    nlp, seconds = trained(corpus, system, seed, epochs, data, limit)
    scores = [nlp.evaluate(examples(nlp, part, limit))[settings["score"]] for part in PARTS[1:]]
    return {"dev": 100 * scores[0], "test": 100 * scores[1], "seconds": seconds}


def examples(nlp: Language, part: str, limit: int | None) -> list[Example]:
    """Return the examples of a part of the corpus."""
    return list(islice(reader_of("", f"corpora.{part}", nlp).stream(nlp), limit))


def trained(
    corpus: str, system: str, seed: int, epochs: int, data: Path | None, limit: int | None
) -> tuple[Language, float]:
    """Return a trained pipeline, and the seconds that it took.  Raises Skip where a file of the corpus is missing."""
    settings = CORPORA[corpus]
    readers = {
        part: {**settings["reader"], "path": str(corpus_file(data, file))}
        for part, file in zip(PARTS, settings["files"], strict=True)
    }
    config = {
        "nlp": {"lang": settings["lang"], "pipeline": ["one"]}, "components": {"one": component(corpus, system)},
        "corpora": readers, "training": {"train_corpus": "corpora.train", "dev_corpus": "corpora.dev", "seed": seed},
    }  # fmt: skip
    fix_random_seed(seed)
    nlp = util.load_model_from_config(Config(config), auto_fill=True)
    train = examples(nlp, "train", limit)
    begun, order, sizes = process_time(), random.Random(seed), compounding(100, 1000, 1.001)
    optimizer = nlp.initialize(lambda: train)
    for _ in range(epochs):
        order.shuffle(train)
        for batch in minibatch_by_words(train, size=sizes, discard_oversize=False, tolerance=0.2):
            nlp.update(batch, drop=0.1, sgd=optimizer)
            optimizer.step_schedules()
    return nlp, process_time() - begun


def speeds(data: Path | None, rounds: int = 7) -> dict[str, float]:
    """Return the tokens that spaCy's `ner` and ours tag in a second of processor time, and the median ratio."""
    pipelines = [trained("conll2003", system, 0, 1, data, 1000)[0] for system in ("spacy", "SequentialLog")]
    texts = [[token.text for token in example.reference] for example in examples(pipelines[0], "train", 2000)]
    turns: list[tuple[float, ...]] = []
    for _ in range(rounds + 1):
        both = []
        for nlp in pipelines:
            docs = [Doc(nlp.vocab, words=words) for words in texts]
            begun = process_time()
            deque(nlp.pipe(docs, batch_size=256), 0)
            both.append(sum(map(len, texts)) / (process_time() - begun))
        turns.append(tuple(both))
    peer, own = zip(*turns[1:], strict=True)  # the first round is a warm-up
    return {"peer": median(peer), "own": median(own), "ratio": median(b / a for a, b in turns[1:])}


def corpus_table(corpus: str, results: dict[str, dict[str, float]]) -> str:
    """Return the table of a corpus: means over seeds."""
    rows = []
    for system in SYSTEMS:
        runs = [run for key, run in results.items() if key.startswith(f"{corpus}/{system}/")]
        if runs:
            name = f"spaCy's `{CORPORA[corpus]['task']}`" if system == "spacy" else f"`{system}`"
            dev, test, seconds = (mean(run[key] for run in runs) for key in ("dev", "test", "seconds"))
            rows.append([name, f"{dev:.2f}", f"{test:.2f}", f"{seconds:.0f}", str(len(runs))])
    head = ["scores from", "dev", "test", "seconds", "runs"]
    return f"### {CORPORA[corpus]['title']}\n\n{table(head, rows, 'lrrrr')}"


def page(results: dict[str, dict[str, float]]) -> str:
    """Return the text of the page."""

    def speed(name: str) -> str:
        value = results["speed"][name]
        return f"{value:,.0f}" if value > 100 else f"{value:.2f}"

    kinds = {"table": lambda corpus: corpus_table(corpus, results), "speed": speed}
    return fill(TEMPLATE.read_text(encoding="utf8"), kinds)


def main(
    only: Annotated[list[str] | None, typer.Option(help="CORPUS/SYSTEM, all by default.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each system.")] = 3,
    epochs: Annotated[int, typer.Option(help="Passes over the training part.")] = 5,
    speed: Annotated[bool, typer.Option("--speed", help="Only measure the speed of tagging.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Only write the page.")] = False,
) -> None:
    """Train the systems, and write the page."""
    results: dict[str, dict[str, float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if speed:
        results["speed"] = speeds(data_folder())
        write_json(RESULTS, results)
    cells = [f"{corpus}/{system}" for corpus in CORPORA for system in SYSTEMS]
    if unknown := {*(only or [])} - {*cells}:
        raise typer.BadParameter(f"No cell is called {', '.join(sorted(unknown))}; there are {', '.join(cells)}.")
    for seed in range(0 if report or speed else seeds):
        for cell in only or cells:
            corpus, system = cell.split("/")
            if f"{cell}/{seed}" not in results:
                results[f"{cell}/{seed}"] = run(corpus, system, seed, epochs, data_folder())
                write_json(RESULTS, results)
                typer.echo(f"{cell}/{seed} {results[f'{cell}/{seed}']}")
    write_text(PAGE, page(results))


if __name__ == "__main__":
    try:
        typer.run(main)
    except Skip as reason:
        sys.exit(f"{reason}.")
