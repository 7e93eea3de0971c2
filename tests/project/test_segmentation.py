"""The page on word segmentation: its commands, as printed, on a made corpus of words of characters."""

import random
import runpy
import sys
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Span

from spacy_crfseq.pipeline.component import CRFComponent
from tests.commands import invoke, worked
from tests.project.pages import DOCS, read

ROOT = Path(__file__).parents[2]
WORDS = ["我", "他", "们", "喜欢", "自然", "语言", "自然语言", "北京", "去", "天气", "很", "好", "的", "大学", "图书馆"]


def sentences(seed: int, number: int) -> list[list[str]]:
    rng = random.Random(seed)
    return [[*rng.choices(WORDS, k=rng.randint(2, 7)), "。"] for _ in range(number)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, in which the commands of the page have run."""
    made = tmp_path_factory.mktemp("segmentation")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        for seed, (part, number) in enumerate([("train", 300), ("dev", 40), ("test", 40)]):
            text = "".join(" ".join(words) + "\n" for words in sentences(seed, number))
            Path(f"{part}.txt").write_text(text, encoding="utf8")
        blocks = [part.split("```")[0] for part in read(DOCS / "segmentation.md").split("```bash\n")[1:]]
        for line in "".join(blocks).splitlines():
            program, *arguments = line.removeprefix("python ").split()
            if program == "-m":
                worked(invoke(*arguments[2:]))
            else:
                patch.setattr(sys, "argv", [program, *arguments])
                runpy.run_path(str(ROOT / program))
    return made


def test_the_commands_of_the_page_find_the_words(folder: Path) -> None:
    assert (folder / "train.bmes").read_text(encoding="utf8").split("\n")[0][1:] in (" S", " B")
    config = (folder / "words.cfg").read_text(encoding="utf8")
    assert "spacy_crfseq.Characters.v1" in config
    result = worked(invoke("evaluate", folder / "training/words/model-best", folder / "test.bmes"))
    assert float(result.stdout.split("FB1:")[1].split()[0]) > 90


def test_the_python_of_the_page_segments_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    texts = ["".join(words) for words in sentences(8, 5)] + ["", "北京 大学"]
    Path("raw.txt").write_text("\n".join(texts), encoding="utf8")
    blocks = [part.split("```")[0] for part in read(DOCS / "segmentation.md").split("```python\n")[1:]]
    exec("".join(blocks), {})
    segmented = Path("segmented.txt").read_text(encoding="utf8").split("\n")
    assert [line.replace(" ", "") for line in segmented] == [text.replace(" ", "") for text in texts]
    assert all(" " in line for line in segmented[:5])


def test_each_character_is_in_a_word_and_each_text_ends_with_one(folder: Path) -> None:
    nlp = spacy.load(folder / "training/words/model-best")
    texts = ["".join(words) for words in sentences(9, 30)]
    for text in [*texts, "Ωψζ", "x", "北", "我去 Oslo"]:
        doc = nlp(text)
        ends = [span.end for span in doc.spans["chunks"]]
        starts = [span.start for span in doc.spans["chunks"]]
        assert starts == [0, *ends[:-1]]
        assert ends[-1] == len(doc) == sum(not sign.isspace() for sign in text)


def test_a_word_that_is_given_ends_where_it_is_said_to(folder: Path) -> None:
    nlp = spacy.load(folder / "training/words/model-best")
    chunker, doc = nlp.get_pipe("crf_chunker"), nlp.make_doc("我喜欢自然语言。")
    assert isinstance(chunker, CRFComponent)
    answers = chunker.posterior([doc], spans=[Span(doc, 3, 5, "SPAN")])  # 自然, though 自然语言 is a word
    result = [(span.start, span.end) for span in answers.spans()[0]]
    assert (3, 5) in result
    assert {end for _, end in result} >= {3, 5}


def test_parts_of_speech_are_learned_with_the_words_by_the_options_of_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    options = read(DOCS / "segmentation.md").split("give `init-config` the options\n`")[1].split("`")[0]
    for part in ("train", "dev"):
        lines = Path(f"{part}.bmes").read_text(encoding="utf8").split("\n")
        tagged = [f"{line}-{'PUNCT' if line.startswith('。') else 'WORD'}" if line else "" for line in lines]
        Path(f"{part}.pos").write_text("\n".join(tagged), encoding="utf8")
    command = f"init-config pos.cfg --lang zh --train train.pos --dev dev.pos {options}"
    worked(invoke(*command.split()))
    worked(invoke("fit", "pos.cfg", "--output", "pos"))
    doc = spacy.load("pos/model-best")("我喜欢北京。")
    assert [(span.text, span.label_) for span in doc.spans["chunks"]][-2:] == [("北京", "WORD"), ("。", "PUNCT")]
