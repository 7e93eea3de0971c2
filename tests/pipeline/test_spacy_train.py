"""Curves in one line: what they show, and that nothing of them is piped."""

import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.cli._util import app
from spacy.cli.package import generate_readme
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from typer.testing import CliRunner

from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline import run_log
from spacy_crfseq.pipeline.model_card import HEADING, fill_card
from spacy_crfseq.pipeline.run_log import ASCII, BLOCKS, LiveCurve, sparkline
from spacy_crfseq.pipeline.scorers import chunker_score, ner_score, tagger_score
from spacy_crfseq.pipeline.spacy_train import create_logger, create_model_card
from tests.commands import LBFGS, write_config
from tests.pipeline.helpers import examples as corpus_of
from tests.pipeline.helpers import initialize, initialized, pipe_of, registered, templates
from tests.terminal import run_on_terminal


class Terminal(io.StringIO):
    encoding = "utf8"

    def isatty(self) -> bool:
        return True


def test_heights() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == BLOCKS
    assert sparkline([5, 5], 8) == "▁▁"
    assert sparkline([1, 10, 100], 8, log=True) == "▁▅█"
    assert sparkline([0, 10, 100], 8, log=True) == sparkline([0, 10, 100], 8)
    assert sparkline([0, 1], 8, levels="ab") == "ab"
    assert sparkline([], 8) == ""

    assert sparkline([1, math.nan, 2, math.inf], 8) == "▁ █ "
    assert sparkline([math.nan], 8) == ""


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200), st.integers(1, 40), st.booleans())
def test_width_and_ends(values: list[float], width: int, log: bool) -> None:
    line = sparkline(values, width, log=log)
    assert len(line) == min(width, len(values))
    chosen = [values[(i + 1) * len(values) // len(line) - 1] for i in range(len(line))]
    assert line[-1] == sparkline(chosen, width, log=log)[-1]
    if max(chosen) > min(chosen):
        assert line[chosen.index(max(chosen))] == BLOCKS[-1]
        assert line[chosen.index(min(chosen))] == BLOCKS[0]


def test_a_terminal_shows_all_curves_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "PAUSE", 0.0)
    terminal = Terminal()
    live = LiveCurve(terminal)
    for value in (100.0, 10.0, 1.0):
        live.add("objective", value, log=True)
    live.add("score", 50.0)
    live.show("ner 3")
    assert "ner 3  objective 1 █▅▁  score 50 ▁" in terminal.getvalue()
    live.hide()
    live.hide()
    assert terminal.getvalue().endswith("\r")


def test_drawings_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "PAUSE", 60.0)
    terminal = Terminal()
    live = LiveCurve(terminal)
    for number in range(50):
        live.add("objective", float(number))
        live.show(f"iteration {number}")
    live.hide()
    assert "iteration 0" in terminal.getvalue()
    assert "iteration 49" not in terminal.getvalue()


def test_nothing_is_piped() -> None:
    pipe = io.StringIO()
    live = LiveCurve(pipe)
    live.add("objective", 1.0)
    live.show("x")
    live.hide()
    assert pipe.getvalue() == ""


def test_a_terminal_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: Any = Terminal()
    monkeypatch.setattr(Terminal, "encoding", "ascii")
    live = LiveCurve(terminal)
    live.add("objective", 1.0)
    live.add("objective", 2.0)
    live.show("x")
    live.hide()
    assert f"objective 2 {ASCII[0]}{ASCII[-1]}" in terminal.getvalue()


# --- ``spacy_crfseq.Logger.v1`` under a real ``spacy train``: piped, on a terminal, and in a file -------------------


KEYS = ["component", "iteration", "seconds", "objective", "loss", "grad_norm", "active", "score", "best"]
SMALL = {"@batchers": "spacy.batch_by_sequence.v1", "size": 4}
SPACY = "from spacy.cli import setup_cli; setup_cli()"


