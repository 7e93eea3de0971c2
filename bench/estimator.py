"""The estimator `spacy_crfseq.CRF` against sklearn-crfsuite, on the task of that project's tutorial."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import chain
from typing import Any

from bench._harness import Options, Row, benchmark, in_turn, need, seconds

SETTINGS = {"algorithm": "lbfgs", "c1": 0.1, "c2": 0.1, "max_iterations": 100, "all_possible_transitions": True}
BEFORE = ("-1:word.lower()", "-1:word.istitle()", "-1:word.isupper()", "-1:postag", "-1:postag[:2]")
AFTER = tuple(key.replace("-1:", "+1:") for key in BEFORE)


@benchmark("estimator", minutes=1)
def estimator(options: Options) -> list[Row]:
    """Entities of the Spanish part of CoNLL-2002 from dictionaries of features, as in sklearn-crfsuite's tutorial:
    L-BFGS with c1 = c2 = 0.1, 100 iterations. The call is `fit(X, y)` on the same lists; the time of making them is not
    included. The third row is a bound for predictions: a loop of C looks up each item of the same dictionaries in
    another dictionary, and does nothing else. F1 is that of the tutorial (tokens of entities, weighted by label), on
    `esp.testa`."""
    from spacy_crfseq import CRF

    peer = need("sklearn_crfsuite")
    train = read(options, "esp.train")
    test, gold = read(options, "esp.testa")
    fitted: dict[str, Any] = {}
    classes = {"ours": partial(CRF, n_threads=options.threads), "sklearn-crfsuite": peer.CRF}

    def fit(name: str) -> float:
        fitted[name] = classes[name](**SETTINGS)
        return seconds(lambda: fitted[name].fit(*train))

    times = in_turn(options.rounds, {name: partial(fit, name) for name in classes}, warm=["ours"])
    predicted: dict[str, Any] = {}

    def predict(name: str) -> float:
        return seconds(lambda: predicted.update({name: fitted[name].predict(test)}))

    items = [item for sequence in test for token in sequence for item in token.items()]
    numbers = dict.fromkeys(items, 0)
    tokens = [token for sequence in test for token in sequence]

    def look_up() -> float:
        return seconds(lambda: deque(map(numbers.__getitem__, chain.from_iterable(map(dict.items, tokens))), maxlen=0))

    predictions = {**{name: partial(predict, name) for name in classes}, "look-ups": look_up}
    speeds = in_turn(options.rounds, predictions, warm=predictions)
    scores = " and ".join(f"{100 * f1(gold, predicted[name]):.2f}" for name in classes)
    losses = " and ".join(f"{fitted[name].training_log_.last_iteration['loss']:,.0f}" for name in classes)
    threads = f"{options.threads} thread{'s' * (options.threads > 1)}"
    note = f"F1 {scores}, objective {losses}"
    return [
        Row(f"fit, {threads}", "s", times["ours"], times["sklearn-crfsuite"], "sklearn-crfsuite", target=10, note=note),
        Row(f"predict, {threads}", "s", speeds["ours"], speeds["sklearn-crfsuite"], "sklearn-crfsuite"),
        Row("a look-up of each item, no more", "s", speeds["look-ups"], speeds["sklearn-crfsuite"], "sklearn-crfsuite"),
    ]


def read(options: Options, part: str) -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    """Return the features and the labels of a part of the corpus."""
    blocks = options.corpus("conll2002", part).read_text(encoding="utf8").split("\n\n")
    sentences = [[line.split() for line in block.splitlines()] for block in blocks if block.strip()]
    sentences = sentences[: options.few(300) or None]
    return [[features(sent, i) for i in range(len(sent))] for sent in sentences], [
        [row[2] for row in sent] for sent in sentences
    ]


def features(sent: list[list[str]], i: int) -> dict[str, Any]:
    """Return the features of the tutorial: of a word, and fewer of its neighbours."""
    word, tag = sent[i][:2]
    features = {
        "bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:], "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(), "word.istitle()": word.istitle(), "word.isdigit()": word.isdigit(),
        "postag": tag, "postag[:2]": tag[:2],
    }  # fmt: skip
    for place, keys, end in ((i - 1, BEFORE, "BOS"), (i + 1, AFTER, "EOS")):
        if 0 <= place < len(sent):
            word, tag = sent[place][:2]
            features |= zip(keys, (word.lower(), word.istitle(), word.isupper(), tag, tag[:2]), strict=True)
        else:
            features[end] = True
    return features


def f1(gold: list[list[str]], predicted: Any) -> float:
    """Return the F1 of tokens, averaged over all labels but "O" with the numbers of their tokens."""
    pairs = [(a, b) for these, those in zip(gold, predicted, strict=True) for a, b in zip(these, those, strict=True)]
    total = right = 0.0
    for label in {a for a, _ in pairs} - {"O"}:
        hits = sum(a == b == label for a, b in pairs)
        n_gold, n_found = sum(a == label for a, _ in pairs), sum(b == label for _, b in pairs)
        right += n_gold * 2 * hits / (n_gold + n_found)
        total += n_gold
    return right / total
