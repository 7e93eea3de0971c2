"""``crfseq warmup``: compile all kernels now, for instance when an image is built."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example

COMPONENTS = ("crf_tagger", "crf_chunker", "crf_ner")
SENTENCES = (
    "Ada/NNP/B-NP/B-PER Byron/NNP/I-NP/I-PER lives/VBZ/B-VP/O in/IN/B-PP/O London/NNP/B-NP/B-LOC ././O/O",
    "the/DT/B-NP/O old/JJ/I-NP/O engine/NN/I-NP/O was/VBD/B-VP/O never/RB/I-VP/O built/VBN/I-VP/O ././O/O",
    "Mary/NNP/B-NP/B-PER reads/VBZ/B-VP/O",
)
COPIES = 8
"""Enough sentences of similar length to train in blocks, which have their own kernels."""


class Warmth(NamedTuple):
    """The result of `warmup`: seconds, the number of kernels compiled and loaded, and the folder that keeps them."""

    seconds: float
    compiled: int
    loaded: int
    cache: str | None


def warmup(
    lang: str = "en",
    everything: bool = False,
) -> Warmth:
    """Train and run the three default components on a few made-up sentences, with `everything` by three optimizers."""
    import spacy

    from ...kernels._compile import NOTICE, folders

    NOTICE.silent = True  # whoever calls this does not need it
    started = perf_counter()
    for factory in COMPONENTS:
        for optimizer in ("AdaGrad", "SGD", "LBFGS") if everything else ("AdaGrad",):
            nlp = spacy.blank(lang)
            block = {"@crf_optimizers": f"spacy_crfseq.{optimizer}.v1", "max_iterations": 2}
            pipe: Any = nlp.add_pipe(factory, config={"optimizer": block})
            examples = [_example(nlp, text) for text in SENTENCES for _ in range(COPIES if everything else 1)]
            nlp.initialize(lambda: examples)  # noqa: B023
            if pipe.fit(dev=examples).reason == "interrupted":  # training ends well then; stop here
                raise KeyboardInterrupt
            docs = list(nlp.pipe([example.predicted for example in examples]))
            if everything:
                answers = pipe.posterior(docs)
                for ask in (answers.spans, answers.marginals, answers.log_probabilities, answers.entropies):
                    ask()
                answers.nbest(2)
                answers.sample(1)
    compiled, loaded = cache_counts()
    return Warmth(round(perf_counter() - started, 3), compiled, loaded, next(iter(folders), None))


def _example(nlp: Language, text: str) -> Example:
    from spacy.tokens import Doc, Span
    from spacy.training import Example

    from ...schemes import decode_lenient

    words, tags, chunks, ents = zip(*(token.rsplit("/", 3) for token in text.split()), strict=True)
    gold = Doc(nlp.vocab, words=list(words), tags=list(tags), ents=list(ents))
    gold.spans["chunks"] = [Span(gold, *span) for span in decode_lenient(chunks)]
    given = Doc(nlp.vocab, words=list(words), tags=None if nlp.has_pipe("crf_tagger") else list(tags))
    return Example(given, gold)


def cache_counts() -> tuple[int, int]:
    """Return the numbers of kernels, each with its types, that this process has compiled and loaded."""
    from ...kernels._compile import made

    stats = [kernel.stats for kernel in made]
    return sum(sum(stat.cache_misses.values()) for stat in stats), sum(sum(stat.cache_hits.values()) for stat in stats)
