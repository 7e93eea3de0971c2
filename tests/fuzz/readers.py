"""The registry of everything that reads a file of a user; `test_readers` damages the file of each.

A new reader is one line: the name of a file, a valid sample of at most a few hundred bytes, and a call that reads it.
A `packing` lets the values inside the file be damaged, too, such as those of JSON.
"""

import gzip
import warnings
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import spacy
from spacy.tokens import DocBin
from spacy.vectors import Vectors
from spacy.vocab import Vocab

from spacy_crfseq import CRF
from spacy_crfseq.corpora import DOCBIN as SPACY
from spacy_crfseq.corpora import guess
from spacy_crfseq.corpora.guessing import find_layout
from spacy_crfseq.corpora.layouts import GOLD, TEXTS
from spacy_crfseq.corpora.saved_models import (
    NO_WEIGHTS,
    NamedWeights,
    SavedModel,
    read_saved_model,
    write_crfsuite_model,
)
from spacy_crfseq.corpora.template_files import read_template_file
from spacy_crfseq.features.phrases import Phrases
from spacy_crfseq.features.word_classes import WordClasses
from spacy_crfseq.papers.labelled_features.feature_file import read_features
from spacy_crfseq.pipeline.configs import load_config
from spacy_crfseq.pipeline.gold_file import read_gold
from spacy_crfseq.pipeline.readers import create_conll_reader, create_crfsuite_reader
from spacy_crfseq.pipeline.texts import read_documents
from spacy_crfseq.pipeline.word_vectors import read_vectors, vector_files
from spacy_crfseq.schemes import TagSpan
from spacy_crfseq.tools.annotate.journal import Decision, Journal, Pins, TextTokens
from spacy_crfseq.tools.name_lists.gazetteer import Gazetteer
from spacy_crfseq.tools.sweep.grid import read_grid
from spacy_crfseq.tools.tokenizer import RegexTokenizer
from tests.corpora.span_cases import CASES, Case
from tests.fuzz.damage import DOCBIN, GZIP, JSON, JSON_LINES, MSGPACK, Packing
from tests.pipeline.helpers import SENTENCES, gold_doc
from tests.tools.models.programs import WAPITI

BLANK = spacy.blank("xx")
COLUMNS = b"-DOCSTART- -X- O O\n\nAda NNP B-NP B-PER\nsees VBZ B-VP O\n. . O O\n\nOslo NNP B-NP B-LOC\n"
CHUNKS = b"Ada NNP B-NP\nsees VBZ B-VP\n. . O\n\nOslo NNP B-NP\n"
UNITS = COLUMNS.replace(b"B-", b"U-")
CONLLU = (
    b"# newdoc\n# text = Ada sees\n1-2\tAdasees\t_\t_\t_\t_\t_\t_\t_\t_\n"
    b"1\tAda\tada\tPROPN\tNNP\tCase=Nom\t2\tnsubj\t_\t_\n"
    b"2\tsees\tsee\tVERB\tVBZ\t_\t0\troot\t_\tSpaceAfter=No\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    b"1\tOslo\t_\tPROPN\tNNP\t_\t0\troot\t_\t_\n"
)
ATTRIBUTES = b"B-PER\tw=Ada\tt=NNP:1\nO\tw=sees\\:\tt=VBZ\n\n@weight:1\nB-LOC\tw=Oslo\tt=\\\\\n"
JSONL = (
    b'{"text": "Ada sees Oslo.", "meta": {"n": 1}}\n{"text": "", "tokens": [{"start": 0}]}\n'
    b'{"text": "\\ud83d\\ude00"}\n'
)
PRODIGY = (
    b'{"text": "Ada saw Oslo", "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": "accept", "weight": 1}\n'
)
DOCCANO = b'{"id": 1, "text": "Ada saw Oslo", "label": [[0, 3, "PER"], [8, 12, "LOC"]]}\n'
STUDIO = (
    b'[{"id": 1, "data": {"text": "Ada saw Oslo"}, "annotations": [{"id": 2, "result": [{"type": "labels", "value": '
    b'{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}, "from_name": "a", "to_name": "text"}]}]}]'
)
XML = b'<?xml version="1.0"?>\n<r><s><PER>Ada</PER> sees<br/> <LOC x="1">Os<i>lo</i>&amp;</LOC> .</s></r>\n'
DOCS = DocBin(docs=[gold_doc(BLANK, rows) for rows in SENTENCES], store_user_data=True).to_bytes()
TEMPLATES = b'# comment\nU00:%x[-2,0]\nU01:%x[0,0]/%x[1,1]\nB\n\n*:Pos=%X[0,1]\nu:Suf=%m[0,0,".?.?$"]\nB01:%x[0,0]\n'
JOURNAL = JSON_LINES.pack([
    {"kind": "begin", "version": 1, "settings": {"task": "entities"}},
    {"kind": "label", "names": ["PER"]},
    Decision(
        "k1", TextTokens(("Ada", "in")), Pins((TagSpan(0, 1, "PER"),)), predicted=[(0, 1, "PER", 0.5)], model=3, id="1"
    ).as_json(),
    {"kind": "skip", "key": "k2", "id": "2", "text": {"words": ["Bo"], "spaces": None}},
])  # fmt: skip
CLASSES, LISTED = b"0010\tbank\t7\n0011\tOslo\t5\n1\tthe\t90\n", b"New York\nOslo\n"
PATTERNS = b'{"label": "GPE", "pattern": "New York"}\n{"label": "GPE", "pattern": [{"LOWER": "oslo"}]}\n'
VOCAB = Vocab(strings=["Ada", "Oslo"])
VOCAB.vectors = Vectors(data=np.eye(2, dtype=np.float32), keys=["Ada", "Oslo"], strings=VOCAB.strings)
SHARES = b"# a comment\nLOWER=oslo\tLOC=0.8\nSHAPE=Xxx\tPER=0.2..0.5 LOC=0.1\n"
SWEEP = b'[nlp]\nlang = "xx"\n\n[sweep]\n\n[sweep.grid]\nregularizer.rho = [1, 2]\n'


