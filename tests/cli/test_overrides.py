"""Settings and overrides that nothing reads are refused: a mistyped name must not train on the wrong data."""

import re
from contextlib import nullcontext
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from thinc.api import Config

from spacy_crfseq.cli.options import OVERRIDES
from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline.configs import load_config
from spacy_crfseq.pipeline.overrides import check_command_line, check_overrides
from spacy_crfseq.pipeline.pipeline_training import set_up_from
from tests.commands import CONFIG, Run, refused

COMMANDS = {
    "fit": ["--output", "out"],
    "sweep": ["--output", "out"],
    "find-regularization": ["--output", "out"],
    "debug-data": ["train.conll"],
}
TYPOS = {
    "paths.trian": "Did you mean --paths.train?",
    "system.gpu": "",
    "system.seed": "",  # that of the training is a number here
    "training.patiance": "Did you mean --training.patience?",
    "nlp.batch_sizes": "Did you mean --nlp.batch_size?",
    "initialize.lookup": "Did you mean --initialize.lookups?",
    "corpora.trian.path": "Did you mean --corpora.train.path?",
    "corpora.elsewhere.path": "Check its name.",
    "components.crf_nre.threshold": "Did you mean --components.crf_ner.threshold?",
    "components.sourced.threshold": "",
    "variables.unread": "",
    "nowhere.at_all": "Check its name.",
}
READ = [
    "paths.train", "paths.vectors", "system.gpu_allocator", "training.patience", "training.score_weights.ents_f",
    "training.optimizer.@optimizers", "nlp.batch_size", "corpora.train.path", "corpora.raw.path", "initialize.vectors",
    "components.crf_ner.threshold", "components.crf_ner.optimizer.rate", "components.sourced.source",
    "variables.rho", "variables.block.more",
]  # fmt: skip


def config() -> Config:
    blocks = (
        '[components.crf_ner]\nfactory = "crf_ner"\nthreshold = 0.0\noptimizer = ${variables:block}\n'
        '[components.crf_ner.regularizer]\n@crf_regularizers = "spacy_crfseq.L2.v1"\nrho = ${variables.rho}\n'
        '[components.crf_ner.terms]\n[components.crf_ner.terms.raw]\ncorpus = "corpora.raw"\n'
        '[components.sourced]\nsource = "model"\n'
    )
    text = CONFIG.format(pipeline='["crf_ner", "sourced"]', components=blocks, training="", given="[]")
    text += '[corpora.raw]\npath = "raw"\n[corpora.elsewhere]\npath = "unused"\n'
    text += "[variables]\nrho = 1.0\nunread = 1\n[variables.block]\nmore = 1\n"
    return Config().from_str(text, interpolate=False)


@pytest.mark.parametrize("key", TYPOS)
def test_an_override_that_nothing_reads_is_refused_with_the_nearest_name(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"--{key} changes nothing.*{TYPOS[key]}".replace("?", r"\?")):
        check_overrides(config(), {key: 1})


@pytest.mark.parametrize("key", READ)
def test_an_override_that_something_reads_is_accepted(key: str) -> None:
    check_overrides(config(), {key: 1})


def test_overrides_read_each_other() -> None:
    check_overrides(config(), {"variables.unread": 1, "training.dropout": "${variables.unread}"})
    check_overrides(config(), {"nowhere.at_all": 1}, ["nowhere"])
    with pytest.raises(ConfigError, match=r"crf_ner"):
        check_overrides(config(), {"nlp.pipeline": ["sourced"], "components.crf_ner.threshold": 1})


ADDED = {
    "components.crf_ner.attributes.words.@crf_attributes": (
        "The config has no components.crf_ner.attributes.",
        """--components.crf_ner.attributes '{"words": {"@crf_attributes": "..."}}'""",
    ),
    "components.crf_ner.factry.kind": ("Did you mean 'factory'?", """factry '{"kind": "..."}'"""),
    "components.crf_ner.factory.kind": ("components.crf_ner.factory is a single value", ""),
}


@pytest.mark.parametrize("key", ADDED)
def test_an_override_of_a_block_that_is_not_there_says_how_to_give_it(
    key: str, run: Run, paths: list[str], configure: Any, tmp_path: Path
) -> None:
    written = configure(tmp_path / "c.cfg", "crf_ner")
    refused(run("fit", written, "--output", tmp_path / "out", *paths, f"--{key}", "1"), *ADDED[key], silent=False)


