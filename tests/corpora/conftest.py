"""Files to read."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes `a.txt` and returns its path."""

    def written(text: str | bytes) -> Path:
        path = tmp_path / "a.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written
