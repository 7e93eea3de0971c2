"""Scores from a neural network: gradients, training by spaCy's steps, storage, questions, settings that cannot work."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from thinc.api import fix_random_seed
from typer.testing import CliRunner

import spacy_crfseq.cli.program  # noqa: F401
from spacy_crfseq.errors import ConfigError, ModelFileError
from spacy_crfseq.papers.neural import Neural
from spacy_crfseq.pipeline import steps
from spacy_crfseq.potentials.sums import GivenEmissions
from spacy_crfseq.tools.explain import explain
from spacy_crfseq.training.compatibility import needs_labels, provided
from spacy_crfseq.types import CorpusLoss, TextLoss
from tests.pipeline.helpers import (
    FACTORIES,
    SCORES,
    SENTENCES,
    annotation,
    examples,
    gold_doc,
    inputs,
    registered,
    templates,
)
from tests.problems import finite_differences, made_losses

CONFIGS = Path(__file__).parents[3] / "configs"
CNN = {
    "@architectures": "spacy.HashEmbedCNN.v2", "width": 16, "depth": 1, "embed_size": 100, "window_size": 1,
    "maxout_pieces": 2, "subword_features": False, "pretrained_vectors": None,
}  # fmt: skip
NEURAL = {"potentials": {"network": {"@crf_potentials": "spacy_crfseq.Neural.v1", "tok2vec": CNN}}}
ALONE = {**NEURAL, "features": templates()}
SLOPED = sorted(
    name
    for name, loss in made_losses().items()
    if "value_and_grad" in provided(loss) and not isinstance(loss, CorpusLoss | TextLoss) and needs_labels(loss)
)


def initialized(factory: str = "crf_ner", repeat: int = 1, **config: Any) -> tuple[Any, list[Example], Any]:
    fix_random_seed(0)
    nlp = spacy.blank("xx")
    nlp.add_pipe(factory, config={**ALONE, **config})
    corpus = examples(nlp, factory, repeat)
    return nlp, corpus, nlp.initialize(lambda: corpus)


def trained(factory: str = "crf_ner", steps: int = 80, **config: Any) -> tuple[Any, list[Example], Any]:
    nlp, corpus, optimizer = initialized(factory, **config)
    for _ in range(steps):
        nlp.update(corpus, sgd=optimizer, drop=0.1)
    return nlp, corpus, optimizer


@pytest.mark.parametrize("name", SLOPED)
def test_gradients_are_slopes(name: str) -> None:
    """Of the loss at emissions and at theta by finite differences, and at the network's parameters in a direction."""
    local = {"decoder": registered("decoders", "LocalViterbi")} if name.startswith("spacy_crfseq.Local") else {}
    nlp, corpus, _ = initialized(loss={"@crf_losses": name}, precision="float64", **local)
    pipe = nlp.get_pipe("crf_ner")
    (network,) = pipe.doc_model.networks.values()
    rng, docs = np.random.default_rng(0), [example.predicted for example in corpus]
    for node in network.model.walk():
        for parameter in node.param_names:
            noise = rng.normal(0, 0.1, node.get_param(parameter).shape).astype(np.float32)
            node.set_param(parameter, node.get_param(parameter) + noise)
    theta = rng.normal(0, 0.5, pipe.crf.theta.shape)
    data = pipe.training.corpus.data
    text = data.encoded._replace(inputs=(np.arange(data.encoded.n_tokens),))

    training = pipe.training
    run = steps.Run(pipe.doc_model, training.present(), training.corpus, {}, training.optimizer())

    def loss_at(given: GivenEmissions, theta: np.ndarray) -> tuple[float, Any]:
        objective = run.with_networks(data._replace(encoded=text), {0: given})
        (batch,) = objective.minibatches(data.n_sequences, None)
        value, rows = batch.loss_and_grad(theta)
        grad = np.zeros_like(theta)
        for block, ptr, ids, d in rows:
            if not (here := objective.blocks[block]).n_rows:
                continue
            table = here.of(grad).reshape(here.n_rows, -1)
            for t in range(len(ptr) - 1):
                table[ids[ptr[t] : ptr[t + 1]]] += d[t]
        return value, grad

    emissions, backprop = network.begin_update(docs, 0.0)
    given = GivenEmissions(emissions.astype(np.float64), 0)
    _, grad = loss_at(given, theta)
    slopes = finite_differences(lambda: loss_at(given, theta)[0], theta)
    frozen = np.ones_like(theta)
    pipe.crf.potential.zero_frozen(frozen)
    np.testing.assert_allclose(grad * frozen, slopes * frozen, rtol=1e-5, atol=1e-6)
    slopes = finite_differences(lambda: loss_at(given, theta)[0], given.emissions)
    np.testing.assert_allclose(given.gradient, slopes, rtol=1e-5, atol=1e-6)
    backprop(given.gradient)
    # along the gradient, where the slope is its norm; thinc computes in float32
    parts = [(node, key) for node in network.model.walk() for key in node.param_names if node.has_grad(key)]
    before = [node.get_param(key).copy() for node, key in parts]
    along = [node.get_grad(key).copy() for node, key in parts]
    norm = np.sqrt(sum(float((array**2).sum()) for array in along))
    values = []
    for step in (-0.01, 0.01):
        for (node, key), value, direction in zip(parts, before, along, strict=True):
            node.set_param(key, value + np.float32(step / norm) * direction)
        values.append(loss_at(GivenEmissions(network.begin_update(docs, 0.0)[0].astype(np.float64), 0), theta)[0])
    assert (values[1] - values[0]) / 0.02 == pytest.approx(norm, rel=0.02)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("more", [{}, {"features": {"@crf_features": "spacy_crfseq.Entities.v1"}}])
