"""``crfseq init-config``: write a complete, commented config that is ready to train.

The template ``templates/config.cfg.jinja`` has what tasks, layouts and goals need, with comments; spaCy fills in the
defaults.  Blocks of methods name their function and few settings, so that another one can be chosen on the command
line; it would not accept the settings of the first.
"""

from __future__ import annotations

import configparser
import json
import re
import runpy
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from itertools import chain, islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import typer
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from spacy import lang as languages
from spacy import util
from spacy.language import Language
from thinc.api import Config

from ... import processes
from ...cli.console import printer
from ...corpora import DOCBIN, SPAN_COLUMNS, Preset, Sentence, guess, layouts
from ...corpora.columns import MISSING_ENTITY
from ...corpora.guessing import end_alike, find_layout, with_scheme
from ...corpora.layouts import read_spans
from ...corpora.outputs import STDOUT, check_output_file, locked
from ...corpora.paths import corpus_files, resolve_all
from ...corpora.spans import INCORRECT
from ...corpora.tags import alike_message
from ...corpora.word_classes import PARTS, lookups_languages
from ...errors import ConfigError, CrfError, FormatError, suggest
from ...files import digest, write_text
from ...pipeline.word_vectors import vector_files
from ...schemes import OUTSIDE

TASKS = {"tagger": "crf_tagger", "chunker": "crf_chunker", "ner": "crf_ner"}
"""Tasks and their factories, in the order of a pipeline."""
TASK_OF = {"tag": "tagger", "pos": "tagger", "chunk": "chunker", "ent": "ner"}
"""The task that learns from a column."""
ALL = "all"
GOALS = ("fast", "accurate", "small")
METHOD_BLOCKS = {
    "features": "crf_features", "loss": "crf_losses", "regularizer": "crf_regularizers",
    "optimizer": "crf_optimizers", "decoder": "crf_decoders",
}  # fmt: skip
WITH_CLASSES = ("de", "en", "es")
"""Languages with word classes in `spacy-lookups-data`."""
WITH_PARTS = ("en",)
"""Languages whose tags become more accurate by the parts of speech there; others were not measured."""
WITH_PAIRS = ("en",)
"""Languages whose tags become more accurate by pairs of suffixes; Spanish ones lose."""
PATHS = ("train", "dev", "raw", "vectors", "lists")
GRAINS, PREFIXES = (200, 800, 3000), (8, 18, 0)
"""Numbers of classes of words by their vectors, and the bits that name the class of each number."""
DEFAULT, ANY = "en", "xx"
"""The language without a corpus, and spaCy's code for a language that is not clear."""
LANGUAGES = tuple("ca da de el en es fi fr hr hu it lt nb nl pl pt ro ru sv tr uk".split())  # noqa: SIM905
LATIN = tuple(code for code in LANGUAGES if code not in ("el", "ru", "uk"))
LENT = ("de", "es")
"""Languages whose word classes serve the entities of another one in Latin letters: most names are the same."""
STDERR = 2
"""The file number of the standard error, where progress is shown."""
SENTENCES = 1000
"""Sentences from which the language is guessed; of a DocBin, Docs."""
FEW = 100_000
"""Words up to which a corpus of entities is small: its training takes so few seconds that a decoder may learn from
models of its parts, whatever the goal."""
LEAST, LEAD = 0.2, 1.3
"""Share of stop words among the words below which a corpus is in none of these languages; running text has 0.3.  And
how many times as large as that of the next language it must be."""


SPANS = "spans"
NO_LABELS = ("", "_", OUTSIDE, MISSING_ENTITY)
"""Tags of tokens without a label."""
CHARACTERS = 0.95
"""Share of the tokens that are single characters, from which a corpus counts as one of characters."""


class Wanted(NamedTuple):
    """Options that the user gave; None for the others."""

    task: str | None = None
    lang: str | None = None
    layout: layouts.Asked = layouts.Asked()
    goal: str | None = None
    train: Path | None = None
    dev: Path | None = None


