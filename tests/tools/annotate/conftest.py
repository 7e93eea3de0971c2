"""Made-up texts with known entities, and projects on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools.annotate.command import FirstPipeline, annotate
from spacy_crfseq.tools.annotate.journal import Pins
from spacy_crfseq.tools.annotate.project import Item, Project

PEOPLE, PLACES = "Ada Olga Ines Bo Karl Eve Max Uma".split(), "Oslo Lima Quito Rome Bonn Riga".split()  # noqa: SIM905
FRAMES = [
    "{p} met {q} in {c} .",
    "{p} likes {c} , but {q} does not .",
    "the train to {c} is late .",
    "{p} sold {n} maps .",
]


def sentences(n: int, seed: int = 0) -> list[str]:
    """Return different sentences."""
    rng = random.Random(seed)
    collected: dict[str, None] = {}
    while len(collected) < n:
        frame = rng.choice(FRAMES)
        words = {"p": rng.choice(PEOPLE), "q": rng.choice(PEOPLE), "c": rng.choice(PLACES), "n": rng.randrange(2, 9999)}
        collected[frame.format(**words) + f" No {rng.randrange(10**6)}"] = None
    return list(collected)


def gold(words: list[str]) -> list[TagSpan]:
    """Return the entities of a sentence."""
    kinds = {**dict.fromkeys(PEOPLE, "PER"), **dict.fromkeys(PLACES, "LOC")}
    return [TagSpan(i, i + 1, kinds[word]) for i, word in enumerate(words) if word in kinds]


def entry(item: Item, number: int, **more: Any) -> dict[str, Any]:
    """Return the message by which a page accepts a text with its entities."""
    spans = gold([token.text for token in item.doc])
    pins = Pins(tuple(spans)).as_json()
    told = {"predicted": [], "model": 0, "seconds": 3.5, "actions": 2, "id": f"id{number}", "reviewed": True}
    return {"key": item.key, "pins": pins, "by_user": spans, **told, **more}


def work(project: Project, n: int, tab: str = "a", first: int = 0) -> None:
    """Accept texts."""
    for number in range(first, first + n):
        item = project.next(tab)
        assert item is not None
        project.accept(tab, entry(item, number))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(sentences(120)) + "\n", encoding="utf8")
    return path


@pytest.fixture
def opened(texts: Path, tmp_path: Path) -> Iterator[Callable[..., Project]]:
    """Open a project; it is closed at the end."""
    there: list[Project] = []

    def make(folder: str = "project", labels: tuple[str, ...] = ("PER", "LOC"), **settings: Any) -> Project:
        there.append(
            annotate([texts], tmp_path / folder, ",".join(labels), None, FirstPipeline(**settings), classes=False)
        )
        return there[-1]

    yield make
    for project in there:
        project.close()
