"""The server: who may ask, what is answered, and what hostile requests do."""

from __future__ import annotations

import json
import re
import signal
import socket
import struct
import subprocess
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra 'annotate' is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # recent releases prefer another package
    from starlette.testclient import TestClient

from spacy_crfseq.corpora import PRESETS
from spacy_crfseq.corpora.layouts import ANNOTATIONS, DOCS, Preset
from spacy_crfseq.pipeline.gold_file import read_gold
from spacy_crfseq.tools.annotate.exports import FORMATS
from spacy_crfseq.tools.annotate.project import Project
from spacy_crfseq.tools.annotate.server import LARGEST, make_app
from tests import forks
from tests.commands import posix
from tests.tools.annotate.conftest import gold, work

TOKEN, PORT = "secret", 8341
BASE = f"http://127.0.0.1:{PORT}"
HEADERS = {"host": f"127.0.0.1:{PORT}"}


@pytest.fixture
def project(opened: Callable[..., Project]) -> Project:
    return opened()


@pytest.fixture
def client(project: Project) -> Iterator[TestClient]:
    with TestClient(make_app(project, TOKEN, PORT), BASE, headers=HEADERS) as client:
        yield client


def ask(client: TestClient, what: str, **body: Any) -> Any:
    return client.post(f"/{TOKEN}/api/{what}", json={"tab": "a", **body})


def accept(client: TestClient, text: Any, number: int) -> Any:
    spans = gold(text["words"])
    pins = {"spans": spans, "outside": [], "unknown": [], "choices": [], "wrong": []}
    more = {
        "by_user": spans,
        "predicted": [],
        "model": 0,
        "seconds": 1,
        "actions": 3,
        "id": str(number),
        "reviewed": True,
    }
    return ask(client, "accept", key=text["key"], pins=pins, **more)


def test_a_session(client: TestClient, project: Project) -> None:
    project.start()
    text = ask(client, "next").json()["text"]
    for number in range(12):
        answer = accept(client, text, number).json()
        assert answer["text"]["key"] != text["key"]
        text = answer["text"]
    assert project.settle()
    assert ask(client, "state").json()["state"]["texts"] == 10
    decoded = ask(client, "decode", key=text["key"], pins={"outside": [0]}).json()
    assert all(span[0] != 0 for span in decoded["spans"])
    assert decoded["model"] == 10
    undone = ask(client, "undo", id="u").json()
    assert undone["text"]["again"]
    assert [span[:3] for span in undone["text"]["pins"]["spans"]] == [list(s) for s in gold(undone["text"]["words"])]
    assert ask(client, "skip", key=undone["text"]["key"], id="s").json()["text"]["key"] is not None
    assert [row["name"] for row in ask(client, "label", name="NEW").json()["state"]["labels"]] == ["PER", "LOC", "NEW"]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/{TOKEN}/", {}, 200),
        (f"/{TOKEN}/page.js", {}, 200),
        (f"/{TOKEN}/style.css", {"host": f"localhost:{PORT}"}, 200),
        (f"/{TOKEN}/", {"origin": BASE, "sec-fetch-site": "same-origin"}, 200),
        ("/", {}, 403),
        ("", {}, 403),
        ("/page.js", {}, 403),
        ("/other/", {}, 403),
        (f"/{TOKEN}x/", {}, 403),
        ("/sécret/", {}, 403),
        (f"//{TOKEN}/", {}, 403),
        (f"/{TOKEN}/", {"host": "example.org"}, 403),
        (f"/{TOKEN}/", {"host": f"127.0.0.1.example.org:{PORT}"}, 403),
        (f"/{TOKEN}/", {"host": "127.0.0.1:1"}, 403),
        (f"/{TOKEN}/", {"origin": "http://example.org"}, 403),
        (f"/{TOKEN}/", {"origin": "null"}, 403),
        (f"/{TOKEN}/", {"sec-fetch-site": "cross-site"}, 403),
        (f"/{TOKEN}/export/spacy", {"sec-fetch-site": "cross-site"}, 403),
        (f"/{TOKEN}/../journal.jsonl", {}, 403),
        (f"/{TOKEN}/%2e%2e/server.py", {}, 404),
        (f"/{TOKEN}/index.html", {}, 404),
        (f"/{TOKEN}/export/exe", {}, 404),
    ],
)
def test_only_the_page_itself_is_answered(path: str, headers: dict[str, str], status: int, client: TestClient) -> None:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("origin", ["http://example.org", "null", "https://127.0.0.1:8341", "http://127.0.0.1:1"])
def test_foreign_pages_change_nothing(origin: str, client: TestClient, project: Project) -> None:
    for headers in ({"origin": origin}, {"host": "evil.example"}, {"sec-fetch-site": "same-site"}):
        answer = client.post(f"/{TOKEN}/api/label", json={"tab": "a", "name": "EVIL"}, headers=headers)
        assert answer.status_code == 403
    assert client.post("/api/label", json={"name": "EVIL"}).status_code == 403
    assert client.post(f"/{TOKEN}/api/label", content="{}", headers={"content-type": "text/plain"}).status_code == 400
    assert "EVIL" not in project.state.labels