INITIALIZE = "[initialize]\n[initialize.components]"
MISTYPED = {  # in a config that a user has written
    ("seed = 1", "seed = 1\nmax_epoch = 3"): "Nothing reads 'max_epoch' in [training]. Did you mean 'max_epochs'?",
    ("[training.batcher]", "[training.batchr]"): "Nothing reads 'batchr' in [training]. Did you mean 'batcher'?",
    ('lang = "xx"', 'lang = "xx"\nbatch_sizes = 9'): "Nothing reads 'batch_sizes' in [nlp]. Did you mean 'batch_size'?",
    ("[corpora]", "[initialize]\nlookup = null\n[corpora]"): "[initialize]. Did you mean 'lookups'?",
    ("[corpora]", "[pretraining]\nmax_epoch = 1\n[corpora]"): "[pretraining]. Did you mean 'max_epochs'?",
    ("[corpora]", f"{INITIALIZE}\n[initialize.components.crf_nre]\nlabels = []\n[corpora]"): "Did you mean 'crf_ner'?",
    ("seed = 1", "seed = ${system.seed}\n[system]\nseeed = 1"): (
        "[training] seed: ${system.seed} is not in the config. Did you mean system.seeed?"
    ),
    ('["crf_ner"]', '["crf_nre"]'): "[nlp] pipeline: 'crf_nre' is not in the components. Did you mean 'crf_ner'?",
    ('["crf_ner"]', '["crf_ner"]\ndisabled = ["crf_nre"]'): "[nlp] disabled: 'crf_nre' is not in the pipeline.",
    ("seed = 1", 'seed = 1\nfrozen_components = ["ner"]'): "frozen_components: 'ner' is not in the pipeline.",
    ("seed = 1", 'seed = 1\nannotating_components = ${variables.names}\n[variables]\nnames = ["tager"]'): (
        "[training] annotating_components: 'tager' is not in the pipeline. Known: crf_ner."
    ),
    ('["crf_ner"]', '[["crf_ner"]]'): "[nlp] pipeline: ['crf_ner'] is not in the components.",
    ('["crf_ner"]', '[{"a": 1}]'): "[nlp] pipeline: {'a': 1} is not in the components.",
    ("seed = 1", 'seed = 1\nfrozen_components = [["crf_ner"]]'): "frozen_components: ['crf_ner'] is not in",
    ("seed = 1", "seed = ${elsewhere:seed}"): "[training] seed: ${elsewhere:seed} is not in the config. Add it",
}


def mistyped(path: Path, before: str, after: str) -> Path:
    blocks = '[components.crf_ner]\nfactory = "crf_ner"\n'
    text = CONFIG.format(pipeline='["crf_ner"]', components=blocks, training="", given="[]")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf8")
    return path


@pytest.mark.parametrize("change", MISTYPED)
def test_a_setting_that_nothing_reads_is_refused_with_the_nearest_name(change: tuple[str, str], tmp_path: Path) -> None:
    path = mistyped(tmp_path / "mine.cfg", *change)
    with pytest.raises(ConfigError, match=f"mine.cfg: .*{re.escape(MISTYPED[change])}"):
        load_config(path, {})


@pytest.mark.parametrize("after", [
    "[paths]\nelsewhere = 1", "[vars]\nx = 1\n[paths]", "[system]\nmine = 2\n[paths]",
    f"{INITIALIZE}\n[initialize.components.crf_ner]\nlabels = []\n[paths]",
])  # fmt: skip
def test_variables_of_a_user_and_settings_of_components_are_accepted(after: str, tmp_path: Path) -> None:
    load_config(mistyped(tmp_path / "mine.cfg", "[paths]", after), {})


@pytest.mark.parametrize(
    "callback",
    ["nlp.before_creation", "nlp.after_creation", "nlp.after_pipeline_creation", "initialize.before_init"],
)
def test_names_of_components_that_a_callback_may_add_are_accepted(callback: str, tmp_path: Path) -> None:
    path = mistyped(tmp_path / "mine.cfg", "seed = 1", 'seed = 1\nfrozen_components = ["added"]')
    outer = "[initialize]\n" if callback.startswith("initialize") else ""
    callbacks = f'{outer}[{callback}]\n@callbacks = "mine"\n[corpora]'
    path.write_text(path.read_text("utf8").replace("[corpora]", callbacks, 1), "utf8")
    load_config(path, {})
    path.write_text(path.read_text("utf8").replace('["crf_ner"]', '["crf_nre"]', 1), "utf8")
    with pytest.raises(ConfigError, match="'crf_nre' is not in the components"):
        load_config(path, {})


FROZEN = {  # a name that is not in the pipeline: overrides of the command and of the environment, and the message
    "nothing": ([], "", "'ner' is not in the pipeline"),
    "another list": (["--nlp.pipeline", '["crf_ner"]'], "", "'ner' is not in the pipeline"),
    "mended": (["--training.frozen_components", "[]"], "", ""),
    "mended in a word": (["--training.frozen_components=[]", "--verbose"], "", ""),
    "mended by the environment": ([], "--training.frozen_components []", ""),
    "another by the environment": (["--training.frozen_components=[]"], "--nlp.pipeline=[1]", "1 is not in the comp"),
}


