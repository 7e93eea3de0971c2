"""Every format of annotated spans: what is counted in a file, and that docs/formats.md shows just that."""

import json
import re
from pathlib import Path

import pytest

from tests.commands import Run, worked
from tests.corpora.span_cases import CASES, PAGE, Case, Counts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_format_is_read(case: Case, tmp_path: Path, run: Run) -> None:
    result = run("debug-data", case.write(tmp_path), f"--json {case.options}")
    report = json.loads(worked(result).stdout)
    column = report["parts"]["train"]["columns"]["ent"]
    assert Counts(column["labels"], column["tokens"]["known"], column["tokens"]["unknown"]) == case.counts
    said = [finding["text"] for finding in report["findings"] if case.said and case.said in finding["text"]]
    assert bool(said) == bool(case.said)


def test_the_page_shows_these_formats() -> None:
    blocks = re.split(r"\n(?=### )", PAGE.read_text(encoding="utf8"))[1:]
    assert [block.strip() for block in blocks] == [case.block() for case in CASES]
