"""Fetch usaddress's labelled addresses, and cut a test part of them.

    python scripts/get_data.py assets

The file comes from the folder in CRFSEQ_DATA if that is set and has it, else from usaddress's repository.  An
existing assets/labeled.xml is used as it is.  A fifth of it, drawn by chance, becomes assets/test.xml, the rest
assets/train.xml.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path

URL = "https://raw.githubusercontent.com/datamade/usaddress/master/training/labeled.xml"
FOLDS, SEED = 5, 0


def fold_numbers(n: int) -> list[int]:
    """Return the fold of each of n addresses: its place after a seeded shuffle, modulo the number of folds."""
    order = list(range(n))
    random.Random(SEED).shuffle(order)
    fold = [0] * n
    for place, i in enumerate(order):
        fold[i] = place % FOLDS
    return fold


def main(folder: Path) -> None:
    """Write the three files."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "labeled.xml"
    local = Path(os.environ.get("CRFSEQ_DATA", "")) / "usaddress" / whole.name
    if not whole.exists() and local.exists():
        shutil.copy(local, whole)
    elif not whole.exists():
        try:
            urllib.request.urlretrieve(URL, whole)
        except OSError as error:
            sys.exit(f"{URL} cannot be reached ({error}). Put the file to {whole}, or set CRFSEQ_DATA.")
    root = ET.parse(whole).getroot()
    fold = fold_numbers(len(root))
    for name, wanted in (("train", range(1, FOLDS)), ("test", range(1))):
        part = ET.Element(root.tag)
        part.extend(address for address, number in zip(root, fold, strict=True) if number in wanted)
        ET.ElementTree(part).write(folder / f"{name}.xml", encoding="utf-8")
        print(f"{folder / name}.xml: {len(part):,} addresses")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "assets"))
