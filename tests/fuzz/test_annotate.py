"""Requests to the page of `annotate`: sound ones, damaged ones, in any order.

Each is answered in words; what is accepted can be learned from, and is in the journal as it is in memory.
"""

import json
import math
import random
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the extra 'annotate' is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # recent releases prefer another package
    from starlette.testclient import TestClient

from spacy_crfseq.tools.annotate.command import TASKS, FirstPipeline, annotate
from spacy_crfseq.tools.annotate.exports import FORMATS, exported
from spacy_crfseq.tools.annotate.journal import Decision, Journal
from spacy_crfseq.tools.annotate.project import Project
from spacy_crfseq.tools.annotate.server import REQUIRED, make_app
from tests.fuzz.oracle import cases

TOKEN, PORT = "secret", 8341
LABELS = ["PER", "LOC", "é|<b>"]


class Page(NamedTuple):
    """A project that has a model, and who asks it."""

    project: Project
    client: TestClient
    learned: Decision

    def ask(self, what: str, body: Any) -> Any:
        """Return the answer to a request; JSON that Python reads but no browser writes is sent, too."""
        headers = {"content-type": "application/json", "host": f"127.0.0.1:{PORT}"}
        return self.client.post(f"/{TOKEN}/api/{what}", content=json.dumps(body), headers=headers)


@pytest.fixture(scope="module", params=TASKS)
def page(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder, rng = tmp_path_factory.mktemp("annotate"), random.Random(0)
    words = "Ada Bo Oslo met in the no. \U0001f600 10 é".split()  # noqa: SIM905
    texts = [" ".join(rng.choices(words, k=rng.randrange(1, 12))) + f" {number}" for number in range(3000)]
    (folder / "a.txt").write_text("\n".join(texts) + "\n", encoding="utf8")
    project = annotate(
        [folder / "a.txt"], folder / "p", ",".join(LABELS), None, FirstPipeline(request.param), classes=False
    )
    for number in range(4):
        item: Any = project.next("t")
        spans = [(0, 1, LABELS[number % 3])]
        told = {"by_user": [], "predicted": [], "model": None, "seconds": 1, "actions": 1, "reviewed": True}
        project.accept("t", {"key": item.key, "pins": {"spans": spans}, "id": f"t{number}", **told})
    project._learn()
    assert project.model is not None
    with TestClient(make_app(project, TOKEN, PORT), f"http://127.0.0.1:{PORT}") as client:
        yield Page(project, client, project.state.learned[0])
    again = Journal(project.journal.path)
    assert again.state.decisions == project.state.decisions
    assert again.state.skipped == project.state.skipped
    assert again.state.labels == project.state.labels
    for name in FORMATS:
        exported(project.learner, project.state.decisions.values(), name)
    project._learn()
    project._save()
    assert project.trouble == ""
    project.close()


JUNK = st.recursive(
    st.sampled_from([None, True, -1, 0, 1, 7, 10**12, 1.5, math.nan, math.inf, "", "x", "PER", "\ud800", "O", "a b"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["spans", "a", "0"]), inner, max_size=2)
    ),
    max_leaves=6,
)
TOKENS = st.integers(0, 4)
LABEL = st.sampled_from([*LABELS, *LABELS, *LABELS, "NEW"])
SPAN = st.tuples(TOKENS, st.integers(1, 3), LABEL).map(lambda pins: [pins[0], pins[0] + pins[1], pins[2]])
PINS = st.fixed_dictionaries({}, optional={
    "spans": st.lists(SPAN, max_size=2), "outside": st.lists(TOKENS, max_size=2), "wrong": st.lists(SPAN, max_size=2),
    "unknown": st.lists(TOKENS, max_size=2),
    "choices": st.lists(st.tuples(TOKENS, st.lists(LABEL, max_size=3)), max_size=2),
})  # fmt: skip
NUMBERS = st.integers(0, 10**9)


@given(st.data())
@cases(40)
def test_whatever_the_page_sends_is_answered_and_what_is_accepted_can_be_learned(
    page: Page, data: st.DataObject
) -> None:
    project = page.project
    for _ in range(data.draw(st.integers(1, 4))):
        what, tab = data.draw(st.sampled_from([*REQUIRED, "accept", "decode"])), data.draw(st.sampled_from("ab"))
        shown = page.ask("next", {"tab": tab}).json()["text"]
        body: Any = {
            "tab": tab, "key": shown["key"], "id": f"i{data.draw(NUMBERS)}", "pins": data.draw(PINS),
            "by_user": data.draw(st.lists(SPAN, max_size=1)), "predicted": shown["spans"], "model": shown["model"],
            "seconds": 2.5, "actions": 3, "reviewed": True, "name": "NEW2", "held_out": shown["held_out"],
        }  # fmt: skip
        if what == "accept" and data.draw(st.booleans()):
            body["pins"] = {**shown["pins"], "spans": [span[:3] for span in shown["spans"]]}
        if data.draw(st.integers(0, 2)) == 0:
            inside, key = body, data.draw(st.sampled_from(sorted(body)))
            if key == "pins" and body["pins"] and data.draw(st.booleans()):
                inside, key = body["pins"], data.draw(st.sampled_from(sorted(body["pins"])))
            inside[key] = data.draw(JUNK)
        before, size = project.journal.path.read_bytes(), len(project.state.decisions)
        answer = page.ask(what, body)
        assert answer.status_code in (200, 400, 409), answer.content
        if answer.status_code != 200:
            assert len(answer.json()["error"].split()) > 3
            assert project.journal.path.read_bytes() == before
        if len(project.state.decisions) > size:
            decision = list(project.state.decisions.values())[-1]
            pipe = project.learner.train([page.learned, decision], project.state.labels)
            project.learner.scored(pipe, [decision], project.state.labels)
