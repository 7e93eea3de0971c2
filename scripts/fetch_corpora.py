"""Download the corpora that `project.yml` lists as assets, and compare their checksums.

    python -m spacy project run corpora

A file that is there already stays as it is.  What cannot be had is named with the reason, and the exit code is then 1.
"""

from __future__ import annotations

import hashlib
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import srsly

from spacy_crfseq.files import replacing

TEROPA = "https://raw.githubusercontent.com/teropa/nlp/master/resources/corpora"
SOURCES = {
    "assets/conll2000": f"{TEROPA}/conll2000",
    "assets/conll2002": f"{TEROPA}/conll2002",
    "assets/ewt": "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.16",
}
"""Where the files of a folder come from."""
TIMEOUT = 30.0
"""Seconds to wait for an answer."""


def fetch(dest: Path, url: str, checksum: str) -> str:
    """Download a file unless it is there; return what is wrong, nothing if it is there with this MD5 sum."""
    if dest.exists():
        same = _sum(dest.read_bytes()) == checksum
        return "" if same else "is there with another checksum; move it away to download it again"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            data = answer.read()
    except urllib.error.HTTPError as error:
        return f"{url} answers {error.code} ({error.reason}); it may have moved"
    except OSError as error:  # no network, no such host, a timeout
        return f"{url} cannot be reached ({getattr(error, 'reason', error)})"
    if _sum(data) != checksum:
        return f"{url} has another checksum than project.yml; it has changed and is not kept"
    dest.parent.mkdir(parents=True, exist_ok=True)
    with replacing(dest) as temporary:
        temporary.write_bytes(data)
    return ""


def problems(project: Path) -> Iterator[str]:
    """Fetch all assets of a project; print those that are there and yield what is wrong with the others."""
    if not (project / "project.yml").exists():
        yield f"There is no project.yml in {project.resolve()}: run this in the folder of the clone."
        return
    for asset in srsly.read_yaml(project / "project.yml")["assets"]:
        folder, _, name = asset["dest"].rpartition("/")
        if wrong := fetch(project / asset["dest"], f"{SOURCES[folder]}/{name}", asset["checksum"]):
            yield f"{asset['dest']}: {wrong}."
        else:
            print(f"{asset['dest']}: there")


def _sum(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def main(project: Path = Path()) -> int:
    """Return the exit code."""
    listed = list(problems(project))
    print(*listed, sep="\n", end="\n" * bool(listed), file=sys.stderr)
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