def configure(folder: Path, *names: str, batcher: dict[str, Any] | None = None, lbfgs: tuple[str, ...] = ()) -> Path:
    corpus, path = folder / "corpus.conll", folder / "config.cfg"
    if not corpus.exists():
        rows = ["Ada NNP B-NP B-PER", "sees VBZ B-VP O", "the DT B-NP O", "map NN I-NP O", "", "Bo NNP B-NP B-PER",
                "sold VBD B-VP O", "Oslo NNP B-NP B-LOC", ""]  # fmt: skip
        corpus.write_text("\n".join(rows * 8))
    write_config(path, *names, components="".join(LBFGS.format(name=name) for name in lbfgs))
    config = spacy.util.load_config(path, overrides={"paths.train": str(corpus), "paths.dev": str(corpus)})
    log = {"@loggers": "spacy_crfseq.Logger.v1", "path": str(folder / "logs" / "l.jsonl")}
    config["training"] |= {"max_steps": 12, "eval_frequency": 4, "logger": log}
    config["training"]["batcher"] = batcher or config["training"]["batcher"]
    spacy.util.load_model_from_config(config, auto_fill=True).config.to_disk(path)
    return path


def train(config: Path) -> str:
    done = CliRunner().invoke(app, ["train", str(config)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert not re.search("[▁▂▃▄▅▆▇█\r]", done.stdout + done.stderr)
    return done.stdout


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / "l.jsonl").read_text().splitlines()]


def test_one_component_has_columns_of_its_own(tmp_path: Path) -> None:
    lines = train(configure(tmp_path, "crf_ner", lbfgs=("crf_ner",))).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("E "))
    assert lines[start].split()[:4] == ["E", "#", "LOSS", "CRF_NER"]
    assert lines[start].split()[-5:] == ["SCORE", "OBJECTIVE", "|GRADIENT|", "ACTIVE", "SECONDS"]
    table = lines[start : start + 6]
    assert len({len(line) for line in table}) == 1
    log = log_of(tmp_path)
    assert [list(entry) for entry in log] == [KEYS] * 4
    assert [entry["iteration"] for entry in log] == [1, 5, 9, 13]
    for line, entry in zip(table[2:], log, strict=True):
        objective, norm, active, _ = line.split()[-4:]
        assert float(objective) == pytest.approx(entry["objective"], abs=0.005)
        assert float(norm) == pytest.approx(entry["grad_norm"], rel=1e-3)
        assert int(active) == entry["active"] > 0
    objectives = [entry["objective"] for entry in log]
    assert objectives == sorted(objectives, reverse=True)
    assert log[-1]["score"] == 1.0
    assert [entry["best"] for entry in log][-1]


def test_several_components_have_a_line_each(tmp_path: Path) -> None:
    stdout = train(configure(tmp_path, "crf_tagger", "crf_chunker", "crf_ner", lbfgs=("crf_chunker",)))
    assert len(re.findall(r"^ +crf_tagger  objective [\d.]+  active \d+$", stdout, re.M)) == 4
    assert len(re.findall(r"^ +crf_chunker  objective [\d.]+  \|gradient\| \S+  active \d+$", stdout, re.M)) == 4
    log = log_of(tmp_path)
    assert [entry["component"] for entry in log] == ["crf_tagger", "crf_chunker", "crf_ner"] * 4
    assert all((entry["grad_norm"] is None) == (entry["component"] != "crf_chunker") for entry in log)
    assert {entry["score"] for entry in log[-3:]} == {1.0}


def test_before_the_first_iteration_there_is_nothing_to_tell(tmp_path: Path) -> None:
    stdout = train(configure(tmp_path, "crf_ner", batcher=SMALL, lbfgs=("crf_ner",)))  # 16 sentences: 4 steps an epoch
    first = next(line for line in stdout.splitlines() if re.match(r" +0 +0 ", line))
    assert first.split()[-4:-1] == ["-", "-", "0"]
    assert [entry["iteration"] for entry in log_of(tmp_path)] == [5, 9, 13]


