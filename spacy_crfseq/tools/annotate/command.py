"""``crfseq annotate``: a page to annotate texts, with a model that learns from each of them."""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ...cli import options
from ...cli.app import command
from ...cli.console import advise, printer
from ...corpora.layouts import Asked, Format, asked
from ...corpora.lines import check_file
from ...corpora.paths import resolve_all
from ...errors import ConfigError, count_of, suggest
from ...files import replacing
from ...pipeline.texts import names_of

if TYPE_CHECKING:
    from .decoding import Decoding
    from .learning import Learner
    from .project import Item, Project

PORT, HOST, TOKEN = 8341, "127.0.0.1", ".token"
TASKS = ("entities", "chunks", "tags", "fields")


class FirstPipeline(NamedTuple):
    """The pipeline that a project begins with: a trained one, that of a config, or a fast one for a task.

    task (str): One of `TASKS`.
    model (str | None): A trained pipeline.
    config (Path | None): The config of a pipeline to train.
    component (str | None): The component that learns; None for the only one.
    patterns (Path | None): Phrases of an entity ruler, which the fast pipeline knows.
    """

    task: str = "entities"
    lang: str = "en"
    model: str | None = None
    config: Path | None = None
    component: str | None = None
    patterns: Path | None = None

    def check(self) -> None:
        """Raise ConfigError or DataError on settings that exclude each other, and on patterns that are not there."""
        if self.task not in TASKS:
            raise ConfigError(f"--task {self.task}: unknown task. {suggest(self.task, TASKS)}")
        if self.model is not None and self.config is not None:
            raise ConfigError("--model starts from a trained pipeline, --config from none. Leave one of them out.")
        if self.patterns is not None:
            check_file(self.patterns)

    @property
    def files(self) -> list[str | Path]:
        """The files that are read."""
        return [path for path in (self.model, self.config, self.patterns) if path is not None]

    def load(self) -> tuple[Learner, str]:
        """Return the pipeline's component that learns, and the task as the component can do it.

        RAISES CrfError: If the component cannot do the task, or a file cannot be read.
        """
        from ...pipeline.select import load_pipeline
        from .learning import Learner, blank, configured

        if self.model:
            nlp = load_pipeline(self.model)
        else:
            nlp = configured(self.config) if self.config else blank(self.task, self.lang, self.patterns)
        learner = Learner(nlp, self.component, self.model, runs=self.task == "fields")
        if learner.plain:
            return learner, self.task if self.task == "fields" else "tags"
        if self.task in ("tags", "fields"):
            raise ConfigError(f"--task {self.task}: {learner.name} predicts spans, not tags of tokens.")
        return learner, self.task


FAST = FirstPipeline()


