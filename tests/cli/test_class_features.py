"""Word classes in a config: trained by the command, stored in the model, shown by name, and missing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import NAMES, PLACES, Run, refused, worked

BLOCK = """
[components.crf_ner.features]
@crf_features = "spacy_crfseq.Templates.v1"
templates = ["SHAPE[0]"]
[components.crf_ner.attributes]
[components.crf_ner.attributes.classes]
@crf_attributes = "spacy_crfseq.WordClasses.v1"
"""


def test_a_model_needs_no_file(train_on: Run, run: Run, tmp_path: Path) -> None:
    paths = {"001010": NAMES, "001011": [*PLACES, "Reykjavik"], "1": ["the", "a", "in"]}
    file = tmp_path / "classes.txt"
    file.write_text("".join(f"{path}\t{word.lower()}\t1\n" for path, words in paths.items() for word in words))
    block = f'{BLOCK}path = "{file}"\nprefixes = [4, 0]\ntemplates = ["CLASSES[0]", "CLASSES4[-1]|SHAPE[0]"]\n'
    worked(train_on("fit", "crf_ner", components=block))
    file.unlink()
    model = tmp_path / "out" / "model-best"
    explained = worked(run("explain", model, "Ada sees a dog in Reykjavik .", "-p crf_ner --token Reykjavik"))
    assert "LOC" in explained.stdout
    assert "CLASSES[0]=001011" in explained.stdout
    assert "CLASSES4[-1]|SHAPE[0]=1|Xxxxx" in explained.stdout
    worked(run("top", model), "CLASSES[0]=001010")


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ('path = "none.txt"', ["none.txt", "no such file"]),
        ('lookups = "qq"', ["'qq'", "spacy-lookups-data"]),
        ('path = "a.txt"\ntemplates = ["OTHER[0]"]', ["'OTHER[0]'", "CLASSES10"]),
    ],
)
def test_classes_that_cannot_be_used(train_on: Run, settings: str, parts: list[str]) -> None:
    refused(train_on("fit", "crf_ner", components=BLOCK + settings + "\n"), *parts, silent=False)
