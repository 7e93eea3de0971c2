"""Review of an annotated corpus: texts with likely errors, the likeliest first, and the corpus as the user corrects it.

Models that were not trained on a text say how probable its annotation is, as in `debug-data --cross-validate`.
"""

from __future__ import annotations

import json
import re
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE, lookup
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from spacy.tokens import DocBin
from spacy.training import Example
from tqdm import tqdm

from ...cli.inputs import gold_tags_of
from ...corpora import DOCBIN
from ...corpora.columns import MISSING_ENTITY
from ...corpora.conllu import COLUMNS as CONLLU
from ...corpora.layouts import read_layout
from ...corpora.lines import ZIPPED, opened
from ...errors import ConfigError, DataError
from ...files import digest, replacing, write_json
from ...pipeline.corpus_reader import read_examples
from ...pipeline.doc_posterior import Scored
from ...pipeline.texts import chunks_key, load_docs
from ...schemes import OUTSIDE, TagSpan, decode_lenient, encode, find_invalid
from ...training.dataset import folds
from .._pages.judged import spans_of_tags
from .._pages.label_errors import LabelError, label_errors, shown
from .decoding import Decoding, decode, probabilities
from .journal import Decision, Pins
from .learning import Learner, missing_tokens
from .pool import Pool, TextFile, hash_of, text_of
from .project import Item, Project
from .values import string

FOLDS = 5
"""Number of parts of the corpus, each of which is held out from a model."""
SUSPECTS = "suspects.json"
"""The file of texts with likely errors."""
RECENT = 20
"""Texts whose corrections are counted."""