def annotate(
    texts: list[Path],
    output: Path,
    labels: str | None = None,
    layout: Format = None,
    first: FirstPipeline = FAST,
    classes: bool = True,
    review: bool = False,
    sources: bool = False,
    seed: int = 0,
) -> Project:
    """Return the project in a folder, a new one or one to go on with; its model has not begun to learn.

    first (FirstPipeline): The pipeline of a new project.
    The other settings are those of the command.

    RAISES CrfError: If it cannot be worked on, or the texts cannot be read.
    """
    from ...cli.inputs import layout_of
    from .labelled import OfSources, read_labelled
    from .pool import Pool, TextFile
    from .project import Project
    from .review import AnnotatedFile, Review

    first.check()
    texts = resolve_all(texts)
    if review and (first.model is not None or len(texts) > 1):
        raise ConfigError("--review trains models on parts of one corpus: give one file, and no --model.")
    if sources and (review or first.patterns is not None or len(texts) > 1):
        raise ConfigError("--sources shows the labels of one output of 'aggregate': no --review, no --patterns.")
    learner, task = first.load()
    nlp = learner.nlp
    settings = {"task": task, "component": learner.name, "model": first.model, "seed": seed}
    settings["review"] = texts[0].name if review else None
    inputs = [*texts, *first.files]
    if review:
        corpus = AnnotatedFile(learner, TextFile(texts[0], layout_of(texts[0], layout, nlp)))
        return Review(output, learner, corpus, names_of(labels) or [], settings, inputs)
    if sources:
        labelled = read_labelled(texts[0], learner)
        settings["sources"] = texts[0].name
        pool = Pool(nlp, [TextFile(texts[0], layout_of(texts[0], layout, nlp, texts=True))])
        return OfSources(output, learner, pool, labelled, names_of(labels) or [], settings, inputs)
    if not labels and not learner.pipe.labels and not (output / "journal.jsonl").exists():
        raise ConfigError("Give --labels with the labels to begin with, such as --labels PER,LOC,ORG.")
    pool = Pool(nlp, [TextFile(path, layout_of(path, layout, nlp, texts=True)) for path in texts])
    of_words: list[str] | None = None
    if classes and not first.model and not first.config:
        said = asked(layout)
        given = {"--format": said.name, "--columns": said.columns, "--encoding": said.encoding}
        of_words = [*map(str, texts), "--lang", first.lang]
        of_words += [part for name, value in given.items() if value for part in (name, value)]
    return Project(
        output, learner, pool, names_of(labels) or [], settings, guess=_phrases(learner, first.patterns),
        classes=of_words, inputs=inputs,
    )  # fmt: skip


@command("annotate", "Begin")
def annotate_cli(
    texts: Annotated[list[Path], typer.Argument(metavar="TEXTS", help=options.TEXTS_FILE)],
    output: Annotated[Path, options.output("Folder of the project; the same command goes on there")],
    labels: Annotated[str | None, typer.Option(help="Labels, separated by commas; the page can add more")] = None,
    format: options.TextFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    task: Annotated[str, typer.Option("--task", "-t", help=f"What to annotate: {', '.join(TASKS)}")] = "entities",
    lang: options.Lang = "en",
    model: Annotated[str | None, typer.Option(help="Trained pipeline to start from")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Config of the pipeline to train", show_default="a fast one")
    ] = None,
    component: options.OneComponent = None,
    patterns: Annotated[Path | None, typer.Option(help="Phrases: patterns of an entity ruler (.jsonl)")] = None,
    classes: Annotated[
        bool, typer.Option(help="Learn classes of words from the texts in the background, as 'word-classes' does")
    ] = True,
    review: Annotated[
        bool, typer.Option("--review", help="Show the likeliest annotation errors of a corpus, and write it corrected")
    ] = False,
    sources: Annotated[
        bool, typer.Option("--sources", help="Begin with the labels of an output of 'aggregate', doubtful texts first")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the texts drawn at random")] = 0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free")] = PORT,
    code: options.Code = None,
) -> None:
    """Annotate texts in a page on this machine; a model learns from each text and proposes the rest.

    Open the address that the command prints. After each text that you accept, the model is trained again on all of
    them, in the background, and the next text is one that is informative for the time it takes you. Each fifth text
    is drawn at random and shown without predictions: on these, the page computes F1, a learning curve, and when to
    stop.

    Everything is on disk before the page says so; Ctrl-C ends the command, and the same command goes on. The folder
    has journal.jsonl with all decisions, model-best, a pipeline, and train.spacy, dev.spacy and config.cfg, with which
    'fit' trains the same model.

    With --review, TEXTS is one annotated corpus. Five models, each trained on four fifths of it, find texts with likely
    errors in the rest, as 'debug-data --cross-validate' does; the page shows the likeliest first. The folder has the
    corpus as you correct it, in a file of the same name: what you do not change stays unchanged.

    With --sources, TEXTS is an output of 'aggregate'. The page begins with its labels and shows what each source has
    found, the most doubtful texts first. After each text that you accept, a label model learns how far to trust each
    source from your decisions, too, so that the labels and the order of the other texts change. For the texts that you
    do not read, 'aggregate --gold project/train.spacy' does the same.

    Tasks: entities, chunks, tags (one per token), fields (tags whose neighbours join, as in addresses and references).

    Example:
      python -m spacy crfseq annotate news.txt --labels PER,LOC,ORG \\
          --output project/
      python -m spacy crfseq annotate news.txt --output project2/ \\
          --model training/model-best -p crf_ner
      python -m spacy crfseq annotate --review train.conll --output checked/
      python -m spacy crfseq annotate aggregated.spacy --sources --output final/
    """
    project = annotate(
        texts,
        output,
        labels=labels,
        layout=Asked(format, columns, scheme, encoding),
        first=FirstPipeline(task, lang, model, config, component, patterns),
        classes=classes,
        review=review,
        sources=sources,
        seed=seed,
    )
    serve(project, port)
    printer().good(f"Saved {count_of(len(project.state.decisions), 'text')} in {output}; the same command goes on")
    if project.corrected is not None:
        printer().good(f"Wrote the corrected corpus to {project.corrected}")
        return
    advise(f"evaluate {output}/model-best {output}/dev.spacy", f"report {output}/model-best {output}/dev.spacy")


