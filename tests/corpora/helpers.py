"""Texts of a column and a CoNLL-U file, commands that read a corpus, and the examples that readers make of files."""

from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_crfseq.pipeline.readers import create_conll_reader
from tests.pipeline.helpers import triples

ALL = ["word", "tag", "pos", "lemma", "morph", "chunk", "ent"]
FILE = """\
-DOCSTART- O O O O O O

The DT DET the Definite=Def B-NP O
NOUN NN NOUN x _ I-NP B-ORG
of IN ADP of _ B-PP I-ORG
Rome NNP PROPN Rome Number=Sing|Case=Nom B-NP -

It PRP PRON it _ B-NP B-PER
is VBZ _ be _ O B-PER

-DOCSTART- O O O O O O

So RB ADV so _ O O
"""
CONLLU = """\
# newdoc
1\tAl\tAl\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\tSpaceAfter=No
2\tran\trun\tVERB\tVBD\t_\t0\troot\t_\t_
3\toff\t_\tADP\t_\t_\t2\tadvmod\t_\tSpaceAfter=No

1\tSo\tso\tADV\tRB\t_\t0\troot\t_\t_

# newdoc
1\tOh\toh\tINTJ\tUH\t_\t2\tx\t_\t_
2\tno\tno\tINTJ\tUH\t_\t1\tx\t_\t_
"""
COMMANDS = [
    "evaluate M F", "report M F -o page.html --samples 9", "calibrate M F --recall 0.2 -o new",
    "evaluate M F --against M --samples 9", "active M F", "tag M F --html page.html", "explain M F --limit 1 -t 0",
    "explain M -n 99 --texts F", "tag M F -o tagged.jsonl",
]  # fmt: skip
"""Commands that read a file F with a model M."""


def saved(folder: Path, text: str, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf8")
    return path


def chunks(doc: Doc, key: str = "chunks") -> list[tuple[int, int, str]]:
    return triples(doc.spans[key])


def ents(doc: Doc) -> list[tuple[int, int, str]]:
    return triples(doc.ents)


def read_docs(nlp: Language, path: Path, columns: list[str] = ALL, **settings: Any) -> list[Example]:
    return list(create_conll_reader(path, columns, **settings)(nlp))
