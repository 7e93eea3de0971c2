"""The pictures of the documentation, from a session on the corpus in assets/ with its own annotation.

python -m tests.tools.annotate.pictures docs/figures
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from spacy_crfseq.corpora.layouts import read_preset
from spacy_crfseq.schemes import decode_lenient
from spacy_crfseq.tools.annotate.command import annotate
from tests.tools.annotate.test_browser import ARGUMENTS, CHROMIUM, Server

CORPUS = Path(__file__).parents[3] / "assets" / "corpus" / "train.conll"
TEXTS = 150


def session(folder: Path) -> list[str]:
    """Annotate texts as the corpus does; return the labels."""
    gold = {tuple(s.words): decode_lenient(s.columns["ent"]) for s in read_preset(CORPUS, "conll2003")}
    labels = sorted({span.label for spans in gold.values() for span in spans})
    project = annotate([CORPUS], folder, ",".join(labels), "conll2003", classes=False)
    project.start()
    for number in range(TEXTS):
        item: Any = project.next("a")
        spans = gold[tuple(token.text for token in item.doc)]
        told = {"by_user": [], "predicted": [], "model": 0, "seconds": 6.0, "actions": 2, "id": f"p{number}"}
        project.accept("a", {"key": item.key, "pins": {"spans": spans}, "reviewed": True, **told})
        if number % 5 == 0:
            project.settle()
    project.settle()
    project.close()
    return labels


def main(output: Path) -> None:
    """Write annotate.png and annotate-curve.png."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        labels = session(Path(place) / "project")
        server = Server(CORPUS, Path(place) / "project", "--format", "conll2003", labels=",".join(labels))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        page = browser.new_page(viewport={"width": 1160, "height": 640}, device_scale_factor=1.5)
        page.goto(server.address)
        page.wait_for_selector("#text b.span")
        for _ in range(60):  # a text with something to see
            if page.locator("#text b.span.first").count() >= 3 and page.locator("#alternatives li").count() >= 2:
                break
            before = page.text_content("#text")
            page.keyboard.press("x")
            while page.text_content("#text") == before:
                page.wait_for_timeout(50)
        page.wait_for_timeout(1500)
        page.screenshot(path=output / "annotate.png")
        page.locator("aside section:has(#curve)").screenshot(path=output / "annotate-curve.png")
        browser.close()
        server.process.terminate()
        server.process.communicate()
    if shrink := __import__("shutil").which("pngquant"):
        for name in ("annotate.png", "annotate-curve.png"):
            subprocess.run([shrink, "--force", "--ext", ".png", output / name], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
