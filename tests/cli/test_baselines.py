"""The configs of chapter 2's baselines train as they are; the generative ones also learn from texts without labels."""

from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.cli.train import train

from spacy_crfseq.optimizers.online import seeded
from spacy_crfseq.registry import optimizers
from tests.commands import Corpus, Run, refused, worked

FOLDER = Path(__file__).parents[2] / "configs" / "baselines"


@pytest.mark.parametrize("config", sorted(FOLDER.glob("*.cfg")), ids=lambda path: path.stem)
def test_it_trains(config: Path, paths: list[str], corpus: Corpus, run: Run, tmp_path: Path) -> None:
    raw = ["--paths.raw", corpus.dev] if config.stem == "hmm_em" else []
    worked(run("fit", config, "--output", tmp_path / "out", "--evaluate-every 1 --nlp.lang xx", *paths, *raw))
    nlp = spacy.load(tmp_path / "out" / "model-best")
    assert nlp.meta["performance"]["tag_acc"] > 0.9
    assert [token.tag_ for token in nlp("Ada sees a dog .")] == ["NNP", "VBZ", "DT", "NN", "."]


OWN = '[components.crf_ner.optimizer]\n@crf_optimizers = "spacy_crfseq.AdaGrad.v1"\nseed = {}\n'
SHORT = "max_epochs = 2\nmax_steps = 2\n"


def weights(folder: Path) -> bytes:
    pipe: Any = spacy.load(folder).get_pipe("crf_ner")
    return bytes(pipe.crf.theta.tobytes())


def by_fit(run: Run, config: Path, out: Path, paths: list[str], seed: int) -> bytes:
    worked(run("fit", config, "--output", out, *paths, f"--training.seed {seed}"))
    return weights(out / "model-last")


def by_spacy(run: Run, config: Path, out: Path, paths: list[str], seed: int) -> bytes:
    overrides = dict(zip((name.lstrip("-") for name in paths[::2]), paths[1::2], strict=True))
    train(config, out, overrides={**overrides, "training.seed": seed, "training.gpu_allocator": None})
    return weights(out / "model-last")


@pytest.mark.parametrize("train_with", [by_fit, by_spacy])
def test_seeds_of_the_config_make_models(
    train_with: Any, run: Run, configure: Any, paths: list[str], tmp_path: Path
) -> None:
    config = configure(tmp_path / "c.cfg", "crf_ner", training=SHORT)
    first, again, *others = (
        train_with(run, config, tmp_path / str(i), paths, seed) for i, seed in enumerate((0, 0, 1, 2))
    )
    assert first == again
    assert len({first, *others}) == 3


def test_system_seed_and_the_seed_of_the_optimizer(run: Run, configure: Any, paths: list[str], tmp_path: Path) -> None:
    plain, own = (
        configure(tmp_path / "plain.cfg", "crf_ner"),
        configure(tmp_path / "own.cfg", "crf_ner", components=OWN.format(2)),
    )
    system = tmp_path / "system.cfg"
    text = plain.read_text(encoding="utf8").replace("seed = 1", "seed = ${system.seed}")
    system.write_text(f"[system]\nseed = 2\n{text}", encoding="utf8")
    wanted = by_fit(run, plain, tmp_path / "a", paths, 2)
    worked(run("fit", system, "--output", tmp_path / "b", *paths))
    assert weights(tmp_path / "b" / "model-last") == wanted
    assert by_fit(run, own, tmp_path / "c", paths, 0) == wanted
    zero = configure(tmp_path / "zero.cfg", "crf_ner", components=OWN.format(0))
    assert by_fit(run, zero, tmp_path / "d", paths, 2) == by_fit(run, plain, tmp_path / "e", paths, 0)


def test_every_optimizer_with_a_seed_takes_it() -> None:
    result = [make() for name, make in optimizers.get_all().items() if name.startswith("spacy_crfseq.")]
    drawing = [optimizer for optimizer in result if hasattr(optimizer, "seed")]
    assert len(drawing) >= 7
    assert all(optimizer.seed is None and seeded(optimizer, 3).seed == 3 for optimizer in drawing)
    assert all(seeded(optimizer, 3) is optimizer for optimizer in result if optimizer not in drawing)


def test_impossible_seeds(train_on: Run) -> None:
    refused(train_on("fit", "crf_ner", args=["--training.seed -1"]), "[training] seed", "between 0 and", silent=False)
    refused(train_on("fit", "crf_ner", components=OWN.format(-1)), "AdaGrad", "between 0 and", silent=False)
