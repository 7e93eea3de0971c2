"""The server in examples/fastapi: its answers, requests at the same time, and what it refuses."""

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import spacy

from tests.pipeline.helpers import trained
from tests.project.pages import ROOT

pytest.importorskip("fastapi", reason="fastapi is not installed")
TEXT = "Bob met Ada in Oslo."
Talk = Callable[[Any], Coroutine[Any, Any, Any]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Talk], Any]:
    """Start the server with a pipeline that has an entity ruler, and return what a client gets from it."""
    import httpx

    nlp = trained("crf_ner")
    ruler: Any = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "LOC", "pattern": "Oslo"}])
    nlp.to_disk(tmp_path / "model")
    monkeypatch.setenv("MODEL", str(tmp_path / "model"))
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "fastapi"))
    app = importlib.reload(importlib.import_module("app")).app

    async def serve(talk: Talk) -> Any:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await talk(client)

    return lambda talk: asyncio.run(serve(talk))


def test_entities_have_probabilities_or_none(ask: Callable[[Talk], Any], tmp_path: Path) -> None:
    async def talk(client: Any) -> Any:
        assert (await client.get("/health")).json() == {"status": "ready"}
        return (await client.post("/entities", json={"texts": [TEXT, ""]})).json()

    entities, nothing = ask(talk)
    ents = spacy.load(tmp_path / "model")(TEXT).ents
    assert [(entity["start"], entity["end"], entity["label"]) for entity in entities] == [
        (ent.start_char, ent.end_char, ent.label_) for ent in ents
    ]
    assert [entity["score"] for entity in entities] == [pytest.approx(ent._.crf_score) for ent in ents]
    assert None in [entity["score"] for entity in entities], "that of the ruler"
    assert nothing == []


def test_requests_at_the_same_time_leave_no_words_behind(ask: Callable[[Talk], Any]) -> None:
    app = importlib.import_module("app").app

    async def talk(client: Any) -> Any:
        words = len(app.state.nlp.vocab.strings)
        texts = [[f"Bob{i} met Ada in Oslo{i}."] * 3 for i in range(12)]
        answers = await asyncio.gather(*(client.post("/entities", json={"texts": body}) for body in texts))
        assert len(app.state.nlp.vocab.strings) == words
        return answers

    answers = ask(talk)
    assert {answer.status_code for answer in answers} == {200}
    assert {len(answer.json()) for answer in answers} == {3}


@pytest.mark.parametrize("body", [{"texts": ["a" * 100_001]}, {"texts": ["a"] * 101}, {"texts": "a"}, {}])
def test_requests_that_are_too_large_or_wrong_are_refused(body: Any, ask: Callable[[Talk], Any]) -> None:
    async def talk(client: Any) -> Any:
        return (await client.post("/entities", json=body)).status_code

    assert ask(talk) == 422
