"""`NameLists`: the names of another package as phrases."""

from importlib import import_module
from pathlib import Path

import pytest

from spacy_crfseq.errors import ConfigError

MODULE = import_module("spacy_crfseq.tools.name_lists")
PROVIDERS = {
    "person.en": "first_names, first_names_male, last_names = {'Anna': 0.1}, ('Bo',), ['May']",
    "person.ja": "last_names, first_names = (('x', 'y'),), property()",
    "address.en": "cities, countries, states = ('New York',), (), ('Ohio',)",
    "company.en": "company_suffixes = 'Inc.', 'AG'",
}


def test_names_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, line in PROVIDERS.items():
        path = tmp_path / f"other.providers.{name}".replace(".", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(f"class Provider:\n    {line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(MODULE, "PACKAGE", "other")
    MODULE._table.cache_clear()
    made = MODULE.NameLists(lower=False, window=1)
    assert (made.templates("NAMES"), made.lower) == (["NAMES[-1..1]"], False)
    names = {"city": ["New York"], "first": ["Anna", "Bo"], "last": ["May"], "legal": ["AG", "Inc."], "state": ["Ohio"]}
    assert sorted(made.entries()) == [(name, phrase) for name, phrases in names.items() for phrase in phrases]
    state = made.to_state()
    assert MODULE.NameLists(lower=False).table is made.table, "read once"
    MODULE._table.cache_clear()
    monkeypatch.setattr(MODULE, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"pip install 'spacy-crfseq\[lists\]'"):
        (other := MODULE.NameLists()).to_state()
    other.from_state(state)
    assert set(other.table.names) == set(names)
