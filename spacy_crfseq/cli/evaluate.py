"""``crfseq evaluate``: score a pipeline on a corpus file as the CoNLL shared tasks do, and time it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..corpora import DOCBIN, SPAN_COLUMNS, Preset
from ..corpora.layouts import Asked, Format, as_options, file_columns
from ..corpora.outputs import check_output_file
from ..errors import ConfigError, DataError
from ..evaluation.conlleval import SpanCounts, scores_line
from ..evaluation.errors import FAMILIAR, Familiarity, text_of
from ..files import write_json
from ..pipeline.columns import chunks_key, missing_columns, predicted_columns
from ..pipeline.gold_files import names_of, read_gold
from ..pipeline.raw_text import TOKENS, score_raw, value_of
from ..pipeline.scorers import SEQUENCES
from ..pipeline.select import load_pipeline
from ..prf import prf
from ..schemes import Span
from . import options
from .app import command
from .console import printer, reported_errors
from .judging import layout_of

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

WARM_UP = 32


@command("evaluate", "Look", "score", "test", "benchmark")
def evaluate_cli(
    model: options.Model,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Corpus file")],
    format_: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Training corpus, to score seen and unseen spans or words separately")
    ] = None,
    output: Annotated[Path | None, options.output("JSON file for the scores")] = None,
    given: options.Given = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Also score the texts in the tokens of the pipeline, without sentences")
    ] = False,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Score a pipeline on a corpus file as conlleval does, and measure its speed.

    A span is correct if its type and both boundaries are; tags are scored by accuracy and label, and whole sequences
    (sentences) by accuracy. Tokens and sentences are those of the file. Speed covers the components of the pipeline,
    with compiled kernels loaded.

    --raw also prints scores on whole documents (on sentences, if the file marks no documents): with the tokens
    of the file, but without sentence starts; and as raw text. The text is joined from the words, with spaces as the
    file says or as usual in print. Tokens and spans are compared by their characters.

    \b
    Example:
      python -m spacy crfseq evaluate training/model-best test.conll \\
          --format conll2003 --output metrics.json
    """
    said = Asked(format_, columns, scheme, encoding)
    with reported_errors(code=code):
        result = evaluate(model, file, said, corpus=corpus, output=output, given=names_of(given), raw=raw)
        if as_json:
            print(json.dumps(result.metrics, indent=2))
            return
        print(result.report)
        if output is not None:
            printer().good(f"Saved the scores to {output}")


class Evaluation(NamedTuple):
    """Scores under spaCy's names with the speed, and a report in conlleval's form."""

    metrics: dict[str, Any]
    report: str


def evaluate(
    model: str | Path,
    file: Path,
    format_name: Format = None,
    *,
    corpus: Path | None = None,
    output: Path | None = None,
    given: Sequence[str] | None = None,
    raw: bool = False,
) -> Evaluation:
    """Score a pipeline on a corpus file, and write the metrics to `output` if that is given.

    corpus (Path | None): Training corpus; scores of what it holds and of what it does not are then under "seen".
    raw (bool): Also score it on the texts as they are, see `score_raw`; these metrics are under "raw".
    RAISES CrfError: If the pipeline predicts nothing that the file holds, or the file cannot be read.
    """
    check_output_file(output, file, corpus)
    nlp = load_pipeline(model)
    layout = layout_of(file, format_name, nlp)
    held = file_columns(layout)
    _scored_columns(nlp, layout, held, missing_columns(nlp, layout) if given is None else given)
    gold = read_gold(nlp, file, layout, given)
    if raw and gold.given:
        raise ConfigError(f"--raw: features read {', '.join(gold.given)}, columns that raw text does not have.")
    scored = _scored_columns(nlp, layout, gold.columns, gold.given)
    seconds = run_pipeline(nlp, gold.examples)
    main = layout.score if layout.name != DOCBIN and layout.score in scored else scored[-1]
    result = _evaluation(nlp, gold.examples, scored, main, seconds)
    if corpus is not None:
        of_corpus = options.show_layout(corpus, None, layout)
        result = _with_seen(result, nlp, gold.examples, read_gold(nlp, corpus, of_corpus, given).examples, scored)
    if raw:
        examples = read_gold(nlp, file, layout, (), documents=True).examples
        result = _with_raw(result, nlp, [example.reference for example in examples], scored)
    if output is not None:
        write_json(output, result.metrics)
    return result


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


def run_pipeline(nlp: Language, examples: Sequence[Example]) -> float:
    """Annotate the predicted docs and return the seconds it took, with warm kernels and caches.

    RAISES DataError: If a component changes the tokens.
    """
    list(nlp.pipe([example.predicted.copy() for example in examples[:WARM_UP]]))
    started = perf_counter()
    docs = list(nlp.pipe([example.predicted for example in examples]))
    seconds = perf_counter() - started
    for example, doc in zip(examples, docs, strict=True):
        example.predicted = doc
        if len(doc) != len(example.reference):
            raise DataError(
                f"The pipeline {list(nlp.pipe_names)} changes the tokens of {doc.text[:60]!r}. Take out the component "
                "that merges or splits tokens; its output cannot be compared with the file's."
            )
    return seconds


