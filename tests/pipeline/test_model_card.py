"""The model card: what a packaged pipeline says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import spacy
from spacy.cli.package import generate_readme
from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example

from spacy_crfseq.pipeline.spacy_train import HEADING, create_model_card, fill_card
from tests.pipeline.helpers import initialize, registered, templates


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


def test_the_card_tells_what_the_pipeline_is(nlp: Language) -> None:
    readme = generate_readme(fill_card(nlp).meta)
    for name in nlp.pipe_names:
        pipe: Any = nlp.get_pipe(name)
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{name}` | 3 sequences"))
        assert f"| {len(pipe.tags)} | {pipe.doc_model.size.features:,} | {pipe.doc_model.size.weights:,} |" in row
    needed = "It reads LEMMA, which an earlier component has to set."
    tasks = "tags, chunks and named entities"
    for text in (tasks, "L2(rho=0.125)", "`LOWER[-1]|LOWER[0]`", needed, "less probable than 0.25"):
        assert text in readme


def test_the_example_of_the_card_runs(nlp: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = fill_card(nlp).meta["notes"]
    code = notes.split("```python\n")[1].split("```")[0].replace('nlp("...")', 'nlp("Ada Lovelace")')
    monkeypatch.setattr(spacy, "load", lambda name: nlp)
    names: dict[str, Any] = {}
    exec(compile(code, "card", "exec"), names)
    assert names["doc"].text == "Ada Lovelace"


def test_what_people_have_written_stays(nlp: Language) -> None:
    nlp.meta["description"], nlp.meta["notes"] = "Mine.", "Written by hand."
    fill_card(nlp)
    assert (nlp.meta["description"], nlp.meta["notes"]) == ("Mine.", "Written by hand.")


def test_notes_are_made_anew_when_the_model_has_changed(nlp: Language) -> None:
    before = fill_card(nlp).meta["notes"]
    assert before.startswith(HEADING)
    pipe: Any = nlp.get_pipe("crf_tagger")
    pipe.add_label("Number=Plur")
    after = fill_card(nlp).meta["notes"]
    assert f"| {len(pipe.tags)} |" in after
    assert after != before


def test_a_pipeline_without_trained_crfs_gets_no_card() -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("crf_ner")
    meta = fill_card(nlp).meta
    assert not meta.get("notes")
    assert not meta.get("description")


def test_the_callback_fills_in_what_the_config_says(nlp: Language) -> None:
    callback: Callable[[Language], Language] = create_model_card(author="Ada", license="MIT", description="Of mine.")
    assert callback(nlp) is nlp
    assert [nlp.meta[key] for key in ("author", "license", "description")] == ["Ada", "MIT", "Of mine."]
    assert nlp.meta["notes"].startswith(HEADING)
    assert spacy.registry.callbacks.get("spacy_crfseq.ModelCard.v1") is create_model_card