class Reader(NamedTuple):
    """A reader of files of users.

    file: The name of a file for it, by which its tests are named.
    sample: A valid file.
    read: Reads a file and returns what is in it, or raises one of the package's errors that names the file.
    packing: How the file holds values, if it does.
    """

    file: str
    sample: bytes
    read: Callable[[Path], Any]
    packing: Packing | None = None

    def __repr__(self) -> str:
        return self.file


def gold(layout: str) -> Callable[[Path], Any]:
    """Return a reader of annotated files."""
    return lambda path: read_gold(BLANK, path, GOLD[layout]).examples


def texts(layout: str) -> Callable[[Path], Any]:
    """Return a reader of texts, or of the words of annotated files."""
    return lambda path: list(read_documents(path, TEXTS[layout]))


def guessed(path: Path) -> Any:
    """Read a file in the layout that it seems to have."""
    return gold(layout.name)(path) if (layout := guess(path)) and layout.name in GOLD else None


def columns(scheme: str, on_invalid: str) -> Callable[[Path], Any]:
    names = ["word", "tag", "chunk", "ent"]
    return lambda path: list(create_conll_reader(path, names, scheme=scheme, on_invalid=on_invalid)(BLANK))


def attributes(**settings: str) -> Callable[[Path], Any]:
    return lambda path: list(create_crfsuite_reader(path, **settings)(BLANK))


def classes(path: Path) -> Any:
    """Return the classes of some words, which the state of a model must keep."""
    read, stored = WordClasses(path, prefixes=[2]), WordClasses(path, prefixes=[2])
    answers = [[function(word) for word in ("Oslo", "", "é")] for function in read.functions("x").values()]
    stored.from_state(read.to_state())
    assert answers == [[function(word) for word in ("Oslo", "", "é")] for function in stored.functions("x").values()]
    return answers


def vectors(path: Path) -> Any:
    """Return word vectors; an array has its words beside it."""
    path.with_suffix(".txt").write_text("Ada\nOslo\n") if path.suffix == ".npy" else None
    read = read_vectors(vector_files(str(path)), 100)
    assert len(read.words) == len(read.places)
    assert np.isfinite(read.rows).all()
    return read.words


def vocab_with(name: str) -> Callable[[Path], Any]:
    """Return a reader of the vectors of a pipeline, one of whose files is given."""

    def read(path: Path) -> Any:
        folder = path.with_name(f"{path.name}.vocab")
        VOCAB.to_disk(folder)
        (folder / name).write_bytes(path.read_bytes())
        return vectors(folder)

    return read


def file_of_vocab(name: str) -> bytes:
    with TemporaryDirectory() as folder:
        VOCAB.to_disk(folder)
        return (Path(folder) / name).read_bytes()


def array() -> bytes:
    file = BytesIO()
    np.save(file, np.eye(2, dtype=np.float32))
    return file.getvalue()


def journal(path: Path) -> Any:
    """Open a journal: what it accepts can be written again."""
    opened = Journal(path)
    opened.close()
    for decision in opened.state.decisions.values():
        assert Decision.of(decision.as_json()) == decision
    return opened.state


def saved_model(path: Path) -> SavedModel | None:
    model = read_saved_model(path)
    if model is not None:
        assert np.isfinite(model.attributes.values).all()
        assert model.attributes.columns.max(initial=0) < len(model.labels)
    return model


