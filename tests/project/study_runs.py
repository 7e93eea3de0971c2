"""Runs of a study that end in all ways, as functions that a new process can import quickly."""

import os
from typing import Any

from scripts.kit import Options, Skip


def done(options: Options) -> list[Any]:
    return [{"seed": options.seed}]


def missing(options: Options) -> list[Any]:
    raise Skip("a corpus is missing")


def wrong(options: Options) -> list[Any]:
    raise ValueError("a figure is wrong")


def killed(options: Options) -> list[Any]:
    os._exit(9)
