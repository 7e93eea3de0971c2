"""A project in a folder: texts go out to a page, decisions come back, and a model learns in the background.

One thread learns.  It trains on all decisions after each of them (on several at once if they come faster), puts the new
model in the place of the old one, and ranks a sample of the texts by what they would teach for each second of the user.
All else answers at once with what there is.
"""

from __future__ import annotations

import gc
import shutil
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import processes
from ...corpora.outputs import check_output_file, check_output_pipeline, locked_folder
from ...errors import ConfigError, CrfError, DataError
from ...pipeline.doc_posterior import Scored
from ...schemes import TagSpan
from .decoding import Decoding, Worth, decode, worth
from .journal import FILE, VERSION, Decision, Journal, Pins, State, TextTokens, checked_label
from .learning import AHEAD, BEST, CONFIG, DEV, ENOUGH, TRAIN, Learner, expected_gain, time_model
from .pool import Pool, bands, text_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ...pipeline.component import CRFComponent

HELD_OUT = 5
"""Each text of this number is drawn at random, shown without predictions, and held out for scores."""
SCORED = 5
"""Texts that are held out, at least, before scores are shown."""
SAMPLE, QUEUE = 400, 40
"""Texts that are ranked after each training, and the number of those that are kept."""
SAVE_EVERY = 5.0
"""Seconds between two models on disk, at least."""
CLASSES, CLASSES_LOG = "classes.tsv", "classes.log"
"""The file of classes of words, and what the command that learns them says."""
TABS = 8
"""Pages that hold a text at the same time."""


class ConflictError(CrfError):
    """A text has been decided elsewhere since it was shown."""


class Model(NamedTuple):
    """A trained component and the number of texts that it has learned from, beside those of a trained pipeline."""

    pipe: CRFComponent
    texts: int


class Item(NamedTuple):
    """A text that a page shows, with an earlier decision to change, if there is one."""

    key: str
    doc: Doc
    held_out: bool
    decision: Decision | None = None


