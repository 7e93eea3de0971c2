"""A name and its settings as a text of users: NAME,SETTING=VALUE, and so on."""

from __future__ import annotations

import json
import re
from typing import Any

from ...errors import ConfigError

_COMMAS = re.compile(r",(?=[a-z_]+=)")
_FRACTION = re.compile(r"[+-]?\.\d+")


def split_settings(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the settings; a value goes on to the next setting, so that it may be a list.

    RAISES ConfigError: If a setting comes twice.
    """
    name, *parts = _COMMAS.split(text)
    settings = dict[str, str]()
    for part in parts:
        key, _, value = part.partition("=")
        if key in settings:
            raise ConfigError(f"{text}: {key} is given twice. Give several values as {key}=..., with commas between.")
        settings[key] = value
    return name, settings


def value_of(text: str) -> Any:
    """Return a value of a registered function: a number, true, false or another value of JSON, else the text."""
    try:
        return float(text) if _FRACTION.fullmatch(text) else json.loads(text)
    except ValueError:
        return text