class ConfigSettings(NamedTuple):
    """Settings of a config: tasks in pipeline order, the layout of the corpus, and more.

    unit (str): What the readers make a Doc: a sentence, a passage or a document (`create_conll_reader`).
    characters (bool): Whether the tokens are single characters, as where words are to be found.
    few (int): The number of its words if it is small, else 0.
    of_dev (Preset | None): The layout of the dev corpus, if it needs another reader than the training corpus.
    doubtful (tuple[str, ...]): Tasks whose labels have probabilities in the training corpus, as `aggregate` notes them.
    raw (Path | None): The file of classes that were learned from the user's raw text.
    vectors (Path | None): The file of classes of words by their vectors.
    lists (Path | None): The user's lists of phrases.
    """

    tasks: tuple[str, ...]
    lang: str
    layout: Preset
    goal: str
    train: Path | None
    dev: Path | None
    unit: str = "sentence"
    characters: bool = False
    few: int = 0
    of_dev: Preset | None = None
    doubtful: tuple[str, ...] = ()
    raw: Path | None = None
    vectors: Path | None = None
    lists: Path | None = None


Ask = Callable[[str, Sequence[str], str], str]
"""Prompts with a question, its choices (none: free text) and a default."""


def complete(wanted: Wanted, ask: Ask | None = None) -> ConfigSettings:
    """Fill in missing settings from the training file, by prompting with `ask` if given, or by defaults.

    RAISES ConfigError: If a name is unknown, or the layout cannot be determined.
    RAISES FormatError: If there is no such training file.
    """
    for path in filter(None, (wanted.train, wanted.dev)):
        corpus_files(path)
    if wanted.goal is not None:
        layouts.check_choice("--goal", wanted.goal, GOALS)
    given = wanted.layout.layout()
    train = wanted.train or (_ask_file("Training", ask) if ask else None)
    dev = wanted.dev or (_ask_file("Development", ask) if ask else None)
    layout = given or wanted.layout.encoded(_layout(train, ask))
    assert layout is not None
    if given and train is not None and wanted.layout.scheme is None:
        layout = with_scheme(train, layout)
    if layout.name == DOCBIN and (several := [path for path in (train, dev) if path and not path.exists()]):
        raise ConfigError(
            f"{several[0]}: spaCy's reader of .spacy files takes a file or a folder. Put them into a folder, or join "
            "them by 'convert' to columns."
        )
    of_dev = _layout_of_dev(layout, train, dev) if given is None and train is not None and dev is not None else None
    if layout.name == DOCBIN and layout.skip_invalid:
        raise ConfigError(
            "--skip-invalid: spaCy's reader of .spacy files cannot leave anything out. Write such a file anew: "
            "convert FILE.spacy NEW.conll --to word,ent --skip-invalid."
        )
    default = TASK_OF.get(layout.score, "ner")
    task = wanted.task or (ask("Task", (*TASKS, ALL), default) if ask else default)
    language = wanted.lang or (likely_language(train, layout) if train else DEFAULT)
    lang = wanted.lang or (_ask_language(language, ask) if ask else language)
    goal = wanted.goal or (ask("Goal", GOALS, "fast") if ask else "fast")
    tasks = _tasks(task)
    _check_tasks(tasks, layout)
    for corpus, read_as in ((train, layout), (dev, of_dev or layout.complete)):
        if corpus is not None:
            _check_corpus(corpus, read_as, lang, [column for column, of in TASK_OF.items() if of in tasks])
    doubtful = _doubtful(tasks, train) if train is not None and layout.name == DOCBIN else ()
    few = 0 if train is None or "ner" in doubtful else _few(tasks, layout, train)  # a decoder learns from what is sure
    characters = train is not None and _are_characters(train, layout)
    unit = _unit(tasks, layout, goal, train, small=few > 0 and not characters)
    return ConfigSettings(tasks, lang, layout, goal, train, dev, unit, characters, few, of_dev, doubtful)


def _layout_of_dev(layout: Preset, train: Path, dev: Path) -> Preset | None:
    """Return the layout of a dev corpus, None if the reader of a training corpus in this layout reads it.

    RAISES ConfigError: If it has another layout that cannot stand next to it.
    RAISES FormatError: If it cannot be found out.
    """
    if end_alike(train, dev):
        return None
    own = _layout(dev, None)._replace(skip_invalid=layout.skip_invalid)
    if _kind(own) == _kind(layout):
        return None
    if _kind(own) not in (DOCBIN, SPANS, layouts.CUSTOM):
        raise ConfigError(
            f"{dev}: the training corpus has another layout. Give both the same: convert {dev} "
            f"{dev.with_suffix('.spacy').name}."
        )
    return own.complete


def _kind(layout: Preset) -> str:
    """Return the kind of the files of a layout, each of which has a reader: columns, spans, or the layout itself."""
    if layout.spans is not None:
        return SPANS
    return layout.name if layout.name in (DOCBIN, "conllu") or layout.form is not None else layouts.CUSTOM


