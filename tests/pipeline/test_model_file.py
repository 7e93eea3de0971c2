"""Stored components in the form that docs/model-file.md describes, and that page.

``python -m tests.pipeline.test_model_file`` stores them anew, which is only right after a change of the form.
"""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import srsly
from thinc.api import fix_random_seed

from spacy_crfseq.errors import ModelFileError
from spacy_crfseq.pipeline.model_file import HEAD
from tests.pipeline.helpers import blank, examples, initialize, inputs, pipe_of, registered, templates, trained

STORED = Path(__file__).parent / "stored"
INPUTS = STORED / "inputs"
PAGE = Path(__file__).parents[2] / "docs" / "model-file.md"
PAIRS = templates("LOWER[-1..1]", "SUFFIX3[0]", bigram_templates=["LOWER[0]"])
CNN = {
    "@architectures": "spacy.HashEmbedCNN.v2", "width": 8, "depth": 1, "embed_size": 20, "window_size": 1,
    "maxout_pieces": 2, "subword_features": False, "pretrained_vectors": None,
}  # fmt: skip
COMPONENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pairs": ("crf_ner", {"features": PAIRS, "scheme": "IOB2"}),
    "stages": ("crf_ner", {
        "attributes": {"labels": registered("attributes", "DocumentLabels", folds=2)},
        "decoder": registered("decoders", "RescoredSpans"),
    }),
    "lists": ("crf_ner", {"attributes": {
        "names": registered("attributes", "Phrases", path=str(INPUTS / "names.txt")),
        "classes": registered("attributes", "WordClasses", path=str(INPUTS / "classes.tsv")),
    }}),
    "template_file": ("crf_tagger", {
        "features": registered("features", "TemplateFile", path=str(INPUTS / "template"), columns=["word"]),
    }),
    "dictionary": ("crf_tagger", {"tag_dictionary_size": 5, "tag_dictionary_min_count": 1, "keep_names": True}),
    "dense": ("crf_chunker", {"support": "all", "precision": "float64"}),
    "neural": ("crf_ner", {"potentials": {"network": registered("potentials", "Neural", tok2vec=CNN)}}),
    "small": ("crf_ner", {"regularizer": registered("regularizers", "L1", rho=0.01)}),
}  # fmt: skip


def answers(nlp: Any, factory: str) -> list[tuple[list[int], list[float]]]:
    """Return the labels of each Doc and their probabilities."""
    posterior = pipe_of(nlp).posterior(inputs(nlp, factory))
    answers = zip(posterior.labels, posterior.marginals(), strict=True)
    return [(labels.tolist(), shares[np.arange(len(labels)), labels].tolist()) for labels, shares in answers]


def component(name: str, factory: str, settings: dict[str, Any]) -> Any:
    """Return a pipeline with the trained component."""
    if name != "neural":
        nlp = trained(factory, **settings)
        if name == "small":
            pipe_of(nlp).prune(0.1)
        return nlp
    fix_random_seed(0)
    nlp = blank(factory, **settings)
    corpus = examples(nlp, factory)
    initialize(nlp, corpus)
    for _ in range(40):
        nlp.update(corpus)
    return nlp


def store() -> None:
    for name, (factory, settings) in COMPONENTS.items():
        nlp = component(name, factory, settings)
        (STORED / name).mkdir(parents=True, exist_ok=True)
        pipe_of(nlp).to_disk(STORED / name, exclude=["vocab"])
        (STORED / name / "answers.json").write_text(json.dumps(answers(nlp, factory)), encoding="utf8")


@pytest.mark.parametrize("name", COMPONENTS)
def test_stored_components_answer_as_they_did(name: str, tmp_path: Path) -> None:
    factory, settings = COMPONENTS[name]
    nlp = blank(factory, **settings)
    pipe_of(nlp).from_disk(STORED / name, exclude=["vocab"])
    for (labels, shares), (wanted, expected) in zip(
        answers(nlp, factory), json.loads((STORED / name / "answers.json").read_text(encoding="utf8")), strict=True
    ):
        assert labels == wanted
        np.testing.assert_allclose(shares, expected, atol=1e-5)
    pipe_of(nlp).to_disk(tmp_path, exclude=["vocab"])
    assert (tmp_path / "cfg").read_bytes() == (STORED / name / "cfg").read_bytes()
    written, stored = (plain((folder / "model").read_bytes()) for folder in (tmp_path, STORED / name))
    assert isinstance(written, dict)
    assert written == stored


def plain(value: Any) -> Any:
    """Return a value with all that is packed in it, but digests, since builds of zlib do not pack to the same bytes."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items() if key != "digest"}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if not isinstance(value, bytes):
        return value
    if value[:1] == b"x":
        stream = zlib.decompressobj()
        return stream.decompress(value), plain(stream.unused_data)
    loaded = srsly.msgpack_loads(value) if value[:1] >= b"\x80" else None
    return plain(loaded) if isinstance(loaded, dict) else value


@pytest.mark.parametrize(("name", "group", "plugin"), [
    ("stages", "", "decoder"),
    ("lists", "attributes", "names"),
    ("lists", "attributes", "classes"),
    ("template_file", "", "features"),
    ("neural", "potentials", "network"),
])  # fmt: skip
def test_data_that_another_build_of_a_plugin_has_written_are_refused_as_such(
    name: str, group: str, plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory, settings = COMPONENTS[name]
    pipe = pipe_of(blank(factory, **settings))
    pipe.from_disk(STORED / name, exclude=["vocab"])
    own = getattr(pipe.method, group)[plugin] if group else getattr(pipe.method, plugin)
    monkeypatch.setattr(type(own), "to_state", lambda plugin: [1])
    data = pipe.to_bytes()
    named = {"features": "template_file", "network": type(own).__name__}.get(plugin, plugin)
    with pytest.raises(ModelFileError, match=rf"the data of '{named}' .*an earlier .*Train the model again"):
        pipe_of(blank(factory, **settings)).from_bytes(data)


def test_the_page_tells_of_every_entry() -> None:
    head, weights, block = (
        re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE)
        for section in re.split(
            r"^## Head|^## Weights|^A block is", PAGE.read_text(encoding="utf8"), flags=re.MULTILINE
        )[1:]
    )
    told = [{name for cell in cells for name in re.findall(r"\w+", cell)} for cells in (head, weights, block)]
    assert told[0] == {*HEAD, "decoder"}  # which only some models have
    for name in COMPONENTS:
        stored = srsly.msgpack_loads(srsly.msgpack_loads((STORED / name / "model").read_bytes())["model"])
        assert set(stored) <= told[1]
        assert set(stored["state"]) | set(stored["pair"]) <= told[2]


if __name__ == "__main__":
    store()
