"""``crfseq init-config``: write a complete, commented config that is ready to train.

spaCy fills in the defaults.  Blocks of methods name their function only, so that another one can be chosen on the
command line; it would not accept the settings of the first.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from spacy import util
from thinc.api import Config

from ..corpora import DOCBIN, Preset, guess
from ..corpora.annotations import INCORRECT
from ..corpora.layouts import GOLD, NAMES, Asked, as_options, check_choice, find_layout, layout_by_ending
from ..corpora.outputs import STDOUT, check_output_file
from ..corpora.presets import ANNOTATIONS, marks_documents
from ..corpora.word_classes import lookups_languages
from ..corpora.xml import check_corpus
from ..errors import ConfigError, suggest
from ..files import write_text
from . import options
from ._language import DEFAULT, likely_language
from .app import command
from .console import printer, reported_errors

TASKS = {"tagger": "crf_tagger", "chunker": "crf_chunker", "ner": "crf_ner"}
"""Tasks and their factories, in the order of a pipeline."""
TASK_OF = {"tag": "tagger", "pos": "tagger", "chunk": "chunker", "ent": "ner"}
"""The task that learns from a column."""
ALL = "all"
SENTENCE = "sentence"
NOT_COLUMNS = (DOCBIN, "conllu", "xml", ANNOTATIONS.name)
METHOD_BLOCKS = {
    "features": "crf_features", "loss": "crf_losses", "regularizer": "crf_regularizers",
    "optimizer": "crf_optimizers", "decoder": "crf_decoders",
}  # fmt: skip


class Goal(NamedTuple):
    """A training goal: methods by their short names, settings of `[training]`, and the reason for the optimizer.

    documents (bool): Whether entities get features of the whole document, or of a passage where none is marked.
    joined (Mapping): How the training reader joins sentences for entities.
    """

    optimizer: str
    regularizer: str
    inner_iterations: int
    training: dict[str, Any]
    why: str
    documents: bool = False
    joined: Mapping[str, Any] = {"joined": 0.3}  # which costs no accuracy on sentences


class Recipe(NamedTuple):
    """What a goal uses for a task: a feature set and a decoder by their short names, and settings of blocks."""

    features: str
    decoder: str = "Viterbi"
    settings: Mapping[str, Mapping[str, Any]] = {}


BATCH = {"max_epochs": 40, "eval_frequency": 2, "patience": 10}
"""For `spacy train`: an epoch is `inner_iterations` of the optimizer."""
ONLINE = {"max_epochs": 12, "eval_frequency": 1, "patience": 5}
GOALS = {
    "fast": Goal("AdaGrad", "L2", 1, ONLINE, "four to six epochs, no rate to tune"),
    "accurate": Goal(
        "AdaGrad", "L2", 1, {**ONLINE, "max_epochs": 20},
        "the average of several runs in different orders, more accurate than the optimum",
        documents=True, joined={"joined": 0.7, "twice": True},
    ),
    "small": Goal("OWLQN", "L1", 10, BATCH, "the method for L1; more iterations did not improve results on CoNLL-2002"),
}  # fmt: skip
_AVERAGED = {"optimizer": {"runs": 3}}
_WEAK = {"regularizer": {"rho": 0.5}}  # many features for each word need less of a penalty
_QUICK = {"optimizer": {"tolerance": 0.2}, **_WEAK}  # as long as with fewer features, since fewer epochs are enough
_FIELDS = {"optimizer": {"runs": 3}}  # few texts, rare labels: the mean of three runs, and weights of all pairs
_SMALL = {"optimizer": {"max_iterations": 200}}
RECIPES = {
    ("fast", "tagger"): Recipe("Tagging.v2", settings=_QUICK),
    ("fast", "chunker"): Recipe("Chunking.v2", settings=_QUICK),
    ("fast", "ner"): Recipe("Entities.v2", settings=_WEAK),
    ("accurate", "tagger"): Recipe("Tagging.v2", settings={**_AVERAGED, **_WEAK}),
    ("accurate", "chunker"): Recipe("Chunking.v2", "MaxExpectedF1", {**_AVERAGED, **_WEAK}),
    ("accurate", "ner"): Recipe("Entities.v2", "MaxExpectedF1", {**_AVERAGED, **_WEAK}),
    ("small", "tagger"): Recipe("Tagging.v1", settings=_SMALL),
    ("small", "chunker"): Recipe("Chunking.v1", settings=_SMALL),
    ("small", "ner"): Recipe("Entities.v1", settings=_SMALL),
}
"""Recipes by goal and task."""
WITH_CLASSES = ("de", "en", "es")
"""Languages with word classes in `spacy-lookups-data`."""
ATTRIBUTE_COMMENTS = {
    "classes": "classes of words, learned from raw text, also of words that the corpus lacks; the model contains them",
    "context": "what is around a word elsewhere in its document",
    "labels": "how a first model labels a word elsewhere in its document; training takes six models more",
}
DECODER_COMMENTS = {
    "Viterbi": "the best sequence that the tag scheme permits",
    "MaxExpectedF1": "the spans with the highest expected F1, of those that the tag scheme permits",
}


@command("init-config", "Begin", "init", "new")
def init_config_cli(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="Config to write, or - for stdout", allow_dash=True)],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            "-t",
            help="ner, chunker, tagger, several separated by commas, or all [the usual one for the layout]",
        ),
    ] = None,
    lang: Annotated[
        str | None, typer.Option("--lang", "-l", help="Language code [guessed from the training file]")
    ] = None,
    format_: options.GoldFormat = None,
    columns: options.Columns = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    rename: options.Rename = None,
    goal: Annotated[str | None, typer.Option("--goal", "-g", help=f"Training goal: {', '.join(GOALS)} [fast]")] = None,
    train: Annotated[
        Path | None, typer.Option(help="Training file, for the config and to guess the layout from")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Development file, for the config")] = None,
    force: options.Force = False,
) -> None:
    """Write a config that is ready for 'crfseq fit' or 'spacy train'.

    Run interactively, it prompts for anything you omit: the files first, from which it proposes the rest.

    Goals: fast is AdaGrad, a few epochs. accurate averages three runs of it, chooses the spans with the highest
    expected F1, and, for entities, reads the labels of a word elsewhere in the document, or in 25 sentences if the
    training file marks no documents (-DOCSTART-); training takes two to six times as long. Both use word classes if
    the package spacy-lookups-data is installed and has them (en, de, es). small is OWL-QN with an L1 penalty, which
    leaves most weights zero, for 'crfseq prune' to remove.

    \b
    Score on the test part with word classes, CPU seconds of 'fit', megabytes:
                         fast             accurate
      CoNLL-2003 en F1   86.90  10 s  3   89.43  53 s  8
      CoNLL-2002 es F1   82.01  10 s  4   82.91  32 s  8
      CoNLL-2000 F1      93.99   8 s  6   94.41  21 s  9
      EWT XPOS accuracy  95.04  11 s  6   95.13  22 s  6

    \b
    Example:
      python -m spacy crfseq init-config ner.cfg --task ner --goal fast \\
          --train train.conll --dev dev.conll
      python -m spacy crfseq init-config - --task all --format conll2003 \\
          --goal accurate
    """
    with reported_errors():
        wanted = Wanted(task, lang, Asked(format_, columns, scheme, encoding, rename), goal, train, dev)
        check_output_file(output, train, dev, force=force)  # before any prompt
        settings = complete(wanted, _ask if sys.stdin.isatty() else None)
        text = init_config(settings, output=output)
        if str(output) == STDOUT:
            print(text, end="")
            return
        write_text(output, text)
        if lang is None and train is not None and not sys.stdin.isatty():
            printer().info(f"The language seems to be {settings.lang!r}. If it is another one, give --lang CODE.")
        _show_saved(settings, output)


def _show_saved(settings: Settings, output: Path) -> None:
    read_as = f"{as_options(settings.layout)} ({' '.join(settings.layout.columns)})"
    printer().good(f"Saved {output}: {', '.join(settings.tasks)}, {settings.lang}, {settings.goal}, {read_as}")
    if settings.goal != "small" and settings.lang in WITH_CLASSES and not lookups_languages():
        printer().info(
            "Word classes are left out, because spacy-lookups-data is not installed. They added 0.2 to 1.8 points on "
            "our corpora: run pip install 'spacy-crfseq[lookups]', then this command again."
        )
    for line in _commands(settings, str(output)):
        print(f"  {line}")


class Wanted(NamedTuple):
    """Options that the user gave; None for the others."""

    task: str | None = None
    lang: str | None = None
    layout: Asked = Asked()
    goal: str | None = None
    train: Path | None = None
    dev: Path | None = None


class Settings(NamedTuple):
    """Settings of a config: tasks in pipeline order, the layout of the corpus, and more.

    unit (str): What the readers make a Doc: a sentence, a passage or a document; see `create_conll_reader`.
    """

    tasks: tuple[str, ...]
    lang: str
    layout: Preset
    goal: str
    train: Path | None
    dev: Path | None
    unit: str = SENTENCE


Ask = Callable[[str, Sequence[str], str], str]
"""Prompts with a question, its choices (none: free text) and a default."""


def complete(wanted: Wanted, ask: Ask | None = None) -> Settings:
    """Fill in missing settings from the training file, by prompting with `ask` if given, or by defaults.

    RAISES ConfigError: If a name is unknown, or the layout cannot be determined.
    RAISES FormatError: If there is no such training file.
    """
    for path in filter(None, (wanted.train, wanted.dev)):
        check_corpus(path)
    if wanted.goal is not None:
        check_choice("--goal", wanted.goal, GOALS)
    known = wanted.layout.layout()
    train = wanted.train or (_ask_file("Training", ask) if ask else None)
    dev = wanted.dev or (_ask_file("Development", ask) if ask else None)
    layout = known or wanted.layout.encoded(_layout(train, ask))
    assert layout is not None
    default = TASK_OF.get(layout.score, "ner")
    task = wanted.task or (ask("Task", (*TASKS, ALL), default) if ask else default)
    language = wanted.lang or (likely_language(train, layout) if train else DEFAULT)
    lang = wanted.lang or (_ask_language(language, ask) if ask else language)
    goal = wanted.goal or (ask("Goal", tuple(GOALS), "fast") if ask else "fast")
    tasks = _tasks(task)
    _check_tasks(tasks, layout)
    return Settings(tasks, lang, layout, goal, train, dev, _unit(tasks, layout, goal, train))


def _unit(tasks: Sequence[str], layout: Preset, goal: str, train: Path | None) -> str:
    has_sentences = "weight" in layout.columns or layout.form is not None  # which have weights, or are elements
    if "ner" not in tasks or not GOALS[goal].documents or has_sentences:
        return SENTENCE
    if layout.name in (DOCBIN, ANNOTATIONS.name):
        return "document"
    return "document" if train is not None and marks_documents(train, layout) else "passage"


def _ask_file(which: str, ask: Ask) -> Path | None:
    while answer := ask(f"{which} file (Enter to skip)", (), ""):
        if Path(answer).is_file():
            return Path(answer)
        typer.echo(f"{answer}: no such file.", err=True)
    return None


def _ask_language(default: str, ask: Ask) -> str:
    while True:
        code = ask("Language code", (), default)
        try:
            util.get_lang_class(code)
        except ImportError:
            typer.echo(f"spaCy has no language {code!r}. Give a code such as en, or xx for any language.", err=True)
        else:
            return code


def _layout(train: Path | None, ask: Ask | None) -> Preset:
    if train is not None:
        ending = layout_by_ending(train)
        # unlike `find_layout`, with the guessed encoding
        seems = guess(train) if ending in (None, "xml") else GOLD[ending]
        if seems is not None or ask is None:
            return seems or find_layout(train).layout  # which raises
    if ask is None:
        raise ConfigError(f"Give --format ({', '.join(NAMES)}), --columns, or --train with a file to guess it from.")
    answer = ask(f"Format of the corpus ({', '.join(NAMES)}) or its columns, with commas", (), "conll2003")
    layout = (Asked(columns=answer) if "," in answer else Asked(answer)).layout()
    assert layout is not None
    return layout


def _tasks(text: str) -> tuple[str, ...]:
    named, known = [part.strip() for part in text.split(",") if part.strip()], (*TASKS, ALL)
    for name in named:
        check_choice("--task", name, known)
    if not named:
        raise ConfigError(f"--task is empty. Known: {', '.join(known)}.")
    return tuple(name for name in TASKS if name in named or ALL in named)


def _check_tasks(tasks: Sequence[str], layout: Preset) -> None:
    possible = {TASK_OF[name] for name in layout.columns if name in TASK_OF}
    for task in tasks:
        if task not in possible:
            needed = " or ".join(name for name, of in TASK_OF.items() if of == task)
            raise ConfigError(
                f"--task {task} learns from a column {needed}, which {as_options(layout)} does not have: it holds "
                f"{' '.join(layout.columns)}. It can be used for: {', '.join(sorted(possible)) or 'nothing'}. Give "
                "another --task, --format or --columns."
            )


def _ask(question: str, choices: Sequence[str], default: str) -> str:
    shown = f"{question} ({', '.join(choices)})" if choices else question
    while True:
        answer = str(typer.prompt(shown, default=default, show_default=bool(default), err=True)).strip()
        # several tasks may be given, comma-separated
        if not choices or all(part.strip() in choices for part in answer.split(",")):
            return answer
        typer.echo(suggest(answer, choices), err=True)


def init_config(settings: Settings, output: Path | str = "config.cfg") -> str:
    """Return the text of a config.

    RAISES ConfigError: If spaCy cannot make the language.
    """
    base = _base(settings)
    config = Config(base, section_order=util.CONFIG_SECTION_ORDER)
    try:
        filled = util.load_model_from_config(config, auto_fill=True, validate=False).config
    except ImportError as error:  # no such language, or one whose tokenizer is another package
        raise ConfigError(f"--lang {settings.lang}: {error}") from None
    for name, component in base["components"].items():
        filled["components"][name].update({block: component[block] for block in ("attributes", *METHOD_BLOCKS)})
    filled["paths"] = base["paths"]
    filled.pop("pretraining")
    text = _commented(_ordered(filled.to_str(interpolate=False)), _comments(settings))
    return f"{_head(settings, str(output))}{text}\n"


def _ordered(text: str) -> str:
    """Order the sections of a config as in spaCy's documentation, each block before its sub-blocks."""
    # releases of confection differ in where they put components, and in whether blocks follow their section
    blocks = re.split(r"\n+(?=\[)", text.strip())
    names = [block.partition("]")[0].strip("[").split(".") for block in blocks]
    first = {tuple(name[:2]): i for i, name in reversed(list(enumerate(names)))}
    tops = [*util.CONFIG_SECTION_ORDER, *(name[0] for name in names)]
    order = sorted(range(len(blocks)), key=lambda i: (tops.index(names[i][0]), first[tuple(names[i][:2])]))
    return "\n\n".join(blocks[i] for i in order)


