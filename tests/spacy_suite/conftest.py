"""Fixtures that spaCy's tests expect, the swap of components, and the marks of tests that must differ."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from spacy.lang.de import German
from spacy.lang.en import English
from spacy.lang.en.tokenizer_exceptions import TOKENIZER_EXCEPTIONS
from spacy.tokenizer import Tokenizer
from spacy.vocab import Vocab

from tests.spacy_suite.differences import DIFFERENT
from tests.spacy_suite.suite import swapped


@pytest.fixture(autouse=True)
def swap() -> Iterator[None]:
    with swapped():
        yield


@pytest.fixture(scope="session")
def en_vocab() -> Vocab:
    return English().vocab


@pytest.fixture(scope="session")
def de_vocab() -> Vocab:
    return German().vocab


@pytest.fixture(scope="session")
def en_tokenizer() -> Tokenizer:
    """Return the tokenizer with its exceptions, which it lacks in our own tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(English.Defaults, "tokenizer_exceptions", TOKENIZER_EXCEPTIONS)
        return English().tokenizer


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "issue(number): the issue of spaCy that a test of spaCy is about")
    config.addinivalue_line("markers", "slow: what spaCy calls slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.filterwarnings("default"))
        different = DIFFERENT.get(getattr(item.module, "SPACY_MODULE", ""), {}).get(item.name)
        if different is not None:
            item.add_marker(pytest.mark.xfail(raises=different.raises, reason=different.reason, strict=True))