class Project:
    """The state of a folder; close it to release the lock.

    settings: What must be the same when the folder is opened again: the task, the seed and more.
    guess: Spans of a text, and others that may be there, before there is a model, such as those of phrases.
    classes: Arguments of `word-classes`, which learns classes of words from the texts meanwhile; None for no classes.
    inputs: Files and pipelines that are read, which must not be among those that are written.
    RAISES ConfigError: If another process has it open, the settings differ, or a new project would write over a file.
    """

    corrected: Path | None = None
    """The file of a corpus that is corrected."""

    def __init__(
        self,
        folder: Path,
        learner: Learner,
        pool: Pool,
        labels: Sequence[str],
        settings: dict[str, Any],
        *,
        guess: Callable[[Item], Decoding] | None = None,
        classes: Sequence[str] | None = None,
        inputs: Sequence[str | Path] = (),
    ) -> None:
        self.folder, self.learner, self.pool, self.random = folder, learner, pool, Random(settings["seed"])
        self._guess = guess
        self._lock, self._open = threading.RLock(), ExitStack()
        self._wake, self._stopped, self._idle = threading.Event(), False, threading.Event()
        self._wake.set()
        self._open.enter_context(locked_folder(folder))
        try:
            check_output_file(folder / FILE, *inputs, force=True)
            self.journal = Journal(folder / FILE)
            self._open.callback(self.journal.close)
            self._check_outputs(inputs)
            self._begin(settings, labels)
        except BaseException:
            self._open.close()
            raise
        first = learner.first()
        self._first = self.model = None if first is None else Model(first, 0)
        self._troubles = dict[str, str]()
        self._in_hand: OrderedDict[str, Item] = OrderedDict()
        self._queue: list[int] = []
        self._seen: set[int] = set()
        self._saved = 0.0
        self._classes, self._process = classes, list[subprocess.Popen[bytes]]()
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)
        for decision in self.state.decisions.values():
            self._seen |= bands(learner.doc(decision.text))

    @property
    def state(self) -> State:
        """The decisions so far."""
        return self.journal.state

    @property
    def trouble(self) -> str:
        """The error of the work in the background, if it has not worked since."""
        return " ".join(self._troubles.values())

    def outputs(self) -> list[str]:
        """Return the names of what is written beside the journal."""
        return [BEST, TRAIN, DEV, CONFIG, CLASSES, CLASSES_LOG]

    def _check_outputs(self, inputs: Sequence[str | Path]) -> None:
        begun = bool(self.state.settings)
        for path in (self.folder / name for name in self.outputs()):
            check = check_output_pipeline if path.name == BEST else check_output_file
            check(path, *inputs, force=begun, instead="It is not of this project. Give another folder.")

    def _begin(self, settings: dict[str, Any], labels: Sequence[str]) -> None:
        before = self.state.settings
        for name, value in settings.items():
            if before and before.get(name) != value:
                raise ConfigError(f"{self.folder} was begun with {name} {before.get(name)}, not {value}.")
        if not before:
            self.journal.add({"kind": "begin", "version": VERSION, "settings": settings})
        names = dict.fromkeys([*(self.learner.source.labels if self.learner.source else ()), *labels])
        self.add_labels([label for label in names if label not in self.state.labels])

    def start(self) -> None:
        """Begin to learn."""
        gc.collect()
        gc.freeze()  # collections are short without the texts
        self._thread.start()
        if self._classes is not None and not (self.folder / CLASSES).exists():
            threading.Thread(target=self._learn_classes, args=(self._classes,), daemon=True).start()

    def _learn_classes(self, arguments: Sequence[str]) -> None:
        """Run the command `word-classes`; without it, or with too few words, there are no classes."""
        command = ["word-classes", *arguments]
        settings = ["-o", str(self.folder / CLASSES), "--sizes", "200", "--min-count", "3", "--n-threads", "1"]
        settings.append("--force")  # an earlier run may have been stopped
        slowly = ["nice"] if shutil.which("nice") else []
        with (self.folder / CLASSES_LOG).open("wb") as log:
            streams: Any = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self._process.append(processes.start([*command, *settings], *slowly, start_new_session=True, **streams))
        if self._process[0].wait() == 0:
            self._change()

    def close(self) -> None:
        """Stop learning, save what has been learned, and let others open the folder."""
        self._stopped = True
        for process in self._process:
            process.terminate()
        self._wake.set()
        with self._open:
            if self._thread.is_alive():
                self._thread.join()
                self._save()

    def settle(self, seconds: float = 60.0) -> bool:
        """Wait until the model has learned from all decisions; return whether it has."""
        return self._idle.wait(seconds)

    # What the page asks

    def add_labels(self, names: Sequence[str]) -> None:
        """Add labels.  RAISES DataError: If one cannot be a label."""
        with self._lock:
            new = [name for name in dict.fromkeys(map(checked_label, names)) if name not in self.state.labels]
            if new:
                self.journal.add({"kind": "label", "names": new})
                self._change()

    def next(self, tab: str, wanted: str = "", held_out: bool = False) -> Item | None:
        """Return the text that a page has in hand, or else the next one; None if there is none left.

        wanted, held_out: The text that the page shows, which this process has forgotten if it was started since.
        """
        with self._lock:
            if tab in self._in_hand:
                return self._in_hand[tab]
            item = self._again(wanted, held_out) or self._choose()
            if item is not None:
                self._hand(tab, item)
            return item

    def _again(self, key: str, held_out: bool) -> Item | None:
        busy, number = {item.key for item in self._in_hand.values()}, self.pool.number(key)
        if key in busy or key in self.state.decisions or key in self.state.skipped:
            return None
        return None if number is None else Item(key, self._ready(self.pool.doc(number)), held_out)

    def _hand(self, tab: str, item: Item) -> None:
        self._in_hand[tab] = item
        while len(self._in_hand) > TABS:
            self._in_hand.popitem(last=False)

    def _choose(self) -> Item | None:
        state, busy = self.state, {item.key for item in self._in_hand.values()}
        total = len(state.decisions) + len(busy)
        held = len(state.held_out) + sum(item.held_out for item in self._in_hand.values())
        out, number = self._out(busy), None
        held_out = (total + 1) // HELD_OUT > held
        while self._queue and not held_out and number is None:
            first = self._queue.pop(0)
            chosen = first in self.pool and first not in out and not bands(self.pool.doc(first)) & self._seen
            number = first if chosen else None
        if number is None:
            number = next(self.pool.draw(self.random, out), None)
        if number is None:
            self._do(self.pool.refresh)
            number = next(self.pool.draw(self.random, out), None)
        return None if number is None else Item(self.pool.key(number), self._ready(self.pool.doc(number)), held_out)

    def _out(self, busy: set[str]) -> set[int]:
        keys = (*self.state.decisions, *self.state.skipped, *busy)
        return {number for number in map(self.pool.number, keys) if number is not None}

    def _ready(self, doc: Doc) -> Doc:
        return self.learner.ready([doc])[0]

    def item(self, tab: str, key: str, held_out: bool = False) -> Item:
        """Return the text that a page has in hand.  RAISES ConflictError: If it has another one."""
        with self._lock:
            item = self.next(tab, key, held_out)
            if item is None or item.key != key:
                raise ConflictError("This page holds another text now. The next one is shown.")
            return item

    def note(self, item: Item) -> str:
        """Return the note of the page on a text."""
        return ""

    def found_by(self, item: Item) -> list[tuple[int, int, str, str]]:
        """Return spans of a text with the names of those that have found them."""
        return []

    def decode(self, item: Item, pins: Pins) -> tuple[Decoding, int | None]:
        """Return the answers of the model for a text, given those of the user, and how many texts it has learned.

        RAISES DataError: On a label that the project does not have, and on what is impossible.
        """
        self._check_labels(pins)
        model = self.model
        if model is None or item.held_out:
            return self._without_model(item, pins), None
        for name in self.state.labels:  # one that the page has added since
            if name not in model.pipe.labels:
                model.pipe.add_label(name)
        return decode(model.pipe, item.doc, pins, runs=self.learner.runs), model.texts

    def _without_model(self, item: Item, pins: Pins) -> Decoding:
        """Return the spans that are guessed in a text, where the user says nothing else; none if it is held out."""
        guess = self._guess(item) if self._guess is not None and not item.held_out else Decoding([], [])
        taken = {t for start, end, _ in pins.spans for t in range(start, end)} | set(pins.outside)
        shown = [Scored(*span, 1.0) for span in pins.spans]
        wrong = {(*span,) for span in pins.wrong}
        kept = [span for span in guess.spans if span[:3] not in wrong]
        shown += [span for span in kept if taken.isdisjoint(range(span.start, span.end))]
        there = {span[:3] for span in shown} | wrong
        offers = [offer for offer in (*guess.spans, *guess.offers) if offer[:3] not in there]
        return Decoding(sorted(shown), offers)

    def _check_labels(self, pins: Pins) -> None:
        for label in sorted(pins.labels.difference(self.state.labels)):
            raise DataError(f"{label!r} is not among the labels. Add it first.")

    def accept(self, tab: str, entry: dict[str, Any]) -> None:
        """Write a decision; a second one with the same id is the first.

        RAISES DataError: If it is malformed.
        RAISES ConflictError: If the page does not hold this text.
        RAISES OSError: If it cannot be written.
        """
        with self._lock:
            if entry["id"] in self.state.ids:
                return
            item = self.item(tab, entry["key"], entry.get("held_out") is True)
            text = text_of(item.doc)
            decision = Decision.of({**entry, "text": text._asdict(), "held_out": item.held_out})
            self._check_labels(decision.pins)
            self.journal.add({**decision.as_json(), "time": round(time.time(), 3)})
            self._seen |= bands(item.doc)
            self._done(tab)

    def skip(self, tab: str, key: str, id_: str) -> None:
        """Put a text aside.  Raises as `accept`."""
        with self._lock:
            if id_ not in self.state.ids:
                text = text_of(self.item(tab, key).doc)
                self.journal.add({"kind": "skip", "key": key, "text": text._asdict(), "id": id_})
                self._done(tab)

    def _done(self, tab: str) -> None:
        self._in_hand.pop(tab, None)
        self._change()

    def _change(self) -> None:
        self._idle.clear()
        self._wake.set()

    def undo(self, tab: str, id_: str) -> Item | None:
        """Take back the last decision and give its text to the page; None if there is nothing to take back."""
        with self._lock:
            if id_ in self.state.ids:
                return self._in_hand.get(tab)
            last = self.state.last()
            if last is None:
                return None
            key, what = last
            if any(item.key == key for other, item in self._in_hand.items() if other != tab):
                raise ConflictError("The last text is open in another page.")
            decision = what if isinstance(what, Decision) else None
            doc = self.learner.doc(what.text if isinstance(what, Decision) else what)
            item = Item(key, self._ready(doc), decision is not None and decision.held_out, decision)
            self.journal.add({"kind": "undo", "key": key, "id": id_})
            self._done(tab)
            self._hand(tab, item)
            return item

    def summary(self) -> dict[str, Any]:
        """Return counts, scores, the learning curve and advice, for the page."""
        with self._lock:
            state, curve = self.state, [model for model in self.state.curve if model["held_out"] >= SCORED]
            counts = dict.fromkeys(state.labels, 0)
            for decision in state.decisions.values():
                for _, _, label in decision.pins.spans:
                    counts[label] = counts.get(label, 0) + 1
            last = curve[-1] if curve else {}
            by_label = last.get("by_label", {})
            return {
                "task": state.settings["task"],
                "labels": [{"name": name, "count": n, "f1": by_label.get(name)} for name, n in counts.items()],
                "texts": len(state.learned), "held_out": len(state.held_out), "skipped": len(state.skipped),
                "left": max(len(self.pool) - len(self._out(set())), 0),
                "model": self.model.texts if self.model else None, "f1": last.get("f1"), "low": last.get("low"),
                "high": last.get("high"), "curve": [[c["texts"], c["f1"], c["low"], c["high"]] for c in curve],
                "advice": self.advice(), "trouble": self.trouble,
                "seconds": sum(decision.seconds for decision in state.decisions.values()),
            }  # fmt: skip

    def advice(self) -> str:
        """Return whether more texts are worth the time."""
        gain, held = expected_gain(self.state.curve), len(self.state.held_out)
        if gain is None:
            return "" if held >= SCORED else "Scores appear after five texts without predictions (each fifth text)."
        if gain < ENOUGH:
            return f"You may stop: {AHEAD} more texts are expected to add less than {100 * ENOUGH:g} points of F1."
        return f"{AHEAD} more texts are expected to add {100 * gain:.1f} points of F1."

    # What goes on in the background

    def _work(self) -> None:
        self._do(self._warm_up)
        while not self._stopped:
            self._wake.wait()
            self._wake.clear()
            if not self._stopped:
                self._do(self._learn)
            if not self._wake.is_set():
                self._idle.set()
                wait = self._saved + SAVE_EVERY - time.monotonic()
                if self.model and not self._wake.wait(max(wait, 0)):
                    self._do(self._save)
                    self._wake.wait()

    def _do(self, work: Callable[[], object]) -> None:
        name = work.__name__
        try:
            work()
            self._troubles.pop(name, None)
        except (CrfError, OSError) as error:
            self._troubles[name] = str(error)
        except Exception as error:  # the page must go on, and say so
            self._troubles[name] = f"The model could not be trained: {error!r}"

    def _warm_up(self) -> None:
        """Load the kernels before the first text is accepted."""
        labels = self.state.labels or ["A"]
        texts = [TextTokens(("Aa", "b", str(i), "."), None) for i in range(4)]
        made = [Decision("", text, Pins((TagSpan(0, 1, labels[0]),), (), ())) for text in texts]
        if not self.state.learned:
            pipe = self.learner.train(made, labels)
            decode(pipe, self.learner.doc(texts[0]), Pins(), runs=self.learner.runs)
            worth(pipe, [self.learner.doc(text) for text in texts])

    def _learn(self) -> None:
        if self._classes is not None and (self.folder / CLASSES).exists():
            self.learner.use_classes(self.folder / CLASSES)
            self._classes = None
        with self._lock:
            learned, held_out, labels = self.state.learned, self.state.held_out, list(self.state.labels)
        if learned and labels and any(d.pins.spans or self.learner.plain is False for d in learned):
            pipe = self.learner.train(learned, labels)
            scored = self.learner.scored(pipe, held_out, labels)
            with self._lock:
                self.model = Model(pipe, len(learned))
                if not self.state.curve or self.state.curve[-1]["texts"] != len(learned):
                    actions = sum(decision.actions for decision in learned)
                    counts = {"texts": len(learned), "held_out": scored.texts, "actions": actions}
                    self.journal.add({"kind": "model", **scored._asdict(), **counts})
            del pipe
            gc.collect()  # the model before, at once
        elif not learned:
            self.model = self._first
        if not self._wake.is_set():
            self._rank()

    def _rank(self) -> None:
        """Choose the next texts from a sample."""
        model = self.model
        if model is None:
            return
        self.pool.refresh()
        with self._lock:
            out = self._out({item.key for item in self._in_hand.values()})
            draw = self.pool.draw(self.random, out)
            numbers = [number for _, number in zip(range(SAMPLE), draw, strict=False)]
            rows = [(len(d.text.words), len(d.pins.spans), d.actions, d.seconds) for d in self.state.learned]
        if numbers:
            docs = self.learner.ready(map(self.pool.doc, numbers))
            order = np.argsort(-value_for_time(worth(model.pipe, docs), time_model(rows)), kind="stable")
            self._queue = [numbers[i] for i in order[:QUEUE].tolist()]

    def _save(self) -> None:
        model = self.model
        if model is not None and model is not self._first:
            with self._lock:
                learned, held_out = self.state.learned[: model.texts], self.state.held_out
            self.learner.save(self.folder, model.pipe, learned, held_out)
        self._saved = time.monotonic()


def value_for_time(worth: Worth, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy of texts for each second of a user.

    seconds: Those for a text, a token, a span and an action.
    Settles, Craven & Friedland (2008), "Active learning with real annotation costs".
    """
    actions = 1 + worth.wrong + 2 * worth.missed
    cost = np.column_stack([np.ones(len(actions)), worth.tokens, worth.spans, actions]) @ seconds
    value: NDArray[np.float64] = worth.entropy / cost
    return value
