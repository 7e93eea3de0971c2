"""Annotation of files: each input has an output, which appears when it is complete; finished ones are skipped.

The folder ``.tag`` beside an output has a record, NAME.json, of what the output was made from.  It is written first and
has a digest of the output, so that a run may end at any time.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import metadata
from itertools import groupby, tee
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

from spacy.tokens import DocBin
from spacy.util import load_config
from tqdm import tqdm

from ...cli.inputs import show_layout
from ...corpora import DOCBIN, Preset
from ...corpora.layouts import ENDINGS, Format, check_choice, layout_by_ending, trained_layout
from ...corpora.lines import STDIN, ZIPPED
from ...corpora.paths import resolve_all
from ...errors import ConfigError, count_of
from ...files import digest, replacing, write_json
from ...pipeline.clusters import connected
from ...pipeline.select import CONFIG, model_folder
from ...pipeline.written import TARGETS
from ...schemes import scheme_named
from .tagger import TagCounts, TaggedPart, Tagger, TagSettings, TextPart, annotate_part, in_processes, lent, parts_of

RECORDS = ".tag"
"""The folder of the records, beside the outputs."""


class TagReport(NamedTuple):
    """The outcome of `tag`.

    counts: Of all files; of those that were complete already, as their records tell.
    new: Of the files that were annotated now.
    files, complete: How many files were annotated now, and were complete already.
    seconds, tagging: Those of the run, and of these, those after the pipeline was loaded.
    """

    counts: TagCounts
    new: TagCounts
    files: int
    complete: int
    seconds: float
    tagging: float

    @property
    def speed(self) -> float:
        """Tokens per second, after the pipeline was loaded."""
        return self.new.tokens / self.tagging if self.tagging else 0.0

    def summary(self) -> str:
        """Return a summary line."""
        if not self.files and self.complete and not self.counts.broken:
            return f"Nothing to do: {count_of(self.complete, 'file')} complete already; --force starts over"
        texts, tokens = count_of(self.new.texts, "text"), count_of(self.new.tokens, "token")
        text = f"Tagged {count_of(self.files, 'file')}: {texts}, {tokens}"
        if self.tagging >= 1:  # shorter runs measure the loading of kernels rather than speed
            text += f", {self.speed:,.0f} tokens/s after loading"
        if self.complete:
            text += f"; {self.complete:,} complete already"
        if self.counts.broken:
            before = self.counts.broken - self.new.broken
            earlier = f", {before:,} of them earlier" if before else ""
            text += f"; {count_of(self.counts.broken, 'malformed line')} skipped{earlier}"
        return text

    def as_json(self) -> dict[str, Any]:
        """Return the totals of what was annotated now."""
        totals = {"files": self.files, "complete": self.complete, **self.new._asdict()}
        return {**totals, "seconds": self.seconds, "tagging_seconds": self.tagging, "tokens_per_second": self.speed}


class InputFile(NamedTuple):
    """A file to annotate, its output, and, by names for users, what the output depends on."""

    source: Path
    layout: Preset
    target: Path
    made_from: Mapping[str, Any]

    @property
    def record(self) -> Path:
        """The file that says what the output was made from."""
        return self.target.parent / RECORDS / f"{self.target.name}.json"

    def earlier(self) -> TagCounts | None:
        """Return the counts of the run that has made the output, None if there is no output.

        RAISES ConfigError: If it was made from something else, or not by this command.
        """
        if self.target == STDIN or not self.target.exists():
            return None
        if self.source == STDIN:
            raise ConfigError(f"{self.target} exists. Use --force, or another --output.")
        if not self.record.exists():
            raise ConfigError(f"{self.target} exists, and no earlier run of this command has made it. Use --force.")
        try:
            entry = json.loads(self.record.read_text(encoding="utf8"))
            was, counts, content = dict(entry["made_from"]), TagCounts(*map(int, entry["counts"])), str(entry["output"])
        except (ValueError, TypeError, KeyError):
            raise ConfigError(f"{self.record} cannot be read. Use --force to start over.") from None
        for name, now in self.made_from.items():
            if was.get(name) != now:
                values = f" from {was.get(name)} to {now}" if _is_short(was.get(name)) and _is_short(now) else ""
                raise ConfigError(f"{self.target} was made by another run: {name} has changed{values}. Use --force.")
        if content != digest(self.target):
            raise ConfigError(f"{self.target} is not as this command has written it. Use --force to replace it.")
        return counts

    def write_record(self, counts: TagCounts, output: Path) -> None:
        """Write the record of a complete output, which is not in its place yet; standard streams have none."""
        if STDIN not in (self.source, self.target):
            write_json(self.record, {"made_from": self.made_from, "counts": counts, "output": digest(output)})


def _is_short(value: object) -> bool:
    return value is not None and not isinstance(value, (list, dict)) and len(str(value)) < 40


def tag(
    settings: TagSettings,
    files: Sequence[str | Path],
    output: Path,
    layout: Format = None,
    *,
    force: bool = False,
    processes: int = 1,
    dask: Any = None,
) -> TagReport:
    """Annotate files.

    settings (TagSettings): The pipeline, and the form of the outputs.
    files (Sequence[str | Path]): Files and folders, of which all files are annotated.
    output (Path): A folder; for one file the file to write, "-" for standard output.
    force (bool): Replace outputs of earlier runs, finished ones too.
    dask (str | Client | None): The address of a Dask cluster that annotates, or its client; None for this machine.
    RAISES CrfError: On invalid settings, unreadable files, or an output that was made from something else.
    RAISES FormatError, DataError: At the first malformed line, if strict.
    """
    model_folder(settings.model)
    if dask is not None and processes > 1:
        raise ConfigError(f"--dask {dask} has workers of its own: leave --processes out.")
    target, code = settings.to or _by_ending(output) or "jsonl", settings.code and settings.code.absolute()
    check_choice("--to", target, TARGETS, " format")
    settings = settings._replace(to=target, code=code, scheme=scheme_named(settings.scheme, "--to-scheme"))
    inputs = input_files(settings, list(map(Path, files)), layout, output)
    earlier = {file.target: None if force else file.earlier() for file in inputs}
    todo = [file for file in inputs if earlier[file.target] is None]
    before = TagCounts()
    for counts in filter(None, earlier.values()):
        before = before.plus(counts)
    began = loaded = perf_counter()
    new = TagCounts()
    if todo:
        with nullcontext() if dask is None else connected(dask) as workers:
            run = workers.map if workers is not None else map if processes == 1 else partial(in_processes, processes)
            tagger, loaded = Tagger(settings), perf_counter()
            new = _tag(todo, tagger, run)
    ended = perf_counter()
    return TagReport(before.plus(new), new, len(todo), len(inputs) - len(todo), ended - began, ended - loaded)


def _by_ending(output: Path) -> str | None:
    """Return the layout of the ending of a file to write: that which the ending is for, or which it names."""
    ending = output.suffix[1:]
    return layout_by_ending(output, TARGETS) or (ending if ending in TARGETS and not output.is_dir() else None)


def _tag(files: Sequence[InputFile], tagger: Tagger, run: Callable[..., Iterator[TaggedPart]]) -> TagCounts:
    """Annotate files, show the progress, and return the counts."""
    total, started = TagCounts(), perf_counter()
    sizes = [file.source.stat().st_size for file in files if file.source.is_file()]
    with tqdm(
        total=sum(sizes) if len(sizes) == len(files) else None,
        disable=None, leave=False, file=sys.stderr, unit="B", unit_scale=True,
    ) as bar:  # fmt: skip

        def show(part: TextPart, done: TaggedPart, counts: TagCounts) -> None:
            for message in done.messages:
                with tqdm.external_write_mode(file=sys.stderr):
                    print(message, file=sys.stderr)
            speed = total.plus(counts).tokens / max(perf_counter() - started, 1e-9)
            bar.set_postfix_str(f"{speed:,.0f} tokens/s", refresh=False)
            bar.update(part.n_bytes)

        for number, parts in groupby(annotate(files, tagger, run), key=itemgetter(0)):
            total = total.plus(_write_output(files[number], tagger.settings.to, parts, show))
    return total


def _write_output(
    file: InputFile,
    to: str,
    parts: Iterator[tuple[int, TextPart, TaggedPart]],
    show: Callable[[TextPart, TaggedPart, TagCounts], None],
) -> TagCounts:
    """Write the output of a file and its record; return its counts."""
    counts = TagCounts()
    with _written(file.target, to, lambda output: file.write_record(counts, output)) as write:
        for _, part, done in parts:
            write(done.data)
            counts = counts.plus(done.counts)
            show(part, done, counts)
    return counts


def annotate(
    files: Sequence[InputFile], tagger: Tagger, run: Callable[..., Iterator[TaggedPart]] = map
) -> Iterator[tuple[int, TextPart, TaggedPart]]:
    """Yield the number of a file, a part of it, and this part annotated, file by file.

    run: Applies a function to parts, perhaps in other processes, and yields the results in the same order, as `map`.
    """
    settings, name = tagger.settings, uuid4().hex
    ahead, behind = tee(
        (number, part)
        for number, file in enumerate(files)
        for part in parts_of(file.source, file.layout, join=tagger.joins)
    )
    if Path(settings.model).is_dir():  # other processes may have another working directory
        settings = settings._replace(model=str(Path(settings.model).absolute()))
    with lent(tagger, name):
        done = run(partial(annotate_part, settings, name), (part for _, part in ahead))
        for annotated, (number, part) in zip(done, behind, strict=True):
            yield number, part, annotated


@contextmanager
def _written(target: Path, to: str, complete: Callable[[Path], None]) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that takes the parts of an output, which is moved to its place when it is complete.

    complete (Callable): Called with the complete file just before; not for standard output.
    """
    if target == STDIN:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    with replacing(target) as temporary:
        if to == DOCBIN:
            whole = DocBin(store_user_data=True)
            yield lambda data: whole.merge(DocBin(store_user_data=True).from_bytes(data))
            whole.to_disk(temporary)
        else:
            with temporary.open("wb") as stream:
                yield stream.write
                stream.flush()
                os.fsync(stream.fileno())
        complete(temporary)