def _base(settings: Settings) -> dict[str, Any]:
    names = [TASKS[task] for task in settings.tasks]
    annotating = ["crf_tagger"] if "crf_tagger" in names and "crf_chunker" in names else []
    paths = {name: str(path) if path else None for name, path in (("train", settings.train), ("dev", settings.dev))}
    nlp: dict[str, Any] = {"lang": settings.lang, "pipeline": names}
    if settings.layout.form is not None:
        tokens = {key: getattr(settings.layout.form, key) for key in ("pattern", "between")}
        nlp["tokenizer"] = {"@tokenizers": "spacy_crfseq.RegexTokenizer.v1", **tokens}
        paths["dev"] = paths["dev"] or "${paths.train}"
    return {
        "paths": paths,
        "system": {"seed": 0, "gpu_allocator": None},
        "nlp": nlp,
        "components": {TASKS[task]: _component(task, settings) for task in settings.tasks},
        "corpora": {name: _corpus(name, settings) for name in ("train", "dev")},
        "training": {
            "seed": "${system.seed}",
            "gpu_allocator": "${system.gpu_allocator}",
            "train_corpus": "corpora.train",
            "dev_corpus": "corpora.dev",
            "dropout": 0.0,
            "max_steps": 0,
            **GOALS[settings.goal].training,
            "annotating_components": annotating,
            "batcher": {"@batchers": "spacy_crfseq.full_batch.v1"},
            "optimizer": {"@optimizers": "Adam.v1"},
            "logger": {"@loggers": "spacy.ConsoleLogger.v1"},
        },
        "initialize": {"vectors": None, "init_tok2vec": None},
    }


