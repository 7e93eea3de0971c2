"""Cost of a function of a token in its sentence, compared with equivalent templates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench import corpora, ours
from bench._harness import Options, Row, benchmark, in_turn, one_thread, say, seconds

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

NAME = "bench.crfpp_chunking"


@benchmark("token-functions", minutes=1)
def token_functions(options: Options) -> list[Row]:
    """Chunking the test part of CoNLL-2000 with the 19 attributes of CRF++'s template, from Docs, one thread: computed
    by a function `word2features(sentence, i)` of ten lines, as sklearn-crfsuite's users write them, and by
    templates. Both models have the same weights."""
    from spacy_crfseq import registry

    registry.features(NAME, func=lambda: word2features)
    block = {"token_functions": {"F": {"@crf_features": NAME}}}
    nlp = ours.blank()
    train, test = (corpora.chunks(options, nlp, part, options.few(200)) for part in ("train", "test"))
    optimizer = ours.default_optimizer("crf_chunker", 3)
    with one_thread():
        pipes = {}
        for name, features in (("function", {**ours.templates(["F[0]"]), **block}), ("templates", None)):
            say(f"    training with {name}")
            pipes[name] = ours.chunker(nlp, optimizer=optimizer, **({"features": features} if features else {}))
            ours.train(pipes[name], train.examples)
        passes = 1 if options.quick else 2

        def rate(pipe: Any) -> float:
            docs = [doc for _ in range(passes) for doc in ours.copies(test.examples)]
            return sum(len(doc) for doc in docs) / seconds(lambda: _tag(pipe, docs))

        contenders = {name: partial(rate, pipe) for name, pipe in pipes.items()}
        figures = in_turn(options.rounds, contenders, warm=contenders)
    weights = f"{pipes['function'].size.weights:,} and {pipes['templates'].size.weights:,} weights"
    label, first, second = "chunks, a function of a token", figures["function"], figures["templates"]
    return [Row(label, "tokens/s", first, second, "templates", "share", note=weights)]


def _tag(pipe: Any, docs: list[Doc]) -> None:
    for _ in pipe.pipe(docs):
        pass


def word2features(sentence: Sequence[Token], i: int) -> dict[str, str]:
    """Return the attributes of CRF++'s template for chunking."""
    near = range(i - 2, i + 3)
    last = len(sentence)
    w = [sentence[k].text if 0 <= k < last else f"_B{k if k < 0 else k - last + 1:+}" for k in near]
    t = [sentence[k].tag_ if 0 <= k < last else f"_B{k if k < 0 else k - last + 1:+}" for k in near]
    features = {f"w[{k - 2}]": w[k] for k in range(5)}
    features |= {f"t[{k - 2}]": t[k] for k in range(5)}
    features |= {"w[-1..0]": f"{w[1]}/{w[2]}", "w[0..1]": f"{w[2]}/{w[3]}"}
    features |= {f"t[{k - 2}..{k - 1}]": f"{t[k]}/{t[k + 1]}" for k in range(4)}
    features |= {f"t[{k - 2}..{k}]": f"{t[k]}/{t[k + 1]}/{t[k + 2]}" for k in range(3)}
    return features
