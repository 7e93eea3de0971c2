"""An experiment's settings with the corpus that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scripts.papers._harness import Options, config
from scripts.papers.corpora import Examples, read_parts
from scripts.papers.task import Task

if TYPE_CHECKING:
    from spacy.language import Language

Read = Callable[["Language", Options, Mapping[str, Any]], Mapping[str, Examples]]
"""Returns the parts of a corpus by name, given the settings of an experiment."""


def read_few(nlp: Language, options: Options, settings: Mapping[str, Any]) -> Mapping[str, Examples]:
    """Return all parts of a corpus, 300 sentences of each in a quick run."""
    return read_parts(nlp, options, settings, 300)


class Corpus:
    """The settings of an experiment, a blank pipeline, and the parts of its corpus."""

    def __init__(self, name: str, options: Options, read: Read = read_few) -> None:
        import spacy

        self.settings, self.quick = config(name), options.quick
        self.nlp: Language = spacy.blank(self.settings.get("setting", {}).get("lang", "en"))
        self.parts = read(self.nlp, options, self.settings)

    @property
    def tested(self) -> list[str]:
        """Names of the parts that are not trained on."""
        return [part for part in self.parts if part != "train"]

    def task(self, model: Mapping[str, Any], train: Examples | None = None, **component: Any) -> Task:
        """Return the task of a model, which is scored on all parts.

        model (Mapping): Settings of the component beside those of all models: `features`, and a `name` for tables.
        train (Examples | None): Examples to train on; None for those of the part.
        component: Settings that replace those of the model.
        """
        block = {**self.settings["component"], **model, **component}
        block.pop("name", None)
        train = self.parts["train"] if train is None else train
        return Task(self.nlp, block, block.pop("features"), train, self.parts, quick=self.quick)
