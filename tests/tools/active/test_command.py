"""``crfseq active``: measures against enumeration, the choice, what is written, and what is refused."""

import json
import math
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc

from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.tools.active import MEASURES, Best, diverse, task_of
from tests import reference
from tests.commands import Run, refused, worked
from tests.pipeline import helpers

TEXTS = [
    "Ada sees a dog .",
    "Olga Karlson finds a letter in Oslo .",
    "the train sold a map in Lima .",
    "Quito paints Ines in Zzyzx with qux .",
    "a dog .",
]


@pytest.fixture(scope="module")
def tiny() -> Language:
    """A model with exact numbers that is far from sure."""
    strong = {"@crf_regularizers": "spacy_crfseq.L2.v1", "rho": 3.0}
    return helpers.trained("crf_ner", precision="float64", regularizer=strong)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text("\n".join(["", *TEXTS, "  "]) + "\n", encoding="utf8")
    return tmp_path / "texts.txt"


def labellings(pipe: CRFComponent, doc: Doc) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return log P of every labelling of a Doc, and the marginals of each sentence, by enumeration."""
    wholes, marginals = [], []
    for piece in pipe.posterior([doc]).distribution._constrained():
        for first, last in pairwise(piece.lattice.offsets):
            sequence = reference.sequence(piece.lattice.scores, first, last)
            logs = reference.all_path_scores(sequence, reference.all_paths(*sequence.emissions.shape))
            wholes.append(logs - reference.log_sum(logs))
            marginals.append(reference.marginals(sequence))
    return reduce(lambda a, b: (a[:, None] + b).ravel(), wholes), marginals


def entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


@pytest.mark.parametrize(
    "doc",
    [(["Anna"], [True]), (["New", "York", "Zed"], [True, False, False]), (["saw", "Oslo", "of", "Bob"], [1, 0, 1, 0])],
    ids=["one token", "a sentence", "two sentences"],
)
def test_measures_against_enumeration(tiny: Language, doc: tuple[list[str], list[bool]]) -> None:
    pipe = helpers.pipe_of(tiny)
    docs = [Doc(tiny.vocab, words=doc[0], sent_starts=doc[1]), Doc(tiny.vocab, words=["Rain"])]
    logs, marginals = labellings(pipe, docs[0])
    best = np.sort(np.exp(logs))[::-1]
    tokens = [entropy(row) for rows in marginals for row in rows]
    head = best[:6] / best[:6].sum()
    expected = {
        "entropy": entropy(np.exp(logs)),
        "least-confidence": 1 - best[0],
        "margin": 1 - best[0] + best[1],
        "token-entropy": sum(tokens) / len(tokens),
        "total-token-entropy": sum(tokens),
        "nbest-entropy": entropy(head),
    }
    assert expected.keys() == MEASURES.keys()
    actual = {name: float(measure(pipe.posterior(docs), 6)[0]) for name, measure in MEASURES.items()}
    assert actual == pytest.approx(expected, abs=1e-9)
    assert expected["entropy"] > 0.1


def test_the_least_sure_come_first(run: Run, trained: Path, texts: Path, tmp_path: Path) -> None:
    nlp = spacy.load(trained / "model-best")
    tagger, ner = nlp.get_pipe("crf_tagger"), nlp.get_pipe("crf_ner")
    docs = list(tagger.pipe([nlp.make_doc(text) for text in TEXTS]))  # type: ignore[attr-defined]
    values = MEASURES["entropy"](ner.posterior(docs), 0)  # type: ignore[attr-defined]
    out = tmp_path / "out.jsonl"
    worked(
        run("active", trained / "model-best", texts, "--component crf_ner -n 3 -o", out), f"Saved 3 of 5 texts to {out}"
    )
    tasks = [json.loads(line) for line in out.read_text(encoding="utf8").splitlines()]
    order = np.argsort(-values)[:3]
    assert [task["text"] for task in tasks] == [TEXTS[i] for i in order]
    assert [task["meta"]["score"] for task in tasks] == pytest.approx(values[order].tolist())
    assert [task["meta"]["line"] for task in tasks] == [i + 2 for i in order]
    assert tasks[0]["text"] == TEXTS[3]
    assert tasks[0]["meta"]["measure"] == "entropy"


def test_the_best_of_a_stream() -> None:
    best, made = Best(3), []

    def tasks(numbers: list[float]) -> Callable[[], list[dict[str, Any]]]:
        return lambda: made.append(numbers) or [{"value": number} for number in numbers]  # type: ignore[func-returns-value]

    for numbers in ([5.0, 1.0], [5.0, 7.0], [1.0, 5.0], [6.0]):
        best.add(np.array(numbers), tasks(numbers))
    assert [item["value"] for _, item in best.items()] == [7, 6, 5]
    assert [value for value, _ in best.items()] == [7, 6, 5]
    assert best.seen == 7
    assert made == [[5.0, 1.0], [5.0, 7.0], [6.0]]


def test_diversity_takes_other_texts_before_near_duplicates(run: Run, trained: Path, tmp_path: Path) -> None:
    lines = ["Ada sees a dog in Oslo and Lima and Quito .", "Bo sold the old map to Ines ."]
    copies = [f"{lines[0]} {sign}" for sign in "!?;:,"]
    (tmp_path / "texts.txt").write_text("\n".join([*copies, lines[1]]) + "\n")

    def chosen(*args: str) -> list[int]:
        result = worked(
            run("active", trained / "model-best", tmp_path / "texts.txt", "--component crf_ner -n 2", *args)
        )
        return [json.loads(line)["meta"]["line"] for line in result.stdout.splitlines()]

    alike, different = chosen(), chosen("--diversity 4")
    assert 6 not in alike
    assert different == [alike[0], 6]
    assert chosen("--diversity 0") == alike
    assert run("active", trained / "model-best", tmp_path / "texts.txt", "--diversity -1").exit_code == 2


def test_tasks_agree_with_their_text(tiny: Language) -> None:
    doc = tiny.make_doc("Anna  saw\nNew York.")
    spans = helpers.pipe_of(tiny).posterior([doc]).spans()[0]
    task = task_of(doc, spans, {"score": 1.0})
    assert task["text"] == doc.text
    assert json.loads(json.dumps(task)) == task
    for token, result in zip(doc, task["tokens"], strict=True):
        assert task["text"][result["start"] : result["end"]] == result["text"] == token.text
        assert (result["id"], result["ws"]) == (token.i, token.whitespace_ == " ")
    assert task["spans"]
    for span, scored in zip(task["spans"], spans, strict=True):
        assert task["text"][span["start"] : span["end"]] == doc[scored.start : scored.end].text
        assert (span["token_start"], span["token_end"]) == (scored.start, scored.end - 1)
        assert span["label"] == scored.label
        assert span["score"] == pytest.approx(scored.probability, abs=1e-6)


def test_ctrl_c_writes_what_is_there(run: Run, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "many.txt").write_text("Ada sees a dog .\n" * 1000)
    calls = iter([None, None, KeyboardInterrupt])
    measure = MEASURES["entropy"]

    def interrupted(answers: Any, nbest: int) -> Any:
        signal = next(calls)
        if signal is not None:
            raise signal
        return measure(answers, nbest)

    monkeypatch.setitem(MEASURES, "entropy", interrupted)  # type: ignore[arg-type]
    out = tmp_path / "out.jsonl"
    result = run("active", trained / "model-best", tmp_path / "many.txt", "--component crf_ner -n 5 -o", out)
    assert result.exit_code == 130
    assert "Interrupted: the choice is among the first 256 texts" in result.stderr
    assert len(out.read_text().splitlines()) == 5


@pytest.mark.parametrize(("options", "message"), [
    (["--by", "entrpy"], "Did you mean 'entropy'?"),
    (["--component", "crf_nre"], "no CRF component 'crf_nre'"),
    ([], "several CRF components. Choose one: --component crf_chunker or crf_ner"),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(
    options: list[str], message: str, run: Run, trained: Path, texts: Path
) -> None:
    refused(run("active", trained / "model-best", texts, *options), message)


@pytest.mark.parametrize("command", [["active"], ["tag", "--html", "page.html"]])
def test_a_model_without_probabilities(command: list[str], run: Run, local: Path, texts: Path) -> None:
    refused(run(*command, local, texts), "normalised at each token")


weights = st.lists(st.floats(1e-6, 1), min_size=1, max_size=6)


def slowly(values: list[float], words: list[list[int]], number: int, weight: float) -> list[int]:
    sets = [set(of_text) for of_text in words]
    weights = {
        w: math.log1p(len(sets) / sum(w in words_of for words_of in sets)) for words_of in sets for w in words_of
    }

    def cosine(a: set[int], b: set[int]) -> float:
        norms = (math.sqrt(sum(weights[w] ** 2 for w in words_of)) for words_of in (a, b))
        return min(1.0, sum(weights[w] ** 2 for w in a & b) / math.prod(norms))

    chosen: list[int] = []
    while len(chosen) < min(number, len(sets)):
        nearest = [max((cosine(words_of, sets[i]) for i in chosen), default=0.0) for words_of in sets]
        gains = [-1 if i in chosen else value * (1 - nearest[i]) ** weight for i, value in enumerate(values)]
        chosen.append(max(range(len(gains)), key=gains.__getitem__))
    return chosen


@given(
    st.lists(
        st.tuples(st.integers(1, 1000), st.lists(st.integers(0, 9), min_size=1, max_size=6)), min_size=1, max_size=9
    ),
    st.integers(1, 10),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_greedy_choice_of_different_texts(texts: list[tuple[int, list[int]]], number: int, weight: float) -> None:
    values = [value + i / 17 for i, (value, _) in enumerate(texts)]  # no ties
    words = [of_text for _, of_text in texts]
    actual = diverse(values, [np.array(word, np.uint64) for word in words], number, weight)
    assert len(set(actual)) == len(actual) == min(number, len(texts))
    expected = slowly(values, words, number, weight)
    distinct = len({frozenset(word) for word in words})
    assert (
        actual[: min(distinct, number)] == expected[: min(distinct, number)]
    )  # copies are worth nothing, in any order
    by_value = sorted(range(len(values)), key=lambda i: -values[i])
    assert diverse(values, [np.array(word, np.uint64) for word in words], number, 0) == by_value[:number]
