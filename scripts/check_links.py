"""Check the links of the built documentation.

    mkdocs build --strict --site-dir build/site
    python scripts/check_links.py build/site
    python scripts/check_links.py build/site --external

Every link within the site must lead to a file, and to an existing anchor.  Pages must not load scripts, styles, fonts
or pictures from other sites.  With ``--external``, the links to other sites in the built pages, the README and the
project file are requested as well, one after another with a pause.  That needs a network and is done by hand.  The exit
code is 1 if there is a problem.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

ROOT = Path(__file__).parent.parent
TIMEOUT, PAUSE = 20.0, 1.0
"""Seconds to wait for an answer, and between two requests."""
SKIP = (
    # example hosts of quoted commands
    "http://localhost",
)
LOADS = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}
"""Elements that a browser loads when it shows the page."""
NOT_LOADED = frozenset({"canonical", "next", "prev", "edit"})
"""Kinds of ``link`` that only name something."""
_URL = re.compile(r"url\(\s*['\"]?(https?:[^'\")]+)")


class Page(NamedTuple):
    """The links of a page, and their targets.

    links (list[str]): Of ``a`` elements.
    loads (list[str]): What is asked for when it is shown.
    anchors (set[str]): Names within it.
    """

    links: list[str]
    loads: list[str]
    anchors: set[str]


class _Reader(HTMLParser):
    """Collects a `Page`."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page([], [], set())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the targets and the name of an element."""
        attributes = dict(attrs)
        for name in ("id", "name"):
            if attributes.get(name):
                self.page.anchors.add(str(attributes[name]))
        if tag == "a" and attributes.get("href"):
            self.page.links.append(str(attributes["href"]))
        kinds = set((attributes.get("rel") or "").split())
        target = attributes.get(LOADS.get(tag, ""))
        if target and not kinds & NOT_LOADED:
            self.page.loads.append(target)


def read(file: Path) -> Page:
    """Return the links of a page of HTML."""
    reader = _Reader()
    text = file.read_text(encoding="utf8")
    reader.feed(text)
    reader.page.loads.extend(_URL.findall(text))
    return reader.page


def problems(site: Path) -> Iterator[str]:
    """Yield the faults of links and loads within a built site."""
    pages = {file.resolve(): read(file) for file in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} has no pages: build the documentation first"
    for file, page in pages.items():
        place = file.relative_to(site.resolve())
        yield from (f"{place}: loads {target}" for target in page.loads if re.match(r"(https?:)?//", target))
        if place.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links + page.loads:
            if re.match(r"[a-z]+:|//", link):
                continue
            path, anchor = urldefrag(link)
            target_file = (file.parent / unquote(path)).resolve() if path else file
            if target_file.is_dir():
                target_file /= "index.html"
            if not target_file.exists():
                yield f"{place}: {link} does not exist"
            elif anchor and target_file in pages and unquote(anchor) not in pages[target_file].anchors:
                yield f"{place}: {link}: no such anchor"
    for file in sorted(site.rglob("*.css")):
        for target in _URL.findall(file.read_text(encoding="utf8")):
            yield f"{file.relative_to(site)}: loads {target}"


def external(site: Path) -> list[str]:
    """Return the links to other sites, in the built pages and in the texts of the top folder."""
    links = {urldefrag(link)[0] for file in site.rglob("*.html") for link in read(file).links}
    for file in (*ROOT.glob("*.md"), ROOT / "scripts" / "fetch_corpora.py"):
        links |= {
            urldefrag(link)[0] for link in re.findall(r"https?://[^\s)\"'`<>\]]+", file.read_text(encoding="utf8"))
        }
    return sorted(link for link in links if re.match("https?:", link) and not link.startswith(SKIP))


def answer(link: str) -> str:
    """Return why a link does not work, nothing if it does."""
    request = urllib.request.Request(link, headers={"User-Agent": "spacy_crfseq link check"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            return ""
    except urllib.error.HTTPError as error:
        return f"answers {error.code}"
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        return f"cannot be reached ({getattr(error, 'reason', error)})"


def main() -> int:
    """Read the arguments, print what is wrong, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="folder of the built documentation")
    parser.add_argument("--external", action="store_true", help="request the links to other sites")
    arguments = parser.parse_args()
    listed = list(problems(arguments.site))
    if arguments.external:
        for link in external(arguments.site):
            reason = answer(link)
            if reason:
                listed.append(f"{link} {reason}")
            time.sleep(PAUSE)
    for problem in listed:
        print(problem, file=sys.stderr)
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
