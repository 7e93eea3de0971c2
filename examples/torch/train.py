"""Train an LSTM-CRF on the part-of-speech tags of the bundled corpus, and print what it has learned.

    python examples/torch/train.py

The network reads pieces of words, as transformers do, after a piece that begins the sentence.  The chain has the first
piece of each word alone: the mask has holes, and leaves out the first token of every sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from crf import CRF

CORPUS = Path(__file__).parents[2] / "assets" / "corpus"
PIECE, BATCH = 3, 32


class Sentences(NamedTuple):
    """Batches of sentences as tensors [B, T]: numbers of pieces, labels, and which pieces begin a word."""

    pieces: torch.Tensor
    labels: torch.Tensor
    mask: torch.Tensor


def read(path: Path) -> list[tuple[list[str], list[str]]]:
    """Return words and tags of each sentence of a file with one token a line."""
    blocks = [block.splitlines() for block in path.read_text(encoding="utf8").split("\n\n") if block.strip()]
    rows = [[line.split() for line in block] for block in blocks]
    return [([row[0] for row in sentence], [row[1] for row in sentence]) for sentence in rows]


def batches(sentences: list[tuple[list[str], list[str]]], numbers: dict[str, int]) -> list[Sentences]:
    """Return sentences as tensors; unknown pieces have the number 0, as what begins a sentence, unknown tags -1."""
    out: list[Sentences] = []
    for first in range(0, len(sentences), BATCH):
        rows: list[list[tuple[int, int, bool]]] = []
        for words, tags in sentences[first : first + BATCH]:
            rows.append([(0, 0, False)])
            for word, tag in zip(words, tags, strict=True):
                pieces = [word[k : k + PIECE].lower() for k in range(0, len(word), PIECE)]
                numbered = [numbers.get(piece, 0) for piece in pieces]
                rows[-1] += [(number, numbers.get(f" {tag}", -1), k == 0) for k, number in enumerate(numbered)]
        columns = [[torch.tensor(values) for values in zip(*row, strict=True)] for row in rows]
        padded = (torch.nn.utils.rnn.pad_sequence(list(part), batch_first=True) for part in zip(*columns, strict=True))
        out.append(Sentences(*padded))
    return out


class Tagger(torch.nn.Module):
    """Pieces of words to emissions, and the CRF over them."""

    def __init__(self, n_pieces: int, n_labels: int, width: int = 64) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(n_pieces, width)
        self.lstm = torch.nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.emit = torch.nn.Linear(2 * width, n_labels)
        self.crf = CRF(n_labels)

    def forward(self, pieces: torch.Tensor) -> torch.Tensor:
        """Return emissions [B, T, L]."""
        emissions: torch.Tensor = self.emit(self.lstm(self.embed(pieces))[0])
        return emissions


def train(folder: Path = CORPUS, epochs: int = 5, seed: int = 0) -> tuple[list[float], float]:
    """Return the loss for each word in each epoch, and the accuracy on the dev part."""
    torch.manual_seed(seed)
    sentences = read(folder / "train.conll")
    pieces = {w[k : k + PIECE].lower() for words, _ in sentences for w in words for k in range(0, len(w), PIECE)}
    tags = sorted({tag for _, own in sentences for tag in own})
    numbers = {piece: number for number, piece in enumerate(sorted(pieces), start=1)}
    numbers |= {f" {tag}": number for number, tag in enumerate(tags)}
    model, losses = Tagger(len(pieces) + 1, len(tags)), []
    optimizer, data = torch.optim.Adam(model.parameters(), lr=0.01), batches(sentences, numbers)
    for _ in range(epochs):
        total = 0.0
        for batch in data:
            optimizer.zero_grad()
            loss = -model.crf(model(batch.pieces), batch.labels, batch.mask)
            (loss / len(batch.pieces)).backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / sum(int(batch.mask.sum()) for batch in data))
    return losses, accuracy(model, batches(read(folder / "dev.conll"), numbers))


def accuracy(model: Tagger, data: list[Sentences]) -> float:
    """Return the share of words with the right label."""
    right = n_words = 0
    for batch in data:
        labels = torch.from_numpy(model.crf.chain(model(batch.pieces), batch.mask).viterbi())
        right += int((labels == batch.labels)[batch.mask].sum())
        n_words += int(batch.mask.sum())
    return right / n_words


if __name__ == "__main__":
    for number, value in enumerate((result := train())[0], start=1):
        print(f"epoch {number}: loss {value:.3f} a word")
    print(f"accuracy on the dev part: {100 * result[1]:.1f} %")