@pytest.mark.parametrize("case", FROZEN)
def test_spacy_train_checks_the_config_with_all_overrides(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, environment, message = FROZEN[case]
    path = mistyped(tmp_path / "mine.cfg", "seed = 1", 'seed = 1\nfrozen_components = ["ner"]')
    monkeypatch.setattr("sys.argv", ["spacy", "train", str(path), "-o", "out.d", *options])
    monkeypatch.setenv("SPACY_CONFIG_OVERRIDES", environment)
    with pytest.raises(SystemExit, match=message) if message else nullcontext():
        check_command_line()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_refuses_a_mistyped_setting(
    command: str, run: Run, paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_bytes(Path(paths[1]).read_bytes())
    path = mistyped(tmp_path / "mine.cfg", "seed = 1", "seed = 1\nmax_epoch = 3")
    path.write_text(path.read_text() + "\n[sweep]\n[sweep.grid]\nmin_count = [1]\n" * (command == "sweep"))
    arguments = ["--config", path] if command == "debug-data" else [path]
    result = run(command, *arguments, *COMMANDS[command], *paths)
    refused(result, "mine.cfg", "Did you mean 'max_epochs'?", silent=False)
    assert not (tmp_path / "out" / "model-best").exists()


def test_all_commands_with_overrides_are_tested() -> None:
    commands = crfseq_cli.registered_commands
    assert {command.name for command in commands if command.context_settings == OVERRIDES} == {*COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_path_is_refused(
    command: str, run: Run, trained: Path, paths: list[str], configure: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_bytes(Path(paths[1]).read_bytes())
    written = configure(tmp_path / "c.cfg", "crf_ner")
    with written.open("a") as file:
        file.write("\n[sweep]\n[sweep.grid]\nmin_count = [1]\n" if command == "sweep" else "\n")
    arguments = ["--config", written] if command == "debug-data" else [written]
    result = run(command, *arguments, *COMMANDS[command], *paths, "--paths.trian", "x.conll")
    refused(result, "--paths.trian changes nothing", "Did you mean --paths.train?", silent=False)
    assert not (tmp_path / "out" / "model-best").exists()


REFUSED_VALUES = {
    "components.crf_ner.regularizer.rho": -1.0,
    "components.crf_ner.optimizer.rate": -1.0,
    "components.crf_ner.attributes.labels.optimizer.rate": -1.0,  # of the same function as the one above
    "components.crf_ner.loss.cost": -1.0,
    "components.crf_ner.decoder.expected_f": 3.0,
    "corpora.train.limit": -1,
    "corpora.dev.limit": -1,
    "corpora.dev.joined": "half",
    "corpora.train.path": 3,
    "components.crf_ner.n_threads": "all",
    "components.crf_ner.attributes.labels.optimizer.seed": "first",
}


@pytest.mark.parametrize("key", REFUSED_VALUES)
def test_the_block_of_a_refused_value_is_named(key: str, tmp_path: Path) -> None:
    (corpus := tmp_path / "corpus.iob").write_text("Ada NNP B-NP B-PER\nsleeps VBZ B-VP O\n\n", "utf8")
    optimizer = '@crf_optimizers = "spacy_crfseq.AdaGrad.v1"\nrate = 1.0\n'
    blocks = (
        '[components.crf_ner]\nfactory = "crf_ner"\n'
        f"[components.crf_ner.optimizer]\n{optimizer}"
        '[components.crf_ner.regularizer]\n@crf_regularizers = "spacy_crfseq.L2.v1"\n'
        '[components.crf_ner.loss]\n@crf_losses = "spacy_crfseq.SoftmaxMargin.v1"\n'
        '[components.crf_ner.decoder]\n@crf_decoders = "spacy_crfseq.MaxExpectedF1.v1"\n'
        "[components.crf_ner.attributes]\n[components.crf_ner.attributes.labels]\n"
        '@crf_attributes = "spacy_crfseq.DocumentLabels.v1"\n'
        f"[components.crf_ner.attributes.labels.optimizer]\n{optimizer}"
    )
    text = CONFIG.format(pipeline='["crf_ner"]', components=blocks, training="", given="[]")
    config = Config().from_str(text, overrides={"paths.train": str(corpus), "paths.dev": str(corpus)})
    block: Any = reduce(lambda outer, name: outer[name], key.split(".")[:-1], config)
    block[key.split(".")[-1]] = REFUSED_VALUES[key]
    with pytest.raises(ConfigError, match=rf"^\[{re.escape(key.rpartition('.')[0])}\] "):
        set_up_from(config)