def _language(lang: str) -> Language:
    try:
        language: Language = util.get_lang_class(lang)()
    except ImportError as error:  # no such language, or one whose tokenizer is another package
        raise ConfigError(f"--lang {lang}: {error}") from None
    return language


def _check_corpus(path: Path, layout: Preset, lang: str, columns: Sequence[str]) -> None:
    """Read a corpus as training will, and RAISE CrfError: If it cannot, or nothing that it learns is annotated."""
    from ...pipeline.corpus_reader import CorpusReader
    from ...pipeline.doc_builder import CorpusSettings

    if layout.name == DOCBIN or layout.form is not None:
        return
    by_column: dict[str, set[str]] = {column: set() for column in columns}
    for sentence in CorpusReader(CorpusSettings(path, layout)).sentences(_language(lang)):
        for column, tags in by_column.items():
            tags.update(sentence.columns.get(column, ()))
    labels = {column: {tag for tag in tags if tag not in NO_LABELS} for column, tags in by_column.items()}
    if not any(labels.values()):
        raise FormatError(path, 0, f"nothing is annotated ({' or '.join(columns)}), so nothing can be learned.")
    for column, tags in labels.items():
        if said := alike_message(tag[2:] if column in SPAN_COLUMNS else tag for tag in tags):
            warnings.warn(f"{path}: {column}: {said}", stacklevel=2)


def _doubtful(tasks: Sequence[str], train: Path) -> tuple[str, ...]:
    """Return the tasks of which a file .spacy has labels with probabilities."""
    from spacy.vocab import Vocab

    from ...pipeline.soft_labels import read_soft_labels
    from ...pipeline.texts import load_docs

    noted = set[str]()
    for doc in load_docs(train, Vocab(), _pass_over):
        noted.update(task for task in tasks if read_soft_labels(doc, TASKS[task]))
        if len(noted) == len(tasks):
            break
    return tuple(task for task in tasks if task in noted)


def _unit(tasks: Sequence[str], layout: Preset, goal: str, train: Path | None, *, small: bool) -> str:
    has_sentences = "weight" in layout.columns or layout.form is not None  # which have weights, or are elements
    if "ner" not in tasks or has_sentences or not (goal == "accurate" or (goal == "fast" and small)):
        return "sentence"
    documents = layout.name == DOCBIN or layout.spans is not None
    if train is not None and not documents and layouts.marks_documents(train, layout):
        return "document"
    return "passage" if not documents else "document" if goal == "accurate" else "sentence"


def _few(tasks: Sequence[str], layout: Preset, train: Path) -> int:
    """Return the number of words of a corpus of entities if it is small, else 0."""
    if "ner" not in tasks or layout.form is not None:
        return 0
    with suppress(ValueError):  # of a file that cannot be read, which the commands that train report
        count = sum(1 for _ in islice(chain.from_iterable(_sentences(train, layout)), FEW + 1))
        return count if count <= FEW else 0
    return 0


def _ask_file(which: str, ask: Ask) -> Path | None:
    while answer := ask(f"{which} file (Enter to skip)", (), ""):
        try:
            corpus_files(answer)
        except CrfError as error:
            typer.echo(error, err=True)
        else:
            return Path(answer)
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
    names = ", ".join(layouts.NAMES)
    if train is not None:
        ending = layouts.layout_by_ending(corpus_files(train)[0])
        # unlike `find_layout`, with the guessed encoding
        seems = guess(train) if ending in (None, "xml") else layouts.GOLD[ending]
        if seems is not None or ask is None:
            return seems or find_layout(train).layout  # which raises
    if ask is None:
        raise ConfigError(f"Give --format ({names}), --columns, or --train with a file to guess it from.")
    answer = ask(f"Format of the corpus ({names}) or its columns, with commas", (), "conll2003")
    layout = (layouts.Asked(columns=answer) if "," in answer else layouts.Asked(answer)).layout()
    assert layout is not None
    return layout


def _tasks(text: str) -> tuple[str, ...]:
    named, choices = [part.strip() for part in text.split(",") if part.strip()], (*TASKS, ALL)
    for name in named:
        layouts.check_choice("--task", name, choices)
    if not named:
        raise ConfigError(f"--task is empty. Known: {', '.join(choices)}.")
    return tuple(name for name in TASKS if name in named or ALL in named)


