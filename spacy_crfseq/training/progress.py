"""Progress within an iteration: a bar on a terminal where one takes long, as with thousands of labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
NOTICED = 2.0
"""Seconds after which a bar appears."""


def shown(items: Iterable[Item], total: int | None, title: str) -> Iterator[Item]:
    """Yield items; from `NOTICED` seconds on, a bar on stderr counts them, if that is a terminal.

    total (int | None): The number of items, if it is known.
    title (str): Of the bar.
    """
    bar = tqdm(items, title, total, delay=NOTICED, disable=None, leave=False, file=sys.stderr, unit=" parts")
    return iter(bar)
