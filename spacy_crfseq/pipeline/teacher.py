"""Raw texts with the labels of a teacher, a trained pipeline: what a smaller model learns by the loss `CrossEntropy`.

The gold Docs have the teacher's probabilities of labels and of pairs of labels, which are all that the loss of a chain
needs of its posterior (Wang et al. 2020, "Structure-level knowledge distillation for multilingual sequence labeling").
So the student needs neither the attributes of the teacher nor its first stage, and documents only for its own.
"""

# No `from __future__ import annotations`: spaCy validates a config with the evaluated annotations.

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import Tagger
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import minibatch
from spacy.vocab import Vocab

from ..corpora.paths import resolve
from ..errors import ConfigError, suggest
from ..features.noted import KEY
from ..model import check_temperature
from ..schemes import LETTERS, OUTSIDE, split_tag
from .component import CRFComponent
from .configs import load_config
from .corpus_reader import TextReader
from .doc_posterior import DocPosterior
from .readers import create_text_reader
from .select import crfs_of, load_pipeline, model_folder, run_between
from .settings import TermSettings
from .soft_labels import LEAST, SoftLabels, soft_labels, write_soft_labels
from .tasks import Annotation

_WRITES: Mapping[type, str] = {Tagger: "tag"}
"""The columns of components of spaCy that can teach; classes derived from these have other labels."""
TAUGHT = 64
"""Texts that the teacher labels at a time."""
READER, LOSS, TERM = "spacy_crfseq.TeacherReader.v1", "spacy_crfseq.CrossEntropy.v1", "teacher"
"""The additions of `with_teacher` to a config: a corpus and terms, both called `TERM`."""


def create_teacher_reader(
    path: Path | None,
    teacher: str | None,
    component: str | None = None,
    format: str | None = None,
    encoding: str | None = None,
    labels: dict[str, str] = {},  # noqa: B006
    temperature: float | None = None,
    least: float = LEAST,
    limit: int = 0,
    skip_invalid: bool = False,
) -> "TeacherReader":
    """Create a reader of raw texts that a trained pipeline labels (``spacy_crfseq.TeacherReader.v1``).

    The texts are for a term, or a training corpus, with the loss ``spacy_crfseq.CrossEntropy.v1``.

    path (Path): Raw texts: a file, a folder, a pattern, or several, comma-separated.
    teacher (str): The trained pipeline, a folder or a package.  Its tokens are those of the pipeline in training.
    component (str | None): The component that learns, from that of the same name, or the only one for its task; None
        for all components.
    labels (dict[str, str]): New names of labels of the teacher, such as {"GPE": "LOC"}; "O" for what is not to be
        learned.
    temperature (float | None): Divides the teacher's scores: above 1, it is less certain.  None for the one that
        ``calibrate`` has fitted, else 1.
    least (float): Labels and label pairs of a smaller probability are left out.
    format (str | None): Layout of the files, see ``spacy_crfseq.TextReader.v1``; None finds it.
    encoding (str | None): Of the files; None for utf8, or that of the format.
    limit (int): The maximum number of texts, 0 for all.
    skip_invalid (bool): Leave out what cannot be read, with a warning that counts it; else it is an error.
    Raises ConfigError on invalid settings, and before any training, if the teacher cannot teach a component.
    """
    for setting, value in (("path", path), ("teacher", teacher)):
        if value is None:
            raise ConfigError(f"{READER} has no {setting}. Give raw texts (path) and a trained pipeline (teacher).")
    if not 0 < least < 0.5:
        raise ConfigError(f"{READER}: least must be above 0 and below 0.5, but {least:g} was given.")
    if temperature is not None:
        check_temperature(temperature)
    texts = create_text_reader(path, format, encoding, limit, skip_invalid)
    return TeacherReader(texts, str(teacher), component, labels, temperature, least)