def _check_tasks(tasks: Sequence[str], layout: Preset) -> None:
    possible = {TASK_OF[name] for name in layout.columns if name in TASK_OF}
    for task in tasks:
        if task not in possible:
            needed = " or ".join(name for name, of in TASK_OF.items() if of == task)
            raise ConfigError(
                f"--task {task} learns from a column {needed}, which {layouts.as_options(layout)} does not have: it "
                f"holds {' '.join(layout.columns)}. It can be used for: {', '.join(sorted(possible)) or 'nothing'}. "
                "Give another --task, --format or --columns."
            )


def _ask(question: str, choices: Sequence[str], default: str) -> str:
    shown = f"{question} ({', '.join(choices)})" if choices else question
    while True:
        answer = str(typer.prompt(shown, default=default, show_default=bool(default), err=True)).strip()
        # several tasks may be given, comma-separated
        if not choices or all(part.strip() in choices for part in answer.split(",")):
            return answer
        typer.echo(suggest(answer, choices), err=True)


def init_config(settings: ConfigSettings, output: Path | str = "config.cfg") -> str:
    """Return the text of a config.

    RAISES ConfigError: If spaCy cannot make the language.
    """
    text = _render(settings, str(output))
    base = util.load_config_from_str(text)
    try:
        filled = util.load_model_from_config(base, auto_fill=True, validate=False).config
    except ImportError as error:  # no such language, or one whose tokenizer is another package
        raise ConfigError(f"--lang {settings.lang}: {error}") from None
    for name, component in base["components"].items():
        filled["components"][name].update({block: component[block] for block in ("attributes", *METHOD_BLOCKS)})
    filled["paths"] = base["paths"]
    filled.pop("pretraining")
    head = text.partition("[paths]")[0]
    return f"{head}{_commented(_ordered(filled.to_str(interpolate=False)), text)}\n"


def _render(settings: ConfigSettings, output: str) -> str:
    """Return the config before spaCy adds its defaults."""
    layout, tasks = settings.layout, settings.tasks
    # a chunker sees a tagger's tags, or those of the corpus, which spaCy's reader does not pass on
    tagged = "tagger" in tasks or ("tag" in layout.columns and layout.name != DOCBIN and layout.form is None)
    learned = {column for column, task in TASK_OF.items() if task in tasks}
    learned |= {"word", "weight", "group", *(["tag"] if "chunker" in tasks and tagged else [])}
    paths = {name: path and str(path) for name, path in settings._asdict().items() if name in PATHS}
    return _template().render(
        {**settings._asdict(), **paths}, factories=TASKS, output=output, tagged=tagged, incorrect=INCORRECT,
        classes=_classes(settings.lang), has_names=_has_names(),
        prefixes=[*PREFIXES],
        pairs=settings.lang in WITH_PAIRS,
        parts_of_speech=settings.lang in WITH_PARTS and settings.lang in lookups_languages(PARTS),
        read=[column if column in learned else "_" for column in layout.columns],
        read_dev=[column if column in learned else "_" for column in (settings.of_dev or layout).columns],
    )  # fmt: skip


