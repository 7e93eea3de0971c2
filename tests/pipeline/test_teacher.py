"""Learning from a teacher: the labels that it gives to raw texts, what a student makes of them, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

from spacy_crfseq.errors import ConfigError, DataError
from spacy_crfseq.pipeline.soft_labels import read_soft_labels
from spacy_crfseq.pipeline.teacher import create_teacher_reader
from tests.pipeline.helpers import (
    LBFGS,
    LBFGS_TIGHT,
    bare_doc,
    blank,
    examples,
    initialize,
    pipe_of,
    registered,
    templates,
    trained,
)

TEXTS = ("Bob saw New Norway", "Anna of Norway lends  Oslo", "the Bank lives in York", "Zed saw Oslo .")
WORDS = templates("LOWER[0]")
UNSURE = {"features": WORDS, "optimizer": LBFGS_TIGHT, "precision": "float64"}
CROSS = registered("losses", "CrossEntropy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("teachers")


@pytest.fixture(scope="module")
def saved(folder: Path) -> Callable[..., tuple[Language, str]]:
    """Return a trained pipeline of some factories, and the folder where it is stored."""
    kept: dict[str, tuple[Language, str]] = {}

    def of(*factories: str, **config: Any) -> tuple[Language, str]:
        name = repr((factories, config))
        if name not in kept:
            nlp = trained(factories[0], **{**UNSURE, **config})
            for factory in factories[1:]:
                other = trained(factory, **{**UNSURE, **config})
                nlp.add_pipe(factory, source=other)
            place = folder / str(len(kept))
            nlp.to_disk(place)
            kept[name] = nlp, str(place)
        return kept[name]

    return of


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt"
    path.write_text("\n".join(TEXTS), encoding="utf8")
    return path


def taught(nlp: Language, raw: Path, teacher: str, **settings: Any) -> list[Example]:
    return list(create_teacher_reader(raw, teacher, **{"least": 1e-9, **settings})(nlp))


def test_texts_have_the_pair_probabilities_of_the_teacher(saved: Any, raw: Path) -> None:
    teacher, place = saved("crf_ner")
    nlp = blank("crf_ner")
    for example, text in zip(taught(nlp, raw, place), TEXTS, strict=True):
        assert example.predicted.text == text
        assert not example.predicted.user_data
        answers = pipe_of(teacher).posterior([teacher.make_doc(text)])
        (part,), tags = answers.word_posterior.pair_marginals(), pipe_of(teacher).tags
        words = [token.i for token in example.reference if not token.is_space]
        soft = read_soft_labels(example.reference, "crf_ner")
        assert set(soft) <= set(words)
        for word, token in enumerate(words):
            table = np.zeros((len(tags) + 1, len(tags)))
            for before, tag, share in soft.get(token, [("", "O", 1.0)]):
                table[tags.index(before) if before else -1, tags.index(tag)] = share
            np.testing.assert_allclose(table.sum(0), part.labels[word], atol=1e-5)
            if word and token in soft:
                np.testing.assert_allclose(table[:-1], part.pairs[word], atol=1e-5)


@pytest.mark.parametrize("factory", ["crf_ner", "crf_tagger", "crf_chunker"])
def test_a_pupil_like_the_teacher_gets_its_probabilities(saved: Any, raw: Path, factory: str) -> None:
    """The loss has its least value, zero, at the distribution of the teacher."""
    teacher, place = saved(factory)
    free = registered("regularizers", "NoRegularizer")
    nlp = blank(factory, **UNSURE, regularizer=free, loss=CROSS, support="all")
    given = taught(nlp, raw, place)
    initialize(nlp, given)
    result = pipe_of(nlp).fit()
    assert result.history[-1].report.loss == pytest.approx(0, abs=1e-5)
    for text in TEXTS:
        doc = bare_doc(nlp, text.split())
        marginals, expected = (pipe_of(pipeline).marginals(doc) for pipeline in (nlp, teacher))
        places = [pipe_of(teacher).tags.index(tag) for tag in pipe_of(nlp).tags]
        np.testing.assert_allclose(marginals, expected[:, places], atol=1e-4)


def test_a_component_learns_gold_labels_and_a_teacher(saved: Any, raw: Path) -> None:
    _, place = saved("crf_ner")
    shares = []
    for weight in (0.0, 3.0):
        nlp = blank("crf_ner", features=WORDS, optimizer=LBFGS, terms={"teacher": {"loss": CROSS, "weight": weight}})
        read, ner = create_teacher_reader(raw, place), pipe_of(nlp)
        gold = [example for example in examples(nlp) if "Oslo" not in example.reference.text]
        ner.initialize(lambda: gold, nlp=nlp, terms={"teacher": lambda: read(nlp)})  # noqa: B023
        ner.fit()
        table = ner.marginals(bare_doc(nlp, ["Bob", "saw", "Oslo"]))
        shares.append((table[0, ner.tags.index("U-PER")], table[2, ner.tags.index("U-LOC")]))
    assert shares[0][0] > 0.5  # Bob is in a gold text, Oslo in none
    assert shares[1][1] > 2 * shares[0][1]


def test_components_learn_from_those_of_their_names_in_the_order_of_the_teacher(saved: Any, raw: Path) -> None:
    _, place = saved("crf_tagger", "crf_ner")
    nlp = blank("crf_ner")
    nlp.add_pipe("crf_tagger")
    for example in taught(nlp, raw, place):
        tags, entities = (read_soft_labels(example.reference, name) for name in ("crf_tagger", "crf_ner"))
        words = {token.i for token in example.reference if not token.is_space}
        assert set(tags) == words
        assert set(entities) <= words


def test_a_scheme_that_says_less_gets_sums(saved: Any, raw: Path) -> None:
    _, place = saved("crf_ner")
    same, other = blank("crf_ner"), blank("crf_ner", scheme="IOB2")
    letters = dict(zip("BILU", "BIIB", strict=True))
    for full, short in zip(taught(same, raw, place), taught(other, raw, place), strict=True):
        expected: dict[tuple[int, str, str], float] = {}
        for token, entries in read_soft_labels(full.reference, "crf_ner").items():
            for *pair, share in entries:
                before, tag = (letters.get(tag[:1], tag[:1]) + tag[1:] for tag in pair)
                expected[token, before, tag] = expected.get((token, before, tag), 0) + share
        actual = {
            (token, before, tag): share
            for token, entries in read_soft_labels(short.reference, "crf_ner").items()
            for before, tag, share in entries
        }
        assert actual == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_tagger_of_spacy_has_independent_labels(folder: Path, raw: Path, normalize: bool) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "nO": None, "normalize": normalize,
        "tok2vec": {"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 8, "depth": 1,
                    "embed_size": 20, "window_size": 1, "maxout_pieces": 2, "subword_features": True}}})  # fmt: skip
    sgd = nlp.initialize(lambda: examples(nlp, "crf_tagger"))
    for _ in range(3):
        nlp.update(examples(nlp, "crf_tagger"), sgd=sgd)
    nlp.to_disk(folder / f"tagger-{normalize}")
    tagger: Any = nlp.get_pipe("tagger")
    for example in taught(blank("crf_tagger"), raw, str(folder / f"tagger-{normalize}"), temperature=2.0):
        doc = nlp.make_doc(example.reference.text)
        (scores,) = tagger.model.predict([doc])
        powers = np.sqrt(scores if normalize else np.exp(scores.astype(np.float64)))
        expected = powers / powers.sum(1, keepdims=True)
        soft = read_soft_labels(example.reference, "crf_tagger")
        assert set(soft) == {token.i for token in doc if not token.is_space}
        for token, entries in soft.items():
            assert {before for before, *_ in entries} == {""}
            actual = {tag: share for _, tag, share in entries}
            assert actual == pytest.approx(dict(zip(tagger.labels, expected[token], strict=True)), abs=1e-4)


def test_labels_get_other_names_or_are_left_out(saved: Any, raw: Path) -> None:
    _, place = saved("crf_ner")
    given = taught(blank("crf_ner"), raw, place, labels={"LOC": "PLACE", "ORG": "O"})
    soft = [read_soft_labels(example.reference, "crf_ner") for example in given]
    tags = {tag for of_doc in soft for entries in of_doc.values() for _, tag, _ in entries}
    assert {tag[2:] for tag in tags} == {"", "PER", "PLACE"}
    assert all(sum(share for *_, share in entries) == pytest.approx(1) for token in soft for entries in token.values())


def test_a_higher_temperature_makes_the_teacher_less_certain(saved: Any, raw: Path) -> None:
    _, place = saved("crf_ner")
    highest = []
    for temperature in (1.0, 5.0):
        first = taught(blank("crf_ner"), raw, place, temperature=temperature)[0]
        highest.append(max(share for *_, share in read_soft_labels(first.reference, "crf_ner")[0]))
    assert highest[0] > highest[1]


@pytest.mark.parametrize(
    ("teacher", "student", "settings", "message"),
    [
        ({}, {}, {"component": "crf_x"}, "The pipeline in training has no CRF component 'crf_x'"),
        ({}, {"factory": "crf_tagger"}, {}, "'crf_tagger' cannot learn from .*, which has no component of this name"),
        ({}, {}, {"labels": {"GPE": "LOC"}}, "labels: the teacher has no label 'GPE'"),
        ({"scheme": "IOB2"}, {}, {}, r"tags of the teacher's 'crf_ner' \(IOB2\) do not say where .* scheme = \"IOB2\""),
        ({"loss": registered("losses", "LocalLog"), "decoder": registered("decoders", "LocalViterbi")}, {}, {},
         "a model that is normalised over whole sequences"),
        ({}, {}, {"least": 0.6}, "least must be above 0 and below 0.5, but 0.6 was given"),
        ({}, {}, {"limit": -1}, "limit must be 0"),
        ({}, {}, {"temperature": 0.0}, "emperature"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_is_refused(
    saved: Any, raw: Path, teacher: Any, student: Any, settings: Any, message: str
) -> None:
    _, place = saved("crf_ner", **teacher)
    with pytest.raises(ConfigError, match=message):
        taught(blank(**student), raw, place, **settings)


@pytest.mark.parametrize(("path", "teacher", "lacks"), [(None, "model", "path"), (Path("raw.txt"), None, "teacher")])
def test_both_a_teacher_and_raw_texts_are_needed(path: Path | None, teacher: str | None, lacks: str) -> None:
    with pytest.raises(ConfigError, match=f"TeacherReader.v1 has no {lacks}. Give raw texts"):
        create_teacher_reader(path, teacher)


def test_labels_that_the_training_corpus_lacks(saved: Any, raw: Path) -> None:
    _, place = saved("crf_ner")
    nlp = blank("crf_ner", features=WORDS, optimizer=LBFGS, terms={"teacher": {"loss": CROSS}})
    names = {"PER": "PERSON", "LOC": "GPE", "ORG": "COMPANY"}

    def start(**labels: str) -> None:
        read = create_teacher_reader(raw, place, labels=labels)
        pipe_of(nlp).initialize(lambda: examples(nlp), nlp=nlp, terms={"teacher": lambda: read(nlp)})

    with pytest.raises(DataError, match=r"texts of the term 'teacher' have the labels 'COMPANY', 'GPE', 'PERSON', the"):
        start(**names)
    with pytest.warns(UserWarning, match=r"have the labels 'GPE', the training corpus only 'LOC', 'ORG', 'PER'"):
        start(LOC="GPE")
