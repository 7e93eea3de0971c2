"""``crfseq evaluate``: its numbers against spaCy's and against conlleval's, its options, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.cli._util import app
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus as DocCorpus
from typer.testing import CliRunner

from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.errors import DataError
from spacy_crfseq.features.noted import KEY
from spacy_crfseq.pipeline.component import CRFComponent
from spacy_crfseq.pipeline.corpus_reader import read_examples
from spacy_crfseq.tools.evaluate import evaluate
from tests.commands import Corpus, Run, refused, worked, write_attributes


def columns_of(path: Path, target: Path, keep: tuple[int, ...]) -> Path:
    lines = [line.split() for line in path.read_text().splitlines()]
    target.write_text("\n".join(" ".join(fields[i] for i in keep) if fields else "" for fields in lines) + "\n")
    return target


def test_numbers_equal_spacys(trained: Path, corpus: Any) -> None:
    model = trained / "model-best"
    metrics, report, _ = evaluate(model, corpus.dev, "conll2003")
    nlp = spacy.load(model)
    examples = list(read_examples(nlp, corpus.dev, "conll2003"))
    scores = nlp.evaluate(examples)
    names = ["tag_acc", "ents_p", "ents_r", "ents_f", "ents_per_type"]
    names += ["spans_chunks_p", "spans_chunks_r", "spans_chunks_f", "spans_chunks_per_type"]
    names += [f"{name}_sequence_acc" for name in ("tag", "ents", "spans_chunks")]
    assert {name: metrics[name] for name in names} == {name: scores[name] for name in names}
    assert set(metrics) == {*names, "tag_per_type", "token_label_acc", "tokens", "seconds", "tokens_per_second"}
    assert metrics["tokens"] == sum(len(example.reference) for example in examples)
    assert metrics["tokens_per_second"] == pytest.approx(metrics["tokens"] / metrics["seconds"])
    assert 0 < metrics["token_label_acc"] < 1
    result = list(nlp.pipe(example.predicted for example in examples))
    right = [
        [a.tag_ for a in example.reference] == [b.tag_ for b in doc]
        for example, doc in zip(examples, result, strict=True)
    ]
    assert metrics["tag_sequence_acc"] == sum(right) / len(right)
    for name in ("ents_f", "spans_chunks_f"):
        assert f"FB1: {100 * metrics[name]:6.2f}" in report
    assert [block.splitlines()[0] for block in report.split("\n\n")][:3] == ["tag", "chunk", "ent"]
    assert report.endswith("tokens/s")


def test_seen_and_unseen(trained: Path, corpus: Any, tmp_path: Path) -> None:
    (tmp_path / "few.conll").write_text("\n\n".join(corpus.train.read_text().split("\n\n")[:3]) + "\n")
    metrics, shown, _ = evaluate(trained / "model-best", corpus.dev, "conll2003", corpus=tmp_path / "few.conll")
    for name, score in {"tag": "tag_acc", "chunk": "spans_chunks_f", "ent": "ents_f"}.items():
        rows = metrics["seen"][name].values()
        right, result, gold = (sum(row[part] for row in rows) for part in ("right", "found", "gold"))
        assert 2 * right / (result + gold) == pytest.approx(metrics[score])
        assert metrics["seen"][name]["unseen, with an unseen word"]["gold"] > 0
    assert shown.count("with an unseen word: precision:") == 3


@Language.component("cli_test_even_chunks")
def even_chunks(doc: Doc) -> Doc:
    """Predict the same for every doc of six tokens: NP 0-2, VP 2-3, NP 3-5."""
    doc.spans["chunks"] = [Span(doc, 0, 2, "NP"), Span(doc, 2, 3, "VP"), Span(doc, 3, 5, "NP")]
    return doc


Language.component("cli_test_chunks", func=even_chunks, assigns=["doc.spans"])


def test_report_of_a_tiny_file(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("cli_test_chunks")
    nlp.to_disk(tmp_path / "model")
    tiny = tmp_path / "tiny.conll"
    tiny.write_text("the DT B-NP\ndog NN I-NP\nsees VBZ B-VP\nan DT B-NP\nold JJ I-NP\nmap NN I-NP\n\n")
    # spaCy has no score for a component without a scorer: the report counts for itself
    result = evaluate(tmp_path / "model", tiny, "conll2000", raw=True)
    assert (
        result.metrics["raw"]["spans_chunks_f"] == result.metrics["unsplit"]["spans_chunks_f"] == pytest.approx(2 / 3)
    )
    assert result.report.splitlines()[-3].split() == ["token", "100.00", "100.00", "100.00"]
    assert result.report.splitlines()[-2].split() == ["chunk", "-", "66.67", "66.67"]
    assert result.report.splitlines()[:4] == [
        "processed 6 tokens with 3 phrases; found: 3 phrases; correct: 2.",
        "accuracy:  83.33%; precision:  66.67%; recall:  66.67%; FB1:  66.67",
        "               NP: precision:  50.00%; recall:  50.00%; FB1:  50.00  2",
        "               VP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
    ]


@Language.component("cli_test_tags", assigns=["token.tag"])
def even_tags(doc: Doc) -> Doc:
    """Predict A for each second token, B for the others."""
    for token in doc:
        token.tag_ = "AB"[token.i % 2]
    return doc


def test_tags_have_a_row_for_each_label(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("cli_test_tags")
    nlp.to_disk(tmp_path / "model")
    (tmp_path / "a.txt").write_text("x A\ny B\nz B\nx A-long-name-of-a-label\n\n")
    result = evaluate(tmp_path / "model", tmp_path / "a.txt", Asked(columns="word,tag"))
    assert result.report.splitlines()[:6] == [
        "tag",
        "processed 4 tokens; correct: 2.",
        "accuracy:  50.00%",
        "                     A: precision:  50.00%; recall: 100.00%; FB1:  66.67  2",
        "A-long-name-of-a-label: precision:   0.00%; recall:   0.00%; FB1:   0.00  0",
        "                     B: precision:  50.00%; recall:  50.00%; FB1:  50.00  2",
    ]
    assert result.metrics["tag_per_type"]["A"] == {"p": 0.5, "r": 1.0, "f": pytest.approx(2 / 3)}
    (tmp_path / "a.txt").write_text("".join(f"x T{i}\n" for i in range(120)) + "\n")
    report = evaluate(tmp_path / "model", tmp_path / "a.txt", Asked(columns="word,tag")).report
    assert len(report.splitlines()) < 9  # such as lemmas


@Language.component("cli_test_white_space", assigns=["token.tag"])
def tag_white_space(doc: Doc) -> Doc:
    """Predict A for each word, and the tag of spaCy for white space."""
    for token in doc:
        token.tag_ = "_SP" if token.is_space else "A"
    return doc


def test_white_space_has_no_part_in_scores_of_tags(tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("cli_test_white_space")
    nlp.to_disk(tmp_path / "model")
    for tag in ("_SP", "other", ""):
        gold = Doc(nlp.vocab, words=["x", "\n", "y"], tags=["A", tag, "B"])
        DocBin(docs=[gold]).to_disk(tmp_path / "a.spacy")
        result = evaluate(tmp_path / "model", tmp_path / "a.spacy", raw=True)
        of_raw = [result.metrics[form]["tag_f"] for form in ("unsplit", "raw")]
        assert [result.metrics["token_label_acc"], *of_raw] == [0.5] * 3
        assert "processed 2 tokens; correct: 1." in result.report


def test_multiword_tokens_are_in_the_raw_text_as_it_writes_them(tmp_path: Path) -> None:
    """Words of "al", a and el, are where it is; one prediction cannot have both their tags."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("cli_test_tags")
    nlp.to_disk(tmp_path / "model")
    rows = ["1 Ve A", "2-3 al _", "2 a B", "3 el A", "4-5 diaNo _", "4 dia A", "5 No B", "6 . B"]
    fields = [row.split() for row in rows]
    lines = [f"{number}\t{word}\t_\t_\t{tag}\t_\t_\t_\t_\t_\n" for number, word, tag in fields]
    (tmp_path / "a.conllu").write_text("".join(lines))
    result = evaluate(tmp_path / "model", tmp_path / "a.conllu", raw=True)
    # the text is "Ve al diaNo .", of which "diaNo" is one token of the tokenizer and two of the file
    assert result.metrics["raw"]["token_p"] == pytest.approx(3 / 4)
    assert result.metrics["raw"]["token_r"] == pytest.approx(3 / 5)
    assert result.metrics["raw"]["tag_p"] == pytest.approx(3 / 4)
    assert result.metrics["raw"]["tag_r"] == pytest.approx(3 / 6)


