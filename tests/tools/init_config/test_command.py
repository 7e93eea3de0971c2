"""``crfseq init-config``: configs for every task, format and goal, which train as they are."""

import itertools
import runpy
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Barrier
from time import sleep
from typing import Any

import pyarrow
import pytest
import spacy
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyarrow import parquet
from spacy import util
from spacy.schemas import ConfigSchemaTraining

from spacy_crfseq.corpora.layouts import GOLD, NAMES
from spacy_crfseq.errors import ConfigError, FormatError
from spacy_crfseq.pipeline.configs import load_config
from spacy_crfseq.tools.init_config import (
    FEW,
    GOALS,
    LANGUAGES,
    METHOD_BLOCKS,
    TASKS,
    ConfigSettings,
    Wanted,
    _ordered,
    complete,
    init_config,
    likely_language,
)
from tests.commands import Run, refused, worked, write_trees

ROOT = Path(__file__).parents[3]
TASK_SETS = [*((task,) for task in TASKS), tuple(TASKS)]
MODULE = import_module("spacy_crfseq.tools.init_config")
COLUMN_OF = {"tagger": {"tag", "pos"}, "chunker": {"chunk"}, "ner": {"ent"}}


def possible(tasks: tuple[str, ...], format_name: str) -> bool:
    return all(COLUMN_OF[task] & {*GOLD[format_name].columns} for task in tasks)


COMBINATIONS = [(tasks, name, goal) for tasks in TASK_SETS for name in NAMES for goal in GOALS if possible(tasks, name)]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """A slice of the bundled corpus in every format: train.NAME and dev.NAME, or with the ending that tells it."""
    folder = tmp_path_factory.mktemp("formats")
    for part in ("train", "dev"):
        sentences = (ROOT / "assets" / "corpus" / f"{part}.conll").read_text(encoding="utf8").split("\n\n")
        (folder / f"{part}.conll2003").write_text("\n\n".join(sentences[:60]) + "\n\n", encoding="utf8")
        for name in ("conll2000", "conll2002", "iob", "spacy"):
            source, target = folder / f"{part}.conll2003", folder / f"{part}.{name}"
            worked(run("convert", source, target, "--from conll2003 --to", name))
        write_trees(folder / f"{part}.conll2003", folder / f"{part}.conllu")
        (folder / f"{part}.jsonl").write_text('{"text": "Ada sings in Oslo .", "label": [[0, 3, "PER"]]}\n')
        (folder / f"{part}.xml").write_text("<r><s><PER>Ada</PER> sings in <LOC>Oslo</LOC> .</s></r>")
        (folder / f"{part}.txt").write_text("Ada sings")
        (folder / f"{part}.ann").write_text("T1\tPER 0 3\tAda\n")
        head = "#FORMAT=WebAnno TSV 3.3\n#T_SP=a.NamedEntity|value\n\n#Text=Ada sings\n"
        (folder / f"{part}.tsv").write_text(f"{head}1-1\t0-3\tAda\tPER\n1-2\t4-9\tsings\t_\n")
        rows = {"tokens": [["Ada", "sings"]], "ner_tags": [["B-PER", "O"]]}
        parquet.write_table(pyarrow.table(rows), folder / f"{part}.parquet")
    return folder


