"""``crfseq calibrate``: fit the temperature of trained components, so that their probabilities are reliable."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import print_json, printer
from ...corpora.layouts import Asked
from ...corpora.paths import joined
from ...reliability import FEW
from ...schemes import ANY
from . import CalibrationSettings, ComponentCalibration, Recalls, calibrate


@command("calibrate", "Use")
def calibrate_cli(
    model: options.Model,
    files: options.GoldFiles,
    format: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    outside: options.Outside = None,
    min_score: options.MinScore = None,
    match: options.Match = None,
    alternatives: options.Alternatives = None,
    skip_invalid: options.SkipInvalid = False,
    output: Annotated[Path | None, options.output("Folder for a calibrated copy", default="store it in MODEL")] = None,
    component: options.Components = None,
    bins: Annotated[int, typer.Option(min=1, help="Bins of the reliability table")] = 10,
    equal_mass: Annotated[
        bool, typer.Option("--equal-mass", help="Bins with equal numbers of predictions instead of equal width")
    ] = False,
    by_type: Annotated[
        bool, typer.Option("--by-type", help="Also fit a curve to the spans of each type, if they help")
    ] = False,
    recall: Annotated[
        list[str] | None,
        typer.Option(metavar="SHARE", help="Share of the spans to cover, 0.99 or for one label PER=0.99; repeatable"),
    ] = None,
    given: options.Given = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    code: options.Code = None,
) -> None:
    """Calibrate probabilities: of the spans with probability 0.8, eight in ten should be correct.

    Training has done so on its dev corpus if its config has a block with spacy_crfseq.Calibrate.v1, as those of
    'init-config' do; this command fits to another corpus. Scores are divided by a temperature, which is fitted on DEV
    and stored with the model. Spans also get a curve, from their probability to the one that is reported, if it does
    better on texts that it was not fitted to: a stiff one, or a loose one if that is better by two standard errors.
    Predictions stay the same.

    The report compares, before and after, mean probability and share of correct predictions; ECE, the expected
    calibration error, is their mean distance, Brier the mean squared error of the probabilities. Even perfect
    probabilities have an ECE above 0 in a sample; the report says how large. Without --output, the temperature is
    stored in MODEL itself: one small file per component changes.

    With --by-type, types with 100 spans or more also get curves of their own, if these clearly do better than the one
    for all. The figures after a curve are those of texts that it was not fitted to. Tags keep the temperature alone.

    With --recall 0.99, words that the model would leave out are put into spans, too, if they are likely enough to be in
    one. The threshold is the highest with which 99 in 100 spans are covered: all their words are in predicted spans, of
    whatever type. It is so low that even the lower end of the interval of that share on DEV, the middle 95 % of samples
    of its texts, reaches it. --recall PER=0.99 asks so for one label. The probabilities of spans stay the same. Where
    DEV has too few predictions or mistakes for a temperature, the model keeps the one that it has. Without --recall,
    the model has no thresholds afterwards, even if it had some.

    Example:
      python -m spacy crfseq calibrate training/model-best dev.conll \\
          --format conll2003 --by-type
      python -m spacy crfseq calibrate training/model-best dev.conll \\
          --recall PER=0.99 --recall LOC=0.95 --output training/hiding
    """
    done = calibrate(
        model,
        joined(files),
        layout=Asked(format, columns, scheme, encoding, None, outside, min_score, match, alternatives, skip_invalid),
        output=output,
        component=component,
        given=given,
        settings=CalibrationSettings(bins, equal_mass, by_type, recall or ()),
        force=force,
    )
    for name, reason in done.skipped.items():
        print(f"{name} is unchanged. {reason}", file=sys.stderr)
    for name, result in done.results.items():
        if result.dropped:
            print(
                f"Warning: {name} had thresholds for recall, {_listed(result.dropped)}, which are removed. Give "
                "--recall for these, too, to have new ones.",
                file=sys.stderr,
            )
    if as_json:
        print_json({name: result.as_json() for name, result in done.results.items()})
        return
    say = printer()
    for name, result in done.results.items():
        _print_component(say, name, result)
    fitted = not all(result.too_few for result in done.results.values())
    added = any(result.recalls and result.recalls.needed for result in done.results.values())
    what = " and the ".join(["temperature"] * fitted + ["thresholds"] * added)
    if what:
        say.good(f"Saved the {what} of {', '.join(done.results)} to {output or Path(model)}")
    elif output is not None:
        say.good(f"Saved a copy with the same predictions to {output}")


def _print_component(say: Any, name: str, result: ComponentCalibration) -> None:
    say.divider(name)
    if result.too_few:
        say.text(f"Temperature {result.before.temperature:.3f} and curves stay as they are: {result.too_few}")
    else:
        _print_fit(say, result)
    if result.recalls is not None:
        _print_recalls(say, result.unit, result.recalls)


def _print_fit(say: Any, result: ComponentCalibration) -> None:
    unit, curve, types, before, after, *_ = result
    change = f"{before.temperature:.3f} -> {after.temperature:.3f}"
    say.text(f"Temperature {change}, fitted to {before.whole.total:,} {unit}")
    for fitted, of in ((curve, "spans of all types"), (types, "types")):
        if fitted and not fitted.tried:
            few = "no type has" if fitted is types else "there are not"
            say.text(f"No curve for {of}: {few} {FEW} {unit} or more")
        elif fitted:
            gain = f"{fitted.gain:.1f} nats (standard error {fitted.error:.1f}) on texts not fitted to"
            names = ", ".join(fitted.curves).replace(ANY, of)
            say.text(
                f"Curves for {names} gain {gain}, like the figures after" if names else f"No curve for {of}: {gain}"
            )
    for when, side in (("before", before), ("after", after)):
        say.table(
            side.rows(), header=(f"{when}: probability", unit, "mean", "right"), aligns=("l", *"rrr"), divider=True
        )
    header = "label", unit, "right", "mean", "", "ECE", "", "Brier", ""
    say.table(result.rows(), header=header, aligns=("l", *"rrrlrlrl"), divider=True)
    mean, low, high = after.perfect
    of = f"Perfect probabilities of {after.whole.total:,} {unit}"
    say.text(f"{of} would have an ECE of {mean:.3f} ({low:.3f} to {high:.3f} in 95 % of samples)")


def _print_recalls(say: Any, unit: str, recalls: Recalls) -> None:
    shown = _listed(recalls.needed) or "none is needed; 1 is stored, which adds no words"
    say.text(f"Thresholds for recall: {shown}. Spans whose words are all in predicted spans:")
    rows = [
        [old.label, f"{old.spans:,}", f"{old.recall:.4f}", f"-> {new.recall:.4f}", f"{new.low:.4f} to {new.high:.4f}"]
        for old, new in zip(recalls.before.labels, recalls.after.labels, strict=True)
    ]
    say.table(rows, header=("label", unit, "covered", "", "95 % interval"), aligns=("l", *"rrlr"), divider=True)
    first, last = recalls.before, recalls.after
    change = f"{first.words:,} -> {last.words:,} words, {first.precision:.4f} -> {last.precision:.4f} of them in gold"
    say.text(f"Predicted spans have {change} spans")


def _listed(thresholds: Mapping[str, float]) -> str:
    return ", ".join(f"{label} {share:g}" for label, share in thresholds.items())
