"""Review of an annotated corpus: texts with likely errors, the likeliest first, and the corpus as the user corrects it.

Models that were not trained on a text say how probable its annotation is, as in `debug-data --cross-validate`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.util import minibatch
from tqdm import tqdm

from ...cli.options import gold_tags_of
from ...corpora import DOCBIN
from ...corpora.columns import MISSING_ENTITY
from ...corpora.conllu import COLUMNS as CONLLU
from ...corpora.layouts import ANNOTATIONS, read_layout
from ...corpora.lines import ZIPPED, opened
from ...errors import ConfigError
from ...files import digest, replacing, write_json
from ...pipeline.doc_posterior import Scored
from ...pipeline.readers import read_examples
from ...pipeline.texts import chunks_key, load_docs
from ...schemes import OUTSIDE, Span, encode, find_invalid
from ...training.dataset import folds
from .._pages.judged import contradictions, log_odds, shown, spans_of_tags
from .decoding import Decoding, decode, probabilities
from .journal import Decision, Pins
from .learning import Learner, missing_tokens
from .pool import Pool, Source, hash_of, text_of
from .project import Item, Project

FOLDS, BATCH = 5, 500
"""Parts of the corpus, each of which is held out from a model; texts that are looked at together."""
RECENT = 20
"""Texts whose corrections are counted."""


class Corpus(Pool):
    """The texts of an annotated file, in its order; copies of a text are kept apart.

    decisions: Their annotation.
    RAISES CrfError: If the file cannot be read, or such a file not written.
    """

    def __init__(self, learner: Learner, source: Source) -> None:
        self.path, self.layout, self.learner = source.path, source.layout, learner
        self.column, self.decisions, self._said = learner.pipe.annotation.column, list[Decision](), dict[str, Any]()
        if self.layout.form is not None or self.layout.name == ANNOTATIONS.name:
            raise ConfigError(f"{self.path}: --review writes columns, CoNLL-U and .spacy; convert it first.")
        if self.column not in self.layout.columns:
            raise ConfigError(f"{self.path} has no column {self.column!r}. Name the columns: --format or --columns.")
        super().__init__(learner.nlp, [source])

    def refresh(self) -> int:
        """Read the file at first."""
        nlp, pipe = self.learner.nlp, self.learner.pipe
        if self.layout.name == DOCBIN:
            examples: Any = (Example(doc, doc) for doc in load_docs(self.path, nlp.vocab))
        else:
            examples = read_examples(nlp, self.path, self.layout, chunks_key=chunks_key(nlp))
        for example in examples if not self.decisions else ():
            tags = gold_tags_of(pipe, example)
            spans = spans_of_tags(tags, plain=self.learner.plain)
            unknown = tuple(i for i, tag in enumerate(tags) if tag is None)
            text = text_of(example.reference)
            item = text.words, None if text.spaces is None else bytes(text.spaces)
            number = hash_of(item)
            while number in self._numbers:
                number = (number + 1) % 2**64
            self._numbers[number] = len(self._texts)
            self._texts.append(item)
            pins = Pins(tuple(_runs(spans) if self.learner.runs else spans), (), unknown)
            self.decisions.append(Decision(f"{number:016x}", text, pins))
            self._said[self.decisions[-1].key] = _said(pins)
        return len(self)

    def key(self, number: int) -> str:
        """Return the name of a text."""
        return self.decisions[number].key

    def labels(self) -> list[str]:
        """Return all labels, the most frequent first."""
        counts = Counter(span.label for decision in self.decisions for span in decision.pins.spans)
        return [label for label, _ in counts.most_common()]

    def changes(self, decisions: Mapping[str, Decision]) -> dict[str, Pins]:
        """Return the annotation of texts that differs from that in the file."""
        new = {key: decision.pins for key, decision in decisions.items()}
        return {key: pins for key, pins in new.items() if self._said.get(key, _said(pins)) != _said(pins)}

    def write(self, path: Path, decisions: Mapping[str, Decision]) -> None:
        """Write the corpus with the annotation of some texts replaced, and all else as it is in the file."""
        changed = self.changes(decisions)
        with replacing(path) as file:
            if self.layout.name == DOCBIN:
                self._docbin(changed).to_disk(file)
            else:
                file.write_bytes(self._lines(changed).encode(self.layout.encoding))

    def _docbin(self, changed: Mapping[str, Pins]) -> DocBin:
        docs = list(load_docs(self.path, self.learner.nlp.vocab))
        for old, doc in zip(self.decisions, docs, strict=True):
            if old.key in changed:
                self.learner.gold(old._replace(pins=changed[old.key]), doc)
        attrs = DocBin().from_disk(self.path).attrs
        return DocBin(attrs, any(doc.user_data for doc in docs), docs)

    def _lines(self, changed: Mapping[str, Pins]) -> str:
        with opened(self.path) as file:
            lines = file.read().decode(self.layout.encoding).split("\n")
        sentences = list(read_layout(self.path, self.layout))
        conllu, scheme = self.layout.name == "conllu", self.layout.scheme
        at = 2 + CONLLU.index(self.column) if conllu else self.layout.columns.index(self.column)
        if scheme == "IOB1" and not any(_stray(sentence.columns[self.column]) for sentence in sentences):
            scheme = "IOB2"
        for sentence, old in zip(sentences, self.decisions, strict=True):
            if old.key not in changed:
                continue
            tags, place = sentence.columns[self.column], sentence.line - 1
            for tag in self._tags(changed[old.key], tags, scheme):
                while conllu and re.match(r"\d+[-.]", lines[place]):  # a multiword token or an empty node
                    place += 1
                field = list(re.finditer(r"[^\t\r]+" if conllu else r"[^ \t\r]+", lines[place]))[at]
                lines[place] = lines[place][: field.start()] + tag + lines[place][field.end() :]
                place += 1
        return "\n".join(lines)

    def _tags(self, pins: Pins, old: list[str], scheme: str) -> list[str]:
        """Return the tags of a text; where nothing is known, those of the file, if no other says so."""
        tags = old.copy() if self.learner.plain else encode(pins.spans, len(old), scheme)
        for start, end, label in pins.spans if self.learner.plain else ():
            tags[start:end] = [label] * (end - start)
        for token in missing_tokens(pins):
            tags[token] = MISSING_ENTITY if self.column == "ent" else old[token]
        return tags


def _runs(tokens: list[Span]) -> list[Span]:
    """Join neighbouring tokens with the same tag."""
    runs = tokens[:1]
    for token in tokens[1:]:
        if (token.start, token.label) == runs[-1][1:]:
            runs[-1] = runs[-1]._replace(end=token.end)
        else:
            runs.append(token)
    return runs


def _said(pins: Pins) -> tuple[Any, ...]:
    return pins.spans, pins.unknown, dict(pins.choices), pins.wrong


def _stray(tags: list[str]) -> bool:
    return find_invalid([OUTSIDE if tag == MISSING_ENTITY else tag for tag in tags], "IOB2") is not None


def likely_errors(learner: Learner, corpus: Corpus, path: Path) -> list[dict[str, Any]]:
    """Return texts with likely errors, the likeliest first: key, why, and spans and offers with their probabilities.

    path: The file that keeps them; it is used as long as the corpus stays the same.
    RAISES CrfError: If the models cannot be trained.
    """
    mark = digest(corpus.path)
    if path.exists() and (saved := json.loads(path.read_text(encoding="utf8")))["corpus"] == mark:
        return saved["texts"]  # type: ignore[no-any-return]
    texts, labels, found = corpus.decisions, corpus.labels(), list[dict[str, Any]]()
    parts = folds([decision.text.words for decision in texts], FOLDS)
    for held in tqdm(parts, unit=" folds", disable=None, leave=False, file=sys.stderr):
        pipe = learner.train([texts[i] for i in np.setdiff1d(np.arange(len(texts)), held)], labels)
        for numbers in minibatch(held.tolist(), BATCH):
            examples, worst = learner.examples(texts[i] for i in numbers), dict[int, tuple[float, str]]()
            answers = pipe.posterior([example.predicted for example in examples], preset=True)
            for i, stretch, p, q in contradictions(pipe, examples, answers):
                words = texts[numbers[i]].text.words
                why = f"Annotated {shown(stretch.gold, words)}, more likely {shown(stretch.predicted, words)}."
                worst[i] = max(worst.get(i, (0.0, "")), (log_odds(p, q, stretch.end - stretch.start), why))
            for i, (odds, why) in worst.items():
                if odds > 0:
                    gold, doc = texts[numbers[i]], examples[i].predicted
                    spans = probabilities(pipe, pipe.posterior([doc]), gold.pins.spans, 1)
                    others = [other for each in decode(pipe, doc, Pins(), runs=learner.runs) for other in each]
                    offers = [other for other in others if other[:3] not in gold.pins.spans]
                    found.append({"key": gold.key, "odds": odds, "why": why, "spans": spans, "offers": offers})
    found.sort(key=lambda entry: -entry["odds"])
    write_json(path, {"corpus": mark, "texts": found})
    return found


class Review(Project):
    """The state of a folder that holds a corrected corpus; nothing is learned."""

    corrected: Path

    def __init__(self, folder: Path, learner: Learner, corpus: Corpus, labels: list[str], settings: Any) -> None:
        self.corpus, self.corrected = corpus, folder / corpus.path.name.removesuffix(ZIPPED)
        if self.corrected.resolve() == corpus.path.resolve():
            raise ConfigError(f"--output {folder} holds the corpus itself. Give another folder.")
        self.suspects = {entry["key"]: entry for entry in likely_errors(learner, corpus, folder / "suspects.json")}
        names = list(dict.fromkeys([*labels, *corpus.labels()]))
        super().__init__(folder, learner, corpus, names, settings, guess=self._suspect)

    def _suspect(self, item: Item) -> Decoding:
        entry = self.suspects.get(item.key, {"spans": (), "offers": ()})
        return Decoding(*([Scored(*span) for span in entry[name]] for name in ("spans", "offers")))

    def note(self, item: Item) -> str:
        """Return why a text is shown."""
        return str(self.suspects.get(item.key, {}).get("why", ""))

    def _left(self) -> list[str]:
        done = {*self.state.decisions, *self.state.skipped, *(item.key for item in self._in_hand.values())}
        return [key for key in self.suspects if key not in done]

    def _choose(self) -> Item | None:
        number = self.pool.number(next(iter(self._left()), ""))
        return None if number is None else Item(self.pool.key(number), self._ready(self.pool.doc(number)), False)

    def summary(self) -> dict[str, Any]:
        """Return counts and advice, for the page."""
        with self._lock:
            return {**super().summary(), "review": True, "left": len(self._left())}

    def advice(self) -> str:
        """Return how many of the texts before were errors."""
        recent = dict(list(self.state.decisions.items())[-RECENT:])
        return f"Of the last {len(recent)} texts, you have corrected {len(self.corpus.changes(recent))}."

    def _warm_up(self) -> None:
        pass

    def _save(self) -> None:
        with self._lock:
            decisions = dict(self.state.decisions)
        self.corpus.write(self.corrected, decisions)

    _learn = _save
