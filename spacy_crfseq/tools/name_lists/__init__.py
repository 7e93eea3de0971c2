"""Lists of names that another package has: people, cities, states and countries of many languages, and legal forms.

Faker makes up texts for tests from such lists.  One block of a config finds them in texts, as `Phrases` does::

    [components.crf_ner.attributes]

    [components.crf_ner.attributes.names]
    @crf_attributes = "spacy_crfseq.NameLists.v1"
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from ...errors import ConfigError
from ...features.phrases import Phrases, PhraseTable, make_table
from ...threads import cached_property

PACKAGE = "faker"
LISTS = {
    "first": ("person", ("first_names", "first_names_female", "first_names_male")),
    "last": ("person", ("last_names",)),
    "city": ("address", ("cities", "city_names")),
    "state": ("address", ("states",)),
    "country": ("address", ("countries",)),
    "legal": ("company", ("company_suffixes",)),
}
"""The lists: their provider in Faker, and its attributes that have them."""


class NameLists(Phrases):
    """The names of Faker as phrases; values such as "city-B", see `Phrases`.

    A trained pipeline contains the names and does not need Faker.

    lower (bool): Compare lower-cased.
    window (int): Tokens on each side whose values are used, too.
    RAISES ConfigError: If the window is not possible; without Faker, when training begins.
    """

    def __init__(self, lower: bool = True, window: int = 0) -> None:
        super().__init__(None, {name: [] for name in LISTS}, lower, window)

    @cached_property
    def table(self) -> PhraseTable:
        """The names, read once for all components and trainings; ConfigError without Faker."""
        return _table(self.lower)

    def entries(self) -> Iterator[tuple[str, str]]:
        """Yield the names of all languages, each after its list; ConfigError without Faker."""
        if find_spec(PACKAGE) is None:
            raise ConfigError("NameLists: Faker is not installed. Run pip install 'spacy-crfseq[lists]'.")
        for name, (provider, attributes) in LISTS.items():
            package = import_module(f"{PACKAGE}.providers.{provider}")
            for language in iter_modules(package.__path__, f"{package.__name__}."):
                values = vars(import_module(language.name).Provider)
                for attribute in attributes:
                    # some are properties; names of some languages are tuples of spellings
                    if isinstance(names := values.get(attribute), (tuple, list, dict)):
                        yield from ((name, value) for value in names if isinstance(value, str))


@lru_cache(maxsize=2)
def _table(lower: bool) -> PhraseTable:
    return make_table(NameLists(lower).entries(), lower)
