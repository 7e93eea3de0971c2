"""Tags of spans as corpora write them: "B-PER", "PER-B", or "B" alone, in any scheme.

Readers of column files pass tags on with prefix and type; a tag without a type gets the type `UNNAMED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..errors import DataError, first_of
from ..schemes import LETTERS, MODEL_SCHEMES, OUTSIDE, find_invalid, is_tag

UNNAMED = "SPAN"
"""The type of spans whose tags have none, such as the words of segmented text in B, M, E and S."""
SHOWN = 12
"""Labels that a message shows."""
COVERED = 0.95
"""Share of the tags whose prefixes a scheme has, from which the others are mistakes."""
_PREFIXES = frozenset("".join(LETTERS.values())) - {OUTSIDE}
_FORMS = {"first": "a prefix before its type", "last": "a prefix after its type", "alone": "a prefix without a type"}


class TagReader(dict[str, str]):
    """The tags of a column with prefix and type, by the tags as they are written; the same way in the whole column.

    What is no tag of spans is returned as it is, for checks that know the scheme.
    """

    def __init__(self) -> None:
        super().__init__()
        self._form, self._first = "", ""

    def read(self, tags: Sequence[str]) -> list[str]:
        """Return tags [T] with prefix and type; RAISES DataError: On one that is written in another way than others."""
        return [self[tag] for tag in tags]

    def __missing__(self, tag: str) -> str:
        form, typed = _form_of(tag)
        if form == "last" and self._form == "first":  # such as a mistake, which has to be shown
            form, typed = "", tag
        if form and self._form and form != self._form:
            raise DataError(
                f"tag {tag!r} has {_FORMS[form]}, but {self._first!r} before it has {_FORMS[self._form]}. "
                "Write all tags of the column the same way."
            )
        if form and not self._form:
            self._form, self._first = form, tag
        self[tag] = typed
        return typed


def typed(tag: str) -> str | None:
    """Return "O", or a tag with prefix and type, from however it is written; None for a text that is no tag."""
    form, tag = _form_of(tag)
    return tag if form or tag == OUTSIDE else None


def find_scheme(sequences: Iterable[Sequence[str]]) -> str:
    """Return the scheme of the tags of some sequences: the one that most of them keep, or else whose prefixes they are.

    sequences (Iterable): Tags with prefix and type, as `TagReader.read` returns them; others count as "O".
    RAISES DataError: If no scheme has these prefixes, naming the tags.
    """
    clean = [[tag if is_tag(tag) else OUTSIDE for tag in tags] for tags in sequences]
    tagged = [tags for tags in clean if set(tags) - {OUTSIDE}]
    valid = {scheme: sum(find_invalid(tags, scheme) is None for tags in tagged) for scheme in MODEL_SCHEMES}
    scheme = max(valid, key=valid.__getitem__)  # the first one of equals
    if 2 * valid[scheme] >= len(tagged):
        return scheme
    tags = Counter(tag for of_sequence in tagged for tag in of_sequence if tag != OUTSIDE)
    covered = {scheme: sum(n for tag, n in tags.items() if tag[0] in LETTERS[scheme]) for scheme in MODEL_SCHEMES}
    scheme = max(covered, key=covered.__getitem__)
    if covered[scheme] < COVERED * tags.total():
        counts = Counter[str]()
        for tag, n in tags.items():
            counts[f"{tag[0]}-"] += n
        prefixes = ", ".join(f"{n:,} {prefix}" for prefix, n in counts.most_common())
        some = ", ".join(tag for tag, _ in tags.most_common(6))
        schemes = ", ".join(f"{name} ({' '.join(letters)})" for name, letters in LETTERS.items())
        raise DataError(f"the tags ({some}, ...) fit no scheme: their prefixes are {prefixes}. Known: {schemes}.")
    return "IOB1" if scheme == "IOB2" else scheme  # which has the same prefixes, and breaks no rule


def other_scheme(tags: Sequence[str], scheme: str) -> str | None:
    """Return the scheme with other prefixes that the tags of a sentence keep, None if there is none."""
    try:
        likely = find_scheme([tags])
    except DataError:
        return None
    differs = LETTERS[likely] != LETTERS.get(scheme)
    return likely if differs and find_invalid(tags, likely) is None else None


def _form_of(tag: str) -> tuple[str, str]:
    """Return how a tag is written, "" for what is none, and the tag with prefix and type."""
    if tag in _PREFIXES:
        return "alone", f"{tag}-{UNNAMED}"
    prefix, _, label = tag.partition("-")
    if prefix in _PREFIXES and label:
        return "first", tag
    label, _, prefix = tag.rpartition("-")
    if prefix in _PREFIXES and label and label != OUTSIDE:
        return "last", f"{prefix}-{label}"
    return "", tag


def alike(labels: Iterable[str]) -> list[str]:
    """Return the labels that differ from another one by case and white space only, those of a kind side by side."""
    kinds: dict[str, list[str]] = {}
    for label in sorted(set(labels)):
        kinds.setdefault("".join(label.split()).casefold(), []).append(label)
    return [label for kind in kinds.values() if len(kind) > 1 for label in kind]


def alike_message(labels: Iterable[str]) -> str:
    """Return a message on such labels, with the first few; an empty string if there are none."""
    twins = alike(labels)
    if not twins:
        return ""
    shown = ", ".join(first_of([*map(repr, twins)], SHOWN))
    return f"labels differ by case or white space only: {shown}. Write them alike."
