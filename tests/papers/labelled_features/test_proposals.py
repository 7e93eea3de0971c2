"""``crfseq propose-features``: what is proposed, the file that it writes, and what is refused."""

import json
from collections import Counter
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc

from spacy_crfseq.papers.labelled_features.loss import GeneralizedExpectation
from tests.commands import CONFIG, Corpus, Run, refused, worked

NER = CONFIG.format(
    pipeline='["crf_ner"]', components='[components.crf_ner]\nfactory = "crf_ner"', given="[]", training=""
)
LABELLED = """\
the X B-NP O
university X I-NP B-ORG
of X I-NP I-ORG
Lima X I-NP I-ORG

a X B-NP O
university X I-NP B-ORG
in X B-PP O
Lima X B-NP B-LOC

Lima X B-NP B-LOC
in X B-PP O
"""


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    (tmp_path / "labelled.conll").write_text(LABELLED, encoding="utf8")
    (tmp_path / "ner.cfg").write_text(NER, encoding="utf8")
    (tmp_path / "raw.txt").write_text("The University in Lima\na university\n", encoding="utf8")
    return tmp_path / "labelled.conll"


def test_shares_and_counts(run: Run, labelled: Path) -> None:
    folder = labelled.parent
    args = ["propose-features", folder / "ner.cfg", labelled, "-f conll2003 --min-count 1 --json --raw"]
    rows = {row["feature"]: row for row in json.loads(worked(run(*args, folder / "raw.txt")).stdout)}
    assert rows.keys() == {"university", "in", "lima", "the", "a"}  # "of" is not in the raw text
    counts = {name: (row["label"], row["labelled"], row["raw"]) for name, row in rows.items()}
    assert counts["university"] == ("ORG", 2, 2)
    assert counts["lima"] == ("LOC", 3, 1)
    assert rows["lima"]["share"] == pytest.approx(2 / 3)
    assert rows["lima"]["safe_share"] == pytest.approx((2 + 2 / 10) / 4)
    few = json.loads(worked(run(*args, folder / "raw.txt", "-n 1")).stdout)
    assert max(Counter(row["label"] for row in few).values()) == 1


def test_the_file_is_read_by_the_loss(run: Run, trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "features.tsv"
    model = trained / "model-best"
    args = ["propose-features", model, corpus.train, "-f conll2003 -p crf_ner -t LOWER -t SHAPE[-1] -n 3 -o", out]
    result = worked(run(*args), "Label", "LOC", "Saved")
    assert "SHAPE[-1]=" in result.stdout
    nlp = spacy.load(model)
    loss = GeneralizedExpectation(out).bind(nlp.get_pipe("crf_ner").tags, "BILUO")  # type: ignore[attr-defined]
    inputs = loss.read([Doc(nlp.vocab, words=["in", "Oslo"])], [])
    assert inputs[1] > 0
    refused(run(*args), "features.tsv")
    worked(run(*args, "--force"))


@pytest.mark.parametrize(("name", "option", "parts"), [
    ("", "--min-count 50", ["--min-count 1"]),
    ("", "-t SHAPPE", ["SHAPPE", "Did you mean"]),
    ("none.conll", "", ["none.conll"]),
    ("", "-p crf_tagger", ["crf_tagger"]),
])  # fmt: skip
def test_options_that_cannot_work_are_refused(
    name: str, option: str, parts: list[str], run: Run, labelled: Path
) -> None:
    file = labelled.parent / name if name else labelled
    refused(run("propose-features", labelled.parent / "ner.cfg", file, f"-f conll2003 {option}"), *parts)