@cache
def _template() -> Template:
    """Return the template of a config; compiling it takes longer than to fill it in."""
    environment = Environment(
        loader=PackageLoader(__package__), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(json=_value, quote=_quoted)
    return environment.get_template("config.cfg.jinja")


def _value(value: Any) -> str:
    """Return a value as a config has it.  RAISES ConfigError: If the config would be read otherwise."""
    text = json.dumps(value)
    try:
        json.dumps(value, ensure_ascii=False).encode()  # srsly fails at halves of characters
        configs = f"[written]\nvalue = {text}", Config({"written": {"value": value}}).to_str(interpolate=False)
        read = [util.load_config_from_str(config, interpolate=True)["written"]["value"] for config in configs]
    except (ValueError, configparser.Error):  # which does not say where it comes from
        read = []
    if read != [value, value]:
        what = "a $ begins a variable there" if "$" in text else "it would be read otherwise"
        raise ConfigError(f"{value!r} cannot be written into a config: {what}. Give another name.")
    return text


def _quoted(value: object) -> str:
    """Return an argument of a command as a comment has it.  RAISES ConfigError: If it is not one line of text."""
    text = shlex.quote(str(value))
    if len(text.splitlines()) > 1 or text.encode("utf8", "ignore").decode() != text:
        raise ConfigError(f"{str(value)!r} cannot be written into a config: it is not one line of text. Rename it.")
    return text


def _classes(lang: str) -> dict[str, str]:
    """Return the languages whose word classes a config uses, by the names of their blocks."""
    tables = lookups_languages()
    if lang in tables:
        return {"classes": lang}
    return {f"classes_{other}": other for other in LENT if lang in LATIN and other in tables}


def _has_names() -> bool:
    return find_spec("faker") is not None


def learn_classes(texts: Sequence[Path], settings: ConfigSettings, output: Path) -> Path:
    """Return the file of classes that `word-classes` learns from raw texts and the training file, beside the config.

    RAISES ConfigError: As `_learned`.
    """
    files = [*texts, *filter(None, [settings.train])]
    of = [settings.lang, *map(digest, resolve_all(files))]
    return _learned("raw", "word-classes", [*map(str, files), "--lang", settings.lang], of, settings, output)


def learn_vector_classes(what: str, settings: ConfigSettings, output: Path) -> Path:
    """Return the file of classes that `vector-classes` learns from the vectors of words, beside the config.

    RAISES ConfigError: As `_learned`, or if there are no such vectors, or no word of the training file has a class.
    """
    sizes = ",".join(map(str, GRAINS))
    of = [sizes, *map(digest, vector_files(what))]
    path = _learned("vectors", "vector-classes", [what, "--sizes", sizes], of, settings, output)
    if settings.train is not None:
        share = _share(path, settings.train, settings.layout)
        if not share:
            raise ConfigError(f"--vectors {what}: no word of {settings.train} has a vector. Is it another language?")
        printer().info(f"--vectors {what}: {share:.1%} of the words of {settings.train} have a class.")
    return path


def _share(path: Path, train: Path, layout: Preset) -> float:
    """Return the share of the tokens with a letter that have a class, of the first sentences of a corpus."""
    from ...features.word_classes import WordClasses  # no command needs features to start

    classes = WordClasses(path)
    has_class = [classes.class_of(word) is not None for word in _words(train, layout) if word.upper() != word.lower()]
    return sum(has_class) / max(1, len(has_class))


def _learned(
    name: str, command: str, arguments: list[str], contents: list[str], settings: ConfigSettings, output: Path
) -> Path:
    """Return the file of classes that a command writes beside the config.

    Its name has a digest of the contents of the inputs, so that the same classes are learned once.
    RAISES ConfigError: If they have no place or no use, or the command fails, which says why.
    """
    if settings.goal == "small" or str(output) == STDOUT:
        raise ConfigError(
            f"--{name}: small models have no word classes, and a config that goes to - no place for them."
        )
    of = blake2b("".join(contents).encode(), digest_size=4).hexdigest()
    path = output.with_name(f"{output.stem}-classes-{of}.tsv")
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent, path, inf):  # who comes second finds the classes of the first
        if not path.exists():
            resume = ["--resume"] if path.with_name(f".{path.name}.checkpoint").exists() else []
            if processes.call([command, *arguments, "-o", str(path), *resume], stdout=STDERR):
                raise ConfigError(f"--{name}: no word classes were learned, see above.")
    return path


def _ordered(text: str) -> str:
    """Order the sections of a config as in spaCy's documentation, each block before its sub-blocks."""
    # releases of confection differ in where they put components, and in whether blocks follow their section
    blocks = re.split(r"\n+(?=\[)", text.strip())
    names = [block.partition("]")[0].strip("[").split(".") for block in blocks]
    first = {tuple(name[:2]): i for i, name in reversed(list(enumerate(names)))}
    tops = [*util.CONFIG_SECTION_ORDER, *(name[0] for name in names)]
    order = sorted(range(len(blocks)), key=lambda i: (tops.index(names[i][0]), first[tuple(names[i][:2])]))
    return "\n\n".join(blocks[i] for i in order)


def _commented(text: str, template: str) -> str:
    """Return a config with the comments of another one above the same sections and settings."""
    comments: dict[str, list[str]] = {}
    above: list[str] = []
    for place, line in _places(template):
        if line.startswith("# "):
            above.append(line)
        else:
            if place and above:
                comments[place] = above
            above = []
    lines = [row for place, line in _places(text) for row in (*comments.pop(place, ()), line)]
    if comments:
        raise KeyError(f"no place in the config for comments on {sorted(comments)}")
    return "\n".join(lines)


