"""Helpers of the tests of the README and of the documentation."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def read(file: Path) -> str:
    return file.read_text(encoding="utf8")


README = read(ROOT / "README.md")


def blocks(language: str, text: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def assert_same_but_for_digits(printed: str, told: str, rel: float | None = None) -> None:
    """Compare texts; the last digits of their numbers are the machine's."""
    lines = ([NUMBER.sub("?", line.rstrip()) for line in text.strip().splitlines()] for text in (printed, told))
    assert next(lines) == next(lines)
    values = ([float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (printed, told))
    assert next(values) == pytest.approx(next(values), rel=rel, abs=0.02)
