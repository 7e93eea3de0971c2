"""Tables of the page: confusions and the words with the largest errors on NetTalk."""

from __future__ import annotations

from itertools import zip_longest

from scripts.papers._harness import Results, Row
from scripts.papers.page import Section, against, by, found, paper_rows, section, table
from scripts.papers.runs.nettalk import CONFUSED, MARGINS

IPA = {
    "a": "ɑ", "c": "ɔ", "e": "ei", "i": "i", "o": "oʊ", "u": "u", "x": "ə", "y": "j", "A": "ai", "C": "tʃ",
    "D": "ð", "E": "ɛ", "G": "ŋ", "I": "ɪ", "J": "dʒ", "K": "kʃ", "L": "əl", "M": "əm", "N": "ən", "O": "ɔi",
    "Q": "kw", "R": "ər", "S": "ʃ", "T": "θ", "U": "ʊ", "W": "au", "X": "ks", "Y": "ju", "Z": "ʒ", "@": "æ",
    "!": "ts", "#": "gz", "*": "hw", "^": "ʌ", "+": "wɑ", "-": ".",
}  # fmt: skip
"""NETtalk's symbols as the thesis writes them, those that are not letters of their own sound; silence is a dot."""


@section("nettalk-mistakes", "nettalk-patterns")
def confusions_section(results: Results) -> Section:
    """Table 3.3."""
    rows = by([row for row in found(results, "nettalk-patterns") if "confusions" in row], "pattern")
    lists: list[list[str]] = []
    for name in CONFUSED:
        pairs = [(IPA.get(a, a), IPA.get(b, b), count) for a, b, count in rows.get(name, {}).get("confusions", [])]
        lists += [paper_rows("confusions")[name].split(", "), [f"{a}-{b} {count}" for a, b, count in pairs]]
    head = [f"{name}, {whose}" for name in CONFUSED for whose in ("published", "ours")]
    symbols = [[entry.split()[0].split("-") for entry in entries] for entries in lists]
    counts = [[int(entry.split()[1]) for entry in entries] for entries in lists]
    schwas = [sum("ə" in pair for pair in entries) for entries in symbols]
    names = {"symbols": symbols, "counts": counts, "schwas": schwas}
    return Section(table(head, zip_longest(*lists, fillvalue="")), names)


def _of_both(results: Results) -> Row:
    return next((row for row in found(results, "nettalk-patterns") if row["pattern"] == CONFUSED[1]), {})


@section("nettalk-words", "nettalk-patterns")
def words_section(results: Results) -> Section:
    """Words by their errors."""
    published, ours = paper_rows("words"), _of_both(results)
    errors = {int(count): words for count, words in ours.get("words by errors", {}).items()}
    margins, whole = ours.get("words by margin", {}), sum(errors.values())
    lines = [
        [
            most,
            against(published[most], sum(words for count, words in errors.items() if count > most)),
            against(published[most], margins.get(str(most))),
            against(100 * published[most] / published["all"], 100 * margins.get(str(most), 0) / max(1, whole)),
        ]
        for most in MARGINS
    ]
    return Section(
        table(["above", "words, by wrong symbols", "words, by difference in score", "% of words, by difference"], lines)
    )


@section("nettalk-worst", "nettalk-patterns")
def worst_section(results: Results) -> Section:
    """Table 3.4."""
    published = sorted(paper_rows("worst-words").items(), key=lambda item: -item[1])
    ours = [
        [word, *(" ".join(IPA.get(symbol, symbol) for symbol in text) for text in texts), margin]
        for word, *texts, margin in _of_both(results).get("worst words", [])
    ]
    head = ["published", "difference", "ours", "correct", "predicted", "difference"]
    return Section(table(head, ([*theirs, *own] for theirs, own in zip_longest(published, ours, fillvalue=()))))
