"""``crfseq explain`` without a text: the largest weights with their names, transitions, templates, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language

from spacy_crfseq.tools._pages.weights import NAMELESS, NamedWeight
from spacy_crfseq.tools.explain.weights import ModelWeights, explain_model
from tests.commands import Run, refused, worked
from tests.html import Page
from tests.pipeline import helpers

PAIRS = {
    "@crf_features": "spacy_crfseq.Templates.v1",
    "templates": ["LOWER[-1..1]", "LOWER[-1]|LOWER[0]", "SUFFIX2", "IS_TITLE", "TAG[-1]", "ENT_IOB"],
    "bigram_templates": ["SHAPE[0]"],
}


def weights_of(shown: ModelWeights) -> list[NamedWeight]:
    return [weight for group in shown.groups for weight in (*group.positive, *group.negative)]


def stored(folder: Path, **config: Any) -> tuple[Path, Language]:
    """Store a trained pipeline of a chunker and return it, too."""
    nlp = helpers.trained("crf_chunker", features=PAIRS, support="all", **config)
    nlp.to_disk(folder / "model")
    return folder / "model", nlp


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("top"))[0]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Language]:
    """The same model, names kept."""
    return stored(tmp_path_factory.mktemp("named"), keep_names=True)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(" ".join(row[0] for row in rows) for rows in helpers.SENTENCES))
    return path


def test_names_that_are_found_are_those_that_are_kept(model: Path, named: tuple[Path, Language], texts: Path) -> None:
    """Words and columns from the vocab, the rest from texts; weights are the model's."""
    kept, alone = explain_model(str(named[0]), number=10_000), explain_model(str(model), number=10_000)
    helped = explain_model(str(model), number=10_000, texts=texts)
    pipe = helpers.pipe_of(named[1])
    for group, label in zip(kept.groups, range(len(pipe.tags)), strict=True):
        assert group.title == pipe.tags[label]
        state = pipe.crf.views.unigrams.reshape(-1, len(pipe.tags))[:, label]
        expected = {name: w for name, w in zip(pipe.doc_model.feature_names, state.tolist(), strict=False) if w}
        both = [weight for weight in (*group.positive, *group.negative) if not weight.before]
        assert {weight.attribute: weight.weight for weight in both} == expected
    assert kept.advice() == ""
    for actual in (alone, helped):
        pairs = list(zip(weights_of(actual), weights_of(kept), strict=True))
        assert [weight.weight for weight, _ in pairs] == [other.weight for _, other in pairs]
        missing = {other.attribute for weight, other in pairs if not weight.known}
        assert {weight.attribute for weight, _ in pairs if weight.known} == {
            other.attribute for weight, other in pairs if weight.known
        }
        assert bool(missing) == bool(actual.advice())
        if actual is alone:
            assert missing
            assert all(name.startswith("LOWER[-1]|LOWER[0]=") for name in missing)
            assert {weight.attribute for weight, _ in pairs if not weight.known} == {f"LOWER[-1]|LOWER[0] {NAMELESS}"}
        else:
            assert not missing


def test_the_terminal(run: Run, model: Path, texts: Path) -> None:
    result = worked(run("explain", model, "-n 3"))
    weights = explain_model(str(model), number=3)
    assert [line for line in result.stdout.splitlines() if line in weights.labels] == weights.labels
    first = weights.groups[0]
    line = result.stdout.splitlines()[2]
    assert line.split()[:2] == [f"{first.positive[0].weight:+.3f}", first.positive[0].attribute]
    assert f"{first.negative[0].weight:+.3f}  {first.negative[0].attribute}" in line
    assert "Transitions, from the label of the row" in result.stdout
    rows = [row.template for row in weights.templates if row.template]
    assert [line.split()[0] for line in result.stdout.splitlines() if line.split("  ")[0] in rows] == rows[:-1]
    assert "SHAPE[0] (with the label before)" in result.stdout
    assert "have no name" in run("explain", model, "-n 50").stdout
    assert "have no name" not in run("explain", model, "-n 50 --texts", texts).stdout


