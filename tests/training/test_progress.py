"""A bar within a long iteration: on a terminal it counts parts of the texts, in a pipe nothing is written."""

import pytest

from tests import forks
from tests.terminal import run_on_terminal

TRAIN = """
import sys
from spacy_crfseq import CRF
from spacy_crfseq.potentials import linear
from spacy_crfseq.training import progress

progress.NOTICED = float(sys.argv[2])
linear.SHARD_FLOATS = 64
crf = CRF(algorithm=sys.argv[1], max_iterations=2)
crf.fit([[{"word": str(i % 7)} for i in range(9)] for _ in range(40)], [[str(i % 5) for i in range(9)]] * 40)
print("trained")
"""


@pytest.mark.parametrize(("algorithm", "title"), [("lbfgs", "Pass: "), ("l2sgd", "Epoch: ")])
def test_a_terminal_shows_parts_of_an_iteration_that_takes_long(algorithm: str, title: str) -> None:
    code, said = run_on_terminal(["-c", TRAIN, algorithm, "0"])
    assert code == 0, said
    assert title in said
    assert "trained" in said
    code, said = run_on_terminal(["-c", TRAIN, algorithm, "1000"])
    assert (code, title in said) == (0, False), said


def test_a_pipe_gets_nothing() -> None:
    done = forks.run(["-c", TRAIN, "lbfgs", "0"])
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "Pass" not in done.stderr


SCORE = """
import sys
import spacy
from spacy_crfseq import threads
from spacy_crfseq.pipeline.evaluator import Evaluator
from spacy_crfseq.training import progress
from tests.pipeline.helpers import examples, pipe_of, trained

nlp = trained("crf_ner")
progress.NOTICED = float(sys.argv[1])
threads.SHARD_FLOATS = 8
pipe = pipe_of(nlp)
print(Evaluator(pipe.doc_model, examples(nlp))(pipe.crf.theta))
"""


def test_a_terminal_shows_the_parts_of_a_score_that_takes_long() -> None:
    code, said = run_on_terminal(["-c", SCORE, "0"])
    assert code == 0, said
    assert "Score: " in said
    assert said.rstrip().endswith("1.0")
