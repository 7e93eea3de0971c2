"""When an attack has been survived: a result, or a refusal in words that name what is wrong; never a bare traceback."""

import os
import re
from collections.abc import Callable
from typing import Any

from catalogue import RegistryError
from confection import ConfigValidationError
from hypothesis import HealthCheck, Phase, settings

from spacy_crfseq.errors import CrfError

CASES = int(os.environ.get("FUZZ_CASES", "0"))
"""Cases of a longer run; 0 for the few of the test suite."""


def cases(few: int) -> Any:
    """Return the settings of a property test: `few` cases that never change, or as many new ones as are asked for."""
    return settings(
        max_examples=CASES or few,
        derandomize=not CASES,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.explicit, Phase.generate),  # shrinking takes minutes
        suppress_health_check=list(HealthCheck),
    )


def attempt(act: Callable[[], Any], *named: str) -> Any:
    """Return the result of `act`, or None where it refuses in words; a refusal has all of `named` in it.

    Whatever else it raises is a fault and passes through.
    """
    try:
        return act()
    except (CrfError, RegistryError) as error:
        message = str(error)
    except ConfigValidationError as error:  # commands say of which config
        message = f"{named} {error}"
    except OSError as error:  # which commands report
        message = f"{error.filename} cannot be read: {error}"
    except ValueError as error:  # spaCy numbers its messages to users
        message = str(error)
        if not re.match(r"\[E\d", message):
            raise
    assert len(message.split()) > 3, message
    assert all(name in message for name in named), message
    return None


def survived(result: Any) -> bool:
    """Whether a command has worked; else it has refused in words, with the exit code 1 or 2, or 3 for broken lines."""
    words = result.stderr
    assert result.exit_code in (0, 1, 2, 3), result
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in words
    assert result.exit_code == 0 or len(words.split()) > 3, words
    assert not any(ord(char) < 32 and char != "\n" for char in words.expandtabs()), words
    return result.exit_code == 0