class Lesson(NamedTuple):
    """The lesson of a component, called `name`, from a component of a teacher.

    task (Annotation): The task of the former.
    teacher (CRFComponent | Tagger): The latter, of spaCy, knows no pairs: the labels of its tokens are independent.
    tags (Sequence[str]): [K] tags of the former that stand for the L tags of the teacher.
    merged (NDArray): [L, K] which of them each tag of the teacher is.
    """

    name: str
    task: Annotation
    teacher: CRFComponent | Tagger
    tags: Sequence[str]
    merged: NDArray[np.float32]

    def read(self, docs: Sequence[Doc], temperature: float | None, least: float) -> Iterator[SoftLabels]:
        """Yield the answers of the teacher for each Doc; arguments as of `create_teacher_reader`."""
        if isinstance(self.teacher, CRFComponent):
            answers = self.teacher.posterior(docs, temperature=temperature)
            answers.check_probabilities()
            yield from self._of_chain(answers, least)
            return
        for doc, scores in zip(docs, self.teacher.model.predict(docs), strict=True):
            shares = probabilities(np.asarray(scores, np.float64), temperature or 1.0) @ self.merged
            soft = soft_labels(self.tags, shares, None, least)
            yield {token: entries for token, entries in soft.items() if not doc[token].is_space}

    def _of_chain(self, answers: DocPosterior, least: float) -> Iterator[SoftLabels]:
        posterior, merged, soft = answers.word_posterior, self.merged, dict[int, Any]()
        places = np.arange(posterior.n_tokens) if answers.places is None else answers.places
        for part in posterior.pair_marginals():
            shares, pairs = part.labels @ merged, merged.T @ part.pairs @ merged
            for word, entries in soft_labels(self.tags, shares, pairs, least).items():
                soft[int(places[part.tokens.start + word])] = entries
        tokens = np.array(list(soft), np.int64)
        for begin, end in pairwise(answers.doc_offsets.tolist()):
            own = tokens[slice(*np.searchsorted(tokens, [begin, end]).tolist())]
            yield {token - begin: soft[token] for token in own.tolist()}


@dataclass(frozen=True)
class TeacherReader:
    """The texts of a file as a teacher labels them; arguments as of `create_teacher_reader`."""

    texts: TextReader
    teacher: str
    component: str | None
    labels: Mapping[str, str]
    temperature: float | None
    least: float

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the texts as they are read, and as the teacher labels them.

        RAISES ConfigError: If the teacher cannot teach a component of the pipeline.
        RAISES DataError: If it changes tokens.
        """
        teacher = load_pipeline(self.teacher)
        lessons = self._lessons(nlp, teacher)
        for batch in minibatch(self.texts.read(nlp, [teacher]), TAUGHT):
            gold, first = [doc.copy() for doc in batch], None
            taught = copies(batch, teacher.vocab)
            for lesson in lessons:
                taught, first = run_between(teacher, taught, first, lesson.teacher.name), lesson.teacher.name
                for doc, soft in zip(gold, lesson.read(taught, self.temperature, self.least), strict=True):
                    lesson.task.mark_outside(doc)
                    write_soft_labels(doc, lesson.name, soft)
            yield from map(Example, batch, gold)

    def _lessons(self, nlp: Language, teacher: Language) -> list[Lesson]:
        """Return the lessons of the components, in the order of the teacher's."""
        students = crfs_of(dict(nlp.pipeline), [self.component] if self.component else [], "The pipeline in training")
        pipes = {name: pipe for name, pipe in teacher.pipeline if isinstance(pipe, CRFComponent | Tagger)}
        lessons = list[Lesson]()
        for name, student in students.items():
            column = student.annotation.column
            of_task: dict[str, CRFComponent | Tagger] = {
                other: pipe for other, pipe in pipes.items()
                if (pipe.annotation.column if isinstance(pipe, CRFComponent) else _WRITES.get(type(pipe))) == column
            }  # fmt: skip
            chosen = of_task.get(name) or (next(iter(of_task.values())) if len(of_task) == 1 else None)
            if chosen is None:
                raise ConfigError(
                    f"{name!r} cannot learn from {self.teacher}, which has no component of this name for the same "
                    f"task ({column}), but {', '.join(teacher.pipe_names) or 'none'}. Name the component that can as "
                    "`component` of the reader."
                )
            lessons.append(lesson_of(name, student.annotation, chosen, self.labels))
        return sorted(lessons, key=lambda lesson: teacher.pipe_names.index(lesson.teacher.name))