def file_of(folder: Path, part: str, name: str) -> Path:
    return folder / f"{part}.{ {'brat': 'ann', 'webanno': 'tsv'}.get(name, name) }"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Lookups and packages that the command takes for installed: none at first."""
    names = set[str]()
    monkeypatch.setattr(MODULE, "lookups_languages", lambda table="": names)
    monkeypatch.setattr(MODULE, "find_spec", lambda name: name if name in names else None)
    return names


def settings(tasks: tuple[str, ...], name: str, goal: str, *files: Path) -> ConfigSettings:
    return ConfigSettings(tasks, "xx", GOLD[name], goal, *(files or (None, None)))


def write_config(folder: Path, corpora: Path, tasks: tuple[str, ...], name: str, goal: str) -> Path:
    path, files = folder / "config.cfg", (file_of(corpora, part, name) for part in ("train", "dev"))
    path.write_text(init_config(settings(tasks, name, goal, *files), path), encoding="utf8")
    return path


@pytest.mark.parametrize("tasks", TASK_SETS, ids="-".join)
def test_every_config_loads_with_nothing_to_add(tasks: tuple[str, ...], tmp_path: Path, corpora: Path) -> None:
    for of, name, goal in COMBINATIONS:
        if of != tasks:
            continue
        path = write_config(tmp_path, corpora, tasks, name, goal)
        config = util.load_config(path)
        nlp = util.load_model_from_config(config, auto_fill=False, validate=True)
        resolved = util.registry.resolve(nlp.config.interpolate()["training"], schema=ConfigSchemaTraining)
        assert nlp.pipe_names == [TASKS[task] for task in tasks]
        assert resolved["train_corpus"] == "corpora.train"
        (corpus,) = util.resolve_dot_names(nlp.config.interpolate(), ["corpora.train"])
        example = next(iter(corpus(nlp)))
        assert len(example.reference)
        assert nlp.get_pipe(nlp.pipe_names[-1]).method.optimizer == resolved_optimizer(goal, tasks[-1], name)


def resolved_optimizer(goal: str, task: str, layout: str) -> Any:
    rate: dict[str, Any] = {"min_weight": 0.01} | ({} if task == "tagger" or layout == "xml" else {"rate": 0.2})
    quick = rate | ({} if task == "ner" else {"tolerance": 0.2}) | ({"runs": 3} if layout == "xml" else {})
    return {
        "fast": util.registry.crf_optimizers.get("spacy_crfseq.AdaGrad.v1")(**quick),
        "accurate": util.registry.crf_optimizers.get("spacy_crfseq.AdaGrad.v1")(**rate, runs=3),
        "small": util.registry.crf_optimizers.get("spacy_crfseq.OWLQN.v1")(max_iterations=200),
    }[goal]


@pytest.mark.parametrize(("task", "name", "goal"), [
    ("all", "conll2003", "fast"),
    ("ner", "iob", "accurate"),  # in passages
    ("tagger", "conllu", "small"),
])  # fmt: skip
def test_configs_train(task: str, name: str, goal: str, corpora: Path, tmp_path: Path, run: Run) -> None:
    paths = ["--train", corpora / f"train.{name}", "--dev", corpora / f"dev.{name}"]
    worked(run("init-config", tmp_path / "config.cfg", f"--task {task} --format {name} --goal {goal} -l xx", *paths))
    worked(run("fit", tmp_path / "config.cfg", "--output", tmp_path / "out"))
    assert (tmp_path / "out" / "model-best" / "config.cfg").is_file()


@pytest.mark.parametrize("goal", GOALS)
def test_labels_with_probabilities_are_learned_by_the_loss_for_them(
    goal: str, corpora: Path, tmp_path: Path, run: Run
) -> None:
    labels, config, dev = tmp_path / "labels.spacy", tmp_path / "config.cfg", corpora / "dev.conll2003"
    source = f"a={corpora / 'train.conll2003'},outside=unsure"
    worked(run("aggregate", corpora / "train.conll2003", "-o", labels, "--source", source))
    worked(run("init-config", config, "--goal", goal, "--train", labels, "--dev", dev))
    assert util.load_config(config)["components"]["crf_ner"]["loss"] == {"@crf_losses": "spacy_crfseq.CrossEntropy.v1"}
    assert "RescoredSpans" not in config.read_text()  # it would learn from what is sure alone
    worked(run("fit", config, "--output", tmp_path / "out"))
    worked(run("init-config", config, "--goal", goal, "--task tagger --force --train", labels, "--dev", dev))
    assert "CrossEntropy" not in config.read_text()  # tags have no probabilities


def test_every_method_can_be_replaced_in_the_call(corpora: Path, tmp_path: Path) -> None:
    path = write_config(tmp_path, corpora, tuple(TASKS), "conll2003", "accurate")
    needed = {
        "features": "S2", "loss": "Hinge", "regularizer": "NoRegularizer", "optimizer": "SGD", "decoder": "Posterior",
    }  # fmt: skip
    for factory, (block, registry) in itertools.product(TASKS.values(), METHOD_BLOCKS.items()):
        name = f"spacy_crfseq.{needed[block]}.v1"
        overrides = {f"components.{factory}.{block}.@{registry}": name}
        if block in ("loss", "regularizer"):
            overrides[f"components.{factory}.optimizer.@crf_optimizers"] = "spacy_crfseq.SGD.v1"
        nlp = util.load_model_from_config(load_config(path, overrides), validate=True)
        assert nlp.config["components"][factory][block][f"@{registry}"] == name
    kept = load_config(path, {"components.crf_ner.optimizer.@crf_optimizers": "spacy_crfseq.AdaGrad.v1"})
    assert kept["components"]["crf_ner"]["optimizer"]["runs"] == 3, "the same function keeps its settings"


def test_never_overwrites_silently(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "config.cfg"
    path.write_text("mine", encoding="utf8")
    refused(run("init-config", path, "--format iob"), "--force")
    assert path.read_text(encoding="utf8") == "mine"
    assert run("init-config", path, "--format iob --force").exit_code == 0
    assert "crf_ner" in path.read_text(encoding="utf8")
    result = worked(run("init-config", "-", "--format conll2000"))
    (tmp_path / "config.cfg").write_text(result.stdout, encoding="utf8")
    assert util.load_config(tmp_path / "config.cfg")["nlp"]["pipeline"] == ["crf_chunker"]


@pytest.mark.parametrize(("args", "message"), [
    ([], "Give --format"),
    (["--format", "conll2004"], "Did you mean 'conll200"),
    (["--format", "iob", "--task", "parser"], "--task parser: unknown"),
    (["--format", "iob", "--task", ","], "--task is empty"),
    (["--format", "iob", "--task", "chunker"], "learns from a column chunk, which --format iob does not have"),
    (["--format", "conllu", "--task", "all"], "It can be used for: tagger"),
    (["--format", "iob", "--goal", "best"], "--goal best: unknown"),
    (["--format", "iob", "--columns", "word,ent"], "give one of them"),
    (["--columns", "word,entity"], "unknown column 'entity'"),
    (["--columns", "word,ent", "--scheme", "IOBX"], "--scheme IOBX: unknown. Did you mean"),
    (["--scheme", "IOB1", "--format", "conllu"], "--scheme IOB1 is for files of columns"),
    (["--train", "none.conll"], "no such file"),
    (["--format", "iob", "--lang", "qq"], "--lang qq: [E048]"),
    (["--format", "iob", "--raw", "none.txt"], "none.txt: no such file"),
    (["--format", "iob", "--raw", __file__, "--goal", "small"], "small models have no word classes"),
    (["--format", "iob", "--lists", "none"], "none: no such file"),
])  # fmt: skip
def test_mistakes_are_told(args: list[str], message: str, run: Run, tmp_path: Path) -> None:
    refused(run("init-config", tmp_path / "config.cfg", *args), message)
    assert not (tmp_path / "config.cfg").exists()


@pytest.mark.parametrize("of_train", ["spacy", "iob", "jsonl", "conllu", "xml"])
def test_a_dev_corpus_in_another_layout_has_a_reader_of_its_own_or_is_refused(
    of_train: str, run: Run, corpora: Path, tmp_path: Path
) -> None:
    path, task = tmp_path / "c.cfg", "tagger" if of_train == "conllu" else "ner"
    options = f"--task {task} --lang xx --force --train {corpora / f'train.{of_train}'} --dev"
    for name in {"spacy", "iob", "jsonl"} - {of_train} if task == "ner" else ["spacy"]:
        worked(run("init-config", path, *options.split(), corpora / f"dev.{name}"))
        config = load_config(path, {}).interpolate()["corpora"]
        read = util.registry.resolve({"reader": config["dev"]})["reader"]
        docs = [example.reference for example in read(spacy.blank("xx"))]
        assert docs
        assert any(doc.ents or doc[0].tag_ for doc in docs)
    for name in {"conllu", "xml"} - {of_train}:
        refused(run("init-config", "-", *options.split(), corpora / f"dev.{name}"), f"convert {corpora}")


def test_looks_into_the_training_file(corpora: Path) -> None:
    for name in NAMES:
        path = file_of(corpora, "train", name)
        assert complete(Wanted(train=path)).layout.name == name
    (corpora / "none.iob").write_text("قطة O\nعلى O\nde O\n", encoding="utf8")
    assert likely_language(corpora / "none.iob", GOLD["iob"]) == "xx"
    with pytest.raises(FormatError, match="the layout of this file is unknown"):
        complete(Wanted(train=Path(__file__)))


def test_asks_for_what_is_missing_on_a_terminal(
    corpora: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = tmp_path / "esp.train"
    words = ["El", "niño", "se", "fue", "a", "la", "pero", "cuando"]
    train.write_bytes("\n".join([*(f"{word} SP B-NP" for word in words), ""]).encode("latin-1"))
    answers = iter([str(tmp_path / "none"), str(train), "", "qq", "es"])
    asked: list[str] = []

    def ask(question: str, choices: object, default: str) -> str:
        asked.append(f"{question.split()[0]} {default}".strip())
        return next(answers) if " file " in question or question.startswith("Language") else default

    made = complete(Wanted(), ask)
    expected = ["Training", "Training", "Development", "Task chunker", "Language es", "Language es", "Goal fast"]
    assert asked == expected
    assert made == ConfigSettings(("chunker",), "es", made.layout, "fast", train, None)
    assert (made.layout.columns, made.layout.encoding) == (("word", "tag", "chunk"), "latin-1")
    said = capsys.readouterr().err
    assert "none: no such file" in said
    assert "spaCy has no language 'qq'" in said
    with pytest.raises(ConfigError, match="--goal smal"):
        complete(Wanted(goal="smal"), ask)


def test_a_chunker_gets_tags_where_there_are_some() -> None:
    with_tags, without = (init_config(settings(("chunker",), name, "fast")) for name in ("conll2000", "spacy"))
    assert 'given = ["tag"]' in with_tags
    assert "LargeChunking.v1" in with_tags
    assert "LargeChunking.v1" not in without
    assert 'annotating_components = ["crf_tagger"]' in init_config(settings(("tagger", "chunker"), "spacy", "fast"))


def test_sections_stand_where_spacy_has_them() -> None:
    text = init_config(settings(tuple(TASKS), "conll2003", "fast"))
    names = [line.strip("[]") for line in text.splitlines() if line.startswith("[")]
    tops = list(dict.fromkeys(name.partition(".")[0] for name in names))
    assert tops == ["paths", "system", "nlp", "components", "corpora", "training", "initialize"]
    for top in [*tops, *(f"components.{factory}" for factory in TASKS.values())]:
        inside = [i for i, name in enumerate(names) if f"{name}.".startswith(f"{top}.")]
        assert names[inside[0]] == top
        assert inside == list(range(inside[0], inside[-1] + 1))
    shuffled = "[training]\nseed = 0\n\n[components]\n\n[nlp]\n\n[components.b]\nx = 1\n\n[components.a]\n\n"
    shuffled += "[components.b.loss]\n\n[training.logger]\n\n[own]\ny = [\n    1]\n"
    assert _ordered(shuffled).split("\n\n") == [
        "[nlp]", "[components]", "[components.b]\nx = 1", "[components.b.loss]", "[components.a]",
        "[training]\nseed = 0", "[training.logger]", "[own]\ny = [\n    1]",
    ]  # fmt: skip


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code not in ("tr", "lt")])
def test_the_language_of_a_corpus(code: str, tmp_path: Path) -> None:
    """Texts of spaCy's own examples; two languages have too few stop words in them."""
    examples = Path(spacy.lang.__path__[0], code, "examples.py")  # an import of the language takes long
    words = " ".join(runpy.run_path(str(examples))["sentences"]).split()
    (tmp_path / "train.iob").write_text("".join(f"{word} O\n" for word in words), encoding="utf8")
    assert likely_language(tmp_path / "train.iob", GOLD["iob"]) == code