def test_one_template(run: Run, model: Path) -> None:
    weights = explain_model(str(model), template="LOWER[-1..0]", number=4)
    assert [group.title for group in weights.groups] == ["LOWER[-1]", "LOWER[0]"]
    for group in weights.groups:
        assert all(weight.attribute.startswith(f"{group.title}=") for weight in (*group.positive, *group.negative))
    result = run("explain", model, "--template SHAPE -n 4")
    (group,) = explain_model(str(model), template="SHAPE", number=4).groups
    assert all(weight.before for weight in group.positive)
    best = group.positive[0]
    assert f"{best.attribute}  {best.before} -> {best.label}" in result.stdout
    (only,) = explain_model(str(model), template="LOWER[-1]", label="B-NP").groups
    assert {weight.label for weight in (*only.positive, *only.negative)} == {"B-NP"}


def test_transitions(run: Run, named: tuple[Path, Language]) -> None:
    weights = explain_model(str(named[0]))
    views = helpers.pipe_of(named[1]).crf.views
    n = len(weights.labels)
    assert weights.transitions is not None
    np.testing.assert_array_equal(weights.transitions[:n, :n], views.transitions)
    np.testing.assert_array_equal(weights.transitions[n, :n], views.start)
    np.testing.assert_array_equal(weights.transitions[:n, n], views.end)
    assert np.isnan(weights.transitions[n, n])
    message = json.loads(run("explain", named[0], "--json").stdout)
    assert message["transitions"]["start"] == dict(zip(weights.labels, views.start.tolist(), strict=True))
    assert message["transitions"]["O"]["end"] == views.end[weights.labels.index("O")]


def test_json(run: Run, model: Path, tmp_path: Path) -> None:
    message = json.loads(run("explain", model, "-n 2 --json").stdout)
    weights = explain_model(str(model), number=2)
    assert list(message["weights"]) == weights.labels
    first = message["weights"][weights.labels[0]]["positive"][0]
    assert first == weights.groups[0].positive[0]._asdict()
    both = run("explain", model, "-n 2 --json --output", tmp_path / "page.html")
    assert json.loads(both.stdout) == message
    assert (tmp_path / "page.html").exists()
    assert [row["template"] for row in message["templates"]] == [row.template for row in weights.templates]
    out = tmp_path / "page.html"
    worked(run("explain", model, "--output", out), f"Saved {out}")
    html = out.read_text(encoding="utf8")
    weights = explain_model(str(model), number=15)
    for words in ("Transitions", "Weights by template", "<svg", *weights.labels):
        assert words in html
    assert Page(html).seen.count("h2") == 2 + len(weights.labels)


@pytest.mark.parametrize(("arguments", "message"), [
    (("--label", "NPP"), "no label 'NPP'. Did you mean "),
    (("--template", "LOWER[5]"), "the model has no template 'LOWER[5]'. Did you mean 'LOWER["),
    (("--texts", "none.txt"), "no such file"),
    (("--token", "Oslo"), "--token needs a text"),
    (("--limit", "3"), "--limit needs a text"),
    (("A text.", "--template", "SHAPE"), "--template is about the model as a whole"),
    (("A text.", "--texts", "none.txt"), "--texts is about the model as a whole"),
])  # fmt: skip
def test_unusable_input_is_refused_with_its_reason(
    run: Run, model: Path, arguments: tuple[str, ...], message: str
) -> None:
    refused(run("explain", model, *arguments), message)


def test_a_model_keeps_the_names_of_its_largest_weights(run: Run, trained: Path) -> None:
    """With nothing said, all weights that the page and the terminal show have names, and the file stays small."""
    model = trained / "model-best"
    for name in ("crf_tagger", "crf_chunker", "crf_ner"):
        weights = explain_model(str(model), component=name, number=15)
        assert any("|" in weight.attribute for weight in weights_of(weights))
        assert weights.advice() == ""
        assert "have no name" not in worked(run("explain", model, "-p", name)).stdout
    pipe = helpers.pipe_of(spacy.load(model), "crf_ner")
    names = pipe.doc_model.largest_names()
    assert 0 < sum(map(len, names)) <= 2 * 15 * len(pipe.tags) + 2 * 5 * len(pipe.method.features.plans()[0].templates)
    for template in pipe.method.features.plans()[0].templates:
        assert explain_model(str(model), component="crf_ner", template=template.name, number=5).advice() == ""