def input_files(settings: TagSettings, sources: Sequence[Path], format_name: Format, output: Path) -> list[InputFile]:
    """Return files with the layouts that `find_layout` finds, and their outputs.

    RAISES ConfigError: If two files share an output, or an output is an input.
    RAISES FormatError: If a file does not exist or its layout is unknown.
    """
    folder = model_folder(settings.model)
    trained = trained_layout(load_config(folder / CONFIG).interpolate())
    common = {
        "the model": digest(folder),
        "--to": settings.to,
        "--to-scheme": settings.scheme,
        "--scores": settings.scores,
        "the release": metadata.version("spacy-crfseq"),
    }
    if STDIN in sources and len(sources) > 1:
        raise ConfigError("- is standard input and must be the only file.")
    if output == STDIN and settings.to == DOCBIN:
        raise ConfigError("--to spacy: a DocBin cannot be written to standard output. Give a folder with --output.")
    files = resolve_all(sources)
    made: dict[Path, InputFile] = {}
    inputs = {source.resolve() for source in files if source != STDIN}
    for source in files:
        layout = show_layout(source, format_name, trained, texts=True)
        columns, form = ",".join(layout.columns), {} if layout.form is None else {"the XML": str(layout.form)}
        read = {"--format": layout.name, "--columns": columns, "--encoding": layout.encoding, **form}
        stamp = {} if source == STDIN else {"the file": digest(source)}
        file = InputFile(source, layout, _target(source, output, settings.to, len(files)), {**common, **read, **stamp})
        path = file.target.resolve()
        if path in made and output != STDIN:
            other = made[path].source
            raise ConfigError(f"{other} and {source} would both be written to {path}. Tag them one at a time.")
        if path in inputs:
            raise ConfigError(f"{source}: the output would replace this input. Choose another --output.")
        made[path if output != STDIN else source] = file
    return list(made.values())


def _target(source: Path, output: Path, to: str, n_files: int) -> Path:
    if output == STDIN:
        return output
    is_file = not output.is_dir() and output.suffix in {*ENDINGS.values(), ".conll", ".iob"}
    if is_file and n_files == 1:
        return output
    if is_file or output.is_file():
        what = f"{n_files} files are to be tagged" if n_files > 1 else f"its ending is not that of --to {to}"
        raise ConfigError(f"--output {output} is a file, but {what}. Give a folder, or another name.")
    name = "stdin" if source == STDIN else source.name.removesuffix(ZIPPED)
    return output / f"{Path(name).stem}{ENDINGS.get(to, '.conll')}"
