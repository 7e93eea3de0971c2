"""How long the page takes in a browser: 500 annotated texts, a pool of 100,000, figures in milliseconds.

python -m tests.tools.annotate.latency texts.txt
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from spacy_crfseq.tools.annotate.command import annotate
from tests.tools.annotate.test_browser import ARGUMENTS, CHROMIUM, Server

MEASURE = """async () => {
  const $ = (id) => document.getElementById(id), found = { accept: [], decode: [] };
  const key = (key) => $("text").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  for (let i = 0; i < 60; i++) {
    if (!$("kind").textContent.startsWith("Drawn")) {
      for (let k = 0; k < 2; k++) {
        const decoded = new Promise((done) => document.addEventListener("decoded", done, { once: true }));
        const started = performance.now();
        key(k ? "1" : "d");
        await Promise.race([decoded, wait(1000)]);
        found.decode.push(performance.now() - started);
        key("j");
      }
    }
    const before = $("text").textContent, started = performance.now();
    key(" ");
    while ($("text").textContent === before) await wait(1);
    found.accept.push(performance.now() - started);
    await wait(300);
  }
  return found;
}"""


def prepare(texts: Path, folder: Path, n: int) -> None:
    """Annotate texts: capital letters that do not begin a text are places."""
    project = annotate([texts], folder, "LOC,PER", classes=False)
    for number in range(n):
        item: Any = project.next("a")
        spans = [[t.i, t.i + 1, "LOC"] for t in item.doc if t.i and t.is_title]
        told = {"by_user": [], "predicted": [], "model": 0, "seconds": 6.0, "actions": 2, "id": f"p{number}"}
        project.accept("a", {"key": item.key, "pins": {"spans": spans}, "reviewed": True, **told})
    project.close()


def main(texts: Path) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        prepare(texts, Path(place) / "project", 500)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        page, started = browser.new_page(), perf_counter()
        server = Server(texts, Path(place) / "project", labels="LOC,PER")
        page.goto(server.address)
        page.wait_for_selector("#text b")
        print(f"from the command to the first text: {perf_counter() - started:.2f} s")
        while "No model" in page.text_content("#model"):
            page.wait_for_timeout(200)
        for name, values in page.evaluate(MEASURE).items():
            median, high = np.percentile(values, [50, 95])
            print(f"{name}: median {median:.0f} ms, 95 % within {high:.0f} ms, {len(values)} times")
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        print(f"memory: {int(peak.split()[1]) / 1000:.0f} MB at most")
        browser.close()
        server.process.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
