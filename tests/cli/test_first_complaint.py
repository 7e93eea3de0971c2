"""An input that is not there is what a command complains of first, not of an option that is missing, too."""

from pathlib import Path
from typing import Any

import pytest
import typer

from spacy_crfseq.cli.program import crfseq_cli
from tests.commands import Run, refused

GROUP: Any = typer.main.get_command(crfseq_cli)
WITHOUT_INPUT = {"annotate", "init-config", "warmup"}
"""They make their output without an input, or ask for its layout."""


@pytest.mark.parametrize("command", sorted({*GROUP.commands} - WITHOUT_INPUT))
def test_a_missing_input_is_the_first_complaint(command: str, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    required = [parameter for parameter in GROUP.commands[command].params if parameter.required]
    arguments = [f"none{i}" for i, parameter in enumerate(required) if parameter.param_type_name == "argument"]
    options = [
        f"{parameter.opts[0]} {parameter.name}.out" for parameter in required if parameter.param_type_name == "option"
    ]
    result = run(command, *arguments, *options)
    refused(result, "no such")
    assert any(f"{name}: no such" in result.stderr for name in arguments)
    assert list(tmp_path.iterdir()) == []