def crfsuite_model() -> bytes:
    """Return a small model of CRFsuite."""
    weights = NamedWeights(["a", "é: 1"], np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0.5, -1.0, 2.0]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write_crfsuite_model(path, SavedModel(["O", "B-X"], weights, NO_WEIGHTS, np.array([[0.0, 1.0], [0.5, 0.0]])))
        return path.read_bytes()


def beside_it(path: Path, name: str) -> Path:
    """Return the path of another file of a format: brat's have the name of the first one."""
    return path.with_suffix(".txt") if path.suffix == ".ann" else path.with_name(Path(name).name)


def of_spans(case: Case) -> Reader:
    """Return the reader of a format of annotated spans, whose other files stay sound."""
    with TemporaryDirectory() as folder:
        case.write(Path(folder))
        path = Path(folder) / next(iter(case.files))
        sample, layout = path.read_bytes(), find_layout(path, case.asked).layout
        beside = {name: (Path(folder) / name).read_bytes() for name in [*case.files][1:]}
    packing = {".jsonl": JSON_LINES, ".json": JSON}.get(path.suffix)

    def read(path: Path) -> Any:
        for name, content in beside.items():
            beside_it(path, name).write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of spans that are left out
                return read_gold(BLANK, path, layout).examples
        finally:
            for name in beside:
                beside_it(path, name).unlink()

    return Reader("".join(filter(str.isalnum, case.name)) + path.suffix, sample, read, packing)


READERS = [
    *map(of_spans, CASES),
    Reader("conll2000.conll", CHUNKS, gold("conll2000")),
    Reader("conll2003.conll", COLUMNS, gold("conll2003")),
    Reader("iob2.conll", COLUMNS, columns("IOB2", "error")),
    Reader("biluo.conll", UNITS, columns("BILUO", "error")),
    Reader("repaired.conll", UNITS, columns("BILUO", "conlleval")),
    Reader("gold.conllu", CONLLU, gold("conllu")),
    Reader("gold.xml", XML, gold("xml")),
    Reader("prodigy.jsonl", PRODIGY, gold("jsonl"), JSON_LINES),
    Reader("doccano.jsonl", DOCCANO, gold("jsonl"), JSON_LINES),
    Reader("studio.json", STUDIO, gold("jsonl"), JSON),
    Reader("gold.spacy", DOCS, gold(SPACY), DOCBIN),
    Reader("guessed", COLUMNS, guessed),
    Reader("plain.crfsuite", ATTRIBUTES, attributes()),
    Reader("spans.crfsuite", ATTRIBUTES, attributes(scheme="IOB1", on_invalid="conlleval")),
    Reader("texts.txt", COLUMNS, texts("txt")),
    Reader("texts.jsonl", JSONL, texts("jsonl"), JSON_LINES),
    Reader("words.conll", COLUMNS, texts("conll2003")),
    Reader("words.conllu", CONLLU, texts("conllu")),
    Reader("words.xml", XML, texts("xml")),
    Reader("words.spacy", DOCS, texts(SPACY), DOCBIN),
    Reader("classes.tsv", CLASSES, classes),
    Reader("classes.tsv.gz", gzip.compress(CLASSES), classes, GZIP),
    Reader("vectors.vec", b"2 3\nAda 1 0 0.5\nOslo -1e-3 2 0\n", vectors),
    Reader("vectors.npy", array(), vectors),
    Reader("rows", file_of_vocab("vectors"), vocab_with("vectors")),
    Reader("keys", file_of_vocab("key2row"), vocab_with("key2row"), MSGPACK),
    Reader("strings.json", file_of_vocab("strings.json"), vocab_with("strings.json"), JSON),
    Reader("names.txt", LISTED, lambda path: Phrases(path).table),
    Reader("names.jsonl", PATTERNS, lambda path: Phrases(path).table, JSON_LINES),
    Reader("gazetteer.txt", LISTED, lambda path: Gazetteer(path).words),
    Reader("template.txt", TEMPLATES, read_template_file),
    Reader("shares.tsv", SHARES, read_features),
    Reader("model.wapiti", WAPITI.encode(), saved_model),
    Reader("model.crfsuite", crfsuite_model(), saved_model),
    Reader("estimator.crfsuite", crfsuite_model(), lambda path: list(CRF(model_filename=str(path)).predict([[["a"]]]))),
    Reader("tokenizer", RegexTokenizer(BLANK.vocab).to_bytes(), RegexTokenizer(BLANK.vocab).from_disk, MSGPACK),
    Reader("journal.jsonl", JOURNAL, journal, JSON_LINES),
    Reader("training.cfg", SWEEP, lambda path: load_config(path, {}, ["sweep"])),
    Reader("sweep.cfg", SWEEP, lambda path: read_grid(path, {}, partial(load_config, sections=["sweep"]))),
]