class AnnotatedFile(Pool):
    """The texts of an annotated file, in its order; copies of a text are kept apart.

    A text is known by its words and its annotation in the file, so decisions stay with it when others are edited.

    decisions: Their annotation.
    mark: The digest of the file; nothing is written of another one.
    RAISES CrfError: If the file cannot be read, or such a file not written.
    """

    def __init__(self, learner: Learner, source: TextFile) -> None:
        self.path, self.layout, self.learner = source.path, source.layout, learner
        self.column, self.decisions, self._said = learner.pipe.annotation.column, list[Decision](), dict[str, Any]()
        if self.layout.form is not None or self.layout.spans is not None:
            raise ConfigError(f"{self.path}: --review writes columns, CoNLL-U and .spacy; convert it first.")
        if self.column not in self.layout.columns:
            raise ConfigError(f"{self.path} has no column {self.column!r}. Name the columns: --format or --columns.")
        self.mark = digest(source.path)
        super().__init__(learner.nlp, [source])
        self._check_mark()

    def _check_mark(self) -> None:
        """Check, after the file was read once more, that it still is the one that was read first."""
        if digest(self.path) != self.mark:
            what = "the file has changed since the command has read it, so the corrected corpus was not written"
            raise DataError(f"{self.path}: {what}. Decisions are saved: end the command and give it again.")

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
            pins = Pins(tuple(_runs(spans) if self.learner.runs else spans), (), unknown)
            text = text_of(example.reference)
            number = hash_of(json.dumps([text, pins.as_json()]))
            while number in self._numbers:
                number = (number + 1) % 2**64
            self._numbers[number] = len(self._texts)
            self._texts.append((text.words, None if text.spaces is None else bytes(text.spaces)))
            self.decisions.append(Decision(f"{number:016x}", text, pins))
            self._said[self.decisions[-1].key] = _said(pins)
        self._present = frozenset(range(len(self._texts)))
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
        """Write the corpus with the annotation of some texts replaced, and all else as it is in the file.

        RAISES DataError: If the file is not the one that was read first; then nothing is written.
        """
        changed = self.changes(decisions)
        with replacing(path) as file:
            if self.layout.name == DOCBIN:
                self._docbin(changed).to_disk(file)
            else:
                file.write_bytes(self._lines(changed))
            self._check_mark()

    def _docbin(self, changed: Mapping[str, Pins]) -> DocBin:
        """Return the Docs of the file, of which only those that have changed are packed anew."""
        docs = load_docs(self.path, self.learner.nlp.vocab)
        binary = DocBin()
        binary.from_disk(self.path)
        for i, (old, doc) in enumerate(zip(self.decisions, docs, strict=True)):
            if old.key in changed:
                single = DocBin(store_user_data=True)
                single.attrs = binary.attrs
                single.add(self.learner.gold(old._replace(pins=changed[old.key]), doc))
                for name in ("tokens", "cats", "span_groups"):
                    getattr(binary, name)[i] = getattr(single, name)[0]
                binary.user_data[i] = single.user_data[0] if doc.user_data else None
                binary.strings |= single.strings
        binary.store_user_data = any(data is not None for data in binary.user_data)
        return binary

    def _lines(self, changed: Mapping[str, Pins]) -> bytes:
        """Return the bytes of the file with other tags in some fields."""
        with opened(self.path) as file:
            data = file.read()
        encoding = _plain_encoding(self.layout.encoding, data)
        lines = data.decode(encoding).split("\n")
        sentences = list(read_layout(self.path, self.layout))
        conllu, scheme = self.layout.name == "conllu", self.layout.scheme
        at = 2 + CONLLU.index(self.column) if conllu else self.layout.columns.index(self.column)
        field = r"(?<![^\t])[^\t]*" if conllu else r"[^ \t\r]+"
        if scheme == "IOB1" and all(
            find_invalid(_known(sentence.columns[self.column]), "IOB2") is None for sentence in sentences
        ):
            scheme = "IOB2"
        for sentence, old in zip(sentences, self.decisions, strict=True):
            if old.key not in changed:
                continue
            tags, place = sentence.columns[self.column], sentence.line - 1
            for before, tag in zip(tags, self._tags(changed[old.key], old.pins, tags, scheme), strict=True):
                while conllu and re.match(r"\d+[-.]", lines[place]):  # a multiword token or an empty node
                    place += 1
                if tag != before:
                    start, end = [match.span() for match in re.finditer(field, lines[place])][at]
                    lines[place] = lines[place][:start] + tag + lines[place][end:]
                place += 1
        try:
            return "\n".join(lines).encode(encoding)
        except UnicodeEncodeError as error:
            label = error.object[error.start : error.end]
            raise DataError(f"{self.path} is in {encoding}, which has no {label!r}. Take another label.") from None

    def _tags(self, pins: Pins, before: Pins, old: list[str], scheme: str) -> list[str]:
        """Return the tags of a text; those of the file stay where the user has changed nothing.

        before: What they say.
        """
        if self.learner.plain:
            tags = old.copy()
            for start, end, label in set(pins.spans).difference(before.spans):
                tags[start:end] = [label] * (end - start)
            return tags
        missing, tags = missing_tokens(pins), encode(pins.spans, len(old), scheme)
        if self.column == "ent":
            for token in missing:
                tags[token] = MISSING_ENTITY
        kept = old.copy()
        for start, end, _ in set(pins.spans).symmetric_difference(before.spans):
            kept[start:end] = tags[start:end]
        for token in missing.symmetric_difference(before.unknown):
            kept[token] = tags[token]
        same = decode_lenient(_known(kept)) == list(pins.spans)
        stays = find_invalid(_known(kept), scheme) is None or find_invalid(_known(old), scheme) is not None
        return kept if same and stays else tags


def _runs(tokens: list[TagSpan]) -> list[TagSpan]:
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


def _known(tags: list[str]) -> list[str]:
    return [OUTSIDE if tag == MISSING_ENTITY else tag for tag in tags]


def _plain_encoding(encoding: str, data: bytes) -> str:
    """Return the encoding in which the bytes of a file stay the same, with its byte order mark as a character.

    RAISES DataError: If there is none.
    """
    big, name = data.startswith((BOM_UTF16_BE, BOM_UTF32_BE)), lookup(encoding).name
    little = data.startswith((BOM_UTF16_LE, BOM_UTF32_LE)) or (not big and sys.byteorder == "little")
    plain = {"utf-8-sig": "utf-8"}.get(name, name)
    if name in ("utf-16", "utf-32"):
        plain = f"{name}-{'le' if little else 'be'}"
    if data.decode(plain).encode(plain) != data:
        raise DataError(f"A file in {encoding} cannot be written again byte by byte. Convert it to utf8 first.")
    return plain


def _check(entry: dict[str, Any]) -> None:
    """RAISES ValueError, KeyError or TypeError: If an entry that was saved is damaged."""
    string(entry["key"], "key")
    string(entry["why"], "why")
    _scored(entry)