@pytest.mark.usefixtures("installed")
def test_accurate_models_read_the_document_or_a_passage(corpora: Path, tmp_path: Path) -> None:
    marked, unmarked, export = tmp_path / "marked.conll", tmp_path / "unmarked.conll", corpora / "train.jsonl"
    unmarked.write_text("Ada NNP B-NP B-PER\nsings VBZ B-VP O\n\n", encoding="utf8")
    marked.write_text("-DOCSTART- -X- -X- O\n\n" + unmarked.read_text(encoding="utf8"), encoding="utf8")
    blocks = {"tagger": [], "chunker": [], "ner": ["context", "labels"]}
    entities = [("ner", marked, "document"), ("ner", unmarked, "passage"), ("ner", export, "document")]
    others = [("tagger", marked, "sentence"), ("chunker", marked, "sentence")]
    for task, train, unit in [*entities, *others, ("all", marked, "document")]:
        made = complete(Wanted(task, "xx", goal="accurate", train=train))
        assert made.unit == unit
        config = util.load_config_from_str(init_config(made))
        readers = [config["corpora"][part] for part in ("train", "dev")]
        assert [reader.get("unit", unit) for reader in readers] == [unit] * 2
        assert unit == "sentence" or [reader.get("apart", 0.0) for reader in readers] in ([0.15, 0.0], [0.0] * 2)
        attributes = [component["attributes"] for component in config["components"].values()]
        assert [list(block) for block in attributes] == [blocks[name] for name in made.tasks]
        assert {block["labels"]["optimizer"]["rate"] for block in attributes if block} <= {0.2}
        decoders = [component["decoder"]["@crf_decoders"] for component in config["components"].values()]
        assert ("spacy_crfseq.RescoredSpans.v1" in decoders) == (unit != "sentence")
        assert complete(Wanted(task, "xx", goal="small", train=train)).unit == "sentence"


