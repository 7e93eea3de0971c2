"""Tags of spans in any scheme and way of writing: what they are detected as, and the spans that readers make."""

from pathlib import Path

import pytest

from spacy_crfseq.corpora.columns import read_columns
from spacy_crfseq.corpora.crfsuite import read_crfsuite
from spacy_crfseq.corpora.guessing import LINES, find_layout, guess
from spacy_crfseq.corpora.layouts import PRESETS, Asked, read_layout
from spacy_crfseq.corpora.tags import UNNAMED, find_scheme
from spacy_crfseq.errors import ConfigError, DataError, FormatError
from spacy_crfseq.schemes import OUTSIDE, SPAN_SCHEMES, TagSpan, decode_lenient, encode, scheme_named
from tests.commands import Run, refused, worked
from tests.corpora.conftest import Write

TEXTS = [
    ("Ada Lovelace saw New Rome City .", [TagSpan(0, 2, "PER"), TagSpan(3, 6, "LOC")]),
    ("We met Jean in Oslo Bergen", [TagSpan(2, 3, "PER"), TagSpan(4, 5, "LOC"), TagSpan(5, 6, "LOC")]),
    ("Nothing here", []),
]
FORMS = ("before", "after", "alone")
SEGMENTED = "".join(f"{sign} {tag}\n" for sign, tag in zip("我喜欢自然语言", "SBEBMME", strict=True)) + "\n"


def corpus(scheme: str, form: str, copies: int = 4) -> str:
    lines = []
    for text, spans in TEXTS * copies:
        words = text.split()
        for word, tag in zip(words, encode(spans, len(words), scheme), strict=True):
            written = {"before": tag, "after": f"{tag[2:]}-{tag[0]}", "alone": tag[0]}[form]
            lines.append(f"{word} {OUTSIDE if tag == OUTSIDE else written}")
        lines.append("")
    return "\n".join(lines) + "\n"


def expected(form: str) -> list[list[TagSpan]]:
    return [[s._replace(label=UNNAMED) if form == "alone" else s for s in spans] for _, spans in TEXTS]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scheme", SPAN_SCHEMES)
@pytest.mark.parametrize("asked", [Asked(), Asked(columns="word,ent")], ids=["nothing", "columns"])
def test_a_scheme_is_found_from_the_tags_however_they_are_written(
    scheme: str, form: str, asked: Asked, write: Write
) -> None:
    path = write(corpus(scheme, form))
    layout = find_layout(path, asked).layout
    # where every tag is in IOB1, any tag of IOB2 means the same
    assert layout.scheme == scheme or {layout.scheme, scheme} == {"IOB1", "IOB2"}
    assert [decode_lenient(s.columns["ent"]) for s in read_layout(path, layout)][:3] == expected(form)