def test_it_is_trained_and_saved(factory: str, more: dict[str, Any], tmp_path: Path) -> None:
    nlp, corpus, _ = trained(factory, **more)
    pipe = nlp.get_pipe(factory)
    expected = [annotation(nlp(doc)) for doc in inputs(nlp, factory)]
    assert nlp.evaluate(corpus)[SCORES[factory]] > 0.9
    nlp.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    assert [annotation(loaded(doc)) for doc in inputs(loaded, factory)] == expected
    optimizer = loaded.resume_training()
    for _ in range(20):
        loaded.update(corpus, sgd=optimizer)
    assert loaded.evaluate(corpus)[SCORES[factory]] > 0.9
    pipe.add_label("NEW")
    nlp.update(corpus, sgd=optimizer)
    assert len(nlp(inputs(nlp, factory)[0]))
    bare = spacy.blank("xx").add_pipe(factory, config={**ALONE, **more})
    data = pipe.to_bytes()
    with pytest.raises(ModelFileError):
        bare.from_bytes(data.replace(b"\x93NUMPY", b"\x93NOMPY").replace(b"nI", b"nX"))


def parameters(network: Any) -> bytes:
    return b"".join(node.get_param(key).tobytes() for node in network.model.walk() for key in node.param_names)


def test_steps_are_those_of_spacy() -> None:
    """Gradients accumulate until `finish_update`, frozen components stay, and averages are used inside of a context."""
    nlp, corpus, optimizer = initialized()
    pipe = nlp.get_pipe("crf_ner")
    (network,) = pipe.doc_model.networks.values()
    start = parameters(network)
    for _ in range(2):
        nlp.update(corpus, sgd=False)
    assert parameters(network) == start
    pipe.finish_update(optimizer)
    assert parameters(network) != start
    start = parameters(network)
    nlp.update(corpus, sgd=optimizer, exclude=["crf_ner"])
    assert parameters(network) == start
    optimizer.averages = {}
    for _ in range(3):
        nlp.update(corpus, sgd=optimizer)
    last = parameters(network)
    with nlp.use_params(optimizer.averages):
        assert parameters(network) != last
    assert parameters(network) == last
    fix_random_seed(0)
    assert [nlp.update(corpus, drop=0.5)["crf_ner"] for _ in range(2)] != [nlp.update(corpus, drop=0.0)["crf_ner"]] * 2


def test_features_are_trained_first() -> None:
    sparse = {**NEURAL["potentials"]["network"], "sparse_epochs": 3}
    nlp, corpus, optimizer = initialized(
        potentials={"network": sparse}, features={"@crf_features": "spacy_crfseq.Entities.v1"}, repeat=3
    )
    assert nlp.update(corpus, sgd=optimizer)["crf_ner"] < 0.2
    nlp, corpus, optimizer = initialized(features={"@crf_features": "spacy_crfseq.Entities.v1"}, repeat=3)
    assert nlp.update(corpus, sgd=optimizer)["crf_ner"] > 0.2