def test_other_tokens_than_those_of_the_tokenizer_are_said_unasked(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("cli_test_tags")
    nlp.to_disk(tmp_path / "model")
    good, other = tmp_path / "good.conll", tmp_path / "other.conll"
    good.write_text("In A\nOctober B\n, A\n2021 B\n\n")
    other.write_text("In A\nOctober, B\n2021 A\n\n")
    said = "tokens of the file, the pipeline's tokenizer does not make 1, such as 'October,', of which it makes"
    asked = Asked(columns="word,tag")
    assert said in evaluate(tmp_path / "model", other, asked).report
    assert "tokenizer does not" not in evaluate(tmp_path / "model", other, asked, raw=True).report
    assert "tokenizer does not" not in evaluate(tmp_path / "model", good, asked).report


@pytest.mark.filterwarnings("ignore:.*cannot be used")
@pytest.mark.parametrize("n_unusable", [0, 1, 2])
def test_gold_spans_that_cut_tokens_are_counted_with_the_scores(n_unusable: int, tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Ada"}])  # type: ignore[attr-defined]
    nlp.to_disk(tmp_path / "model")
    records = [{"text": "Ada ran.", "entities": [[0, 3, "PER"]]}] * 6
    records += [{"text": "Bobs dog ran.", "entities": [[0, 3, "PER"]]}] * n_unusable
    file = tmp_path / "dev.jsonl"
    file.write_text("\n".join(map(json.dumps, records)))
    result = evaluate(tmp_path / "model", file)
    assert "with 6 phrases; found: 6 phrases; correct: 6." in result.report
    assert result.metrics.get("ents_unusable", 0) == n_unusable
    note = {
        0: "",
        1: "1 gold span that does not match the tokens is not scored: with it, recall is 85.71 instead of 100.00\n",
        2: "2 gold spans that do not match the tokens are not scored: with them, recall is 75.00 instead of 100.00\n",
    }[n_unusable]
    assert note in result.report
    assert ("not scored" in result.report) is bool(note)
    unscored = f", {n_unusable} of them not annotated," if n_unusable else ""
    assert f"\n{18 + 4 * n_unusable} tokens{unscored} in " in result.report


def test_command_prints_a_report_and_writes_metrics(run: Run, trained: Path, corpus: Any, tmp_path: Path) -> None:
    output = tmp_path / "new" / "metrics.json"
    worked(
        run("evaluate", trained / "model-best", corpus.dev, "--format conll2003 --output", output),
        "phrases; correct:",
        f"Saved the scores to {output}",
    )
    assert json.loads(output.read_text())["ents_f"] > 0.5
    assert [path.name for path in output.parent.iterdir()] == ["metrics.json"]


def test_tags_are_given_where_only_features_need_them(
    run: Run, configure: Any, paths: list[str], corpus: Any, tmp_path: Path
) -> None:
    block = '[components.crf_chunker.features]\n@crf_features = "spacy_crfseq.Templates.v1"\ntemplates = ["TAG[0]"]\n'
    config = configure(tmp_path / "c.cfg", "crf_chunker", components=block, given='["tag"]')
    worked(run("fit", config, "--output", tmp_path / "out", *paths))
    model = tmp_path / "out/model-best"
    dev = columns_of(corpus.dev, tmp_path / "dev.txt", (0, 1, 2))
    given = evaluate(model, dev, "conll2000").metrics
    assert given == {**evaluate(model, dev, "conll2000", given="tag").metrics, **_speed(given)}
    assert "tag_acc" not in given
    blind = evaluate(model, dev, "conll2000", given="").metrics
    assert blind["token_label_acc"] < given["token_label_acc"]
    refused(run("evaluate", model, dev, "--format conll2000 --raw"), "--raw: features read tag")
    result = run("evaluate", model, dev, "--format conll2000 --given", "", "--json")
    assert json.loads(result.stdout)["token_label_acc"] == blind["token_label_acc"]


def _speed(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in ("seconds", "tokens_per_second")}


@pytest.mark.parametrize(("model", "file", "layout", "message"), [
    ("model-best", "dev.conll", "conll203", "Did you mean 'conll2003'?"),
    ("model-best", "none.conll", "conll2003", "none.conll: no such file"),
    ("model-best", "dev.conll", "conll2000", "dev.conll:1: 3 columns expected"),
    ("model-bst", "dev.conll", "conll2003", "model-bst: no such folder"),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(
    model: str, file: str, layout: str, message: str, run: Run, trained: Path, corpus: Any
) -> None:
    refused(run("evaluate", trained / model, corpus.dev.parent / file, "--format", layout), message)


@Language.component("cli_test_merge")
def merge_all(doc: Doc) -> Doc:
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    return doc


def test_components_that_change_tokens(trained: Path, corpus: Any, tmp_path: Path) -> None:
    nlp = spacy.load(trained / "model-best")
    nlp.add_pipe("cli_test_merge")
    nlp.to_disk(tmp_path / "model")
    with pytest.raises(DataError, match="changes the tokens"):
        evaluate(tmp_path / "model", corpus.dev, "conll2003")


def test_find_threshold(trained: Path, corpus: Corpus, tmp_path: Path) -> None:
    """Each score is that of the spans that are as probable as the threshold, at the temperature of the model."""
    model, dev = tmp_path / "model", tmp_path / "dev.spacy"
    nlp = spacy.load(trained / "model-best", exclude=["crf_tagger", "crf_chunker"])
    pipe = nlp.get_pipe("crf_ner")
    assert isinstance(pipe, CRFComponent)
    pipe.cfg["temperature"] = 4.0
    nlp.to_disk(model)
    DocBin(docs=[example.reference for example in read_examples(nlp, corpus.dev, "conll2003")]).to_disk(dev)
    command = ["find-threshold", model, dev, "crf_ner", "threshold", "ents_f", "--n_trials", "3"]
    done = CliRunner().invoke(app, [*map(str, command)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    rows = [line.split() for line in done.stdout.splitlines() if line[:2] in ("0.", "1.")]
    actual = {float(threshold): float(value) for threshold, value in rows}
    expected = {}
    for threshold in (0.0, 0.5, 1.0):
        pipe.cfg["threshold"] = threshold
        expected[threshold] = nlp.evaluate(list(DocCorpus(dev)(nlp)))["ents_f"]
    assert actual == pytest.approx(expected, abs=6e-4)
    assert len(set(actual.values())) > 2
    assert f"Best threshold: {max(expected, key=expected.__getitem__)} " in done.stdout


# --- models that know attributes only, as CRFsuite's do: commands read these from DocBins that `convert` has made


READER = """@readers = "spacy_crfseq.CRFsuiteReader.v1"
path = ${{paths.{part}}}
column = "chunk"
"""
FEATURES = """[components.crf_chunker.features]
@crf_features = "spacy_crfseq.Templates.v1"
templates = ["GIVEN[0]", "GIVEN[-1]"]

[components.crf_chunker.features.token_functions]

[components.crf_chunker.features.token_functions.GIVEN]
@crf_features = "spacy_crfseq.Attributes.v1"
"""


@pytest.fixture(scope="module")
def folder(corpus: Any, run: Run, configure: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on a file of CRFsuite's, and such a file as a DocBin, half of it annotated by nobody."""
    folder = tmp_path_factory.mktemp("attributes")
    for name, source in corpus._asdict().items():
        write_attributes(source, folder / f"{name}.crfsuite")
    config = configure(folder / "c.cfg", "crf_chunker", components=FEATURES)
    text = config.read_text()
    head, _, rest = text.partition("[corpora]")
    config.write_text(
        f"{head}[corpora]\n[corpora.train]\n{READER.format(part='train')}\n[corpora.dev]\n"
        f"{READER.format(part='dev')}\n[training]{rest.partition('[training]')[2]}"
    )
    paths = ["--paths.train", folder / "train.crfsuite", "--paths.dev", folder / "dev.crfsuite"]
    worked(run("fit", config, "--output", folder / "out", *paths))
    worked(run("convert", folder / "dev.crfsuite", folder / "dev.spacy", "-f crfsuite -t spacy --labels chunk"))
    return folder


@pytest.mark.parametrize("command", [
    "report {model} {file} -o {out}/page.html",
    "evaluate {model} {file} --against {model}",
    "explain {model} {file} --limit 2",
    "explain {model} --texts {file}",
    "tag {model} {file} -o {out}",
    "tag {model} {file} --html {out}/page.html",
    "active {model} {file} -n 3",
])  # fmt: skip
def test_commands(run: Run, folder: Path, tmp_path: Path, command: str) -> None:
    model, file = folder / "out" / "model-best", folder / "dev.spacy"
    worked(run(*command.format(model=model, file=file, out=tmp_path).split()))


def test_the_attributes_are_the_files(run: Run, folder: Path, tmp_path: Path) -> None:
    model = folder / "out" / "model-best"
    scores = json.loads(run("report", model, folder / "dev.spacy", "-o", tmp_path / "p.html", "--json").stdout)
    log = [json.loads(line) for line in (folder / "out" / "log.jsonl").read_text().splitlines()]
    best = max(entry["score"] for entry in log)
    assert scores["crf_chunker"]["all"]["f1"]["value"] == pytest.approx(best, abs=1e-4)
    assert run("tag", model, folder / "dev.spacy", "-o", tmp_path, "--to spacy").exit_code == 0
    docs = list(DocBin().from_disk(tmp_path / "dev.spacy").get_docs(spacy.blank("xx").vocab))
    assert all(len(doc.user_data[KEY]) == len(doc) for doc in docs)
    assert list(docs[0].spans["chunks"])
