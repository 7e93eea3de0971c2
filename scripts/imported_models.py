"""Compare models of python-crfsuite with what `crfseq import-model` makes of them: labels and probabilities.

    CRFSEQ_DATA=... python scripts/imported_models.py [--iterations 20]

CoNLL-2000: a model is trained on nine tenths of the training part, with the attributes of CRF++'s template, and both
tag the rest.  usaddress, if it is installed: the model of the package, and both tag its training file.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pycrfsuite
import spacy
from spacy.tokens import Doc

ROOT = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(ROOT)]

from bench.corpora import Sentence, read_columns  # noqa: E402
from bench.token_functions import word2features  # noqa: E402
from scripts.kit import ROOT, Skip, corpus_file, data_folder  # noqa: E402
from spacy_crfseq import registry  # noqa: E402
from spacy_crfseq.corpora.saved_models import read_saved_model  # noqa: E402
from spacy_crfseq.tools.models.imported import import_pipeline  # noqa: E402
from spacy_crfseq.tools.models.settings import ImportSettings  # noqa: E402

Items = list[dict[str, Any]]
"""The attributes of the tokens of a sequence."""


def main() -> None:
    """Parse the command line and print a line for each corpus."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20, help="of L-BFGS [20]")
    iterations = parser.parse_args().iterations
    with TemporaryDirectory() as folder:
        for name, model, items_of, sentences in corpora(data_folder(), Path(folder), iterations):
            registry.features("scripts.imported", func=partial(token_function, items_of))
            target = Path(folder) / name
            nlp, saved = spacy.blank("en"), read_saved_model(model)
            assert saved is not None
            import_pipeline(nlp, saved, ImportSettings(features="scripts.imported"))
            nlp.to_disk(target)
            print(f"{name}: {compared(model, target, items_of, sentences)}")


def corpora(
    data: Path | None, folder: Path, iterations: int
) -> Iterator[tuple[str, Path, Callable[..., Items], list[Any]]]:
    """Yield a name, the file of a model, the function that makes attributes of tokens, and what both tag."""
    sentences = read_columns(corpus_file(data, "conll2000/train.txt"))
    last = len(sentences) * 9 // 10
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.1, "max_iterations": iterations})
    vocab = spacy.blank("en").vocab
    for sentence in sentences[:last]:
        trainer.append(chunk_items(list(doc_of(vocab, sentence))), sentence.labels)
    model = folder / "conll2000.crfsuite"
    trainer.train(str(model))
    yield "CoNLL-2000", model, chunk_items, sentences[last:]
    if importlib.util.find_spec("usaddress") is None:
        print("usaddress is not installed: skipped")
        return
    import usaddress

    texts = ("".join(address.itertext()) for address in ET.parse(corpus_file(data, "usaddress/labeled.xml")).getroot())
    addresses = [Sentence(words, [], []) for text in texts if (words := usaddress.tokenize(text))]
    yield "usaddress", Path(usaddress.MODEL_PATH), address_items, addresses


def chunk_items(tokens: Sequence[Any]) -> Items:
    """Return the attributes of CRF++'s template."""
    return [dict(word2features(tokens, i)) for i in range(len(tokens))]


def address_items(tokens: Sequence[Any]) -> Items:
    """Return the attributes of usaddress."""
    import usaddress

    features: Items = usaddress.tokens2features([token.text for token in tokens])
    return features


def token_function(items_of: Callable[..., Items]) -> Callable[[Sequence[Any], int], Any]:
    """Return a token function from one of sequences."""
    last: list[Any] = [None, []]

    def function(sequence: Sequence[Any], i: int) -> Any:
        if last[0] is not sequence:
            last[:] = sequence, items_of(sequence)
        return last[1][i]

    return function


def doc_of(vocab: Any, sentence: Sentence) -> Doc:
    """Return a Doc with the words and the tags that are given."""
    return Doc(vocab, words=sentence.words, tags=sentence.tags or None)


def compared(model: Path, pipeline: Path, items_of: Callable[..., Items], sentences: list[Sentence]) -> str:
    """Return in words how a model and the pipeline that was made of it differ."""
    nlp, tagger = spacy.load(pipeline), pycrfsuite.Tagger()
    pipe: Any = nlp.get_pipe("crf_tagger")
    tagger.open(str(model))
    different = n_tokens = 0
    farthest = 0.0
    for sentence in sentences:
        doc = doc_of(nlp.vocab, sentence)
        labels, marginals = tagger.tag(items_of(list(doc))), pipe.marginals(doc)
        theirs = [[tagger.marginal(label, i) for label in pipe.tags] for i in range(len(doc))]
        farthest = max(farthest, float(np.abs(marginals - theirs).max()))
        different += sum(token.tag_ != label for token, label in zip(pipe(doc), labels, strict=True))
        n_tokens += len(doc)
    return f"{len(sentences):,} sequences, {n_tokens:,} tokens, {different} labels differ, marginals by {farthest:.0e}"


if __name__ == "__main__":
    try:
        main()
    except Skip as reason:
        sys.exit(f"{reason}.")