def test_questions_of_all_kinds(tmp_path: Path) -> None:
    nlp, corpus, _ = trained(scores=True)
    pipe = nlp.get_pipe("crf_ner")
    doc = nlp(inputs(nlp, "crf_ner")[0])
    assert all(0 < score <= 1 for score in doc.spans["crf_ner"].attrs["scores"])
    first, second = pipe.nbest(doc, 2)
    assert first.probability > second.probability
    bare = inputs(nlp, "crf_ner")[0]
    pipe.clamp(bare, spans=[bare[3:5].char_span(0, len(bare[3:5].text), label="ORG")])
    assert [(ent.text, ent.label_) for ent in nlp(bare).ents if ent.start == 3] == [("New York", "ORG")]
    explained = explain(pipe, inputs(nlp, "crf_ner")[0])
    assert {c.kind for token in explained.tokens for c in token.contributions} & {"added"}
    assert sum(token.score for token in explained.tokens) == pytest.approx(explained.score, abs=1e-3)
    data = tmp_path / "dev.spacy"
    DocBin(docs=[example.reference for example in corpus]).to_disk(data)
    nlp.to_disk(tmp_path / "model")
    for command in (("calibrate", "--recall", "0.2", "--output", tmp_path / "calibrated"), ("active",), ("report",)):
        texts = [str(part) for part in (command[0], tmp_path / "model", data, *command[1:])]
        result = CliRunner().invoke(app, ["crfseq", *texts])
        assert result.exit_code == 0, result.output + repr(result.exception)


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong, message in (
        ({"optimizer": registered("optimizers", "LBFGS")}, "learns from batches. The optimizer LBFGS does not"),
        ({"terms": {"raw": {"loss": registered("losses", "Entropy")}}}, "cannot be used with terms yet"),
        ({"features": templates(), "potentials": {}}, "at least one template"),
    ):
        with pytest.raises(ConfigError, match=message):
            spacy.blank("xx").add_pipe("crf_ner", config={**ALONE, **wrong})
    nlp, corpus, _ = initialized()
    with pytest.raises(ConfigError, match="which fit cannot train"):
        nlp.get_pipe("crf_ner").fit(corpus)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the corpus in all forms that the configs read."""
    folder = tmp_path_factory.mktemp("neural")
    nlp = spacy.blank("en")
    docs = []
    for rows in SENTENCES:
        doc, n = gold_doc(nlp, rows), len(rows)
        parsed = Doc(
            nlp.vocab, words=[row[0] for row in rows], tags=[row[1] for row in rows], heads=[0] * n,
            deps=["ROOT", *["obj"] * (n - 1)],
        )  # fmt: skip
        parsed.set_ents([Span(parsed, ent.start, ent.end, ent.label) for ent in doc.ents])
        docs += [parsed] * 8
    DocBin(docs=docs).to_disk(folder / "docs.spacy")
    rows = ["\n".join(f"{row[0]} {row[1]} {_iob(row[5])}" for row in rows) for rows in SENTENCES]
    (folder / "docs.conll").write_text("\n\n".join(rows * 4) + "\n")
    lines = [
        "\n".join(f"{i}\t{r[0]}\t_\t{r[2]}\t{r[1]}\t_\t0\tdep\t_\t_" for i, r in enumerate(rows, 1))
        for rows in SENTENCES
    ]
    (folder / "docs.conllu").write_text("\n\n".join(lines * 4) + "\n\n")
    return folder


def _iob(tag: str) -> str:
    return tag.replace("U-", "B-").replace("L-", "I-")


def tiny_transformer(folder: Path) -> Path:
    """Return the config of the transformer with random weights, of a size for tests, that reads characters."""
    config = spacy.util.load_config(CONFIGS / "ner_transformer.cfg")
    model, prefix = config["components"]["transformer"]["model"], "spacy-curated-transformers"
    characters = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *map(chr, range(33, 127))]
    (folder / "characters.txt").write_text("\n".join(characters))
    model.update({"@architectures": f"{prefix}.BertTransformer.v1", "vocab_size": len(characters)})
    model.update(hidden_width=16, intermediate_width=32, num_attention_heads=2, num_hidden_layers=1)
    model["piece_encoder"] = {"@architectures": f"{prefix}.CharEncoder.v1"}
    loader = {"@model_loaders": f"{prefix}.CharEncoderLoader.v1", "path": str(folder / "characters.txt")}
    config["initialize"]["components"]["transformer"] = {"piecer_loader": loader}
    config["training"]["optimizer"]["learn_rate"] = 0.01
    config.to_disk(folder / "tiny.cfg")
    return folder / "tiny.cfg"


@pytest.mark.parametrize(
    ("name", "file"),
    [("ner_tok2vec", "docs.conll"), ("ner_tok2vec_sparse", "docs.conll"), ("pos_tok2vec", "docs.conllu"),
     ("shared_tok2vec", "docs.spacy"), ("ner_transformer", "docs.conll")],
)  # fmt: skip
def test_configs_train_in_spacy(name: str, file: str, corpora: Path, tmp_path: Path) -> None:
    tiny = ["--training.max_epochs=3", "--training.eval_frequency=2"]
    config = CONFIGS / f"{name}.cfg"
    if name == "ner_transformer":
        pytest.importorskip("spacy_curated_transformers", reason="spacy-curated-transformers is not installed")
        config = tiny_transformer(tmp_path)
    if name == "shared_tok2vec":
        tiny += ["--components.parser.min_action_freq=1"]
    paths = [f"--paths.{part}={corpora / file}" for part in ("train", "dev")]
    result = CliRunner().invoke(app, ["train", str(config), "-o", str(tmp_path), *paths, *tiny])
    assert result.exit_code == 0, result.output + repr(result.exception)
    nlp = spacy.load(tmp_path / "model-best")
    meta = json.loads((tmp_path / "model-best" / "meta.json").read_text())
    assert max(value for key, value in meta["performance"].items() if key in ("ents_f", "tag_acc")) > 0.1
    assert len(nlp("Anna lives in New York ."))
    if name == "shared_tok2vec":
        assert set(nlp.get_pipe("tok2vec").listening_components) == {"crf_tagger", "crf_ner", "parser"}


def test_the_plugin_is_its_own_contract() -> None:
    """A network needs `initialize` before it has sizes, and no Docs have no scores."""
    nlp, _, _ = initialized()
    (network,) = nlp.get_pipe("crf_ner").doc_model.networks.values()
    assert isinstance(network, Neural)
    assert network.read([]).shape == (0, len(nlp.get_pipe("crf_ner").tags))


def test_it_is_initialized_again() -> None:
    """With other labels, from an iterator that ends, and after a batch that failed; empty batches change nothing."""
    nlp, corpus, optimizer = initialized("crf_tagger")
    words = [token.text for token in corpus[0].predicted]
    more = [*corpus, Example(corpus[0].predicted, Doc(nlp.vocab, words, tags=["X"] * len(words)))]
    optimizer = nlp.initialize(lambda: iter(more))
    pipe = nlp.get_pipe("crf_tagger")
    (network,) = pipe.doc_model.networks.values()
    assert network.model.get_dim("nO") == len(pipe.tags) == 11
    nlp.update([Example(Doc(nlp.vocab), Doc(nlp.vocab))], sgd=optimizer)

    def fail(*given: Any) -> Any:
        raise MemoryError

    network.begin_update = fail
    with pytest.raises(MemoryError):
        nlp.update(corpus, sgd=optimizer)
    del network.begin_update
    nlp.update(corpus[:2], sgd=optimizer)
    with pytest.raises(ConfigError, match="tok2vec must be a block"):
        Neural(3)


def test_a_network_reads_white_space_and_learns_from_words() -> None:
    nlp, corpus, optimizer = initialized(repeat=2)
    pipe = nlp.get_pipe("crf_ner")
    words = ["Anna", "\n", "lives", "in", "New", " ", "York", "."]
    gold = Doc(nlp.vocab, words=words, ents=["B-PER", "O", "O", "O", "B-LOC", "I-LOC", "I-LOC", "O"])
    blank = Example(Doc(nlp.vocab, words=["\n"]), Doc(nlp.vocab, words=["\n"]))
    for batch in [[Example(Doc(nlp.vocab, words=words), gold), *corpus], [blank]] * 80:
        nlp.update(batch, sgd=optimizer)
    doc = nlp(Doc(nlp.vocab, words=words))
    assert [(ent.start, ent.end, ent.label_) for ent in doc.ents] == [(0, 1, "PER"), (4, 7, "LOC")]
    (emissions,) = pipe.model.predict([doc])
    network = pipe.method.potentials["network"].read([doc])
    kept = [token.i for token in doc if not token.is_space]
    np.testing.assert_allclose(emissions[kept], network[kept], rtol=1e-5)
    assert not emissions[[1, 5]].any()
