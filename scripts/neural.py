"""Compare a CRF over a small network with spaCy's own components on equal networks, and write docs/neural.md.

    CRFSEQ_DATA=... python scripts/neural.py [--only CORPUS/SYSTEM ...] [--seeds 3] [--epochs 5]
    python scripts/neural.py --report

All see the same batches in the same order, with spaCy's default optimizer and dropout, and are scored after the last
epoch.  Systems: `spacy`, its `ner` or `tagger`; the name of a loss, a CRF over the network alone; `features`, a CRF
without a network; `sum`, one over both.  Each run is an entry of scripts/neural/results.json and is not repeated.
"""

from __future__ import annotations

import json
import os
import random
import sys
from itertools import islice
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Annotated, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(ROOT)]  # so that this checkout is run
os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer  # noqa: E402
from spacy import util  # noqa: E402
from spacy.training.batchers import minibatch_by_words  # noqa: E402
from thinc.api import Config, compounding, fix_random_seed  # noqa: E402

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


def run(corpus: str, system: str, seed: int, epochs: int, data: Path, limit: int | None = None) -> dict[str, float]:
    """Train a system and return its scores in per cent, seconds of training and tokens tagged a second."""
    known = CORPORA[corpus]
    readers = {
        part: {**known["reader"], "path": str(data / file)} for part, file in zip(PARTS, known["files"], strict=True)
    }
    config = {
        "nlp": {"lang": known["lang"], "pipeline": ["one"]}, "components": {"one": component(corpus, system)},
        "corpora": readers, "training": {"train_corpus": "corpora.train", "dev_corpus": "corpora.dev", "seed": seed},
    }  # fmt: skip
    fix_random_seed(seed)
    nlp = util.load_model_from_config(Config(config), auto_fill=True)
    train, dev, test = (list(islice(reader_of("", f"corpora.{part}", nlp).stream(nlp), limit)) for part in PARTS)
    begun, order, sizes = process_time(), random.Random(seed), compounding(100, 1000, 1.001)
    optimizer = nlp.initialize(lambda: train)
    for _ in range(epochs):
        order.shuffle(train)
        for batch in minibatch_by_words(train, size=sizes, discard_oversize=False, tolerance=0.2):
            nlp.update(batch, drop=0.1, sgd=optimizer)
            optimizer.step_schedules()
    seconds = process_time() - begun
    scores = [nlp.evaluate(part) for part in (dev, test)]
    return {
        "dev": 100 * scores[0][known["score"]], "test": 100 * scores[1][known["score"]], "seconds": seconds,
        "speed": scores[1]["speed"],
    }  # fmt: skip


def table(corpus: str, results: dict[str, dict[str, float]]) -> str:
    """Return the table of a corpus: means over seeds."""
    rows = ["| scores from | dev | test | seconds | tokens/s | runs |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for system in SYSTEMS:
        found = [one for key, one in results.items() if key.startswith(f"{corpus}/{system}/")]
        if found:
            name = f"spaCy's `{CORPORA[corpus]['task']}`" if system == "spacy" else f"`{system}`"
            dev, test, seconds, speed = (mean(one[key] for one in found) for key in found[0])
            rows.append(f"| {name} | {dev:.2f} | {test:.2f} | {seconds:.0f} | {speed:,.0f} | {len(found)} |")
    return f"### {CORPORA[corpus]['title']}\n\n" + "\n".join(rows)


def page(results: dict[str, dict[str, float]]) -> str:
    """Return the text of the page."""
    text = TEMPLATE.read_text(encoding="utf8")
    for corpus in CORPORA:
        text = text.replace("{{" + corpus + "}}", table(corpus, results))
    return text


def main(
    only: Annotated[list[str] | None, typer.Option(help="CORPUS/SYSTEM, all by default.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each system.")] = 3,
    epochs: Annotated[int, typer.Option(help="Passes over the training part.")] = 5,
    report: Annotated[bool, typer.Option("--report", help="Only write the page.")] = False,
) -> None:
    """Train the systems, and write the page."""
    results: dict[str, dict[str, float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in range(0 if report else seeds):
        for cell in only or [f"{corpus}/{system}" for corpus in CORPORA for system in SYSTEMS]:
            corpus, system = cell.split("/")
            if f"{cell}/{seed}" not in results:
                results[f"{cell}/{seed}"] = run(corpus, system, seed, epochs, Path(os.environ["CRFSEQ_DATA"]))
                write_json(RESULTS, results)
                typer.echo(f"{cell}/{seed} {results[f'{cell}/{seed}']}")
    write_text(PAGE, page(results))


if __name__ == "__main__":
    typer.run(main)
