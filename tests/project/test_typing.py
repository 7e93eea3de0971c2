"""mypy finds the package, and its types, where it is installed as a user or a contributor installs it."""

import subprocess
import sys
from pathlib import Path

import pytest

USER = """\
from typing import Any

import spacy
from spacy_crfseq import CRF, CRFComponent, DocPosterior, LinearChainCRF

nlp = spacy.blank("en")
pipe: Any = nlp.add_pipe("crf_ner")
assert isinstance(pipe, CRFComponent)
crf: LinearChainCRF = pipe.crf
estimator: CRF = CRF(c1=0.1)
answers: DocPosterior = pipe.posterior([nlp("Ada")])
reveal_type(crf)
reveal_type(answers)
reveal_type(DocPosterior.spans)
"""


def test_a_users_script_is_checked_strictly(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER, encoding="utf8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("spacy_crfseq.model.LinearChainCRF", "spacy_crfseq.pipeline.doc_posterior.DocPosterior"):
        assert f'Revealed type is "{name}"' in done.stdout