def test_the_layout_of_several_files_is_that_of_the_first_lines_of_all(tmp_path: Path) -> None:
    for name in ("a.conll", "b.conll"):
        (tmp_path / name).write_text(corpus("BILUO", "before", copies=LINES // 10), encoding="utf8")
    assert find_layout(tmp_path, Asked(columns="word,ent")).layout.scheme == "BILUO"


@pytest.mark.parametrize("name", [*SPAN_SCHEMES, "BIO", "bioes", "bilou", "Bmeso"])
def test_a_scheme_has_any_of_its_names_wherever_one_is_given(name: str, run: Run, tmp_path: Path) -> None:
    scheme, source, target = scheme_named(name), tmp_path / "a.conll", tmp_path / "b.conll"
    source.write_text(corpus("IOB2", "before"), encoding="utf8")
    worked(run("convert", source, target, "--columns word,ent --to word,ent --to-scheme", name))
    assert target.read_text(encoding="utf8") == corpus(scheme, "before")
    worked(run("convert", target, tmp_path / "c.conll", "--columns word,ent --to word,ent --scheme", name))
    assert (tmp_path / "c.conll").read_text(encoding="utf8") == corpus("IOB2", "before")


def test_words_of_segmented_text_are_chunks_without_a_type(write: Write) -> None:
    layout = guess(write(SEGMENTED * 3))
    assert layout is not None
    assert (layout.columns, layout.scheme) == (("word", "chunk"), "BMES")


@pytest.mark.parametrize("tags", ["B S M B", "E O W S", "S B S B"])
def test_single_letters_that_keep_no_scheme_are_tags_of_tokens(tags: str, write: Write) -> None:
    layout = guess(write("".join(f"w {tag}\n" for tag in tags.split() * 3) + "\n"))
    assert layout is not None
    assert layout.columns == ("word", "tag")


@pytest.mark.parametrize("tags", ["B-X I-X E-X U-X", "I-X E-X L-X O", "B-X M-X L-X S-X"])
def test_tags_that_fit_no_scheme_are_named(tags: str, write: Write) -> None:
    with pytest.raises(DataError, match=rf"tags \({tags.split()[0]}, .* fit no scheme.*1 [A-Z]-.*BMEWO"):
        find_scheme([tags.split()])
    path = write("".join(f"w {tag}\n" for tag in tags.split() * 5) + "\n")
    with pytest.raises(FormatError, match=r"a\.txt: column 2: the tags .* fit no scheme"):
        guess(path)


@pytest.mark.parametrize(
    ("tags", "line", "message"),
    [
        ("B-X I-X B O", 3, "tag 'B' has a prefix without a type, but 'B-X' before it has a prefix before its type"),
        ("B I O X-B", 4, "tag 'X-B' has a prefix after its type, but 'B' before it has a prefix without a type"),
        ("X-B X-I O B-X", 4, "tag 'B-X' has a prefix before its type, but 'X-B' before it has a prefix after its type"),
    ],
)
def test_tags_of_a_column_are_written_the_same_way(tags: str, line: int, message: str, write: Write) -> None:
    path = write("".join(f"w {tag}\n" for tag in tags.split()))
    with pytest.raises(FormatError, match=rf"a\.txt:{line}: column 'ent': {message}"):
        list(read_columns(path, ["word", "ent"]))


def test_commands_say_which_scheme_the_tags_have(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(corpus("IOBES", "before"), encoding="utf8")
    made = worked(run("init-config", tmp_path / "ner.cfg", "--train", source, "--lang en"))
    assert "--columns word,ent --scheme IOBES (word ent; tags in IOBES)" in made.output
    assert 'scheme = "IOBES"' in (tmp_path / "ner.cfg").read_text(encoding="utf8")
    looked = worked(run("debug-data", source))
    assert "ent: 2 labels, tags in IOBES" in looked.output
    other = run("debug-data", source, "--columns word,ent --scheme IOB2")
    assert 'They look like IOBES: give --scheme IOBES, in a config scheme = "IOBES"' in other.output


def test_a_scheme_is_refused_where_there_are_no_columns_of_tags(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text("1\tA\ta\tX\tY\t_\t0\troot\t_\t_\n\n", encoding="utf8")
    refused(run("debug-data", tmp_path / "a.conllu", "--scheme IOBES"), "--scheme IOBES is for files of columns")
    with pytest.raises(ConfigError, match=r"--scheme IOBX: unknown\. Did you mean 'IOB1'|--scheme IOBX: unknown"):
        Asked(columns="word,ent", scheme="IOBX").layout()


@pytest.mark.parametrize("blank", ["", " ", "\t", "\t\t", " \t \r"])
def test_a_blank_line_may_hold_tabs_and_a_token_may_be_a_number_sign(blank: str, write: Write) -> None:
    """Also at the beginning of a sentence, where it begins a comment in CoNLL-U alone."""
    rows = ["# NN\tO", "5\tB-X", "#\tO", "of\tO"]
    path = write("".join("\n".join(row.replace(" NN", "") for row in rows) + f"\n{blank}\n" for _ in range(4)))
    layout = guess(path)
    assert layout is not None
    assert layout.columns == ("word", "ent")
    assert [sentence.words for sentence in read_layout(path, layout)] == [["#", "5", "#", "of"]] * 4
    spaced = write("".join(f"# NN O\n5 CD B-X\n{blank}\n" for _ in range(9)))
    layout = guess(spaced)
    assert layout is not None
    assert layout.columns == ("word", "tag", "ent")
    assert [sentence.words for sentence in read_layout(spaced, layout)] == [["#", "5"]] * 9
    items = write(f"B\tw[0]=a\nI\tw[0]=b\n{blank}\nB\tw[0]=c\n{blank}\n")
    assert [sentence.words for sentence in read_crfsuite(items, "ent")] == [["a", "b"], ["c"]]
    trees = write(f"# x = y\n1\t#\t#\tSYM\t#\t_\t0\troot\t_\t_\n{blank}\n" * 3)
    assert [sentence.words for sentence in read_layout(trees, PRESETS["conllu"])] == [["#"]] * 3