def likely_errors(learner: Learner, corpus: AnnotatedFile, path: Path) -> list[dict[str, Any]]:
    """Return texts with likely errors, the likeliest first: key, why, and spans and offers with their probabilities.

    path: The file that keeps them; it is used as long as the corpus stays the same.
    RAISES CrfError: If the models cannot be trained.
    """
    mark = corpus.mark
    with suppress(OSError, ValueError, RecursionError, KeyError, TypeError):  # none yet, or damaged: search again
        saved = json.loads(path.read_text(encoding="utf8"))
        for entry in saved["texts"] if saved["corpus"] == mark else ():
            _check(entry)
        if saved["corpus"] == mark:
            return saved["texts"]  # type: ignore[no-any-return]
    texts, labels, entries = corpus.decisions, corpus.labels(), list[dict[str, Any]]()
    parts = folds([decision.text.words for decision in texts], FOLDS)
    for held in tqdm(parts, unit=" folds", disable=None, leave=False, file=sys.stderr):
        pipe = learner.train([texts[i] for i in np.setdiff1d(np.arange(len(texts)), held)], labels)
        examples = learner.examples(texts[i] for i in held.tolist())
        worst = dict[int, LabelError]()
        for error in label_errors(pipe, examples):
            worst[error.text] = max(worst.get(error.text, error), error, key=lambda error: error.log_odds)
        for i, error in worst.items():
            gold, doc, stretch = texts[held[i]], examples[i].predicted, error.stretch
            said, likelier = (shown(spans, gold.text.words) for spans in (stretch.gold, stretch.predicted))
            spans = probabilities(pipe, pipe.posterior([doc]), gold.pins.spans, 1)
            others = [other for of_text in decode(pipe, doc, Pins(), runs=learner.runs) for other in of_text]
            entry = {
                "key": gold.key,
                "odds": error.log_odds,
                "why": f"Annotated {said}, more likely {likelier}.",
                "spans": spans,
                "offers": [other for other in others if other[:3] not in gold.pins.spans],
            }
            entries.append(entry)
    entries.sort(key=lambda entry: -entry["odds"])
    write_json(path, {"corpus": mark, "texts": entries})
    return entries


def _scored(entry: Mapping[str, Any]) -> Decoding:
    """Return the spans of an entry of `likely_errors`.  Raises TypeError, KeyError or ValueError on a damaged one."""
    return Decoding(*([Scored(*span) for span in entry[name]] for name in ("spans", "offers")))


class Review(Project):
    """The state of a folder that holds a corrected corpus; nothing is learned."""

    corrected: Path

    def __init__(
        self,
        folder: Path,
        learner: Learner,
        corpus: AnnotatedFile,
        labels: list[str],
        settings: dict[str, Any],
        inputs: Sequence[str | Path],
    ) -> None:
        self.corpus, self.corrected = corpus, folder / corpus.path.name.removesuffix(ZIPPED)
        names = list(dict.fromkeys([*labels, *corpus.labels()]))
        super().__init__(folder, learner, corpus, names, settings, guess=self._suspect, inputs=inputs)
        try:
            self.suspects = {entry["key"]: entry for entry in likely_errors(learner, corpus, folder / SUSPECTS)}
        except BaseException:
            self.close()
            raise

    def outputs(self) -> list[str]:
        """Return the names of what is written beside the journal."""
        return [self.corrected.name, SUSPECTS]

    def _suspect(self, item: Item) -> Decoding:
        return _scored(self.suspects.get(item.key, {"spans": (), "offers": ()}))

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
        """Return how many of the texts before were errors, and how many decisions are of texts that have changed."""
        recent = dict(list(self.state.decisions.items())[-RECENT:])
        corrected = f"Of the last {len(recent)} texts, you have corrected {len(self.corpus.changes(recent))}."
        lost = sum(self.pool.number(key) is None for key in self.state.decisions)
        gone = f" Decisions on texts that are no longer in the file (or annotated otherwise there): {lost:,}."
        return corrected + gone * bool(lost)

    def _warm_up(self) -> None:
        pass

    def _save(self) -> None:
        with self._lock:
            decisions = dict(self.state.decisions)
        self.corpus.write(self.corrected, decisions)

    _learn = _save
