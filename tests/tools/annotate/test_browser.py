"""The page in a real browser: sessions by keyboard and by mouse, kills, two tabs, hostile texts, looks and latency."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span, SpanGroup

from spacy_crfseq.pipeline.soft_labels import write_soft_labels

pytest.importorskip("starlette", reason="the extra 'annotate' is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from tests.tools.annotate.conftest import gold, sentences  # noqa: E402

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("there is no chromium (apt-get install chromium)", allow_module_level=True)
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
)
TEXTS = 60


class Server:
    """The command in a process of its own, on the same port each time."""

    def __init__(self, texts: Path, folder: Path, *more: str, labels: str = "PER,LOC") -> None:
        self.folder, self.port = folder, "0"
        self._command = [
            sys.executable,
            "-m",
            "spacy",
            "crfseq",
            "annotate",
            str(texts),
            "--output",
            str(folder),
            *more,
        ]
        self._command += ["--labels", labels, "--no-classes"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([*self._command, "--port", self.port], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:(\d+)/\S+/", line)
        assert address is not None, line
        self.address, self.port = address[0], address[1]

    def kill(self, how: int = getattr(signal, "SIGKILL", signal.SIGTERM)) -> None:
        self.process.send_signal(how)
        self.process.communicate(timeout=60)

    def entries(self) -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in (self.folder / "journal.jsonl").read_text(encoding="utf8").split("\n")[:-1]
        ]

    def decisions(self) -> list[dict[str, Any]]:
        return [entry for entry in self.entries() if entry["kind"] == "accept"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield browser
        browser.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    there: list[Server] = []

    def make(lines: list[str], *more: str, folder: str = "project", **settings: Any) -> Server:
        texts = tmp_path / "texts.jsonl"
        texts.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf8")
        there.append(Server(texts, tmp_path / folder, *more, **settings))
        return there[-1]

    yield make
    for server in there:
        server.process.kill()
        server.process.communicate()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request", lambda request: None if re.match(r"data:|http://127", request.url) else errors.append(request.url)
    )
    yield page
    context.close()
    assert errors == []


def words(page: Any) -> list[str]:
    result: list[str] = page.eval_on_selector_all("#text b", "all => all.map(each => each.textContent)")
    return result


def until(page: Any, check: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(3000):
        if check():
            return
        page.wait_for_timeout(20)
    raise AssertionError(page.text_content("body"))


def spans(page: Any, kind: str = "span") -> list[tuple[int, int, str]]:
    script = "all => all.map(each => [+each.dataset.i, each.classList.contains('last'), each.dataset.label])"
    result, start = list[tuple[int, int, str]](), None
    for token, is_last, label in page.eval_on_selector_all(f"#text b.{kind}", script):
        start = token if start is None else start
        if is_last:
            result.append((start, token + 1, label))
            start = None
    return result


def keyboard(page: Any, token: int) -> None:
    """Move to a token by keys."""
    for _ in range(200):
        at = page.eval_on_selector("#text b.focus", "each => +each.dataset.i")
        if at == token and page.locator("#text b.focus").count() == 1:
            return
        page.keyboard.press("ArrowRight" if at < token else "ArrowLeft")
    raise AssertionError(token)


def next_text(page: Any, press: Callable[[], None]) -> None:
    before = page.text_content("#text")
    press()
    until(page, lambda: page.text_content("#text") != before)


def annotate(page: Any, wanted: list[tuple[int, int, str]]) -> int:
    """Make the spans of the page the wanted ones, with keys only; return the number of corrections."""
    done = 0
    for start, _, _ in [span for span in spans(page) if span not in wanted]:
        if not any(other[0] == start for other in wanted):
            keyboard(page, start)
            page.keyboard.press("d")
            done += 1
    for start, _, label in wanted:
        if (start, start + 1, label) not in spans(page):
            keyboard(page, start)
            page.keyboard.press("1" if label == "PER" else "2")
            done += 1
    return done


def test_thirty_texts_by_keyboard_alone(serve: Callable[..., Server], page: Any) -> None:
    server = serve(sentences(TEXTS))
    page.goto(server.address)
    page.wait_for_selector("#text b")
    corrections, accepted = [], []
    for number in range(30):
        if number == 20:
            until(page, lambda: page.text_content("#model") == "Model of 16 texts")
            next_text(page, lambda: page.keyboard.press("x"))  # it was shown before
        wanted = [tuple(span) for span in gold(words(page))]
        corrections.append(annotate(page, wanted))
        assert spans(page) == wanted
        accepted.append([words(page), [list(span) for span in wanted]])
        next_text(page, lambda: page.keyboard.press("Space"))
    assert [[d["text"]["words"], d["pins"]["spans"]] for d in server.decisions()] == accepted
    assert [d["held_out"] for d in server.decisions()] == [number % 5 == 4 for number in range(30)]
    learned = [n for n, d in zip(corrections, server.decisions(), strict=True) if not d["held_out"]]
    assert sum(learned[-10:]) < sum(learned[:10])
    until(page, lambda: page.text_content("#score").startswith("F1"))
    page.wait_for_selector("#curve polyline", state="attached")
    assert "30 texts" in page.text_content("#progress")
    assert all(0 < d["seconds"] < 60 and d["actions"] >= 1 for d in server.decisions())
    server.kill(signal.SIGINT)
    assert (server.folder / "model-best/config.cfg").exists()


def test_the_mouse_selects_labels_moves_edges_and_accepts(serve: Callable[..., Server], page: Any) -> None:
    server = serve(["Ada Maria Berg met Bo .", "Karl likes Rome ."])
    page.goto(server.address)
    page.wait_for_selector("#text b")
    if words(page)[0] != "Ada":
        next_text(page, lambda: page.click("[data-do=skip]"))

    def drag(start: int, end: int) -> None:
        places = [page.locator(f"#text b[data-i='{i}']").bounding_box() for i in (start, end)]
        (x, y), (to_x, to_y) = ((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in places)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move((x + to_x) / 2, y)
        page.mouse.move(to_x, to_y)
        page.mouse.up()

    drag(0, 1)
    page.click("#labels button:has-text('PER')")
    assert spans(page) == [(0, 2, "PER")]
    drag(1, 2)  # its end
    assert spans(page) == [(0, 3, "PER")]
    drag(0, 1)  # its start
    assert spans(page) == [(1, 3, "PER")]
    page.click("[data-do=startOut]")
    assert spans(page) == [(0, 3, "PER")]
    page.click("#text b[data-i='4']")
    page.click("#labels button:has-text('LOC')")
    assert spans(page) == [(0, 3, "PER"), (4, 5, "LOC")]
    page.click("#text b[data-i='4']")
    page.click("#labels button:has-text('PER')")
    page.click("#text b[data-i='1']")
    page.click("[data-do=remove]")
    assert spans(page) == [(4, 5, "PER")]
    page.click("[data-do=undo]")
    assert spans(page) == [(0, 3, "PER"), (4, 5, "PER")]
    page.click("[data-do=accept]")
    until(page, lambda: page.text_content("#progress").startswith("1 texts"))
    assert server.decisions()[0]["pins"]["spans"] == [[0, 3, "PER"], [4, 5, "PER"]]


def test_undo_resize_unknown_wrong_candidates_and_skip_by_keys(serve: Callable[..., Server], page: Any) -> None:
    server = serve(["Ada Maria Berg met Bo in Rome .", "Karl likes Rome ."])
    page.goto(server.address)
    page.wait_for_selector("#text b")
    if words(page)[0] != "Ada":
        next_text(page, lambda: page.keyboard.press("x"))
    keyboard(page, 3)
    for key, word in ((".", "Bo"), (".", "Rome"), (",", "Bo"), (",", "Berg")):
        page.keyboard.press(key)
        assert page.text_content("#text b.focus") == word
    keyboard(page, 0)
    for key in ("Shift+ArrowRight", "1", "Shift+ArrowRight"):
        page.keyboard.press(key)
    page.keyboard.press("j")
    assert spans(page) == [(0, 2, "PER")] or spans(page) == [(0, 3, "PER")]
    page.keyboard.press("k")
    while spans(page) != [(0, 3, "PER")]:
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Alt+Shift+ArrowRight")
    assert spans(page) == [(1, 3, "PER")]
    page.keyboard.press("Backspace")
    assert spans(page) == [(0, 3, "PER")]
    keyboard(page, 4)
    page.keyboard.press("u")
    keyboard(page, 5)
    page.keyboard.press("Shift+Digit1")
    page.keyboard.press("Shift+Digit2")
    keyboard(page, 6)
    page.keyboard.press("1")
    page.keyboard.press("f")
    page.keyboard.press("Space")
    until(page, lambda: page.text_content("#progress").startswith("1 texts"))
    pins = server.decisions()[0]["pins"]
    assert pins["spans"] == [[0, 3, "PER"]]
    assert pins["unknown"] == [4]
    assert pins["choices"] == [[5, ["PER", "LOC"]]]
    assert pins["wrong"] == [[6, 7, "PER"]]
    page.keyboard.press("Backspace")
    until(page, lambda: page.text_content("#progress").startswith("0 texts"))
    assert spans(page) == [(0, 3, "PER")]
    assert spans(page, "unknown")[-1] == (6, 7, "not PER")
    page.keyboard.press("l")
    page.keyboard.type("NEW")
    keyboard_before = page.evaluate("document.activeElement.id")
    assert keyboard_before == "find"
    page.keyboard.press("Enter")
    page.wait_for_selector("#labels button:has-text('NEW')")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_thirty_kills_lose_nothing(serve: Callable[..., Server], page: Any) -> None:
    server = serve(sentences(TEXTS))
    page.goto(server.address)
    page.wait_for_selector("#text b")
    accepted = []
    for number in range(30):
        wanted = [tuple(span) for span in gold(words(page))]
        annotate(page, wanted[: 1 + number % 2])
        kept, shown = spans(page, "sure"), words(page)
        if number % 3 == 0:  # between the corrections and the acceptance
            server.kill()
            server.start()
            page.reload()
            page.wait_for_selector("#text b")
            assert words(page) == shown
            assert set(kept) <= set(spans(page))
        annotate(page, wanted)
        accepted.append((words(page), [list(span) for span in wanted]))
        if number % 3 == 1:  # the answer is lost: the server dies when the request has come
            server.kill()
            page.keyboard.press("Space")
            page.wait_for_selector("#banner:not([hidden])")
            server.start()
            until(page, lambda: words(page) != accepted[-1][0])
        else:
            next_text(page, lambda: page.keyboard.press("Space"))
            if number % 3 == 2:
                server.kill()
                server.start()
    assert [(d["text"]["words"], d["pins"]["spans"]) for d in server.decisions()] == accepted


def test_two_tabs_have_different_texts(serve: Callable[..., Server], browser: Any, page: Any) -> None:
    server = serve(sentences(20))
    other = page.context.new_page()
    for window in (page, other):
        window.goto(server.address)
        window.wait_for_selector("#text b")
    for window in (page, other, page, other):
        assert words(page) != words(other)
        next_text(window, lambda window=window: window.keyboard.press("Space"))  # type: ignore[misc]
    assert len({d["key"] for d in server.decisions()}) == 4
    page.keyboard.press("Backspace")
    until(page, lambda: "Accepted before" in page.text_content("#kind"))
    assert words(page) == server.decisions()[-1]["text"]["words"]


HOSTILE = [
    "<script>window.pwned = 1</script> <img src=x onerror='window.pwned=1'>",
    "\u202eevil\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e9\u05dc\u05d5\u05dd 😀👨‍👩‍👧‍👦 é́́́ "
    "\ufeff x\u0000y \x07 {{7*7}} ${1} %s",
    "a " * 4_999 + "b " * 5_001,
    "line\nbreaks\ttabs\r\nand\u2028more",
]
LABELS = "<b>x</b>,'\"&,javascript:alert(1),عربي,😀,__proto__,constructor," + ",".join(f"L{i}" for i in range(43))


def test_hostile_texts_and_labels_are_only_texts(serve: Callable[..., Server], page: Any) -> None:
    server = serve(HOSTILE, labels=LABELS)
    page.goto(server.address)
    page.wait_for_selector("#text b")
    assert page.locator("#labels li").count() == 50
    seen = []
    for number in range(4):
        assert page.evaluate("window.pwned") is None
        seen.append("".join(words(page)))
        keyboard(page, 0)
        page.keyboard.press(str(number + 1))
        assert len(spans(page)) >= 1
        page.wait_for_selector("body:not(.busy)")
        page.keyboard.press("Space")
        until(page, lambda: page.text_content("#progress").startswith(f"{len(seen)} texts"))
    assert sorted(map(len, seen)) == sorted(len("".join(d["text"]["words"])) for d in server.decisions())
    assert page.evaluate("window.pwned") is None
    assert "no more texts" in page.text_content("#kind")


def test_a_failing_disk_is_said_and_the_text_stays(serve: Callable[..., Server], page: Any) -> None:
    server = serve(sentences(20))
    page.goto(server.address)
    page.wait_for_selector("#text b")
    before = words(page)
    page.route("**/api/accept", lambda route: route.fulfill(status=507, json={"error": "Nothing was saved: full"}))
    page.keyboard.press("Space")
    page.wait_for_selector("#banner:not([hidden])")
    assert page.text_content("#banner") == "Nothing was saved: full"
    assert words(page) == before
    page.unroute("**/api/accept")
    next_text(page, lambda: page.keyboard.press("Space"))
    assert page.locator("#banner").is_hidden()


AXE = find_spec("axe_playwright_python")  # which has axe-core


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_contrast_size_and_names(serve: Callable[..., Server], page: Any, scheme: str, width: int) -> None:
    server = serve(sentences(30), labels="PER,LOC," + ",".join(f"L{i}" for i in range(12)))
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.goto(server.address)
    page.wait_for_selector("#text b")
    for i in range(min(14, len(words(page)))):
        keyboard(page, i)
        page.keyboard.press("l")
        page.locator("#find").fill(["PER", "LOC", *(f"L{k}" for k in range(12))][i])
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#text b.span[data-i='{i}']")
    contrasts = page.evaluate(CONTRAST)
    assert min(value for value, _ in contrasts) >= 4.5, min(contrasts)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('button')].every(each => each.textContent.trim() || each.ariaLabel)"
    )
    small = (
        "[...document.querySelectorAll('button')].filter(each => each.offsetParent && each.offsetHeight < 24).length"
    )
    assert page.evaluate(small) == 0
    if AXE:
        page.evaluate((Path(str(AXE.origin)).parent / "axe.min.js").read_text(encoding="utf8"))
        for key in ("u", "f", "?"):
            page.keyboard.press(key)
            assert page.evaluate("axe.run().then(result => result.violations.map(each => each.id))") == []


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color, under) => {
    canvas.fillStyle = `rgb(${under.join(" ")})`; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (color) => color.map((c) => linear(c / 255))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const under = (element) => {
    const chain = [];
    for (let each = element; each; each = each.parentElement) chain.unshift(getComputedStyle(each).backgroundColor);
    return chain.reduce((below, color) => rgb(color, below), [255, 255, 255]);
  };
  const found = [];
  for (const element of document.querySelectorAll("#text b, #text i, p, small, kbd, button, a, h1, h2, label, .chip")) {
    if (!element.getClientRects().length || !element.textContent.trim()) continue;
    const below = under(element), ink = light(rgb(getComputedStyle(element).color, below)), paper = light(below);
    found.push([(Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), element.outerHTML.slice(0, 80)]);
  }
  return found;
}"""


def test_the_names_of_its_sources_stand_next_to_a_span_and_its_alternatives(tmp_path: Path, page: Any) -> None:
    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, ["Ada", "left", "."])
    doc.set_ents([Span(doc, 0, 1, "PER")])
    write_soft_labels(doc, "crf_ner", {0: [("", "U-PER", 0.7), ("", "U-LOC", 0.3)]})
    for name, label in (("rules", "PER"), ("model", "PER"), ("lists", "LOC")):
        doc.spans[name] = SpanGroup(doc, attrs={"silent": []}, spans=[Span(doc, 0, 1, label)])
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "labels.spacy")
    server = Server(tmp_path / "labels.spacy", tmp_path / "project", "--sources")
    try:
        page.goto(server.address)
        until(page, lambda: "Ada" in page.text_content("#text"))
        assert page.text_content("#focus-line") == "Ada PER 70 % (rules, model)"
        assert "30 % (lists)" in page.text_content("#alternatives")
    finally:
        server.kill()