def probabilities(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return the probabilities [T, L] of the labels of tokens at a temperature.

    scores (NDArray): [T, L] probabilities at 1, or scores whose exponentials are proportional to these: networks of
        spaCy return either.
    """
    if (scores >= 0).all() and np.allclose(scores.sum(1), 1, atol=1e-3):
        scores = np.log(np.maximum(scores, np.finfo(np.float64).tiny))
    powers = np.exp((scores - scores.max(1, keepdims=True)) / temperature)
    shares: NDArray[np.float64] = powers / powers.sum(1, keepdims=True)
    return shares


def copies(docs: Sequence[Doc], vocab: Vocab) -> list[Doc]:
    """Return Docs with another vocab: tokens, sentences, columns and noted attributes."""
    result = list(DocBin(docs=docs).get_docs(vocab))
    for doc, copy in zip(docs, result, strict=True):
        if KEY in doc.user_data:
            copy.user_data[KEY] = doc.user_data[KEY]
    return result


def lesson_of(name: str, task: Annotation, teacher: CRFComponent | Tagger, labels: Mapping[str, str]) -> Lesson:
    """Return the lesson of a component from a component of a teacher.

    RAISES ConfigError: If `labels` names one that the teacher lacks, or its scheme says less than that of the task.
    """
    is_crf = isinstance(teacher, CRFComponent)
    scheme, of_teacher = task.scheme, teacher.annotation.scheme if is_crf else None
    if unknown := [label for label in labels if label not in teacher.labels]:
        raise ConfigError(f"labels: the teacher has no label {unknown[0]!r}. {suggest(unknown[0], teacher.labels)}")
    if scheme is not None and of_teacher is not None and len(LETTERS[scheme]) > len(LETTERS[of_teacher]):
        raise ConfigError(
            f"The tags of the teacher's {teacher.name!r} ({of_teacher}) do not say where the spans of {name!r} "
            f'({scheme}) end. Set scheme = "{of_teacher}" in [components.{name}].'
        )
    given = [_renamed(tag, scheme, labels) for tag in (teacher.tags if is_crf else teacher.labels)]
    tags = list(dict.fromkeys(given))
    return Lesson(name, task, teacher, tags, np.array([[tag == own for own in tags] for tag in given], np.float32))


def _renamed(tag: str, scheme: str | None, labels: Mapping[str, str]) -> str:
    """Return the tag of a scheme, None for plain tags, that stands for a tag of a teacher."""
    if scheme is None:
        return labels.get(tag, tag)
    (letter, label), letters = split_tag(tag), "OBIIB" if scheme == "IOB2" else LETTERS[scheme]
    label = labels.get(label, label)
    return OUTSIDE if OUTSIDE in (letter, label) else f"{letters['OBILU'.index(letter)]}-{label}"


def with_teacher(config_path: Path, overrides: Mapping[str, Any], teacher: str, raw: str) -> dict[str, Any]:
    """Return overrides of a config by which its CRF components learn from a teacher, too.

    They add the blocks [corpora.teacher], and [components.NAME.terms.teacher] for each component to train.  Settings of
    these blocks in the config and in `overrides` are kept.
    teacher, raw (str): A trained pipeline, and raw texts for it to label.
    RAISES CrfError: If the config has no CRF component to train, or the teacher or the texts are not there.
    """
    corpus, path = f"corpora.{TERM}", re.compile(rf"(corpora|components\.[^.]+\.terms)\.{TERM}\.")
    others = {key: value for key, value in overrides.items() if not path.match(key)}
    config = load_config(config_path, others).interpolate()
    frozen, components = config["training"].get("frozen_components", []), config.get("components", {})
    crfs = [name for name, block in components.items() if str(block.get("factory", "")).startswith("crf_")]
    chosen = [name for name in config["nlp"]["pipeline"] if name in crfs and name not in frozen]
    if not chosen:
        raise ConfigError(f"{config_path} has no CRF component to train, which could learn from {teacher}.")
    blocks = {corpus: {**config["corpora"].get(TERM, {}), "@readers": READER, "teacher": teacher, "path": raw}}
    for name in chosen:
        term = {"loss": {"@crf_losses": LOSS}, **components[name].get("terms", {}).get(TERM, {}), "corpus": corpus}
        blocks[f"components.{name}.terms.{TERM}"] = term
    for key, value in overrides.items():
        if key not in others:
            place = next((place for place in blocks if key.startswith(f"{place}.")), None)
            if place is None:
                raise ConfigError(f"--{key} changes nothing: the config has no such component to train.")
            *outer, last = key.removeprefix(f"{place}.").split(".")
            of_reader = signature(create_teacher_reader).parameters.keys() - {*TermSettings._fields}
            if place != corpus and (outer or [last])[0] in of_reader:
                setting = ".".join([*outer, last])
                raise ConfigError(f"--{key}: {setting} is a setting of the corpus. Give --{corpus}.{setting} {value}")
            reduce(lambda block, part: block.setdefault(part, {}), outer, blocks[place])[last] = value
    for name in chosen:
        if "terms" not in components[name]:  # a block needs one around it
            blocks[f"components.{name}.terms"] = {TERM: blocks.pop(f"components.{name}.terms.{TERM}")}
    model_folder(teacher)  # now, rather than after the first stage of a training
    resolve(raw)
    return {**others, **blocks}
