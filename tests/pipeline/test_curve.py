"""Curves in one line: what they show, and that nothing of them is piped."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.pipeline import spacy_train as curve
from spacy_crfseq.pipeline.spacy_train import ASCII, BLOCKS, LiveCurve, sparkline


class Terminal(io.StringIO):
    encoding = "utf8"

    def isatty(self) -> bool:
        return True


def test_heights() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == BLOCKS
    assert sparkline([5, 5], 8) == "▁▁"
    assert sparkline([1, 10, 100], 8, log=True) == "▁▅█"
    assert sparkline([0, 10, 100], 8, log=True) == sparkline([0, 10, 100], 8)
    assert sparkline([0, 1], 8, levels="ab") == "ab"
    assert sparkline([], 8) == ""

    assert sparkline([1, math.nan, 2, math.inf], 8) == "▁ █ "
    assert sparkline([math.nan], 8) == ""


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200), st.integers(1, 40), st.booleans())
def test_width_and_ends(values: list[float], width: int, log: bool) -> None:
    line = sparkline(values, width, log=log)
    assert len(line) == min(width, len(values))
    chosen = [values[(i + 1) * len(values) // len(line) - 1] for i in range(len(line))]
    assert line[-1] == sparkline(chosen, width, log=log)[-1]
    if max(chosen) > min(chosen):
        assert line[chosen.index(max(chosen))] == BLOCKS[-1]
        assert line[chosen.index(min(chosen))] == BLOCKS[0]


def test_a_terminal_shows_all_curves_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve, "PAUSE", 0.0)
    terminal = Terminal()
    live = LiveCurve(terminal)
    for value in (100.0, 10.0, 1.0):
        live.add("objective", value, log=True)
    live.add("score", 50.0)
    live.show("ner 3")
    assert "ner 3  objective 1 █▅▁  score 50 ▁" in terminal.getvalue()
    live.hide()
    live.hide()
    assert terminal.getvalue().endswith("\r")
    live.clear()
    live.show("x")
    assert "objective" not in terminal.getvalue().rpartition("\r")[2]


def test_drawings_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve, "PAUSE", 60.0)
    terminal = Terminal()
    live = LiveCurve(terminal)
    for number in range(50):
        live.add("objective", float(number))
        live.show(f"iteration {number}")
    live.hide()
    assert "iteration 0" in terminal.getvalue()
    assert "iteration 49" not in terminal.getvalue()


def test_nothing_is_piped() -> None:
    pipe = io.StringIO()
    live = LiveCurve(pipe)
    live.add("objective", 1.0)
    live.show("x")
    live.hide()
    assert pipe.getvalue() == ""


def test_a_terminal_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: Any = Terminal()
    monkeypatch.setattr(Terminal, "encoding", "ascii")
    live = LiveCurve(terminal)
    live.add("objective", 1.0)
    live.add("objective", 2.0)
    live.show("x")
    live.hide()
    assert f"objective 2 {ASCII[0]}{ASCII[-1]}" in terminal.getvalue()