def test_curves_on_a_terminal(tmp_path: Path) -> None:
    config = configure(tmp_path, "crf_ner", batcher=SMALL)
    command = ["-W", "error:::spacy_crfseq", "-c", SPACY, "train", str(config)]
    code, text = run_on_terminal(command)
    assert code == 0, text
    assert re.search(r"crf_ner objective [\d,.]+ [▁▂▃▄▅▆▇█]+  score [\d.]+ [▁▂▃▄▅▆▇█]+", text)
    rows = re.findall(r"(?:^|[\r\n]) +\d+ +(\d+) [^▁▂▃▄▅▆▇█\r\n]*\r\n", text)
    assert rows == ["0", "4", "8", "12"]  # curves are gone where rows of the table are printed


def test_online_figures_are_of_the_whole_training_set() -> None:
    nlp = initialized("crf_ner", 4, optimizer=registered("optimizers", "AdaGrad"))
    pipe, examples = cast(Any, pipe_of(nlp)), corpus_of(nlp, repeat=4)
    assert pipe.training.figures() is None
    met = []
    for first in range(0, len(examples), 2):
        pipe.update(examples[first : first + 2])
        pipe.finish_update(None)
        met.append(pipe.training.run.report)
    report = pipe.training.figures(restart=True)
    assert report.loss == pytest.approx(sum(batch.loss for batch in met))
    assert report.value == pytest.approx(report.loss + met[-1].value - met[-1].loss)
    assert np.isnan(report.grad_norm)
    assert pipe.training.figures().loss == report.loss
    pipe.update(examples[:2])
    pipe.finish_update(None)
    assert pipe.training.figures().loss == pytest.approx(pipe.training.run.report.loss * len(examples) / 2)
    assert pipe.doc_model.n_active == np.count_nonzero(pipe.crf.theta) > 0
    assert pipe.annotation.score_name == "ents_f"


def test_the_path_must_be_one_that_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder\. Give a file, such as log.jsonl"):
        create_logger(str(tmp_path))
    (tmp_path / "file").touch()
    set_up = create_logger(str(tmp_path / "file" / "log.jsonl"))
    with pytest.raises(ConfigError, match=r"\[training.logger\] path = .* cannot be written"):
        set_up(spacy.blank("xx"))


# --- the model card: what a packaged pipeline says of itself --------------------------------------------------------


@pytest.fixture
def nlp() -> Language:
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_tagger", config={"attr": "morph"})
    settings = {"regularizer": registered("regularizers", "L2", rho=0.125), "threshold": 0.25, "spans_key": "groups"}
    nlp.add_pipe("crf_chunker", config={**settings, "features": templates("LOWER[-1]|LOWER[0]", "LEMMA[0]")})
    nlp.add_pipe("crf_ner")
    doc = nlp.make_doc("Ada Lovelace lived in Oslo")
    for token in doc:
        token.set_morph("Number=Sing")
    doc.spans["groups"] = [Span(doc, 0, 2, "NP")]
    doc.set_ents([Span(doc, 0, 2, "PER")])
    return initialize(nlp, [Example(nlp.make_doc(doc.text), doc)] * 3)


