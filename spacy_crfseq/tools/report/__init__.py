"""``crfseq report``: a page on what a trained component gets right and wrong, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from ...cli.inputs import gold_tags_of, layout_of, show_layout
from ...corpora import read_lines
from ...corpora.layouts import Asked, Format
from ...corpora.outputs import check_page
from ...errors import ConfigError, FormatError
from ...files import write_json, write_text
from ...pipeline.select import crfs_of, load_pipeline, model_folder
from ...pipeline.texts import names_of
from .._pages.bootstrap import doubt
from .._pages.judged import for_each_component, judge, spans_of_tags
from .._pages.spans import Familiarity, text_of
from . import findings as view
from .findings import Findings

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from ...pipeline.component import CRFComponent

LOG = "log.jsonl"
"""The log of `fit`, in the folder of the models."""
CARD = "### Evaluation"
"""The heading of the scores in a model card, its last part."""
WEIGHTS = 8
"""Number of weights of each sign shown for each label."""


class TrainedOn(NamedTuple):
    """The training of a model, which its page has beside the results.

    log (Path | None): Its log; by default, the one next to the folder of the model.
    corpus (Path | None): Its corpus, to tell seen from unseen spans or words.
    """

    log: Path | None = None
    corpus: Path | None = None


class ReportSettings(NamedTuple):
    """The content of a report.

    sentences (int): Sentences to show.
    samples (int): Samples of the intervals of scores.
    card (bool): Also write the scores to the model card of the pipeline.
    """

    sentences: int = 30
    samples: int = 1000
    card: bool = False


NOT_TOLD, USUAL = TrainedOn(), ReportSettings()


def report(
    model: str | Path,
    file: Path,
    output: Path = Path("report.html"),
    layout: Format = None,
    *,
    trained_on: TrainedOn = NOT_TOLD,
    component: list[str] | None = None,
    given: str | None = None,
    settings: ReportSettings = USUAL,
) -> list[Findings]:
    """Write a page on components and return their results; see the command for `component` and `given`.

    RAISES CrfError: If there is nothing to report on, or a file cannot be read.
    """
    from ...pipeline.gold_file import read_gold
    from ...pipeline.model_card import fill_card
    from .._pages.html import made_of, render, text_style
    from .._pages.weights import largest_of_labels, named

    corpus = trained_on.corpus
    check_page(output, file, *trained_on)
    if settings.card and model_folder(model) != Path(model):
        raise ConfigError(f"{model} is a package, so --card cannot change its model card.")
    nlp = load_pipeline(model)
    preset = layout_of(file, layout, nlp)
    of_corpus = preset if corpus is None else show_layout(corpus, Asked(skip_invalid=preset.skip_invalid), preset)
    pipes = crfs_of(dict(nlp.pipeline), component or [], str(model))
    curves = _curves(model, trained_on.log, list(pipes))
    with tqdm(total=1 + len(pipes), disable=None, leave=False, file=sys.stderr, delay=1) as bar:
        bar.set_description(f"reading {file.name}")
        examples = read_gold(nlp, file, preset, names_of(given)).examples
        seen = None if corpus is None else read_gold(nlp, corpus, of_corpus, names_of(given)).examples
        bar.update()

        def look_at(pipe: CRFComponent, docs: list[Doc]) -> Findings:
            bar.set_description(pipe.name)
            judged, answers = judge(pipe, examples, docs)
            familiarity = None if seen is None else corpus_familiarity(pipe, seen)
            findings = Findings(
                pipe, judged, answers, familiarity, curves[pipe.name], settings.sentences, settings.samples
            )
            bar.update()
            return findings

        results, reasons = for_each_component(nlp, pipes, examples, look_at, required=bool(component))
    if not results:
        raise ConfigError("\n".join(["There is no component to report on.", *reasons.values()]))
    for reason in reasons.values():
        print(f"Left out: {reason}", file=sys.stderr)
    if warning := doubt(len(examples)):
        print(f"Warning: {warning}", file=sys.stderr)
    subject = {
        "model": str(model), "file": str(file), "corpus": str(corpus or ""), "style": text_style(nlp),
        "made": made_of(nlp), "n_samples": settings.samples,
    }  # fmt: skip
    largest = {name: named(nlp, name, largest_of_labels(pipes[name], WEIGHTS)) for name in results}
    findings = list(results.values())
    write_text(
        output, render("tools/report/page.html", view=view, subject=subject, components=findings, largest=largest)
    )
    if settings.card:
        scores = render("tools/report/card.md", file=file.name, components=findings, n_samples=settings.samples)
        notes = fill_card(nlp).meta["notes"].partition(CARD)[0].rstrip()
        meta = Path(model) / "meta.json"
        text = {**json.loads(meta.read_text(encoding="utf8")), "notes": f"{notes}\n\n{CARD}\n\n{scores}"}
        write_json(meta, text)
    return findings


def corpus_familiarity(pipe: CRFComponent, examples: Sequence[Example]) -> Familiarity:
    """Return the gold spans of a corpus (of a tagger, the words) by text, with their labels."""
    plain = pipe.annotation.scheme is None

    def pairs() -> Iterator[tuple[str, str]]:
        for example in examples:
            words = [token.text for token in example.reference]
            for span in spans_of_tags(gold_tags_of(pipe, example), plain=plain):
                yield text_of(words, span), span.label

    return Familiarity.of(pairs(), () if plain else (token.text for example in examples for token in example.reference))


def _curves(model: str | Path, train: Path | None, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    beside = Path(model).parent / LOG
    log = train or (beside if Path(model).is_dir() and beside.is_file() else None)
    entries = [] if log is None else _read_log(log)
    curves = {name: [entry for entry in entries if entry["component"] == name] for name in names}
    if train is not None and not any(curves.values()):
        raise ConfigError(f"--train {train} has no iterations of {', '.join(names)}.")
    return curves


def _read_log(path: Path) -> list[dict[str, Any]]:
    entries, advice = [], "--train takes the log.jsonl that fit writes."
    for number, line in read_lines(path, "utf8"):
        if line.strip():
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise FormatError(path, number, f"not JSON ({error}). {advice}") from error
            if not isinstance(entry, dict) or not {"component", "iteration", "objective"} <= entry.keys():
                raise FormatError(path, number, f"not an iteration of training. {advice}")
            entries.append(entry)
    return entries
