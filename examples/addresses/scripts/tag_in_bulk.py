"""Tag a file of addresses, one a line, and write a line of words and labels for each, without a Doc for each.

    python scripts/tag_in_bulk.py training/model-best addresses.txt tagged.tsv

Most of the time of tagging short texts is spent on making Docs.  Here, many addresses are the sentences of one Doc.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import address_code  # noqa: F401 - registers the functions of the config
import numpy as np
import spacy
from spacy.attrs import SENT_START
from spacy.tokens import Doc

PORTION = 2000
"""Addresses in a Doc."""


def tagged(nlp: Any, texts: Iterable[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words and the labels of each text; a text without words has none."""
    texts, split, known = iter(texts), re.compile(nlp.tokenizer.split.pattern).findall, dict[int, str]()
    while portion := [split(text) for text in islice(texts, PORTION)]:
        doc = Doc(nlp.vocab, words=[word for words in portion for word in words])
        starts = np.full(len(doc), -1, np.int64)
        ends = np.cumsum([0, *map(len, portion)])
        starts[ends[:-1][ends[:-1] < len(doc)]] = 1
        doc.from_array([SENT_START], starts.astype(np.uint64)[:, None])
        for _, pipe in nlp.pipeline:
            doc = pipe(doc)
        tags = doc.to_array("TAG").tolist()
        known.update((tag, nlp.vocab.strings[tag]) for tag in set(tags).difference(known))
        labels = [known[tag] for tag in tags]
        yield from (
            (words, labels[end - len(words) : end]) for words, end in zip(portion, ends[1:].tolist(), strict=True)
        )


def main(model: str, source: Path, target: Path) -> None:
    """Tag a file."""
    nlp = spacy.load(model)
    gc.freeze()  # garbage collections pass over the pipeline
    with source.open(encoding="utf8") as lines, target.open("w", encoding="utf8") as out:
        for words, labels in tagged(nlp, map(str.rstrip, lines)):
            out.write("\t".join(map("/".join, zip(words, labels, strict=True))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
