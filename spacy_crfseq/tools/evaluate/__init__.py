"""``crfseq evaluate``: score a pipeline on a corpus file as the CoNLL shared tasks do, and time it.

The report is that of conlleval, the scorer of these tasks (Tjong Kim Sang & Buchholz, 2000).  A span counts as correct
if its type and both its ends are.  Accuracy is that of the IOB2 tags of all tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cli.inputs import layout_of, show_layout
from ...corpora import DOCBIN, SPAN_COLUMNS, Preset
from ...corpora.layouts import Asked, Format, as_options, file_columns
from ...errors import ConfigError, DataError
from ...pipeline.select import load_pipeline
from ...pipeline.texts import chunks_key, missing_columns, names_of, predicted_columns
from ...prf import PRF, SEQUENCES, prf
from ...schemes import OUTSIDE, TagSpan
from .._pages.coverage import coverage
from .._pages.spans import FAMILIAR, Familiarity, text_of
from .against import SAMPLES, Compared, compare

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

SPEED = "tokens_per_second"
WARM_UP = 32
MOST = 100
"""Rows of a table of tags: words have more lemmas."""


class Evaluation(NamedTuple):
    """Scores under spaCy's names with the speed, a report in conlleval's form, and the comparison with a rival."""

    metrics: dict[str, Any]
    report: str
    comparison: Compared | None = None


class Rival(NamedTuple):
    """A pipeline to compare with, the CRF components that are compared (none: all), and samples of the bootstrap."""

    model: str
    components: Sequence[str] = ()
    samples: int = SAMPLES


class Units(NamedTuple):
    """The gold and the predicted spans of each text in a column, and whether each token is annotated.

    Tags are spans of one token.  Spans that touch a token without gold annotation are left out.
    """

    gold: list[list[TagSpan]]
    found: list[list[TagSpan]]
    known: list[list[bool]]

    def rows(self) -> dict[str, tuple[int, int, int]]:
        """Return the numbers of correct, predicted and gold spans of each label."""
        gold, n_predicted = (Counter(span.label for spans in texts for span in spans) for texts in self[:2])
        pairs = zip(self.gold, self.found, strict=True)
        right = Counter(span.label for of_text, predicted in pairs for span in set(of_text) & set(predicted))
        return {label: (right[label], n_predicted[label], gold[label]) for label in sorted({*gold, *n_predicted})}

    def tokens(self) -> tuple[int, int]:
        """Return the number of annotated tokens with the correct tag, and of all annotated tokens."""
        right = 0
        for gold, predicted, mask in zip(*self, strict=True):
            tags = zip(_tags(gold, len(mask)), _tags(predicted, len(mask)), mask, strict=True)
            right += sum(a == b for a, b, is_known in tags if is_known)
        return right, sum(map(sum, self.known))

    def report(self, *, spans: bool = True) -> str:
        """Return the report of conlleval; without spans, that of tags, with a row each unless there are too many."""
        rows, (right, tokens) = self.rows(), self.tokens()
        correct, predicted, gold = map(sum, zip((0, 0, 0), *rows.values(), strict=True))
        head = f"processed {tokens} tokens with {gold} phrases; found: {predicted} phrases; correct: {correct}."
        total = f"accuracy: {100 * right / max(1, tokens):6.2f}%; {scores_line(gold, predicted, correct)}"
        width = max(17, *map(len, [*rows, ""]))
        lines = [f"{label:>{width}}: {scores_line(*row[::-1])}  {row[1]}" for label, row in rows.items()]
        if not spans:
            head, total = f"processed {tokens} tokens; correct: {right}.", total.partition(";")[0]
            lines = lines if len(lines) <= MOST else []
        return "\n".join([head, total, *lines])


def evaluate(
    model: str | Path,
    file: Path,
    layout: Format = None,
    corpus: Path | None = None,
    given: str | None = None,
    raw: bool = False,
    rival: Rival | None = None,
) -> Evaluation:
    """Score a pipeline on a corpus file.

    corpus (Path | None): Training corpus; scores of what it holds and of what it does not are then under "seen".
    raw (bool): Also score it on the texts as they are, see `score_raw`; these metrics are under "raw".
    RAISES CrfError: If the pipeline predicts nothing that the file holds, or the file cannot be read.
    """
    from ...pipeline.component import CRFComponent
    from ...pipeline.gold_file import read_gold
    from ...pipeline.white_space import wordwise

    nlp, inputs = load_pipeline(model), names_of(given)
    preset = layout_of(file, layout, nlp)
    needed = missing_columns(nlp, preset) if inputs is None else inputs
    _scored_columns(nlp, preset, file_columns(preset), needed)  # before the file is read
    gold = read_gold(nlp, file, preset, inputs)
    if raw and gold.given:
        raise ConfigError(f"--raw: features read {', '.join(gold.given)}, columns that raw text does not have.")
    scored = _scored_columns(nlp, preset, gold.columns, gold.given)
    annotated, seconds = run_pipeline(nlp, gold.examples)
    key, judged = chunks_key(nlp), list(map(wordwise, annotated))
    units = {name: _units(judged, name, key) for name in scored}
    main = preset.score if preset.name != DOCBIN and preset.score in scored else scored[-1]
    metrics, blocks = _scores(nlp, annotated, units, main, seconds)
    if gold.n_unusable and "ent" in units:
        metrics["ents_unusable"] = gold.n_unusable
        blocks.insert(-1, _unusable_note(units["ent"], gold.n_unusable))
    if any(pipe.cfg["cover"] for _, pipe in nlp.pipeline if isinstance(pipe, CRFComponent)):
        for name in (name for name in units if name in SPAN_COLUMNS):
            covered = coverage(*units[name][:2])
            metrics[f"{_prefix(name, key)}covered"] = covered.as_json()
            blocks.append("\n".join(covered.lines()))
    if corpus is not None:
        as_file = Asked(skip_invalid=preset.skip_invalid)
        learned = read_gold(nlp, corpus, show_layout(corpus, as_file, preset), inputs).examples
        training, words = list(map(wordwise, learned)), [_words(example.reference) for example in judged]
        seen = {name: _seen(of, _units(training, name, key).gold, training, words, name) for name, of in units.items()}
        metrics["seen"] = {name: rows for name, (rows, _) in seen.items()}
        blocks += [block for _, block in seen.values()]
    if raw:
        examples = read_gold(nlp, file, preset, (), documents=True).examples
        blocks.append(_add_raw(metrics, nlp, [example.reference for example in examples], scored))
    elif note := _tokenizer_note(nlp, [example.reference for example in annotated]):
        blocks.append(note)
    comparison = rival and compare(
        (rival.model, load_pipeline(rival.model)), (str(model), nlp), file, preset,
        component=rival.components, given=inputs, samples=rival.samples,
    )  # fmt: skip
    return Evaluation(metrics, "\n\n".join(blocks), comparison)


def _scored_columns(nlp: Language, layout: Preset, columns: Sequence[str], given: Sequence[str]) -> list[str]:
    predicted, wanted = predicted_columns(nlp), [name for name in columns if name not in given]
    scored = [name for name in wanted if name in predicted]
    if not scored:
        raise ConfigError(
            f"Nothing to score: the pipeline {list(nlp.pipe_names)} predicts {', '.join(sorted(predicted)) or 'none'}, "
            f"but the columns of {as_options(layout)} that it has to predict are {', '.join(wanted) or 'none'}. Check "
            "the layout and --given."
        )
    return scored


def run_pipeline(nlp: Language, examples: Sequence[Example]) -> tuple[list[Example], float]:
    """Return examples with annotated predicted docs, and the seconds it took, with warm kernels and caches.

    RAISES DataError: If a component changes the tokens.
    """
    from spacy.training import Example

    list(nlp.pipe([example.predicted.copy() for example in examples[:WARM_UP]]))
    started = perf_counter()
    docs = list(nlp.pipe([example.predicted for example in examples]))
    seconds = perf_counter() - started
    for example, doc in zip(examples, docs, strict=True):
        if len(doc) != len(example.reference):
            raise DataError(
                f"The pipeline {list(nlp.pipe_names)} changes the tokens of {doc.text[:60]!r}. Take out the component "
                "that merges or splits tokens; its output cannot be compared with the file's."
            )
    return [Example(doc, example.reference) for example, doc in zip(examples, docs, strict=True)], seconds


def _scores(
    nlp: Language, examples: Sequence[Example], units: Mapping[str, Units], main: str, seconds: float
) -> tuple[dict[str, Any], list[str]]:
    """Return the scores of spaCy's scorer with those of conlleval, and conlleval's report on each column."""
    from spacy.scorer import Scorer

    prefixes = {name: _prefix(name, chunks_key(nlp)) for name in units}
    scores = Scorer(nlp=nlp).score(examples).items()
    metrics = {name: _plain(value) for name, value in scores if name.startswith(tuple(prefixes.values()))}
    blocks = []
    for name, prefix in prefixes.items():
        title = f"{name}\n" if len(units) > 1 or name not in SPAN_COLUMNS else ""
        whole = metrics.get(f"{prefix}{SEQUENCES}")
        of_sequences = "" if whole is None else f"\nsequence accuracy: {100 * whole:6.2f}%"
        blocks.append(title + units[name].report(spans=name in SPAN_COLUMNS) + of_sequences)
        per_type = {label: dict(zip("prf", prf(*row), strict=True)) for label, row in units[name].rows().items()}
        metrics.setdefault(f"{prefix}per_type", per_type)
    right, total = units[main].tokens()
    tokens = sum(len(example.predicted) for example in examples)
    speed = tokens / seconds if seconds else 0.0
    unknown = sum(not is_known for of_text in units[main].known for is_known in of_text)
    unscored = f", {unknown} of them not annotated," if unknown else ""
    blocks.append(f"{tokens} tokens{unscored} in {seconds:.2f} s: {speed:,.0f} tokens/s")
    metrics["token_label_acc"] = right / total if total else 0.0
    return {"tokens": tokens, "seconds": seconds, SPEED: speed, **metrics}, blocks


def _unusable_note(units: Units, n_unusable: int) -> str:
    """Say how many gold spans are not scored, since they do not match the tokens, and the recall that counts them."""
    correct, _, gold = map(sum, zip((0, 0, 0), *units.rows().values(), strict=True))
    recalls = [prf(correct, correct, n).recall for n in (gold, gold + n_unusable)]
    before, after = (f"{100 * recall:.2f}" for recall in recalls)
    what = "gold span that does" if n_unusable == 1 else "gold spans that do"
    them, are = ("it", "is") if n_unusable == 1 else ("them", "are")
    recall = f"recall is {after} instead of {before}"
    return f"{n_unusable:,} {what} not match the tokens {are} not scored: with {them}, {recall}"


def _add_raw(metrics: dict[str, Any], nlp: Language, docs: Sequence[Doc], scored: Sequence[str]) -> str:
    """Add the scores on whole documents and on raw text to the metrics, and return them as a table."""
    key = chunks_key(nlp)
    of_file = {**metrics, f"{TOKENS}_f": 1.0}
    rows = {name: f"{name:<8}" for name in (TOKENS, *scored)}
    for name in rows:
        f1 = of_file.get(f"{_prefix(name, key)}f", of_file.get(f"{_prefix(name, key)}acc"))
        rows[name] += f"{'-' if f1 is None else f'{100 * f1:.2f}':>18}"
    for form, words in (("unsplit", True), ("raw", False)):
        scores, tokens, seconds = score_raw(nlp, docs, scored, key, words=words)
        metrics[form] = {"tokens_per_second": tokens / seconds}
        for name, of_column in scores.items():
            names = (f"{_prefix(name, key)}{kind}" for kind in "prf")
            metrics[form].update(zip(names, of_column, strict=True))
            rows[name] += f"{100 * of_column.f1:22.2f}" if words else f"{100 * of_column.f1:11.2f}"
    speed = f"{metrics['raw']['tokens_per_second']:,.0f} tokens/s of raw text, with the tokenizer"
    return "\n".join(["F1      tokens of the file  without its sentences   raw text", *rows.values(), speed])


def _seen(
    units: Units, trained: list[list[TagSpan]], training: Sequence[Example], words: list[list[str]], name: str
) -> tuple[dict[str, dict[str, float]], str]:
    """Return the scores of what the training corpus holds and of what it does not, and the same as text."""
    texts = [_words(example.reference) for example in training]
    pairs = ((text_of(text, span), span.label) for text, spans in zip(texts, trained, strict=True) for span in spans)
    all_words = (word for text in texts for word in text) if name in SPAN_COLUMNS else ()
    counts = Familiarity.of(pairs, all_words).counts(words, units.gold, units.found).sum(0).tolist()
    rows, lines = {}, [f"{name} seen and unseen in training"]
    for status, (right, n_found, n_gold) in zip(FAMILIAR, counts, strict=True):
        rows[status] = {**prf(right, n_found, n_gold)._asdict(), "right": right, "found": n_found, "gold": n_gold}
        lines.append(f"{status:>28}: {scores_line(n_gold, n_found, right)}  {n_gold}")
    return rows, "\n".join(lines)


def _prefix(name: str, key: str) -> str:
    return {"ent": "ents_", "chunk": f"spans_{key}_"}.get(name, f"{name}_")


def _units(examples: Sequence[Example], name: str, key: str) -> Units:
    units = Units([], [], [])
    for example in examples:
        gold = example.reference
        is_known = [
            name == "chunk" or bool(token.ent_iob if name == "ent" else value_of(token, name)) for token in gold
        ]
        for doc, spans in ((gold, units.gold), (example.predicted, units.found)):
            spans.append([span for span in _spans(doc, name, key) if all(is_known[span.start : span.end])])
        units.known.append(is_known)
    return units


def _spans(doc: Doc, name: str, key: str) -> list[TagSpan]:
    """Return the spans of a Doc, or its tags as spans of one token."""
    if name in SPAN_COLUMNS:
        spans: Any = doc.ents if name == "ent" else doc.spans.get(key, [])
        return [TagSpan(span.start, span.end, span.label_) for span in spans]
    return [TagSpan(token.i, token.i + 1, tag) for token in doc if (tag := value_of(token, name))]


def _words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return float(value) if hasattr(value, "dtype") else value


def scores_line(gold: int, predicted: int, correct: int) -> str:
    """Return precision, recall and F1 of numbers of spans as conlleval prints them."""
    precision, recall, f1 = (100 * score for score in prf(correct, predicted, gold))
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def _tags(spans: Iterable[TagSpan], length: int) -> list[str]:
    """Return IOB2 tags; of overlapping spans, which `schemes.encode` rejects, the last one wins."""
    tags = [OUTSIDE] * length
    for start, end, label in spans:
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


# Scores on raw text: the texts of a corpus in the tokens of a pipeline's own tokenizer, compared by characters

TOKENS = "token"
_FOLLOWS = re.compile(r"[.,;:!?%)\]}\u2019\u201d»…]|''?|\.\.\.|n?['\u2019][^\W\d]+")
"""Words without a space before them."""
_LEADS = re.compile(r"[(\[{$£€\u2018\u201c«¿¡]|``?|[^\W\d]+['\u2019]")
"""Words without a space after them."""


def _tokenizer_note(nlp: Language, docs: Sequence[Doc]) -> str:
    """Say how many tokens of gold Docs the tokenizer of a pipeline does not make of their texts; empty if none."""
    from ...pipeline.multiword import written_text

    n_tokens = n_other = 0
    first = ""
    for gold in docs:
        text, places = written_text(gold, _spaces(gold))
        if len(text) > nlp.max_length:
            continue
        doc = nlp.make_doc(text)
        missing = set(places).difference(_places(doc))
        n_tokens, n_other = n_tokens + len(gold), n_other + sum(place in missing for place in places)
        if missing and not first:
            start, end = min(missing)
            made = " ".join(token.text for token in doc if token.idx < end and start < token.idx + len(token))
            first = f"{text[start:end]!r}, of which it makes {made!r}"
    if not n_other:
        return ""
    return (
        f"Of {n_tokens:,} tokens of the file, the pipeline's tokenizer does not make {n_other:,}, such as {first}.\n"
        "Raw text will score lower than these tokens: --raw shows by how much."
    )


class RawScores(NamedTuple):
    """Scores of `TOKENS` and of each column on raw text, its tokens, and the seconds that the pipeline took."""

    scores: dict[str, PRF]
    tokens: int
    seconds: float


def score_raw(
    nlp: Language, docs: Sequence[Doc], columns: Sequence[str], key: str, *, words: bool = False
) -> RawScores:
    """Annotate the texts of gold Docs anew, without their sentences, and compare with the gold annotation.

    A tag is correct if a token has the same characters and the same tag, as in the CoNLL 2018 shared task (Zeman et
    al. 2018, section 5); a span if its first and last character and its label are the same.  Where the spaces of a Doc
    are unknown, `guess_spaces` adds them.  Words of a multiword token whose letters are others are one token of the
    text, which has the tags of all.

    key (str): Of the chunks in doc.spans.
    words (bool): Keep the gold tokens.
    """
    from ...pipeline.multiword import written_text

    bare = list(map(_bare, docs))
    written = [(doc.text, _places(doc)) for doc in bare] if words else [written_text(doc, _spaces(doc)) for doc in docs]
    texts: list[Any] = bare if words else [text for text, _ in written]
    list(nlp.pipe([doc.copy() if words else doc for doc in texts[:WARM_UP]]))
    started = perf_counter()
    annotated = list(nlp.pipe(texts))
    seconds = perf_counter() - started
    counts = {name: [0, 0, 0] for name in (TOKENS, *columns)}
    for gold_doc, (_, of_gold), doc, of_found in zip(docs, written, annotated, map(_places, annotated), strict=True):
        for name, total in counts.items():
            gold, unknown = set(_items(gold_doc, of_gold, name, key)), set(_unknown(gold_doc, of_gold, name))
            predicted = {item for item in _items(doc, of_found, name, key) if unknown.isdisjoint(range(*item[:2]))}
            total[:] = [a + len(b) for a, b in zip(total, (gold & predicted, predicted, gold), strict=True)]
    return RawScores({name: prf(*total) for name, total in counts.items()}, sum(map(len, annotated)), seconds)


def guess_spaces(words: Sequence[str]) -> list[bool]:
    """Return whether a space follows each word of a text [T], as usual in languages that write spaces.

    Straight quotation marks open and close in turn.  Clitics such as *'s*, *n't* and *l'* join their word.
    """
    spaces, quoted = [True] * len(words), False
    for i, word in enumerate(words):
        follows, leads = bool(_FOLLOWS.fullmatch(word)), bool(_LEADS.fullmatch(word))
        if word == '"':
            follows, leads, quoted = quoted, not quoted, not quoted
        if follows and i:
            spaces[i - 1] = False
        spaces[i] = not leads
    return spaces


def _bare(doc: Doc) -> Doc:
    """Return the words and spaces of a gold Doc."""
    from spacy.tokens import Doc

    return Doc(doc.vocab, words=_words(doc), spaces=_spaces(doc))


def _spaces(doc: Doc) -> list[bool]:
    return guess_spaces(_words(doc)) if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc]


def _places(doc: Doc) -> list[tuple[int, int]]:
    return [(token.idx, token.idx + len(token)) for token in doc]


def _items(doc: Doc, places: Sequence[tuple[int, int]], name: str, key: str) -> Iterator[tuple[int, int, str]]:
    tokens = (TagSpan(token.i, token.i + 1, TOKENS) for token in doc if not token.is_space)
    spans = tokens if name == TOKENS else _spans(doc, name, key)
    return ((places[start][0], places[end - 1][1], label) for start, end, label in spans)


def _unknown(doc: Doc, places: Sequence[tuple[int, int]], name: str) -> Iterator[int]:
    """Yield the characters of a gold Doc whose annotation is missing."""
    for token, place in zip(doc, () if name in (TOKENS, "chunk") else places, strict=False):
        if not (token.ent_iob if name == "ent" else value_of(token, name)):
            yield from range(*place)


def value_of(token: Any, name: str) -> str:
    """Return the value of a column at a token, empty if it has none, as white space."""
    return "" if token.is_space else str(getattr(token, name if name == "morph" else f"{name}_"))
