"""How a component is trained, in addition to its method: where its texts come from, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spacy import util
from spacy.training import Example

from .clusters import Remote
from .doc_model import DocModel
from .terms import ReadTexts


class TrainingPlan(NamedTuple):
    """How a component is trained, in addition to its method.

    report (Callable): Called with lines of progress.
    seed (int | None): ``training.seed`` of the config that the component was initialized with, None if unknown.
    streamed (bool): Whether spaCy's training reads more than what `initialize` has read.
    source (DocModel | None): A trained model, whose labels, features and weights `initialize` takes over.
    term_readers (Mapping): Functions that read the texts of terms, by their names.
    begun (Mapping): Those of corpora whose first texts have been read, instead of their readers.
    annotators (Sequence[Any]): Earlier components, whose predictions the texts of terms get before they are read.
    postponed (bool): Leave the first stage without training.
    keeps (bool): Keep the collected texts, to begin again with.
    watch (Callable | None): Passes on the texts of a term by its name, to show progress.
    remote (Remote | None): Other machines that have the texts.
    calibrates (bool): Fit a calibration to the dev corpus.
    teaches (bool): Let a decoder that corrects learn from models of parts of the corpus where no first stage does.
    has_dev (bool): Off, the calibration is fitted to parts of a small training corpus, by models of the others.
    """

    report: Callable[[str], None] = util.logger.info
    seed: int | None = None
    streamed: bool = False
    source: DocModel | None = None
    term_readers: Mapping[str, ReadTexts] = {}
    begun: Mapping[str, ReadTexts] = {}
    annotators: Sequence[Any] = ()
    postponed: bool = False
    keeps: bool = False
    watch: Callable[[str, Iterator[Example]], Iterator[Example]] | None = None
    remote: Remote | None = None
    calibrates: bool = False
    teaches: bool = True
    has_dev: bool = True
