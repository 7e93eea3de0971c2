"""Training that continues from a model (``crfseq fit --from``), beside training on everything at once.

A model of core.xml of anystyle gets the first 200 references of gold.xml.  Each case says what is new beside these:
nothing, a label (references of the core with notes are left out at first) or templates.  Times are processor time of
one thread, from the config to the trained pipeline on disk, without the start of the process.

    CRFSEQ_DATA=data python scripts/continue_training.py [--part test]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path[:1] = [str(Path(__file__).resolve().parents[1])]  # so that this checkout is run

import spacy  # noqa: E402
from spacy.language import Language  # noqa: E402
from spacy.tokens import Doc  # noqa: E402

from scripts.kit import Skip, corpus_file, data_folder  # noqa: E402
from spacy_crfseq.cli.fit import fit  # noqa: E402

PARTS = {"dev": slice(200, 500), "test": slice(500, None)}
WORDS = [
    "ORTH[-1..1]", "LOWER[-2..2]", "PREFIX2[0]", "PREFIX3[0]", "SUFFIX2[0]", "SUFFIX3[0]", "SHAPE[-1..1]",
    "BRIEF_SHAPE[-2..2]", "INITIAL_UPPER[0]", "IS_DIGIT[-1..1]",
]  # fmt: skip
PAIRS = [*WORDS, "LOWER[-1]|LOWER[0]", "LOWER[0]|LOWER[1]"]
CONFIG = """
[paths]
train = null

[nlp]
lang = "xx"
pipeline = ["crf_tagger"]

[nlp.tokenizer]
@tokenizers = "spacy_crfseq.RegexTokenizer.v1"

[components]

[components.crf_tagger]
factory = "crf_tagger"
n_threads = 1

[components.crf_tagger.features]
@crf_features = "spacy_crfseq.Templates.v1"
templates = []

[components.crf_tagger.optimizer]
@crf_optimizers = "spacy_crfseq.AdaGrad.v1"

[corpora]

[corpora.train]
@readers = "spacy_crfseq.XMLReader.v1"
path = ${paths.train}
sequence = "sequence"

[corpora.dev]
@readers = "spacy_crfseq.XMLReader.v1"
path = ""
"""


def main() -> None:
    """Train, score and print a table for each optimizer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="dev", help="part of gold.xml that is scored [dev]")
    part = PARTS[parser.parse_args().part]
    files = [corpus_file(data_folder(), f"anystyle/{name}.xml") for name in ("core", "gold")]
    core, gold = (list(ET.parse(file).getroot()) for file in files)
    without = [reference for reference in core if reference.find("note") is None]
    with TemporaryDirectory() as name:
        work = Path(name)
        (work / "config.cfg").write_text(CONFIG, encoding="utf8")
        for optimizer in ("AdaGrad", "LBFGS"):
            print(f"\n{optimizer:22}   tokens  whole  seconds")
            for case, old, before in (
                ("", core, PAIRS),
                (", new label", without, PAIRS),
                (", new templates", core, WORDS),
            ):
                train = trainer(work, optimizer)
                first, _ = train("core", old, before)
                both, whole_time = train("both", [*old, *gold[:200]], PAIRS)
                after, time_after = train("new", gold[:200], PAIRS, "core")
                for title, nlp, seconds in (
                    (f"core{case}", first, None),
                    ("  core + 200 at once", both, whole_time),
                    ("  200 --from core", after, time_after),
                ):
                    print(f"{title:24}", *scores(nlp, gold[part]), "" if seconds is None else f"{seconds:7.2f}")


def trainer(work: Path, optimizer: str) -> Callable[..., tuple[Language, float]]:
    """Return a function that trains on references in a folder."""

    def train(
        name: str, references: Sequence[ET.Element], templates: list[str], start: str = ""
    ) -> tuple[Language, float]:
        root = ET.Element("dataset")
        root.extend(references)
        ET.ElementTree(root).write(work / f"{name}.xml", encoding="UTF-8")
        overrides = {
            "paths.train": str(work / f"{name}.xml"),
            "components.crf_tagger.features.templates": templates,
            "components.crf_tagger.optimizer.@crf_optimizers": f"spacy_crfseq.{optimizer}.v1",
        }
        began = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            source = str(work / start / "model-last") if start else None
            outcome = fit(work / "config.cfg", work / name, overrides=overrides, force=True, start=source)
        seconds = time.process_time() - began
        assert outcome.last is not None
        return spacy.load(outcome.last), seconds

    return train


def scores(nlp: Language, references: Sequence[ET.Element]) -> list[str]:
    """Return the percentages of tokens and of whole references that are right."""
    gold = [
        [(word, part.tag) for part in reference for word in "".join(part.itertext()).split()]
        for reference in references
    ]
    gold = [words for words in gold if words]
    docs = nlp.pipe(Doc(nlp.vocab, words=[word for word, _ in words]) for words in gold)
    right = [
        [token.tag_ == tag for token, (_, tag) in zip(doc, words, strict=True)]
        for doc, words in zip(docs, gold, strict=True)
    ]
    tokens = [flag for flags in right for flag in flags]
    return [f"{100 * sum(flags) / len(flags):6.2f}" for flags in (tokens, [all(of_text) for of_text in right])]


if __name__ == "__main__":
    try:
        main()
    except Skip as reason:
        sys.exit(f"{reason}.")
