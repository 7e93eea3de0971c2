"""An attribute that fires on the words of a file, with one word per line.  Templates use the name of its block::

    [components.crf_ner.features]
    @crf_features = "spacy_crfseq.Templates.v1"
    templates = ["LOWER[-1..1]", "CITY[-1..1]"]

    [components.crf_ner.features.functions]

    [components.crf_ner.features.functions.CITY]
    @crf_features = "spacy_crfseq.Gazetteer.v1"
    path = "assets/cities.txt"

A trained pipeline contains the words and does not need the file.
"""

from __future__ import annotations

from pathlib import Path

from ...errors import ConfigError


class Gazetteer:
    """Function of a word's text: "1" if the word is listed, else None.

    path (Path | str): UTF-8 file, one word per line; blank lines are skipped.
    lower (bool): Compare lower-cased.
    RAISES ConfigError: If the file exists but cannot be read.  A missing file is an error when the words are first
        needed.
    """

    def __init__(self, path: Path | str, lower: bool = True) -> None:
        self.path, self.lower = Path(path), lower
        self._words = self._read() if self.path.exists() else None

    def _read(self) -> frozenset[str]:
        try:
            lines = self.path.read_text(encoding="utf8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Gazetteer: cannot read the word list {self.path} ({error}).") from error
        return frozenset(self._key(line.strip()) for line in lines if line.strip())

    @property
    def words(self) -> frozenset[str]:
        """The listed words; ConfigError if there is no file."""
        if self._words is None:
            raise ConfigError(f"Gazetteer: {self.path}: no such file (in {Path.cwd()}).")
        return self._words

    def to_state(self) -> list[str]:
        """Return the data that a model stores."""
        return sorted(self.words)

    def from_state(self, state: list[str]) -> None:
        """Use the words that a model has stored."""
        self._words = frozenset(state)

    def _key(self, word: str) -> str:
        return word.lower() if self.lower else word

    def __call__(self, text: str) -> str | None:
        """Return "1" if `text` is listed."""
        return "1" if self._key(text) in self.words else None