HOSTILE = [
    "", "[]", "{", "3", "null", '{"tab": "a"}', "[" * 100_000, '{"tab": "a", "key": "x", "id": "1"}',
    '{"tab": "a", "key": "x", "pins": {}}', '{"tab": ["a"], "key": 3, "pins": 3, "id": {}, "name": 4}',
    '{"tab": "a", "key": "x", "id": "", "name": ""}', '{"tab": "", "key": "x", "id": "1", "wanted": 3}',
    '{"tab": "a", "name": "\\ud800"}', '{"tab": "a", "name": "a b"}', '{"tab": null, "key": null, "id": null}',
]  # fmt: skip


@pytest.mark.parametrize("what", ["next", "decode", "accept", "skip", "label", "nothing"])
def test_hostile_requests_are_refused_with_a_reason(what: str, client: TestClient, project: Project) -> None:
    before = project.journal.path.read_bytes()
    for body in HOSTILE:
        answer = client.post(f"/{TOKEN}/api/{what}", content=body, headers={"content-type": "application/json"})
        if what != "next" or answer.status_code != 200:
            assert answer.status_code in (400, 404, 409), body
            assert answer.json()["error"], body
        assert project.journal.path.read_bytes() == before, body


def test_a_fault_of_the_program_is_told_as_json_and_is_in_the_terminal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "summary", lambda: 1 / 0)
    app = make_app(project, TOKEN, PORT)
    with TestClient(app, BASE, headers=HEADERS, raise_server_exceptions=False) as quiet:
        answer = ask(quiet, "state")
    assert answer.status_code == 500
    assert "the program has failed (ZeroDivisionError" in answer.json()["error"]
    with TestClient(app, BASE, headers=HEADERS) as client, pytest.raises(ZeroDivisionError):  # for the log
        ask(client, "state")


@posix
def test_a_client_that_goes_away_leaves_no_traceback(texts: Path, tmp_path: Path) -> None:
    command = ["-m", "spacy", "crfseq", "annotate", texts, "--labels", "A", "--port", "0", "-o", tmp_path / "p"]
    process = forks.start([*command, "--no-classes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    address = re.search(r"http://127\.0\.0\.1:(\d+)/(\S+)/", process.stdout.readline())
    assert address is not None
    port, token = int(address[1]), address[2]
    head = f"POST /{token}/api/next HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    for rest in ("Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{", "Content-Len"):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall((head + rest).encode())
    body = b'{"tab": "a"}'
    with socket.create_connection(("127.0.0.1", port)) as connection:  # asks, and reads no answer
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request = urllib.request.Request(address[0] + "api/state", b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["state"]["texts"] == 0
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


def test_a_request_that_is_too_large_is_refused(client: TestClient) -> None:
    assert ask(client, "label", name="x" * (LARGEST + 1)).status_code == 400


def test_a_full_disk_is_said_and_the_text_stays(
    client: TestClient, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ask(client, "next").json()["text"]

    def full(entry: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(project.journal, "add", full)
    answer = accept(client, text, 0)
    assert answer.status_code == 507
    assert "Nothing was saved: No space left" in answer.json()["error"]
    monkeypatch.undo()
    assert ask(client, "next").json()["text"]["key"] == text["key"]
    assert accept(client, text, 0).status_code == 200


def test_exports_are_read_by_the_readers_of_these_formats(client: TestClient, project: Project, tmp_path: Path) -> None:
    work(project, 10)
    item = project.next("a")
    assert item is not None
    words = [token.text for token in item.doc]
    partial = {"pins": {"spans": gold(words)[1:], "unknown": [0]}, "by_user": [], "predicted": [], "model": 0}
    project.accept("a", {"key": item.key, "seconds": 1, "actions": 1, "id": "p", "reviewed": True, **partial})
    layouts: dict[str, Preset] = {"spacy": DOCS, "columns": PRESETS["iob"]}
    wanted = [[(s.start, s.end, s.label) for s in d.pins.spans] for d in project.state.decisions.values()]
    for name, ending in FORMATS.items():
        answer = client.get(f"/{TOKEN}/export/{name}")
        assert answer.status_code == 200
        assert f"annotations{ending}" in answer.headers["content-disposition"]
        path = tmp_path / f"{name}{ending}"
        path.write_bytes(answer.content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts that were not complete are left out
            examples = read_gold(project.learner.nlp, path, layouts.get(name, ANNOTATIONS)).examples
        ents = [[(e.start, e.end, e.label_) for e in example.reference.ents] for example in examples]
        complete = name in ("spacy", "columns")
        assert ents == (wanted if complete else wanted[:-1])
        if complete:
            assert examples[-1].reference[0].ent_iob == 0
    tasks = json.loads(client.get(f"/{TOKEN}/export/label-studio").content)
    assert tasks[-1]["annotations"][0]["was_cancelled"]


def test_label_studio_counts_characters_as_browsers_do(project: Project) -> None:
    from spacy_crfseq.tools.annotate.exports import region

    value = region("😀😀 Ada é", 3, 6, "PER", "x")["value"]
    assert (value["start"], value["end"], value["text"]) == (5, 8, "Ada")