def _evaluation(
    nlp: Language, examples: Sequence[Example], scored: Sequence[str], main: str, seconds: float
) -> Evaluation:
    from spacy.scorer import Scorer

    key = chunks_key(nlp)
    prefixes = tuple(_prefix(name, key) for name in scored)
    kept = {name: _plain(value) for name, value in Scorer(nlp=nlp).score(examples).items() if name.startswith(prefixes)}
    tokens = sum(len(example.predicted) for example in examples)
    counts = {name: _count(examples, name, key) for name in scored}
    speed = {"tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / seconds if seconds else 0.0}
    parts = []
    for name, found in counts.items():
        title = f"{name}\n" if len(counts) > 1 or name not in SPAN_COLUMNS else ""
        parts.append(title + found.report(spans=name in SPAN_COLUMNS))
        if (whole := kept.get(f"{_prefix(name, key)}{SEQUENCES}")) is not None:
            parts[-1] += f"\nsequence accuracy: {100 * whole:6.2f}%"
        kept.setdefault(f"{_prefix(name, key)}per_type", found.per_type())
    parts.append(f"{tokens} tokens in {seconds:.2f} s: {speed['tokens_per_second']:,.0f} tokens/s")
    return Evaluation({**kept, "token_label_acc": counts[main].accuracy, **speed}, "\n\n".join(parts))


def _with_raw(result: Evaluation, nlp: Language, docs: Sequence[Doc], scored: Sequence[str]) -> Evaluation:
    key = chunks_key(nlp)
    of_file, figures = {**result.metrics, f"{TOKENS}_f": 1.0}, dict[str, dict[str, float]]()
    shown = {name: f"{name:<8}" for name in (TOKENS, *scored)}
    for name in shown:
        known = of_file.get(f"{_prefix(name, key)}f", of_file.get(f"{_prefix(name, key)}acc"))
        shown[name] += f"{'-' if known is None else f'{100 * known:.2f}':>18}"
    for form, words in (("unsplit", True), ("raw", False)):
        scores, tokens, seconds = score_raw(nlp, docs, scored, key, words=words)
        figures[form] = {"tokens_per_second": tokens / seconds}
        for name, found in scores.items():
            names = (f"{_prefix(name, key)}{kind}" for kind in "prf")
            figures[form].update(zip(names, found, strict=True))
            shown[name] += f"{100 * found.f1:22.2f}" if words else f"{100 * found.f1:11.2f}"
    lines = ["F1      tokens of the file  without its sentences   raw text", *shown.values()]
    lines.append(f"{figures['raw']['tokens_per_second']:,.0f} tokens/s of raw text, with the tokenizer")
    return Evaluation({**result.metrics, **figures}, "\n\n".join([result.report, "\n".join(lines)]))


def _prefix(name: str, key: str) -> str:
    return {"ent": "ents_", "chunk": f"spans_{key}_"}.get(name, f"{name}_")


def _count(examples: Sequence[Example], name: str, key: str) -> SpanCounts:
    counts = SpanCounts()
    for example in examples:
        gold, found = (_units(doc, name, key, example.reference) for doc in (example.reference, example.predicted))
        counts.add(gold, found, _known(example.reference, name))
    return counts


def _with_seen(
    result: Evaluation, nlp: Language, examples: Sequence[Example], training: Sequence[Example], scored: Sequence[str]
) -> Evaluation:
    key, seen, parts = chunks_key(nlp), dict[str, dict[str, Any]](), [result.report]
    docs = [(example.reference, [token.text for token in example.reference]) for example in training]
    words = [[token.text for token in example.reference] for example in examples]
    for name in scored:
        pairs = ((text_of(texts, span), span.label) for doc, texts in docs for span in _units(doc, name, key))
        all_words = (word for _, texts in docs for word in texts) if name in SPAN_COLUMNS else ()
        gold = [_units(example.reference, name, key) for example in examples]
        found = [_units(example.predicted, name, key, example.reference) for example in examples]
        counts = Familiarity.of(pairs, all_words).counts(words, gold, found).sum(0).tolist()
        seen[name] = {}
        lines = [f"{name} seen and unseen in training"]
        for status, (right, n_found, n_gold) in zip(FAMILIAR, counts, strict=True):
            rates = prf(right, n_found, n_gold)._asdict()
            seen[name][status] = {**rates, "right": right, "found": n_found, "gold": n_gold}
            lines.append(f"{status:>28}: {scores_line(n_gold, n_found, right)}  {n_gold}")
        parts.append("\n".join(lines))
    return Evaluation({**result.metrics, "seen": seen}, "\n\n".join(parts))


def _units(doc: Doc, name: str, key: str, gold: Doc | None = None) -> list[Span]:
    """Return the spans of a Doc, or its tags as spans of one token, without those that touch an unknown gold token."""
    known = _known(doc if gold is None else gold, name)
    if name in SPAN_COLUMNS:
        spans: Any = doc.ents if name == "ent" else doc.spans.get(key, [])
        units = [Span(span.start, span.end, span.label_) for span in spans]
    else:
        units = [Span(token.i, token.i + 1, tag) for token in doc if (tag := value_of(token, name))]
    return [unit for unit in units if all(known[unit.start : unit.end])]


def _known(doc: Doc, name: str) -> list[bool]:
    """Return whether each token is annotated, [T]."""
    return [name == "chunk" or bool(token.ent_iob if name == "ent" else value_of(token, name)) for token in doc]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return float(value) if hasattr(value, "dtype") else value