@pytest.mark.usefixtures("installed")
def test_fast_models_of_few_words_learn_from_models_of_parts(corpora: Path, tmp_path: Path) -> None:
    """Documents or passages of a small corpus are read, too; the config says why, and a large one changes nothing."""
    small, large, marked, of_characters = (
        tmp_path / f"{name}.conll" for name in ("small", "large", "marked", "characters")
    )
    sentence = "Ada NNP B-NP B-PER\nsings VBZ B-VP O\n\n"
    small.write_text(sentence, encoding="utf8")
    marked.write_text("-DOCSTART- -X- -X- O\n\n" + sentence, encoding="utf8")
    large.write_text("-DOCSTART- -X- -X- O\n\n" + sentence * (FEW // 2 + 1), encoding="utf8")
    of_characters.write_text("\u4e2d B-W\n\u56fd I-W\n\n", encoding="utf8")
    for train, unit, decoder, why in (
        (of_characters, "sentence", "Viterbi", "the best sequence"),
        (small, "passage", "RescoredSpans", "2 words are few"),
        (marked, "document", "RescoredSpans", "2 words are few"),
        (corpora / "train.jsonl", "sentence", "RescoredSpans", " words are few"),
        (large, "sentence", "Viterbi", "the best sequence"),
    ):
        made = complete(Wanted("ner", "xx", goal="fast", train=train))
        text = init_config(made)
        assert made.unit == unit
        assert f'@crf_decoders = "spacy_crfseq.{decoder}.v1"' in text
        assert why in text
        assert ("DocumentLabels" in text) == (unit != "sentence")
    for task, goal in (("tagger", "fast"), ("chunker", "fast"), ("ner", "small")):
        assert "RescoredSpans" not in init_config(complete(Wanted(task, "xx", goal=goal, train=small)))


def test_says_what_is_missing_and_what_is_guessed(run: Run, tmp_path: Path, installed: set[str]) -> None:
    train = tmp_path / "train.iob"
    train.write_text("The O\nand O\nof O\nwas O\nhouse B-X\n", encoding="utf8")
    said = " ".join(run("init-config", tmp_path / "c.cfg", "--train", train).stdout.split())
    assert "The language seems to be 'en'" in said
    assert all(f"pip install 'spacy-crfseq[{extra}]'" in said for extra in ("lookups", "lists"))
    assert "[lists]" not in run("init-config", tmp_path / "c.cfg", "--format conllu --lang en --force").stdout
    said = run("init-config", tmp_path / "c.cfg", "--train", train, "--lang xx --force").stdout
    assert "seems" not in said
    assert "lookups" not in said
    installed.add("faker")
    assert "lists" not in run("init-config", tmp_path / "c.cfg", "--train", train, "--force").stdout


@pytest.mark.parametrize(
    ("name", "goal", "paired"),
    [("conll2000", "accurate", True), ("conll2000", "fast", False), ("spacy", "accurate", False)],
)
def test_chunks_have_classes_in_pairs_with_tags_where_there_are_some(
    name: str, goal: str, paired: bool, installed: set[str]
) -> None:
    installed.add("en")
    config = init_config(settings(("chunker",), name, goal)._replace(lang="en"))
    assert "attributes.classes" in config
    assert ("CLASSES10[0]|TAG[-1]" in config) == ("lean = true" in config) == paired


@pytest.mark.parametrize(("names", "lang", "of_tagger", "of_ner"), [
    (["de", "es"], "es", ["classes"], ["classes"]),
    (["de", "en", "es"], "en", ["classes", "parts_of_speech"], ["classes"]),
    (["en"], "en", ["classes"], ["classes"]),  # labels of XML are no parts of speech
    (["faker"], "en", [], ["names"]),
    (["de", "es"], "nl", [], ["classes_de", "classes_es"]),
    (["de", "es", "faker"], "ru", [], ["names"]),
])  # fmt: skip
def test_takes_up_what_is_installed(names: Any, lang: Any, of_tagger: Any, of_ner: Any, installed: set[str]) -> None:
    installed |= {*names}
    for goal in GOALS:
        made = settings(("tagger", "ner"), "xml" if names == ["en"] else "conll2003", goal)._replace(lang=lang)
        blocks = util.load_config_from_str(init_config(made))["components"].values()
        assert [list(block["attributes"]) for block in blocks] == ([of_tagger, of_ner] if goal != "small" else [[], []])


@pytest.mark.parametrize(
    ("lang", "goal", "pairs"), [("en", "accurate", True), ("en", "fast", False), ("es", "accurate", False)]
)
def test_pairs_of_suffixes_are_for_accurate_tags_of_english(lang: str, goal: str, pairs: bool) -> None:
    made = settings(("tagger", "ner"), "conll2003", goal)._replace(lang=lang)
    blocks = util.load_config_from_str(init_config(made))["components"]
    assert blocks["crf_tagger"]["features"].get("pairs", False) is pairs
    assert "pairs" not in blocks["crf_ner"]["features"]


def test_raw_text_and_lists_of_the_user(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def in_process(arguments: list[str], stdout: int) -> Any:
        calls.append([stdout, *arguments])
        return run(*arguments, "--sizes", "9").exit_code  # 500 take longer

    monkeypatch.setattr(MODULE.processes, "call", in_process)
    raw, train, lists, config = (tmp_path / name for name in ("raw.txt", "train.iob", "lists", "ner.cfg"))
    raw.write_text("\n".join(" ".join(f"w{i}" for i in range(k, 60)) for k in range(12)))
    train.write_text("Oslo B-LOC\nw1 O\n\n")
    lists.write_text("Oslo\n")
    worked(run(*(command := ["init-config", config, f"--train {train} --raw {raw} --lists {lists} -l sq"])))
    attributes = util.load_config(config)["components"]["crf_ner"]["attributes"]
    classes = Path(attributes["classes_raw"]["path"])
    assert calls == [[2, "word-classes", str(raw), str(train), "--lang", "sq", "-o", str(classes)]]
    assert (classes.parent, classes.name[:12], classes.suffix) == (tmp_path, "ner-classes-", ".tsv")
    assert attributes["lists"] == {"@crf_attributes": "spacy_crfseq.Phrases.v1", "path": str(lists)}
    assert "\tw50\t" in classes.read_text()
    worked(run(*command, "--force"))
    assert len(calls) == 1, "of the same text they are there"
    raw.write_text(raw.read_text() + "w5 w6\n")
    worked(run(*command, "--force"))
    assert len(calls) == len(list(tmp_path.glob("ner-classes-*.tsv"))) == 2, "others stay"
    Path(calls[1][-1]).rename(tmp_path / f".{Path(calls[1][-1]).name}.checkpoint")
    refused(run(*command, "--force"), "no word classes were learned")
    assert calls[2][-1] == "--resume"
    refused(run("init-config", "-", *command[2:]), "a config that goes to - no place for them")


@pytest.mark.skipif(sys.platform == "win32", reason="files are locked by fcntl")
def test_two_runs_at_once_learn_the_classes_of_a_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one would find the checkpoint of the first, and lose it when that is done."""
    calls, both = [], Barrier(2, timeout=60)

    def learn(call: list[str], stdout: int) -> int:
        calls.append(call)
        sleep(0.5)
        Path(call[call.index("-o") + 1]).write_text("01\tw\t1\n")
        return 0

    def begin() -> Path:
        both.wait()
        return MODULE.learn_classes([tmp_path / "raw.txt"], settings(("ner",), "iob", "fast"), tmp_path / "ner.cfg")

    monkeypatch.setattr(MODULE.processes, "call", learn)
    (tmp_path / "raw.txt").write_text("w\n")
    with ThreadPoolExecutor(2) as pool:
        paths = {run.result() for run in [pool.submit(begin) for _ in range(2)]}
    assert len(paths) == len(calls) == 1


FORM = GOLD["xml"].form
PLACES: dict[str, Callable[[ConfigSettings, str], ConfigSettings]] = {
    "train": lambda made, text: made._replace(train=Path(text)),
    "dev": lambda made, text: made._replace(dev=Path(text)),
    "raw": lambda made, text: made._replace(raw=Path(text)),
    "lists": lambda made, text: made._replace(lists=Path(text)),
    "encoding": lambda made, text: made._replace(layout=made.layout._replace(encoding=text)),
    "pattern": lambda made, text: made._replace(layout=GOLD["xml"]._replace(form=FORM._replace(pattern=text))),
    "label": lambda made, text: made._replace(layout=GOLD["xml"]._replace(form=FORM._replace(rename={"a": text}))),
}
"""Texts of a user that are part of a config."""
ODD = st.text(st.sampled_from("ab/ $\\{}\"'\n\r\t\x85\u2028\ud800[]=#%:.,"), max_size=12) | st.text(max_size=8)


def values(config: Any) -> list[Any]:
    """Return all values of a config that are no blocks, those of its lists and dictionaries one by one."""
    if isinstance(config, dict):
        return [value for item in config.items() for part in item for value in values(part)]
    return [value for item in config for value in values(item)] if isinstance(config, list | tuple) else [config]


@pytest.mark.parametrize("place", PLACES)
@given(text=ODD, output=ODD | st.just("a.cfg"))
@example(text='x"\nz = 1\n[evil]\ny', output="a.cfg")
@example(text="${system.seed}", output="a.cfg")
@example(text="a.conll", output="x\n[evil]\n.cfg")
@example(text="a\u2028b", output="a.cfg")
@hypothesis_settings(max_examples=5)
def test_any_text_of_a_user_is_written_as_it_is_or_refused_by_name(place: str, text: str, output: str) -> None:
    base = settings(("tagger",), "conll2003", "fast")
    try:
        written = init_config(PLACES[place](base, text), output)
    except ConfigError as error:
        message = str(error)
    else:
        read = util.load_config_from_str(written.encode().decode(), interpolate=True)
        assert list(read) == ["paths", "system", "nlp", "components", "corpora", "training", "initialize"]
        assert {text, str(Path(text))} & {*values(read)}
        message = repr(text)
    assert any(repr(value) in message for value in (text, str(Path(text)), output, {"a": text}))