def _phrases(learner: Learner, patterns: Path | None) -> Any:
    """Return a function that finds the phrases of a file in a Doc, for texts before there is a model."""
    if patterns is None:
        return None
    from spacy.matcher import PhraseMatcher
    from spacy.util import filter_spans

    from ...corpora.lines import checked
    from ...corpora.spans.json_values import json_records
    from ...pipeline.doc_posterior import Scored
    from .decoding import Decoding

    matcher = PhraseMatcher(learner.nlp.vocab, attr="LOWER")
    for _, entry in checked(json_records(patterns, "utf8"), patterns):
        label, phrase = entry.get("label"), entry.get("pattern")
        if isinstance(phrase, str) and isinstance(label, str):
            matcher.add(label, [learner.nlp.make_doc(phrase)])

    def guess(item: Item) -> Decoding:
        spans = filter_spans(matcher(item.doc, as_spans=True))
        return Decoding([Scored(span.start, span.end, span.label_, 0.5) for span in spans], [])

    return guess


def serve(project: Project, port: int) -> None:
    """Show the page until Ctrl-C, then save the model."""
    try:
        import uvicorn

        from .server import make_app
    except ImportError as error:
        project.close()
        raise ConfigError(f"{error}: run pip install 'spacy-crfseq[annotate]'.") from None
    try:
        with _listen(port) as listener:
            port = listener.getsockname()[1]
            token = token_of(project.folder)
            sys.setswitchinterval(0.001)  # requests must not wait for the model that learns
            project.start()
            printer().good(f"Open http://{HOST}:{port}/{token}/  (Ctrl-C ends; all is saved)")
            sys.stdout.flush()
            quiet: Any = {"log_level": "warning", "access_log": False, "server_header": False, "lifespan": "off"}
            settings = uvicorn.Config(make_app(project, token, port), **quiet)
            with suppress(KeyboardInterrupt):
                uvicorn.Server(settings).run(sockets=[listener])
    finally:
        project.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio then sends small answers without delay
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(100)  # requests wait until the server is ready
    except OSError as error:
        listener.close()
        raise ConfigError(f"--port {port} cannot be used ({error.strerror}). Give another one, or 0 for any.") from None
    return listener


def token_of(folder: Path) -> str:
    """Return the token of a project's address: the same each time, in a file that only its owner can read.

    RAISES ConfigError: If there is a file that holds something else.
    """
    path = folder / TOKEN
    token = path.read_bytes().decode("utf8", "replace").strip() if path.exists() else ""
    if token and not re.fullmatch(r"[\w-]{16,}", token, re.ASCII):
        raise ConfigError(f"{path} is no token of 'annotate'. Remove it, and give the command again.")
    if not token:  # or an empty one, which a full disk has left
        token = secrets.token_urlsafe(16)
        with replacing(path) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(token)
    return token
