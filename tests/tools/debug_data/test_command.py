"""``crfseq debug-data``: what it finds in corpora that were broken on purpose, and what it says of good ones."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from spacy.training import Example

from spacy_crfseq import registry
from spacy_crfseq.corpora import Sentence
from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.features.encoder import Columns, GrowingEncoder, new_lexicon
from spacy_crfseq.features.templates import make_plan, parse
from spacy_crfseq.kernels import _compile
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.schemes import decode_lenient, find_invalid
from spacy_crfseq.tools._pages.label_errors import Stretch
from spacy_crfseq.tools.debug_data import Report, debug_data
from spacy_crfseq.tools.debug_data import cost as module_of_cost
from spacy_crfseq.tools.debug_data.corpus import COMPARED, CorpusCounts, count, overlap
from spacy_crfseq.tools.debug_data.cost import TrainingCost, costs_of, estimate
from spacy_crfseq.tools.debug_data.features import Component, template_uses
from spacy_crfseq.tools.debug_data.label_errors import TokensOfFile, context
from tests.commands import Run, refused, worked
from tests.pipeline.helpers import SENTENCES, gold_doc

GOOD = "Ada B-PER\nlives O\nin O\nOslo B-LOC\n. O\n\nBo B-PER\nsees O\nthe O\nold O\nmap O\n. O\n\n"


def write(folder: Path, text: str, name: str = "train.conll") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf8")
    return path


def texts(report: Report, severity: str) -> str:
    result = [finding for finding in report.findings if finding.severity == severity]
    return "\n".join(line for finding in result for line in (finding.text, *finding.places))


@pytest.fixture
def look(tmp_path: Path) -> Callable[..., Report]:
    def look(train: str, dev: str | None = None, columns: str = "word,ent", scheme: str = "IOB2") -> Report:
        files = write(tmp_path, train), None if dev is None else write(tmp_path, dev, "dev.conll")
        return debug_data(*files, layout=Asked(columns=columns, scheme=scheme))

    return look


@pytest.mark.parametrize(("content", "columns", "said"), [
    ("word,tag\nAda,B-PER\nruns,O\n", "", "the columns are separated by commas"),
    ("word tag ner\nAda NNP B-PER\n", "word,tag,ent", "t.conll:1: this line has names of columns"),
])  # fmt: skip
def test_causes_are_named(content: str, columns: str, said: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.conll").write_text(content, encoding="utf8")
    result = run("debug-data", tmp_path / "t.conll", *(["--columns", columns] if columns else []))
    assert result.exit_code == 1
    assert said in " ".join((result.stdout + result.stderr).split())


def test_errors_are_listed_by_reason(run: Run, tmp_path: Path) -> None:
    record = {"text": "Ada met Bo", "entities": [[0, 3, "PER"]]}
    entries: list[Any] = [{"input": record["text"]}] * 5 + [record] + [{**record, "entities": "none"}] * 2
    entries[1] = {"prompt": 1, "id": 7}
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    listed = run("debug-data", tmp_path / "a.jsonl").stdout.partition("7 lines cannot be read")[2]
    starts = re.findall(r"^(?:\S*a\.jsonl:(\d+): |\.\.\. (and .*))", listed, re.MULTILINE)
    assert [number or more for number, more in starts] == ["1", "3", "4", "and 1 more for this reason", "2", "7", "8"]
    all_of = json.loads(run("debug-data", tmp_path / "a.jsonl", "--json").stdout)["errors"]["train"]["first"]
    assert len(all_of) == 7
    (tmp_path / "a.jsonl").write_text("no JSON\n")
    nothing = json.loads(run("debug-data", tmp_path / "a.jsonl", "--json").stdout)
    assert (nothing["parts"]["train"]["lengths"], nothing["errors"]["train"]["count"]) == (None, 1)


def test_counts(look: Callable[..., Report]) -> None:
    part = look(GOOD * 5).parts["train"]
    assert (len(part.lengths), part.tokens, len(part.words)) == (10, 55, 10)
    assert part.columns["ent"].labels == {"PER": 10, "LOC": 5}
    assert part.repeated == 8
    report = look(GOOD + "a b c\n\nBo O\nx\n\n" + GOOD)
    assert report.failed
    assert report.errors["train"].count == 2
    assert [error.split(":")[1] for error in report.errors["train"].first] == ["14", "17"]
    assert "2 lines cannot be read" in texts(report, "fail")
    assert len(report.parts["train"].lengths) == 4  # what can be read is counted


RECORD = '{"text": "Ada lives in Oslo", "entities": [[0, 3, "PER"], [13, 17, "LOC"]]}\n'


@pytest.mark.parametrize("with_config", [False, True])
def test_dev_data_is_read_in_its_own_layout(with_config: bool, run: Run, tmp_path: Path) -> None:
    train, dev, config = (tmp_path / name for name in ("train.jsonl", "dev.iob", "ner.cfg"))
    train.write_text(RECORD * 9, encoding="utf8")
    dev.write_text("Bo\tS-PER\nsaw\tO\nNew\tB-LOC\nYork\tE-LOC\n \n" * 3, encoding="utf8")
    options = ["--config", config, "--no-cost"] if with_config else []
    if with_config:
        made = run("init-config", config, "--task", "ner", "--lang", "en", "--train", train, "--dev", dev)
        assert made.exit_code == 0, made.output
    report = json.loads(run("debug-data", train, "--dev", dev, "--json", *options).stdout)
    assert report["errors"] == {part: {"count": 0, "first": [], "n_ends": 0} for part in ("train", "dev")}
    assert report["parts"]["dev"]["columns"]["ent"]["labels"] == {"PER": 3, "LOC": 3}
    if with_config:
        assert json.loads(run("debug-data", train, "--json", *options).stdout) == report, "the config names dev"


@pytest.mark.parametrize(
    ("name", "text"), [("dev.conll", "is in the dev corpus of"), ("none.conll", "none.conll: no such file")]
)
def test_the_dev_corpus_of_a_config_is_not_compared_with_itself_and_may_be_missing(
    name: str, text: str, corpus: Any, configure: Callable[..., Path], tmp_path: Path
) -> None:
    config, dev = configure(tmp_path / "c.cfg", "crf_ner"), str(corpus.dev.parent / name)
    report = debug_data(corpus.dev, None, config, cost=False, overrides={"paths.dev": dev})
    assert report.files == {"train": corpus.dev}
    assert [finding.severity for finding in report.findings if text in finding.text] in (["good"], ["warn"])
    assert {*report.components} == {"crf_ner"}


OTHER = GOOD.replace("B-LOC", "B-ORG")
NEW = "Karl B-PER\nsold O\na O\nblue O\nmap O\n\n"
LONG = "x" * 90 + " O\n\n" + "a O\n" * 300


@pytest.mark.parametrize(("train", "dev", "columns", "severity", "messages"), [
    (GOOD * 30 + "Oslo I-LOC\n\n", None, "word,ent", "warn", [
        "1 of 61 sequences have tags that are not valid IOB2",
        "train.conll:391: tag 'I-LOC' may not be the first",
    ]),
    ("Oslo I-LOC\n\n" * 9, None, "word,ent", "warn", ["another scheme"]),
    ("Oslo X-LOC\n\n", None, "word,ent", "fail", ["tags that are none of IOB2"]),
    ("Oslo O\n\n", None, "word,ent", "fail", ["ent: nothing is annotated"]),
    ("\n\n", None, "word,ent", "fail", ["no sentence in the file"]),
    ("a NN\nb NN\n\n", None, "word,tag", "warn", ["all tokens have the label 'NN'"]),
    ("Ada NNP B-PER\nlives VBZ O\n\n" * 9, None, "word,ent", "fail", ["looks like --format conll2002"]),
    (GOOD * 5 + "Lima B-Loc\n\n", GOOD + "Acme B-ORG\n\n", "word,ent", "warn", [
        "1 label on fewer than 5 spans: Loc (1)",
        "labels differ by case or white space only: 'LOC', 'Loc'",
        "1 label in dev only, which can never be predicted: ORG",
    ]),
    (GOOD + OTHER, GOOD, "word,ent", "warn", [
        "2 of 2 dev sentences of 5 tokens or more are in train, too (100.0 %)",
        "1 repeated sentence labelled differently",
        "train.conll:14: 'Ada lives in Oslo .' has other labels than ",
    ]),
    (GOOD, NEW, "word,ent", "good", ["0 of 1 dev sentences"]),
    (NEW, GOOD, "word,ent", "warn", ["dev has more sentences than train"]),
    (GOOD * 20 + LONG, None, "word,ent", "warn", [
        "a token of 90 characters",
        "train.conll:263: a sequence of 300 tokens",
    ]),
    ("a O\n" * 300, None, "word,ent", "warn", ["sequences are long"]),
])  # fmt: skip
def test_findings(
    look: Callable[..., Report], train: str, dev: str | None, columns: str, severity: str, messages: list[str]
) -> None:
    report = look(train, dev, columns=columns)
    assert report.failed == bool(texts(report, "fail"))
    for message in messages:
        assert message in texts(report, severity)


def test_texts_of_dev_that_are_in_train_are_counted(look: Callable[..., Report]) -> None:
    from spacy_crfseq.tools.debug_data.corpus import overlap

    report = look(GOOD, "Ada B-LOC\n\nBo B-PER\n\nLima B-LOC\nAda O\n\n")
    shared = overlap(report.parts["train"], report.parts["dev"])
    assert shared.seen_spans["ent"] == (1, 1, 1)
    assert shared.unseen_words == pytest.approx(1 / 4)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), max_size=8), st.data())
def test_docs_are_found_in_a_file_by_their_words(sentences: list[list[str]], data: st.DataObject) -> None:
    """Whatever a reader leaves out, joins or yields twice."""
    words = [word for sentence in sentences for word in sentence]
    file = TokensOfFile(words, [f"line {i}" for i in range(len(words))], "file")
    docs = []
    for sentence in sentences:
        kind = data.draw(st.sampled_from(["whole", "twice", "out", "joined"]))
        if kind == "joined" and docs and docs[-1] is not None:
            docs[-1] = [*docs[-1], *sentence]
        elif kind != "out":
            docs += [sentence] * (1 + (kind == "twice"))
        else:
            docs.append(None)
    docs = [doc for doc in docs if doc is not None]
    for doc, start in zip(docs, file.starts(docs), strict=True):
        assert start is not None
        assert words[start : start + len(doc)] == doc
    assert list(file.starts([["d"], [], ["a"] * 99])) == [None, None, None]


def test_places_of_label_errors_are_those_of_the_sentences_that_a_reader_takes(
    corpus: Any, configure: Callable[..., Path], tmp_path: Path
) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    lines = corpus.train.read_text().split("\n")
    report = debug_data(
        corpus.train, None, config, cost=False, cross_validate=2,
        overrides={"corpora.train.twice": True, "corpora.train.joined": 0.5}, number=50,
    )  # fmt: skip
    assert report.suspects is not None
    for suspect in report.suspects.worst["crf_ner"]:
        line = int(suspect.where.rpartition(":")[2])
        assert lines[line - 1].split()[0] in suspect.text


TYPOS = "X IO\nY B-ORG\nZ I--ORG\nV B-MIS1`\n\n"
COMMON = "Ada B-PER\nLee I-PER\nran O\nto O\nActa B-ORG\nInc I-ORG\nand O\nZed B-MISC\n. O\n\n"


@pytest.mark.parametrize("layout", [None, Asked(columns="word,ent")])
def test_mistyped_tags_are_named_with_their_lines_and_what_they_mean(layout: Asked | None, tmp_path: Path) -> None:
    report = debug_data(write(tmp_path, 30 * COMMON + TYPOS), layout=layout)
    assert set(report.parts["train"].columns) == {"ent"}  # not taken for words' tags
    assert "'IO'; did you mean 'O'?" in texts(report, "fail")
    assert "train.conll:301: tag 'IO' is neither" in texts(report, "fail")
    assert "train.conll:303: '-ORG'; did you mean 'ORG'?" in texts(report, "warn")
    assert "train.conll:304: 'MIS1`'; did you mean 'MISC'?" in texts(report, "warn")


def test_no_label_is_said_to_mean_itself_where_all_are_rare(look: Callable[..., Report]) -> None:
    warned = texts(look(COMMON), "warn")
    assert "3 labels on fewer than 5 spans" in warned
    assert "did you mean" not in warned


def test_a_column_without_a_tag_that_can_be_read_stays_in_the_report(look: Callable[..., Report]) -> None:
    report = look("Ada NNP PERS\nran VBD IO\n\n", columns="word,tag,ent")
    assert "ent: 1 sequence with tags that are none of IOB2" in texts(report, "fail")
    assert "train.conll:1: tag 'PERS' is neither 'O' nor" in texts(report, "fail")
    assert ", and 1 more in this sequence (" in texts(report, "fail")


def test_a_long_sequence_names_how_many_tags_are_wrong_and_the_first(look: Callable[..., Report]) -> None:
    report = look(GOOD + "a I-LOC\nb O\n" * 1000)
    place = r"\S+train.conll:"
    said = rf"{place}14: tag 'I-LOC' may not be the first of a sequence in IOB2, and 999 more in this sequence "
    assert re.search(rf"{said}\({place}16, {place}18, {place}20, \.\.\.\)", texts(report, "warn"))


def test_decomposed_accents_are_named(look: Callable[..., Report]) -> None:
    assert "NFC" not in texts(look(GOOD.replace("Oslo", "Malm\u00f6")), "warn")
    report = look(GOOD.replace("Oslo", "Malmo\u0308"))
    assert "1 token not in NFC" in texts(report, "warn")
    assert "train.conll:4: 'Malmo\u0308' (6 characters, 5 in NFC)" in texts(report, "warn")


def test_docs(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    starts = [True, False, True, False]
    docs = [
        Doc(nlp.vocab, ["Ada", "sings", "in", "Oslo"], ents=["B-PER", "O", "O", "B-LOC"], sent_starts=starts),
        Doc(nlp.vocab, []),
        Doc(nlp.vocab, ["Bo", "\n", "works"], ents=["B-PER", "O", "O"]),
    ]
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    report = debug_data(tmp_path / "train.spacy")
    assert report.parts["train"].lengths == [2, 2, 2]
    assert report.parts["train"].columns["ent"].labels == {"PER": 2, "LOC": 1}
    assert list(report.parts["train"].columns) == ["ent"]
    assert "white space" not in texts(report, "warn")  # which changes nothing


def test_config(corpus: Any, configure: Callable[..., Path], tmp_path: Path) -> None:
    dead = (
        '[components.crf_ner.features]\n@crf_features = "spacy_crfseq.Templates.v1"\n'
        'templates = ["LOWER[0]", "LANG[0]", "LIKE_EMAIL[0]", "POS[-1]"]\n'
    )
    config = configure(tmp_path / "c.cfg", "crf_tagger", "crf_chunker", "crf_ner", components=dead)
    report = debug_data(corpus.train, corpus.dev, config)
    tagger, chunker, ner = (report.components[name] for name in ("crf_tagger", "crf_chunker", "crf_ner"))
    assert ner.dead() == ["LANG[0]", "LIKE_EMAIL[0]", "POS[-1]"]
    assert (ner.unset, chunker.unset, tagger.unset) == (["POS"], ["TAG"], [])
    uses = {use.name: use for use in ner.templates}
    words = report.parts["train"].words
    lowered = {word.lower() for word in words}
    assert uses["LOWER[0]"].features == len(lowered)
    assert uses["LOWER[0]"].tokens == report.parts["train"].tokens
    once = [word for word in lowered if sum(n for other, n in words.items() if other.lower() == word) == 1]
    assert uses["LOWER[0]"].once == len(once)
    assert "crf_chunker reads TAG, which no component sets" in texts(report, "warn")
    assert report.expense is not None
    assert all(component.cost is not None and component.cost.seconds > 0 for component in report.components.values())
    assert not report.failed


def test_functions_of_a_token(corpus: Any, configure: Callable[..., Path], tmp_path: Path) -> None:
    def word_and_tag(sentence: Any, i: int) -> list[str]:
        return [f"word={sentence[i].text}", f"tag={sentence[i].tag_}"] if sentence[i].is_title else []

    word_and_tag.reads = ("TAG",)  # type: ignore[attr-defined]
    registry.features("tests.debug_data.word_and_tag", func=lambda: word_and_tag)
    block = (
        '[components.crf_ner.features]\n@crf_features = "spacy_crfseq.Templates.v1"\ntemplates = ["F[0]"]\n'
        "[components.crf_ner.features.token_functions]\n[components.crf_ner.features.token_functions.F]\n"
        '@crf_features = "tests.debug_data.word_and_tag"\n'
    )
    config = configure(tmp_path / "c.cfg", "crf_ner", components=block)
    report = debug_data(corpus.train, corpus.dev, config)
    ner, words = report.components["crf_ner"], report.parts["train"].words
    titles = {word: n for word, n in words.items() if word.istitle()}
    assert ner.unset == ["TAG"]
    assert ner.templates[0].tokens == sum(titles.values())
    assert ner.templates[0].features > len(titles)


def test_command(
    corpus: Any, run: Run, configure: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    result = worked(run("debug-data", corpus.train, "--dev", corpus.dev, "--config", config))
    assert result.stderr == ""
    for text in ("ent: 3 labels", "crf_ner: 36 templates", "Cost of crfseq fit here", "What to fix", "MB of memory"):
        assert text in result.stdout
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    as_json = json.loads(run("debug-data", corpus.train, "--config", config, "--json").stdout)
    assert (as_json["ok"], as_json["cost"]["megabytes"]) == (True, None)
    assert as_json["parts"]["train"]["sentences"] == 120
    assert as_json["components"]["crf_ner"]["cost"]["iterations"] >= 1


def test_options_override_the_config(corpus: Any, run: Run, configure: Callable[..., Path], tmp_path: Path) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner")
    files = "debug-data", corpus.train, "--config", config, "--no-cost"
    failed = run(*files, "--components.crf_ner.support some")
    assert failed.exit_code == 1
    assert "support = 'some' is not supported" in failed.stdout
    worked(run(*files, "--components.crf_ner.support all"))
    refused(run(*files[:2], "--components.crf_ner.support all"), "support changes a config, but there is none")


TAGS = ("O", "B-A", "I-A", "B-B", "I-B", "-")
tokens = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(TAGS)), min_size=1, max_size=7)
corpora = st.lists(tokens, min_size=1, max_size=12)


def sentences(corpus: list[list[tuple[str, str]]]) -> list[Sentence]:
    result, line = [], 1
    for rows in corpus:
        words, tags = [word for word, _ in rows], [tag for _, tag in rows]
        result.append(Sentence(words, {"ent": tags}, None, line, 0, {}))
        line += len(rows) + 1
    return result


def count_all(corpus: list[list[tuple[str, str]]]) -> CorpusCounts:
    return count(sentences(corpus), {"ent": "IOB2"}, lambda sentence, token: str(sentence.line_of(token)))


@given(corpora)
def test_counts_of_a_part(corpus: list[list[tuple[str, str]]]) -> None:
    part = count_all(corpus)
    column = part.columns["ent"]
    plain = [["O" if tag == "-" else tag for _, tag in rows] for rows in corpus]
    assert column.labels == Counter(span.label for tags in plain for span in decode_lenient(tags))
    assert column.invalid.count == sum(find_invalid(tags, "IOB2") is not None for tags in plain)
    assert column.n_known == sum(tag != "-" for rows in corpus for _, tag in rows)
    words = [tuple(word for word, _ in rows) for rows in corpus]
    assert part.repeated == len(words) - len(set(words))
    longest, place = part.longest
    assert longest == max(map(len, corpus))
    assert len(corpus[[str(s.line) for s in sentences(corpus)].index(place)]) == longest
    first: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    differ = [
        first.setdefault(key, rows) != rows and len(key) >= COMPARED for key, rows in zip(words, corpus, strict=True)
    ]
    assert column.conflicts.count == sum(differ)


@given(corpora, corpora)
def test_texts_and_spans_that_two_parts_share_are_counted(
    train: list[list[tuple[str, str]]], dev: list[list[tuple[str, str]]]
) -> None:
    parts = [count_all(corpus) for corpus in (train, dev)]
    shared = overlap(*parts)
    texts = [[tuple(word for word, _ in rows) for rows in corpus] for corpus in (train, dev)]
    both = [text for text in texts[1] if text in texts[0]]
    assert shared.same == sum(len(text) >= COMPARED for text in both)
    assert shared.compared == sum(len(text) >= COMPARED for text in texts[1])
    assert sum(shared.seen_spans["ent"]) == sum(parts[1].columns["ent"].labels.values())
    assert set(shared.new_labels["ent"]) == set(parts[1].columns["ent"].labels) - set(parts[0].columns["ent"].labels)


def test_the_use_of_a_template_counts_features_and_tokens() -> None:
    plan, none = make_plan(parse(["ORTH[0]", "ORTH[-1]"], {"ORTH"})), make_plan([])
    orths = np.array([7, 8, 7], np.uint64)
    text = Columns(orths, np.zeros((3, 0), np.uint64), np.array([0, 3]))
    lexicon = new_lexicon(plan, none, lambda orths: np.array([[orth] for orth in orths], np.uint64))
    encoder = GrowingEncoder(plan, none, lexicon)
    encoded = encoder.encode(text)
    uses = template_uses(encoder.features[0], encoded.unigrams)
    assert [tuple(use) for use in uses] == [("ORTH[0]", 2, 1, 3), ("ORTH[-1]", 3, 3, 3)]


def test_the_context_of_a_stretch_is_cut_on_both_sides() -> None:
    assert context(list("abcdefghijklmnop"), Stretch(8, 9, (), ()), 2) == "... g h i j k ..."


# --- what training is said to cost, beside what it takes ------------------------------------------------------------


SENTENCES_READ = 1000
"""Of each real corpus, so that the test takes seconds."""


def trained_on(examples: list[Example], factory: str, optimizer: str) -> tuple[Any, Any]:
    """Return a component that was initialized, and what `estimate` says."""
    nlp = spacy.blank("xx")
    pipe: Any = nlp.add_pipe(factory, config={"optimizer": {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1"}})
    nlp.initialize(lambda: examples)
    with pipe.training.training_on() as (objective, _):
        before = pipe.crf.theta.copy()
        cost = estimate(objective, pipe.method.optimizer, pipe.crf.theta)
        assert np.array_equal(pipe.crf.theta, before)
    return pipe, cost


def test_the_files_of_a_folder_in_another_scheme_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    write(folder, "Ada\tS-PER\nran\tO\nNew\tB-LOC\nYork\tE-LOC\n\n" * 9, "a.tsv")
    write(folder, "Bob\tB-PER\nRay\tI-PER\nran\tO\n\n" * 3, "b.tsv")
    write(folder, "I\tO\nBob\tI-PER\nran\tO\n\nRay\tI-PER\n\n" * 3, "c.tsv")
    write(folder, "Ada\tS-PER\n\n" * 3 + "Bob\tB-PER\nran\tO\n\n", "d.tsv")
    said = texts(debug_data(folder), "warn")
    for name, scheme in (("b.tsv", "IOB2"), ("c.tsv", "IOB1")):
        assert f"{folder / name} looks like {scheme}, unlike other files: convert FILE NEW --scheme {scheme}" in said
    assert "d.tsv" not in said
    assert "give --scheme" not in said
    for name in ("b.tsv", "c.tsv"):
        (folder / name).unlink()
    said = texts(debug_data(folder), "warn")
    assert "1 of 13 sequences have tags that are not valid IOBES." in said
    assert "like IOB2" not in said, "the file with a mistake is in IOBES"


def test_the_time_of_compiling_is_no_cost_of_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, seconds=0.0)
    monkeypatch.setattr(module_of_cost, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(_compile, "NOTICE", clock)

    def encode(postpone: bool) -> None:
        clock.now, clock.seconds = 27.0, 25.0

    _, expense = costs_of(SimpleNamespace(encode=encode, to_train={}, resumed=set()))  # type: ignore[arg-type]
    assert expense.encoding == 2.0


@pytest.mark.parametrize("optimizer", ["AdaGrad", "LBFGS"])
def test_a_small_corpus_is_its_own_sample(optimizer: str) -> None:
    nlp = spacy.blank("xx")
    docs = [gold_doc(nlp, rows) for rows in SENTENCES] * 4
    examples = [Example(doc.copy(), doc) for doc in docs]
    pipe, cost = trained_on(examples, "crf_ner", optimizer)
    result = pipe.fit(examples)
    assert cost.iterations == len(result.history)
    assert cost.n_parameters == pipe.crf.layout.size
    assert cost.n_sequences == len(examples)
    assert not cost.bounded
    assert cost.seconds == cost.iterations * cost.iteration_seconds > 0


def test_an_optimizer_that_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy_crfseq.tools.debug_data.cost.SECONDS", 0.0)
    nlp = spacy.blank("xx")
    docs = [gold_doc(nlp, rows) for rows in SENTENCES] * 4
    _, cost = trained_on([Example(doc.copy(), doc) for doc in docs], "crf_ner", "LBFGS")
    assert cost.bounded
    assert cost.iterations == 500


@pytest.mark.parametrize(
    ("path", "name", "factory", "given"),
    [
        ("conll2000/train.txt", "conll2000", "crf_chunker", ["tag"]),
        ("conll2002/esp.train", "conll2002", "crf_ner", []),
        ("ud-english-ewt/en_ewt-ud-train.conllu", "conllu", "crf_tagger", []),
    ],
)
def test_iterations_on_real_corpora(path: str, name: str, factory: str, given: list[str], data_folder: Path) -> None:
    read = read_examples(spacy.blank("xx"), data_folder / path, name, given=given)
    examples = list(islice(read, SENTENCES_READ))
    pipe, cost = trained_on(examples, factory, "AdaGrad")
    taken = len(pipe.fit(examples).history)
    assert taken / 2 <= cost.iterations <= taken * 2


def test_a_kernel_is_not_sampled() -> None:
    nlp = spacy.blank("xx")
    train = [Example(doc.copy(), doc) for doc in (gold_doc(nlp, rows) for rows in SENTENCES)]
    config = {
        "potentials": {"kernel": {"@crf_potentials": "spacy_crfseq.PolynomialKernel.v1"}},
        "optimizer": {"@crf_optimizers": "spacy_crfseq.DualPerceptron.v1", "max_iterations": 7},
        "loss": {"@crf_losses": "spacy_crfseq.Perceptron.v1"},
        "regularizer": {"@crf_regularizers": "spacy_crfseq.NoRegularizer.v1"},
    }
    pipe: Any = nlp.add_pipe("crf_ner", config=config)
    nlp.initialize(lambda: train)
    with pipe.training.training_on() as (objective, _):
        cost = estimate(objective, pipe.method.optimizer, pipe.crf.theta)
    assert cost.bounded
    assert cost.iterations == 7
    assert cost.seconds > 0


def test_gold_spans_that_the_tokenizer_of_the_config_loses_are_counted(run: Run, tmp_path: Path) -> None:
    """A corpus has "-" and "200"; the tokenizer makes "-200" of them, unless the reader keeps the gold tokens."""
    nlp, binary = spacy.blank("en"), DocBin()
    for _ in range(6):
        doc = Doc(nlp.vocab, words=["Ada", "owes", "-", "200", "."], spaces=[True, True, False, False, False])
        doc.ents = [doc.char_span(0, 3, "PER"), doc.char_span(10, 13, "MONEY")]
        binary.add(doc)
    corpus, config = tmp_path / "train.spacy", tmp_path / "ner.cfg"
    binary.to_disk(corpus)
    worked(run("init-config", config, "--task", "ner", "--lang", "en", "--goal", "fast", "--train", corpus))
    report = debug_data(corpus, corpus, config, cost=False)
    assert report.failed
    assert "crf_ner: in train, " in texts(report, "fail")
    assert "MONEY 6. Nothing is left of 'MONEY'" in texts(report, "fail")
    assert "crf_ner: in dev, " in texts(report, "warn")
    assert report.as_json()["components"]["crf_ner"]["unaligned"]["train"] == {"MONEY": 6}
    kept = {f"corpora.{part}.gold_preproc": True for part in ("train", "dev")}
    report = debug_data(corpus, corpus, config, cost=False, overrides=kept)
    assert not report.failed
    assert "tokenizer" not in texts(report, "warn")


def test_many_labels_are_told_with_what_to_do(run: Run, tmp_path: Path) -> None:
    rows = [f"w{i} T{i % 210}\n" for i in range(420)] + ["x RARE\n"]
    (tmp_path / "t.conll").write_text("".join(rows) + "\n")
    result = run("debug-data", tmp_path / "t.conll", "--columns word,tag")
    assert "tag: 211 labels, 1 of them once. Training takes time that grows with the square" in result.output
    (said,) = (text for _, text, *_ in Component(300, 9, [], [], None).findings("crf_tagger") if "labels" in text)
    assert said.startswith("crf_tagger: 300 labels.")
    cost = TrainingCost(4, False, 38.5, 9, 9)
    (said,) = (text for _, text, *_ in Component(300, 9, [], [], cost).findings("crf_tagger") if "labels" in text)
    assert "38.5 s an iteration here" in said
    assert not [text for _, text, *_ in Component(199, 9, [], [], cost).findings("crf_tagger") if "labels" in text]


@pytest.mark.parametrize(("tag", "meant"), [("b-PER", "B-PER"), ("i-PER", "I-PER"), ("o", "O"), ("B-per", "PER")])
def test_tags_in_another_case_are_said_to_mean_the_same_tag(tag: str, meant: str, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ada B-PER\nKing I-PER\nsaw O\n\n" * 9 + f"Bo {tag}\n\n")
    report = debug_data(tmp_path / "a.conll", layout=Asked(columns="word,ent"))
    said = [text for finding in report.findings for text in (finding.text, *finding.places)]
    assert any(f"{meant!r}?" in text for text in said), report.findings


@pytest.mark.parametrize("path", ["", "*.jsonl", "a.jsonl,b.jsonl"])
def test_spans_that_cannot_be_used_are_named_with_their_file(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, end in (("a", 3), ("b", 2)):
        spans = [{"start": 0, "end": end, "label": "PER"}]
        Path(f"{name}.jsonl").write_text(json.dumps({"text": "Ada saw Oslo", "spans": spans}) + "\n")
    (lost,) = [finding for finding in debug_data(Path(path)).findings if "cannot be used" in finding.text]
    assert lost.text.startswith("b.jsonl: 1 span")
    assert lost.places[0].startswith("b.jsonl:1: 'Ad' (0-2, PER)")


def test_tokens_are_counted_by_what_is_known_of_them(tmp_path: Path, run: Run) -> None:
    nlp = spacy.blank("xx")
    ner = nlp.add_pipe("crf_ner")
    doc = nlp.make_doc("Ada met Bo in Oslo")
    doc.set_ents([Span(doc, 0, 1, "PER")], missing=[doc[2:5]])
    ner.clamp(doc, allowed={2: ["PER", "LOC"]})
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "a.spacy")
    result = worked(run("debug-data", tmp_path / "a.spacy"))
    assert "train: 2 tokens known, 2 unknown, 1 with candidates" in result.stdout


def test_entities_that_several_sources_contradict_are_listed(tmp_path: Path, run: Callable[..., Any]) -> None:
    nlp, path, docs = spacy.blank("en"), tmp_path / "corpus.spacy", list[Doc]()
    for number in range(40):
        doc = Doc(nlp.vocab, ["Ada", "saw", "New", "York", "."])
        true = [Span(doc, 0, 1, "PER"), Span(doc, 2, 4, "LOC")]
        wrong = {3: true[:1], 7: [true[0], Span(doc, 3, 4, "LOC")], 9: [Span(doc, 0, 1, "LOC"), true[1]]}
        doc.set_ents(wrong.get(number, true))
        for name in ("rules", "model", "list", "copy"):
            copied = name in ("list", "copy")
            said = true[:1] if copied and number % 5 == 0 else true
            silent = number == 9 and not copied  # one source is left, and its copy, which is no other
            doc.spans[name] = SpanGroup(doc, attrs={"silent": [[0, 5]] * silent}, spans=[] if silent else said)
        docs.append(doc)
    DocBin(docs=docs).to_disk(path)
    result = run("debug-data", path, "--json")
    errors = json.loads(result.stdout)["source_errors"]
    assert errors["contradicted"] == {"ent": 2}
    assert {(row["where"], row["gold"], row["predicted"]) for row in errors["worst"]["ent"]} == {
        (f"{path}, doc 4", "O", "[New York LOC]"),
        (f"{path}, doc 8", "[York LOC]", "[New York LOC]"),
    }
    assert all(row["p_gold"] < 0.1 < 0.9 < row["p_predicted"] for row in errors["worst"]["ent"])
    assert "by the sources in doc.spans" in run("debug-data", path).stdout
    for doc in docs:
        for name in [*doc.spans]:
            del doc.spans[name]
    DocBin(docs=docs).to_disk(path)
    assert json.loads(run("debug-data", path, "--json").stdout)["source_errors"] is None
