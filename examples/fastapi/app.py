"""A server of entities with their probabilities: `uvicorn app:app --workers 4`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock
from typing import Annotated

import numba  # noqa: F401 - kernels are loaded by the first text, not by a request
import spacy
from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

MODEL = os.environ.get("MODEL", "training/model-best")
LOCK = Lock()
"""Held while a request is answered: a vocabulary has one memory zone at a time, and Python runs one thread anyway."""


class Texts(BaseModel):
    """What a client sends."""

    texts: list[Annotated[str, Field(max_length=100_000)]] = Field(max_length=100)


class Entity(BaseModel):
    """An entity by its characters; the score is None if something else than the model has set it."""

    start: int
    end: int
    label: str
    score: float | None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Load the pipeline, and the kernels that the first request would wait for."""
    app.state.nlp = spacy.load(MODEL)
    warm = app.state.nlp("Ada Lovelace lived in London.")
    [ent._.crf_score for ent in warm.ents]
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/entities")
def entities(body: Texts, request: Request) -> list[list[Entity]]:
    """Return the entities of each text."""
    nlp = request.app.state.nlp
    with LOCK, nlp.memory_zone():  # words that only this request has are forgotten
        return [
            [
                Entity(start=ent.start_char, end=ent.end_char, label=ent.label_, score=ent._.crf_score)
                for ent in doc.ents
            ]
            for doc in nlp.pipe(body.texts)
        ]


@app.get("/health")
def health() -> dict[str, str]:
    """Return that the server is ready."""
    return {"status": "ready"}