def _component(task: str, settings: Settings) -> dict[str, Any]:
    goal, recipe = GOALS[settings.goal], RECIPES[settings.goal, task]
    own: dict[str, dict[str, Any]] = {
        "tagger": {"attr": "tag" if "tag" in settings.layout.columns else "pos"},
        "chunker": {"spans_key": "chunks", "scheme": "BILUO" if settings.goal == "accurate" else "IOB2"},
        "ner": {"scheme": "BILUO"},
    }
    features = RECIPES[settings.goal, _features_of(task, settings)].features
    names = (features, "SequentialLog.v1", f"{goal.regularizer}.v1", f"{goal.optimizer}.v1", f"{recipe.decoder}.v1")
    named = zip(METHOD_BLOCKS.items(), names, strict=True)
    fields = settings.layout.form is not None and settings.goal != "small"
    blocks = {
        block: {
            f"@{registry}": f"spacy_crfseq.{name}",
            **recipe.settings.get(block, {}),
            **(_FIELDS.get(block, {}) if fields else {}),
        }
        for (block, registry), name in named
    }
    if settings.layout.name == ANNOTATIONS.name:
        own["ner"]["incorrect_spans_key"] = INCORRECT
    common = {"support": "all" if fields else "observed", "inner_iterations": goal.inner_iterations}
    return {"factory": TASKS[task], **own[task], **common, "attributes": _attributes(task, settings), **blocks}


