"""``crfseq report``: its figures against those of other commands, what is on the page, and what is refused."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

import spacy_crfseq
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools.evaluate import evaluate
from spacy_crfseq.tools.report import ReportSettings, TrainedOn, report
from spacy_crfseq.tools.report.findings import Findings
from spacy_crfseq.tools.report.kinds import (
    BOTH,
    BOUNDARY,
    LABEL,
    MISSED,
    NOTHING,
    RIGHT,
    SPURIOUS,
    Pair,
    confusion,
    kinds_by_label,
    pair_spans,
    span_confusion,
)
from tests.commands import Corpus, Run, refused, worked, write_corpus
from tests.html import Page
from tests.test_schemes import lists_of_spans


@pytest.fixture(scope="module")
def made(trained: Path, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Findings], str]:
    """The figures of all three components, and the page."""
    output = tmp_path_factory.mktemp("report") / "new" / "page.html"
    reports = report(
        trained / "model-best",
        corpus.dev,
        output,
        "conll2003",
        trained_on=TrainedOn(corpus=corpus.train),
        settings=ReportSettings(samples=200),
    )
    assert [path.name for path in output.parent.iterdir()] == ["page.html"]
    return {component.name: component for component in reports}, output.read_text(encoding="utf8")


def test_scores_are_those_of_evaluate(made: Any, trained: Path, corpus: Corpus) -> None:
    result, _ = made
    metrics = evaluate(trained / "model-best", corpus.dev, "conll2003").metrics
    assert result["crf_tagger"].accuracy.value == pytest.approx(metrics["tag_acc"])
    for name, prefix in (("crf_ner", "ents"), ("crf_chunker", "spans_chunks")):
        whole = result[name].whole
        assert whole.f1.value == pytest.approx(metrics[f"{prefix}_f"])
        per_type = {label: row.f1.value for label, row in result[name].labels.items()}
        assert per_type == pytest.approx({label: row["f"] for label, row in metrics[f"{prefix}_per_type"].items()})
        assert whole.gold == sum(row.gold for row in result[name].labels.values())
    rows = [row for component in result.values() for row in component.labels.values()]
    for value, low, high in (estimate for row in rows for estimate in (row.precision, row.recall, row.f1)):
        assert value is None or 0 <= low <= value + 1e-9 <= high + 2e-9 <= 1 + 2e-9
    component = made[0]["crf_ner"]
    total: dict[str, int] = {}
    for label, kinds in component.kinds.items():
        gold = sum(n for kind, n in kinds.items() if kind != "spurious")
        assert gold == component.labels[label].gold
        assert kinds.get("right", 0) == component.labels[label].right
        for kind, n in kinds.items():
            total[kind] = total.get(kind, 0) + n
    assert sum(total.values()) - total.get("missed", 0) == component.whole.found
    # places are told as LOC or ORG at random
    assert component.confusions[0][:2] == ("ORG", "LOC")
    assert total["label"] >= component.confusions[0][2] > 0
    assert component.tag_confusion.sum() == component.tokens
    assert np.diag(component.tag_confusion).sum() == round(component.accuracy.value * component.tokens)
    assert made[0]["crf_tagger"].kinds == {}


def test_scores_by_familiarity_with_the_training_corpus(trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    few = corpus.train.read_text().split("\n\n")[:3]
    (tmp_path / "few.conll").write_text("\n\n".join(few) + "\n")
    words, tags = set(), set()
    for line in "\n".join(few).split("\n"):
        words.add(line.split()[0])
        tags.add(tuple(line.split()[:2]))
    dev = [line.split() for line in corpus.dev.read_text().split("\n") if line]
    options: Any = {"component": ["crf_tagger", "crf_ner"], "settings": ReportSettings(samples=20)}
    options["trained_on"] = TrainedOn(corpus=tmp_path / "few.conll")
    tagger, ner = report(trained / "model-best", corpus.dev, tmp_path / "p.html", "conll2003", **options)
    assert {name: row.gold for name, row in tagger.familiar.items()} == {
        "seen with this label": sum((line[0], line[1]) in tags for line in dev),
        "seen with another label": sum(line[0] in words and (line[0], line[1]) not in tags for line in dev),
        "unseen, with an unseen word": sum(line[0] not in words for line in dev),
    }
    assert sum(row.right for row in tagger.familiar.values()) == round(tagger.accuracy.value * tagger.tokens)
    assert sum(row.gold for row in ner.familiar.values()) == ner.whole.gold
    assert all(ner.familiar[f"unseen, {what}"].gold for what in ("of seen words", "with an unseen word"))


def test_worst_sentences_have_most_mistakes(made: Any, trained: Path, corpus: Corpus) -> None:
    nlp = spacy.load(trained / "model-best")
    wrong = []
    for example in read_examples(nlp, corpus.dev, "conll2003"):
        gold, doc = example.reference, nlp(example.predicted)
        spans = [{(ent.start, ent.end, ent.label_) for ent in text_report.ents} for text_report in (gold, doc)]
        wrong.append(len(spans[0] ^ spans[1]))
    worst = made[0]["crf_ner"].worst
    shown = [(text_report.wrong, text) for text_report in worst for text in (text_report.text, *text_report.same)]
    assert sorted(shown) == sorted((n, text) for text, n in enumerate(wrong, 1) if n)
    assert [text_report.wrong for text_report in worst] == sorted(
        (text_report.wrong for text_report in worst), reverse=True
    )
    assert len(worst) <= 30
    assert all(0 < text_report.probability <= 1 for text_report in worst)
    alike = [text_report.probability for text_report in worst if text_report.wrong == worst[0].wrong]
    assert alike == sorted(alike, reverse=True)


def test_json_holds_all_figures(run: Run, trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    options = ["-f", "conll2003", "-p", "crf_ner", "-o", tmp_path / "page.html", "--samples", "50", "-n", "3"]
    result = worked(run("report", trained / "model-best", corpus.dev, *options, "--json"))
    figures = json.loads(result.stdout)["crf_ner"]
    assert set(figures["all"]) == {"gold", "found", "right", "precision", "recall", "f1"}
    assert len(figures["worst"]) == 3
    assert figures["familiar"] is None
    again = run("report", trained / "model-best", corpus.dev, *options, "--json")
    assert again.stdout == result.stdout, "samples are drawn by a seed"
    model = shutil.copytree(trained / "model-best", tmp_path / "model")
    for _ in range(2):  # scores of an earlier report are replaced
        told = run("report", model, corpus.dev, *options, "--card")
    score, low, high = re.findall(r"\d+\.\d\d", told.stdout.partition("crf_ner: F1 ")[2].partition(")")[0])
    card = json.loads((model / "meta.json").read_text())["notes"].split("### Evaluation")
    assert len(card) == 2
    assert f"| `crf_ner` | F1 {score} | {low} to {high} |" in card[1]
    assert all(f"| `{label}` | {row['gold']} |" in card[1] for label, row in figures["labels"].items())
    assert f"Saved {tmp_path / 'page.html'}" in told.stdout
    refused(run("report", "spacy", corpus.dev, "--card"), "spacy is a package")
    refused(run("report", "none", corpus.dev, "--card"), "none: no such folder")


def test_the_page_is_whole_by_itself(made: Any) -> None:
    result, page = made
    assert Page(page).seen.count("h1") == 1
    assert "nan" not in re.sub(r">[^<]*<", "><", page)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
    for title in ("Scores", "Kinds of errors", "Confusion", "Seen and unseen", "Probabilities", "Training", "Weights"):
        assert f"crf_ner: {title}" in page
    anchors = re.findall(r'href="#([^"]+)"', page)
    assert set(anchors) <= set(re.findall(r' id="([^"]+)"', page))
    contents = page[page.index("<nav>") : page.index("</nav>")]
    assert contents.count("<a href=") == page.count("<section") == page.count("<h2>")
    footer = page[page.index("<footer>") :]
    for words in (date.today().isoformat(), f"spacy_crfseq {spacy_crfseq.__version__}", f"spaCy {spacy.__version__}"):
        assert words in footer
    assert len(page) < 3_000_000
    part = page[page.index("crf_ner: Sentences") :]
    assert part.count("<article>") == len(result["crf_ner"].worst)
    worst = result["crf_ner"].worst
    assert part.count("<mark") == sum(len(text.gold) + len(text.found) for text in worst) > 0
    assert part.count('<mark class="wrong"') == sum(text.wrong for text in worst)
    assert page.count("<b>\N{BALLOT X} ") == page.count('<mark class="wrong"')
    names = page[page.index('id="crf_ner-weights"') : page.index('id="crf_ner-sentences"')]
    assert "The largest weights for and against each label" in names
    assert "(no name)" not in names


def test_confusions_lead_to_their_sentences(made: Any) -> None:
    """Cells of both kinds of heat map link to a part of the page with up to three sentences that have the confusion."""
    actual, page = made
    for name, component in actual.items():
        for i, (gold, label, n) in enumerate(component.confusions):
            anchor = f"{name}-confusion-{i}"
            assert page.count(f'<a href="#{anchor}"><g class="cell">') == (0 if not component.kinds and n == 0 else 1)
            body = page.split(f'<details id="{anchor}">')[1].split("</details>")[0]
            sentences = component.examples[gold, label]
            assert body.count("<article>") == len(sentences)
            assert 1 <= len(sentences) <= min(3, n)
            for sentence in sentences:
                sides = ({span.label for span in sentence.odd & set(side)} for side in (
                    sentence.gold, (span for span, _ in sentence.found),
                ))  # fmt: skip
                assert all(not wanted or wanted in labels for wanted, labels in zip((gold, label), sides, strict=True))


def test_a_model_without_probabilities(corpus: Corpus, local: Path, tmp_path: Path) -> None:
    (component,) = report(local, corpus.dev, tmp_path / "page.html", "conll2003")
    assert component.whole.f1.value == pytest.approx(evaluate(local, corpus.dev, "conll2003").metrics["ents_f"])
    assert component.certainty is None
    assert "normalised at each token" in (tmp_path / "page.html").read_text()
    assert component.as_json()["calibration"] is None


def test_a_file_in_which_nothing_is_found(run: Run, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "dull.conll").write_text("the DT O\ndog NN O\n\n. . O\n\n")
    model, page = trained / "model-best", tmp_path / "page.html"
    (component,) = report(
        model, tmp_path / "dull.conll", page, "conll2002", component=["crf_ner"], settings=ReportSettings(samples=20)
    )
    assert component.whole.f1 == (None, None, None)
    assert component.accuracy.value == 1
    assert (component.labels, component.worst, component.confusions) == ({}, [], [])
    json.dumps(component.as_json(), allow_nan=False)
    assert not re.search(r"\bnan\b", page.read_text())
    compared = "--json --format conll2002 --component crf_ner --against", model, "--html", page
    result = worked(run("evaluate", model, tmp_path / "dull.conll", *compared))
    assert json.loads(result.stdout)["against"]["components"]["crf_ner"]["all"]["difference"] is None
    assert "NaN" not in result.stdout
    assert not re.search(r"\bnan\b", page.read_text())


@pytest.mark.parametrize(("file", "options", "message"), [
    ("other.jsonl", [], "other.jsonl:1: no string under"),
    ("dev.conll", ["-f", "conll2003", "--train", "dev.conll"], "--train takes the log.jsonl that fit writes"),
    ("dev.conll", ["-f", "conll2003", "--train", "other.jsonl"], "has no iterations of"),
    ("blind.conll", ["-f", "conll2002", "-p", "crf_ner"], "no gold annotation"),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(
    file: str, options: list[str], message: str, run: Run, trained: Path, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "dev.conll", 5, 3)
    (tmp_path / "blind.conll").write_text("Ada NNP -\n\n")
    (tmp_path / "other.jsonl").write_text('{"component": "x", "iteration": 1, "objective": 2.0}\n')
    options = [str(tmp_path / option) if "." in option else option for option in options]
    refused(run("report", trained / "model-best", tmp_path / file, *options, "-o", tmp_path / "page.html"), message)
    assert not (tmp_path / "page.html").exists()


def slow_kind(gold, predicted):
    shared = set(range(gold.start, gold.end)) & set(range(predicted.start, predicted.end))
    if gold == predicted:
        return 0, RIGHT, shared
    if (gold.start, gold.end) == (predicted.start, predicted.end):
        return 1, LABEL, shared
    if shared and gold.label == predicted.label:
        return 2, BOUNDARY, shared
    return (3, BOTH, shared) if shared else None


def slow_pairs(gold, predicted):
    """Take the best pair that is left until there is none."""
    gold, predicted, pairs = list(gold), list(predicted), []
    while True:
        all_pairs = [(g, f, slow_kind(g, f)) for g in gold for f in predicted]
        possible = [(k[0], -len(k[2]), gold.index(g), predicted.index(f), k[1], g, f) for g, f, k in all_pairs if k]
        if not possible:
            break
        *_, kind, g, f = min(possible)
        pairs.append(Pair(kind, g, f))
        gold.remove(g)
        predicted.remove(f)
    return pairs + [Pair(MISSED, g, None) for g in gold] + [Pair(SPURIOUS, None, f) for f in predicted]


@given(lists_of_spans(), lists_of_spans())
def test_pairs_are_those_of_the_slow_search(gold, predicted):
    pairs = pair_spans(gold, predicted)
    assert Counter(pairs) == Counter(slow_pairs(gold, predicted))
    assert [pair.gold for pair in pairs if pair.gold] == gold
    assert Counter(pair.found for pair in pairs if pair.found) == Counter(predicted)


def test_one_of_each_kind():
    gold = [TagSpan(0, 2, "A"), TagSpan(3, 5, "A"), TagSpan(6, 9, "A"), TagSpan(10, 12, "A"), TagSpan(13, 14, "B")]
    predicted = [TagSpan(0, 2, "A"), TagSpan(3, 5, "B"), TagSpan(7, 9, "A"), TagSpan(11, 13, "B"), TagSpan(15, 16, "B")]
    pairs = pair_spans(gold, predicted)
    assert [pair.kind for pair in pairs] == [RIGHT, LABEL, BOUNDARY, BOTH, MISSED, SPURIOUS]
    assert kinds_by_label(pairs) == {"A": {RIGHT: 1, LABEL: 1, BOUNDARY: 1, BOTH: 1}, "B": {MISSED: 1, SPURIOUS: 1}}
    assert span_confusion(pairs) == {("A", "A"): 2, ("A", "B"): 2, ("B", NOTHING): 1, (NOTHING, "B"): 1}


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), max_size=20))
def test_confusion(pairs):
    table = confusion([a for a, _ in pairs], [b for _, b in pairs], 4)
    expected = np.zeros((4, 4), int)
    for a, b in pairs:
        if a >= 0:
            expected[a, b] += 1
    np.testing.assert_array_equal(table, expected)
