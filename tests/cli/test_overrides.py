"""Overrides of a config that nothing reads are refused: a mistyped name must not train on the wrong data."""

from pathlib import Path
from typing import Any

import pytest
from thinc.api import Config

from spacy_crfseq.cli.options import OVERRIDES
from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.errors import ConfigError
from spacy_crfseq.pipeline.overrides import check_overrides
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