def _attributes(task: str, settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the plug-ins that add attributes: word classes where there are some, the document where it is marked."""
    found: dict[str, dict[str, Any]] = {}
    if settings.goal != "small" and settings.lang in lookups_languages():
        found["classes"] = {"@crf_attributes": "spacy_crfseq.WordClasses.v1", "lookups": settings.lang}
    if task == "ner" and settings.unit != SENTENCE:
        found["context"] = {"@crf_attributes": "spacy_crfseq.DocumentWords.v1"}
        first = {"@crf_optimizers": "spacy_crfseq.AdaGrad.v1"}
        found["labels"] = {"@crf_attributes": "spacy_crfseq.DocumentLabels.v1", "optimizer": first}
    return found


def _features_of(task: str, settings: Settings) -> str:
    """Return the task whose features fit: those of spans for segments of XML, and for a chunker without tags."""
    of_words = settings.layout.form is not None or (task == "chunker" and not _has_tags(settings))
    return "ner" if of_words else task


def _has_tags(settings: Settings) -> bool:
    """Whether a chunker will see tags: a tagger's, or those of the corpus, which spaCy's reader does not pass on."""
    layout = settings.layout
    given = "tag" in layout.columns and layout.name != DOCBIN and layout.form is None
    return "tagger" in settings.tasks or given


def _given(settings: Settings) -> list[str]:
    return ["tag"] if "chunker" in settings.tasks and "tagger" not in settings.tasks and _has_tags(settings) else []


def _encoded(block: dict[str, Any], layout: Preset) -> dict[str, Any]:
    return block if layout.encoding in ("", "utf8") else {**block, "encoding": layout.encoding}


def _corpus(name: str, settings: Settings) -> dict[str, Any]:
    layout, path = settings.layout, f"${{paths.{name}}}"
    if layout.name == DOCBIN:
        return {"@readers": "spacy.Corpus.v1", "path": path}
    given = _given(settings)
    form: dict[str, Any] = {} if settings.unit == SENTENCE else {"unit": settings.unit}
    if name == "train":
        form.update(_joined(settings))
    if layout.form is not None:
        tokens = {key: f"${{nlp.tokenizer.{key}}}" for key in ("pattern", "between")}
        own = {"rename": layout.form.rename, "part": "all" if settings.dev else name}
        own = {"path": path, "sequence": layout.form.sequence, **tokens, **own}
        return _encoded({"@readers": "spacy_crfseq.XMLReader.v1", **own}, layout)
    if layout.name == "conllu":
        return _encoded({"@readers": "spacy_crfseq.ConlluReader.v1", "path": path, "given": given, **form}, layout)
    if layout.name == ANNOTATIONS.name:
        return _encoded({"@readers": "spacy_crfseq.AnnotationReader.v1", "path": path}, layout)
    used = {"word", "weight", *given, *(column for column, task in TASK_OF.items() if task in settings.tasks)}
    return {
        "@readers": "spacy_crfseq.ConllReader.v1",
        "path": path,
        "columns": [column if column in used else "_" for column in layout.columns],
        "scheme": layout.scheme if layout.scheme != "plain" else "IOB2",
        "given": given,
        **form,
        "on_invalid": "conlleval",
        "encoding": layout.encoding,
    }


def _joined(settings: Settings) -> Mapping[str, Any]:
    """Return how the training reader joins sentences; where passages are read, that would cost accuracy."""
    return GOALS[settings.goal].joined if "ner" in settings.tasks and settings.unit != "passage" else {}


def _head(settings: Settings, output: str) -> str:
    tags = "Part-of-speech tags" if settings.layout.form is None else "Labels of words"
    what = {"tagger": tags, "chunker": "Chunks", "ner": "Named entities"}
    title = ", then ".join(what[task] if i == 0 else what[task].lower() for i, task in enumerate(settings.tasks))
    others = {DOCBIN: "spaCy's binary format", ANNOTATIONS.name: "an annotation tool's export", "xml": "XML"}
    layout = others.get(settings.layout.name, f"columns {' '.join(settings.layout.columns)}")
    lines = [f"{title}; {layout}. Goal: {settings.goal}.", "", "Check the corpus, train, score:", ""]
    lines += [f"  {line}" for line in _commands(settings, output)]
    lines += ["", "Every method can be replaced on the command line; settings follow the name of their block:", ""]
    name = TASKS[settings.tasks[-1]]
    other = "@crf_optimizers spacy_crfseq.AdaGrad.v1"
    lines.append(f"  --components.{name}.optimizer.{other} --components.{name}.regularizer.rho 0.5")
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n"


def _commands(settings: Settings, output: str) -> list[str]:
    config = "config.cfg" if output == STDOUT else shlex.quote(output)
    ending = f".{settings.layout.name}" if settings.layout.name in NOT_COLUMNS else ".conll"
    files = settings.train or f"train{ending}", settings.dev or f"dev{ending}"
    train, dev = (shlex.quote(str(file)) for file in files)
    paths = "" if settings.train and settings.dev else f" --paths.train {train} --paths.dev {dev}"
    of_dev = f" --dev {dev}"
    if settings.layout.form is not None and settings.dev is None:  # cut from the training file
        of_dev, paths = "", "" if settings.train else f" --paths.train {train}"
    commands = [
        f"python -m spacy crfseq debug-data {train}{of_dev} --config {config}",
        f"python -m spacy crfseq fit {config} --output training/{paths}",
    ]
    model = "training/model-best"
    if settings.goal == "small":
        model = "training/model-small"
        commands.append(f"python -m spacy crfseq prune training/model-best {model}")
    if not of_dev:
        return [*commands, f"python -m spacy crfseq fit {config} --cross-validate 5{paths}"]
    return [*commands, f"python -m spacy crfseq evaluate {model} {dev}"]


def _comments(settings: Settings) -> dict[str, str]:
    comments = {
        "training": "'crfseq fit' takes the corpora, score weights, seed and annotating_components from here, and ends "
        "when the optimizer\n# has converged; epochs, steps and patience are for 'spacy train'",
        "training.batcher": "one step is the whole corpus",
        "training.optimizer": "required by spaCy; the components use their own",
    }
    if settings.layout.form is not None:
        comments["nlp.tokenizer"] = "tokens are the matches of the pattern, here and in the corpora"
        form = "how the elements of a file become sequences: nested, other, ignore, attributes, join"
        comments.update({f"corpora.{name}.sequence": form for name in ("train", "dev")})
        if settings.dev is None:
            cut = 'each tenth sequence is for development; with a file for it, set part = "all" in both corpora'
            comments["corpora.train.part"] = cut
    if "chunker" in settings.tasks and "tagger" in settings.tasks:
        comments["training.annotating_components"] = "the chunker learns from the tags that the tagger predicts"
    for name in ("train", "dev") if _given(settings) else ():
        comments[f"corpora.{name}.given"] = "tags are an input of the task: text to be chunked needs them, too"
    invalid = 'tags that violate the scheme are read as the CoNLL scorer does, with a warning; "error" rejects them'
    if settings.layout.name not in NOT_COLUMNS:
        if _joined(settings):
            comments["corpora.train.joined"] = "share joined to the sentence before, since texts mark no sentences"
        comments.update({f"corpora.{name}.on_invalid": invalid for name in ("train", "dev")})
    for task in settings.tasks:
        texts = _method_comments(task, settings)
        texts.update({f"attributes.{name}": ATTRIBUTE_COMMENTS[name] for name in _attributes(task, settings)})
        comments.update({f"components.{TASKS[task]}.{key}": text for key, text in texts.items()})
    if "chunker" in settings.tasks and not _has_tags(settings):
        comments["components.crf_chunker.features"] = "words only, since the corpus has no tags"
    return comments


def _method_comments(task: str, settings: Settings) -> dict[str, str]:
    goal, recipe = GOALS[settings.goal], RECIPES[settings.goal, task]
    features = {
        "tagger": "the word, its affixes, spelling and neighbours",
        "chunker": "words and tags around the token",
        "ner": "words, affixes and shapes in a window of two",
    }
    return {
        "support": '"all" gives every attribute-label pair a weight: larger, seldom better',
        "inner_iterations": "iterations of the optimizer in each step of 'spacy train'",
        "scores": "true stores a probability with every prediction",
        "features": f"{features[_features_of(task, settings)]}; spacy_crfseq.Templates.v1 takes templates of your own",
        "loss": "the log-likelihood: gives probabilities",
        "regularizer": {
            "L1": "leaves most weights zero; the higher rho [1.0], the smaller the model",
            "L2": "keeps weights small; a higher rho [1.0] keeps them smaller",
        }[goal.regularizer],
        "optimizer": goal.why,
        "decoder": DECODER_COMMENTS[recipe.decoder],
    }


def _commented(text: str, comments: Mapping[str, str]) -> str:
    left, section, lines = dict(comments), "", []
    for line in text.splitlines():
        if line.startswith("["):
            section = place = line.strip("[]")
        else:
            place = f"{section}.{line.partition(' = ')[0]}"
        comment = left.pop(place, None)
        if comment is not None:
            lines.append(f"# {comment}")
        lines.append(line)
    if left:
        raise KeyError(f"no place in the config for comments on {sorted(left)}")
    return "\n".join(lines)
