"""CoNLL-U that a pipeline annotates: what it does not set stays byte for byte."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language

from spacy_crfseq.corpora.layouts import PRESETS
from spacy_crfseq.errors import FormatError
from spacy_crfseq.pipeline.texts import make_doc, read_documents
from spacy_crfseq.pipeline.written import form_of, make_write
from tests.pipeline.helpers import trained

FILE = """\
# global.columns = ID FORM

# newdoc id = d1
# sent_id = 1
# text = Anna lives  in el New York.
1\tAnna\tAnna\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t2:nsubj\tRef=1|Ent=B-ORG|SpaceAfter=No
2-3\tlives\t_\t_\t_\t_\t_\t_\t_\tTypo=Yes
2\tlive\tlive\tVERB\tVBZ\t_\t0\troot\t_\t_
3\ts\ts\tX\t_\tB=1|A=2\t2\tdep\t_\t_
3.1\tis\tbe\tAUX\t_\t_\t_\t_\t2:aux\t_
4\tin\tin\tADP\tIN\t_\t2\tcase\t_\tEntScore=0.5
5\tNew\tNew\tPROPN\tNNP\t_\t2\tobl\t_\t_
6\tYork\tYork\tPROPN\tNNP\t_\t5\tflat\t_\tSpaceAfter=No
7\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_


# sent_id = 2
1\tBob\tBob\tPROPN\tNNP\t_\t0\troot\t_\t_

# the end
"""


@pytest.fixture(scope="module")
def ner() -> Language:
    return trained("crf_ner")


@pytest.fixture(scope="module")
def tagger() -> Language:
    return trained("crf_tagger")


def annotated(nlp: Language, path: Path, join: bool = False) -> tuple[str, list[Any]]:
    """Return the output of `tag --to conllu`, and the sentences that could be read."""
    documents = [d for d in read_documents(path, PRESETS["conllu"], join=join) if not isinstance(d, FormatError)]
    write = make_write("conllu", form_of(nlp, ()), False)
    text = "".join(write(nlp(make_doc(nlp, document)), document) for document in documents)
    return text, [sentence for document in documents for sentence in document.sentences]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("join", [False, True])
def test_an_annotated_treebank_differs_in_the_columns_that_the_pipeline_sets(
    ner: Language, end: str, join: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.conllu"
    path.write_bytes(FILE.replace("\n", end).encode())
    expected = FILE.replace("Ref=1|Ent=B-ORG|SpaceAfter=No", "Ref=1|SpaceAfter=No|Ent=B-PER")
    expected = expected.replace("EntScore=0.5", "_").replace("2\tobl\t_\t_", "2\tobl\t_\tEnt=B-LOC")
    expected = expected.replace("flat\t_\tSpaceAfter=No", "flat\t_\tSpaceAfter=No|Ent=I-LOC")
    written, _ = annotated(ner, path, join)
    assert written == expected.replace("\n", end)
    path.write_bytes(written.encode())
    assert annotated(ner, path, join)[0] == written


def test_tags_replace_those_of_the_file(tagger: Language, tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(FILE.replace("\tNNP\t", "\tX\t"), encoding="utf8")
    written, _ = annotated(tagger, path)
    for old, new in zip(path.read_text().split("\n"), written.split("\n"), strict=True):
        fields = old.split("\t"), new.split("\t")
        is_word = fields[0][0].isdecimal()
        assert fields[0][:4] + fields[0][5:] == fields[1][:4] + fields[1][5:]
        assert is_word or old == new
    assert "\tX\t" not in "".join(line for line in written.split("\n") if "\tAnna\t" in line)


def damaged(seed: int) -> bytes:
    """Return the file with some bytes or lines changed, taken out or repeated."""
    random, data = Random(seed), FILE.encode()
    for _ in range(random.randrange(4)):
        kind, at = random.randrange(4), random.randrange(len(data))
        if kind < 2:
            new = bytes([random.choice(b"\t\n\r #_-.=|1x\xc3")]) if kind else b""
            data = data[:at] + new + data[at + 1 :]
        else:
            lines = data.split(b"\n")
            place = random.randrange(len(lines))
            lines[place : place + 1] = [lines[place]] * (kind - 2) * 2
            data = b"\n".join(lines)
    return data


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=100)
def test_sound_sentences_of_a_damaged_treebank_are_written_as_they_were(
    ner: Language, seed: int, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "a.conllu"
    path.write_bytes(damaged(seed))
    written, sentences = annotated(ner, path)
    kept = ["".join(sentence.source.lines) for sentence in sentences]
    text = path.read_bytes().decode("utf8", "replace")
    assert all(lines in text for lines in kept)
    old, new = "".join(kept).split("\n"), written.split("\n")
    for before, after in zip(old, new, strict=True):
        assert before.rpartition("\t")[0] == after.rpartition("\t")[0]
        assert before == after or ("Ent" in before + after and before[0].isdecimal())
