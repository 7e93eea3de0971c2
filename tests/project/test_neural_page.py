"""The page on neural scores is what the command makes of its results; a run is that of the named components."""

import json
import os
from pathlib import Path

import pytest

from scripts import neural


def test_the_page_is_made_of_the_results() -> None:
    results = json.loads(neural.RESULTS.read_text(encoding="utf8"))
    assert neural.PAGE.read_text(encoding="utf8") == neural.page(results)
    assert {f"{corpus}/{system}/0" for corpus in neural.CORPORA for system in ("spacy", "SequentialLog")} <= {*results}


@pytest.mark.skipif(not os.environ.get("CRFSEQ_DATA"), reason="CRFSEQ_DATA names no folder of corpora")
@pytest.mark.parametrize("system", ["spacy", "SequentialLog", "sum"])
def test_a_run(system: str) -> None:
    result = neural.run("ewt", system, 0, 2, Path(os.environ["CRFSEQ_DATA"]), limit=30)
    assert 5 < result["dev"] <= 100
    assert result["seconds"] > 0
