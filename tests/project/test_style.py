"""The style check finds planted words and sentences, and nothing in the documentation."""

from pathlib import Path

import pytest

from scripts import check_style

PLANTED = """\
# A page about one room

The command tells `tells` what is wrong, for
little. `fit` trains a model.

```text
it tells
```

| cell | tells nothing [here](rooms.md) |

asks for what you leave out.

- fragments may begin in lower case
"""


def test_planted_words_and_sentences_are_found(tmp_path: Path) -> None:
    pytest.importorskip("proselint", reason="proselint is not installed")
    page = tmp_path / "page.md"
    page.write_text(PLANTED + "\n" + "Word " + "word " * 41 + "end.\n\nThis is very unique.\n", encoding="utf8")
    result = [(finding.line, finding.text.lower()) for finding in check_style.check(page)]
    assert {(1, "room"), (3, "tells"), (3, "for little"), (10, "tells"), (12, "asks for what you")} <= set(result)
    assert (4, "little. `fit` trains a model.") in result
    assert [line for line, text in result if text.startswith("word word")] == [16]
    assert any(line == 18 and "very unique" in text for line, text in result)
    assert {line for line, _ in result} == {1, 3, 4, 10, 12, 16, 18}
    assert check_style.main([str(page)]) == 1


def test_docstrings_comments_and_configs_are_checked(tmp_path: Path) -> None:
    code, config = tmp_path / "code.py", tmp_path / "config.cfg"
    code.write_text('"""What it\n\ntells."""\ntells = 1  # for\n# little\nroom = "house"\n', encoding="utf8")
    config.write_text("# two rooms\n[rooms]\n#   python rooms.py\nhouse = 1\n", encoding="utf8")
    result = [(finding.line, finding.text) for file in (code, config) for finding in check_style.check(file)]
    assert result == [(3, "tells"), (4, "for # little"), (1, "rooms")]


def test_variables_and_parameters_without_a_name_of_their_own_are_found_and_fields_are_not() -> None:
    text = """class Counts(NamedTuple):
    known: int

def score(gold, known):
    '''Return what is right.'''
    found = [each for each in gold]
    for one, (thing, other) in enumerate(found.known):
        print(lambda ones: other)
"""
    assert [(finding.line, finding.text) for finding in sorted(check_style.names("score.py", text))] == [
        (4, "known"), (5, "Return what"), (6, "each"), (6, "found"), (7, "one"), (7, "thing"), (8, "ones"),
    ]  # fmt: skip


def test_findings_name_file_line_and_replacement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "settings.cfg"
    page.write_text("[a]\n# what it tells\n", encoding="utf8")
    assert check_style.main([str(page)]) == 1
    assert capsys.readouterr().out == f'{page}:2: "tells": shows, says, reports or specifies\n'
    page.write_text("# what it shows\n", encoding="utf8")
    assert check_style.main([str(page)]) == 0
