"""The text of a source: a place and settings with values that may be lists."""

import pytest

from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.tools.aggregate.source_settings import SourceSettings, parse_source


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("rules.conll", SourceSettings("rules.conll")),
        ("a.conll,b.conll,texts=some", SourceSettings("a.conll,b.conll", texts="some")),
        (
            "llm.jsonl,min_score=.6,match=all,outside=unknown,map=person:PER,big city:LOC,x:",
            SourceSettings(
                "llm.jsonl",
                {"person": "PER", "big city": "LOC", "x": ""},
                outside="unknown",
                min_score=0.6,
                layout=Asked(match="all"),
            ),
        ),
        ("a.tsv,format=iob,scheme=BILUO,labels=PER,LOC", SourceSettings(
            "a.tsv", labels=("PER", "LOC"), layout=Asked("iob", scheme="BILUO")
        )),
        ("texts.spacy,spans=gliner", SourceSettings("texts.spacy", spans="gliner")),
        ("@mine.v1,n=3,words=a,b,map=X:PER", SourceSettings("@mine.v1", {"X": "PER"}, more={"n": 3, "words": "a,b"})),
        ("a.conll,trim=the,'s,texts=some", SourceSettings("a.conll", trim=("the", "'s"), texts="some")),
        ("a.conll,map=ns:person:PER", SourceSettings("a.conll", {"ns:person": "PER"})),
    ],
)  # fmt: skip
def test_a_place_and_its_settings_are_read(text: str, settings: SourceSettings) -> None:
    assert parse_source(text) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.conll,min_scor=1", "unknown setting 'min_scor'. Did you mean 'min_score'"),
        ("a.conll,texts=some,texts=all", "texts is given twice"),
        ("a.conll,map=PER", "map=PER: give old and new names, as in map=person:PER,city:LOC"),
        ("a.conll,map=:PER", "map=:PER: give old and new names"),
        ("a.conll,map=ORG:PER,ORG:LOC", "map=ORG: the label has two new names"),
        ("a.conll,outside=never", "outside=never: give known or unknown"),
        ("a.conll,texts=none", "texts=none: give all or some"),
        ("a.conll,min_score=high", "min_score=high: give a number from 0 to 1"),
        ("a.conll,min_score=nan", "min_score=nan: give a number from 0 to 1"),
        ("a.conll,min_score=2", "min_score=2: give a number from 0 to 1"),
        (",texts=some", "give a file, a pipeline, or @ and the name of a function first"),
        ("@,n=1", "give a file, a pipeline, or @ and the name of a function first"),
    ],
)
def test_settings_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_source(text)
    assert message in str(error.value)