def _places(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a config, each after its place: "section", "section.setting", "" of an empty line."""
    section = ""
    for line in text.split("\n"):
        name = line.lstrip("#").partition(" = ")[0]
        if name.startswith("["):
            name = section = name.strip("[]")
            yield section, line
        else:
            yield f"{section}.{name}" if name else "", line


def make_config(
    output: Path,
    wanted: Wanted,
    *,
    raw: Sequence[Path] = (),
    vectors: str | None = None,
    lists: Path | None = None,
    force: bool = False,
) -> tuple[ConfigSettings, str]:
    """Return the settings, and the config, which is written unless the file is "-".

    wanted (Wanted): What the user asks for; on a terminal, prompts ask for the rest.
    raw (Sequence[Path]): Texts to learn classes of words from, which are written next to the config.
    vectors (str | None): Vectors to learn classes of words from, see `vector_files`.
    lists (Path | None): A folder of lists of phrases.
    force (bool): Replace a file.
    RAISES CrfError: If settings exclude each other, or a file cannot be read or written.
    """
    check_output_file(output, wanted.train, wanted.dev, force=force)  # before any prompt
    settings = complete(wanted, _ask if sys.stdin.isatty() else None)._replace(lists=lists)
    if lists is not None:
        from ...features.phrases import Phrases

        Phrases(lists).read_table()  # so that errors in the lists come before the config is written
    if raw:
        settings = settings._replace(raw=learn_classes(raw, settings, output))
    if vectors is not None:
        settings = settings._replace(vectors=learn_vector_classes(vectors, settings, output))
    text = init_config(settings, output=output)
    if str(output) != STDOUT:
        write_text(output, text)
    return settings, text


def left_out(settings: ConfigSettings) -> list[str]:
    """Return the parts that the config lacks without some packages, with the commands that install them."""
    languages = LATIN if "ner" in settings.tasks else WITH_CLASSES
    if settings.goal == "small" or settings.lang not in languages or lookups_languages():
        return []
    advice = [
        "Word classes are left out, because spacy-lookups-data is not installed. They added 0.1 to 1.6 points on "
        "our corpora: run pip install 'spacy-crfseq[lookups]', then this command again."
    ]
    if "ner" in settings.tasks and not _has_names():
        advice.append("Lists of names are left out, too. They add 0.2 points: pip install 'spacy-crfseq[lists]'.")
    return advice


def likely_language(path: Path, layout: Preset) -> str:
    """Return the code of the language whose stop words are most frequent in a corpus; `ANY` if it is not clear."""
    try:
        counts = Counter(word.lower() for word in _words(path, layout) if word.isalpha())
    except ValueError:  # a file that cannot be read, which the commands that train report
        return ANY
    shares = {code: sum(counts[word] for word in _stop_words(code)) for code in LANGUAGES}
    second, best = sorted(shares, key=shares.__getitem__)[-2:]
    return best if shares[best] > max(LEAST * counts.total(), LEAD * shares[second]) else ANY


@cache
def _stop_words(code: str) -> AbstractSet[str]:
    """Return the stop words of a language of spaCy, without an import of its tokenizer, which takes long for some."""
    words: AbstractSet[str] = runpy.run_path(str(Path(languages.__path__[0], code, "stop_words.py")))["STOP_WORDS"]
    return words


def _are_characters(path: Path, layout: Preset) -> bool:
    """Whether the tokens of a column file are single characters, but a few."""
    if layout.name not in (layouts.CUSTOM, *layouts.COLUMN_FILES):
        return False
    with suppress(ValueError):  # of a file that cannot be read, which the commands that train report
        sizes = Counter(len(word) == 1 for word in _words(path, layout))
        return sizes[True] >= CHARACTERS * sizes.total() > 0
    return False


def _words(path: Path, layout: Preset) -> Iterator[str]:
    return (word for words in islice(_sentences(path, layout), SENTENCES) for word in words)


def _sentences(path: Path, layout: Preset) -> Iterator[Sequence[str]]:
    """Return the words of each sentence of a corpus; of a DocBin or of spans, of each document."""
    if layout.name == DOCBIN:
        from spacy.vocab import Vocab

        from ...pipeline.texts import load_docs

        return ([token.text for token in doc] for doc in load_docs(path, Vocab(), _pass_over))
    if layout.spans is not None:
        files = corpus_files(path)
        sentences: Iterator[Sentence] = chain.from_iterable(
            read_spans(file, layout, _split, on_error=_pass_over) for file in files
        )
    else:
        sentences = layouts.read_layout(path, layout, _pass_over)
    return (sentence.words for sentence in sentences)


def _pass_over(_: FormatError) -> None:
    """Leave an error to the commands that train."""


def _split(text: str) -> tuple[list[str], list[bool]]:
    words = re.findall(r"\w+|\W", text)
    return words, [False] * len(words)
