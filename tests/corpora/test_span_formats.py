"""Every format of annotated spans: what is counted in a file, and that docs/formats.md shows just that."""

import json
import re
from pathlib import Path

import pytest

from spacy_crfseq.corpora.spans import read_annotations
from tests.commands import Run, worked
from tests.corpora.span_cases import CASES, PAGE, Case, Counts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_format_is_read(case: Case, tmp_path: Path, run: Run) -> None:
    result = run("debug-data", case.write(tmp_path), f"--json {case.options}")
    report = json.loads(worked(result).stdout)
    column = report["parts"]["train"]["columns"]["ent"]
    tokens = column["tokens"]
    assert Counts(column["labels"], tokens["known"], tokens["unknown"], tokens["candidates"]) == case.counts
    said = [finding["text"] for finding in report["findings"] if case.said and case.said in finding["text"]]
    assert bool(said) == bool(case.said)


def test_the_page_shows_these_formats() -> None:
    blocks = re.split(r"\n(?=### )", PAGE.read_text(encoding="utf8"))[1:]
    assert [block.strip() for block in blocks] == [case.block() for case in CASES]


HEAD = "#FORMAT=WebAnno TSV 3.3\n#T_SP=a.Chunk|value\n#T_SP=a.NamedEntity|identifier|value\n\n"


@pytest.mark.parametrize(
    ("lines", "tags"),
    [
        (["1-1\t0-3\tAda\tNP\t*\tPER"], "B-PER"),
        (["1-1\t0-3\tAda\tNP\t*[1]|*[2]\tPER[1]|ORG[2]"], "-"),
        (["1-1\t0-3\tAda\tNP\t*\t*"], "-"),
        (["1-1\t0-3\tA\\|a\tNP\t*\tX\\|Y"], "B-X|Y I-X|Y I-X|Y"),
        (["1-1\t4-7\tAda\t_\t*[1]\tPER[1]", "1-2\t8-10\tBo\t_\t*[1]\tPER[1]"], "B-PER I-PER"),
        (["1-1\t0-3\tAda\t_\t*[1]\tPER[1]", "1-2\t4-6\tBo\t_\t*[2]\tPER[2]"], "B-PER B-PER"),
        (["1-1\t0-6\tAda-Bo\t_\t_\t_", "1-1.1\t4-6\tBo\t_\t*\tPER"], "O O B-PER"),
        (["1-1\t0-3\tAda\t_\t_\t_", "1-1.1\t1-3\tda\t_\t*\tPER"], "-"),
    ],
)
def test_layers_and_parts_of_tokens_of_webanno(lines: list[str], tags: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(HEAD + "\n".join(lines) + "\n\n", encoding="utf8")
    (sentence,) = read_annotations(path, words_and_signs, format="webanno")
    assert " ".join(sentence.columns["ent"]) == tags


def words_and_signs(text: str) -> tuple[list[str], list[bool]]:
    matches = list(re.finditer(r"(\w+|[^\w\s])(\s?)", text))
    return [match[1] for match in matches], [bool(match[2]) for match in matches]