@pytest.mark.parametrize("changed", [False, True])
def test_the_card_tells_what_the_pipeline_is(changed: bool, nlp: Language) -> None:
    if changed:
        pipe_of(fill_card(nlp), "crf_tagger").add_label("Number=Plur")
    readme = generate_readme(fill_card(nlp).meta)
    for name in nlp.pipe_names:
        pipe: Any = nlp.get_pipe(name)
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{name}` | 3 sequences"))
        assert f"| {len(pipe.tags)} | {pipe.size.features:,} | {pipe.size.weights:,} |" in row
    needed = "It reads LEMMA, which an earlier component has to set."
    tasks = "tags, chunks and named entities"
    for text in (tasks, "L2(rho=0.125)", "`LOWER[-1]|LOWER[0]`", needed, "less probable than 0.25", "### Limits"):
        assert text in readme


def test_the_example_of_the_card_runs(nlp: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = fill_card(nlp).meta["notes"]
    code = notes.split("```python\n")[1].split("```")[0].replace('nlp("...")', 'nlp("Ada Lovelace")')
    monkeypatch.setattr(spacy, "load", lambda name: nlp)
    names: dict[str, Any] = {}
    exec(compile(code, "card", "exec"), names)
    assert names["doc"].text == "Ada Lovelace"


def test_a_model_card_keeps_descriptions_written_by_hand(nlp: Language) -> None:
    nlp.meta["description"], nlp.meta["notes"] = "Mine.", "Written by hand."
    fill_card(nlp)
    assert (nlp.meta["description"], nlp.meta["notes"]) == ("Mine.", "Written by hand.")
    untrained = spacy.blank("xx")
    untrained.add_pipe("crf_ner")
    assert not {"notes", "description"} & {name for name, text in fill_card(untrained).meta.items() if text}


def test_the_callback_fills_in_what_the_config_says(nlp: Language) -> None:
    said: Any = {"author": "Ada", "license": "MIT", "description": "Of mine.", "sources": [{"name": "Letters"}]}
    callback: Callable[[Language], Language] = create_model_card(**said)
    assert callback(nlp) is nlp
    assert {key: nlp.meta[key] for key in said} == said
    assert nlp.meta["notes"].startswith(HEADING)
    assert spacy.registry.callbacks.get("spacy_crfseq.ModelCard.v1") is create_model_card


# --- the accuracy of whole sequences: sentences or Docs, partly annotated ones, spans with their boundaries ---------


NLP = spacy.blank("en")


def example(gold, predicted, starts=None, words=None):
    """Return an example with tags such as B-A, also as entities, and, by their ends, as chunks."""
    docs = []
    for tags in (predicted, gold):
        ents = [tag if tag != "-" else None for tag in tags]
        doc = Doc(NLP.vocab, words=words or ["x"] * len(tags), tags=[tag.strip("-") for tag in tags], ents=ents)
        doc.spans["chunks"] = [Span(doc, ent.start, ent.end, ent.label_) for ent in doc.ents]
        docs.append(doc)
    if starts is not None:
        for token, start in zip(docs[1], starts, strict=True):
            token.is_sent_start = start
    return Example(*docs)


def scores(examples):
    return (
        tagger_score(examples)["tag_sequence_acc"],
        ner_score(examples)["ents_sequence_acc"],
        chunker_score(examples)["spans_chunks_sequence_acc"],
    )


@pytest.mark.parametrize(
    ("attr", "values"), [("tag", "ABC"), ("pos", ["NOUN", "VERB", "SPACE"]), ("morph", ["A=a", "B=b", "C=c"])]
)
@pytest.mark.parametrize("gold_space", [True, False])
def test_white_space_has_no_part_in_the_accuracy(attr, values, gold_space):
    right, wrong, space = values
    name = {"tag": "tags", "morph": "morphs"}.get(attr, attr)
    words = ["x", "\n", "y"]
    gold = Doc(NLP.vocab, words=words, **{name: [right, space if gold_space else "", right]})
    predicted = Doc(NLP.vocab, words=words, **{name: [right, space, wrong]})
    assert tagger_score([Example(predicted, gold)], attr=attr)[f"{attr}_acc"] == 0.5


def test_all_tokens_of_a_sequence_must_be_right():
    right, joined = example(["B-A", "I-A", "O"], ["B-A", "I-A", "O"]), example(["B-A", "B-A"], ["B-A", "I-A"])
    assert scores([right, right, joined]) == pytest.approx((2 / 3,) * 3)
    halves = example(["B-A", "O", "O"], ["O", "O", "O"], starts=[True, False, True])
    assert scores([halves]) == (0.5,) * 3
    partly = example(["-", "O", "B-A"], ["O", "O", "B-A"])
    assert scores([partly, joined])[:2] == (0.5, 0.5)
    unknown = example(["-", "-"], ["O", "B-A"])
    assert scores([unknown])[:2] == (None, None)
    assert scores([]) == (None,) * 3
    empty = example([], [])
    assert scores([empty]) == (None,) * 3
    assert scores([empty, right, joined]) == (0.5,) * 3
    other = Example(
        Doc(NLP.vocab, words=["ab"]), Doc(NLP.vocab, words=["a", "b"], spaces=[False, False], tags=["X", "X"])
    )
    assert tagger_score([other])["tag_sequence_acc"] is None
