"""Rows of the page's tables: confusions and the words with the largest errors on NetTalk."""

from __future__ import annotations

from itertools import zip_longest

from scripts.papers._harness import Results, Row
from scripts.papers.runs.nettalk import CONFUSED, MARGINS
from scripts.papers.tables import Section, by, paper_column, section

IPA = {
    "a": "ɑ", "c": "ɔ", "e": "ei", "i": "i", "o": "oʊ", "u": "u", "x": "ə", "y": "j", "A": "ai", "C": "tʃ",
    "D": "ð", "E": "ɛ", "G": "ŋ", "I": "ɪ", "J": "dʒ", "K": "kʃ", "L": "əl", "M": "əm", "N": "ən", "O": "ɔi",
    "Q": "kw", "R": "ər", "S": "ʃ", "T": "θ", "U": "ʊ", "W": "au", "X": "ks", "Y": "ju", "Z": "ʒ", "@": "æ",
    "!": "ts", "#": "gz", "*": "hw", "^": "ʌ", "+": "wɑ", "-": ".",
}  # fmt: skip
"""NETtalk's symbols as the thesis writes them, those that are not letters of their own sound; silence is a dot."""


@section("nettalk-mistakes")
def confusions(rows: list[Row], _: Results) -> Section:
    """Return the most frequent confusions of two patterns, a row for each rank."""
    ours = by([row for row in rows if "confusions" in row], "pattern")
    lists: list[list[str]] = []
    for name in CONFUSED:
        pairs = [(IPA.get(a, a), IPA.get(b, b), count) for a, b, count in ours.get(name, {}).get("confusions", [])]
        lists += [
            paper_column("confusions", "confusions")[name].split(", "),
            [f"{a}-{b} {count}" for a, b, count in pairs],
        ]
    symbols = [[entry.split()[0].split("-") for entry in entries] for entries in lists]
    counts = [[int(entry.split()[1]) for entry in entries] for entries in lists]
    schwas = [sum("ə" in pair for pair in entries) for entries in symbols]
    lines = (
        {"pairs": {"published": first, "ours": second}, "both": {"published": third, "ours": fourth}}
        for first, second, third, fourth in zip_longest(*lists, fillvalue="")
    )
    return Section(lines, {"symbols": symbols, "counts": counts, "schwas": schwas})


def _of_both(rows: list[Row]) -> Row:
    return next((row for row in rows if row["pattern"] == CONFUSED[1]), {})


@section("nettalk-words")
def words(rows: list[Row], _: Results) -> Section:
    """Return how many words have more wrong symbols, or a greater difference in score, than some numbers."""
    published, ours = paper_column("words", "words"), _of_both(rows)
    errors = {int(count): words for count, words in ours.get("words by errors", {}).items()}
    margins, whole = ours.get("words by margin", {}), sum(errors.values())

    def line(most: int) -> Row:
        return {
            "above": most,
            "published": published[most],
            "wrong": sum(words for count, words in errors.items() if count > most),
            "margin": margins.get(str(most)),
            "published share": 100 * published[most] / published["all"],
            "share": 100 * margins.get(str(most), 0) / max(1, whole),
        }

    return Section(map(line, MARGINS))


@section("nettalk-worst")
def worst(rows: list[Row], _: Results) -> Section:
    """Return the words with the largest differences in score."""
    published = sorted(paper_column("worst-words", "difference").items(), key=lambda item: -item[1])
    ours = [
        [word, *(" ".join(IPA.get(symbol, symbol) for symbol in text) for text in texts), margin]
        for word, *texts, margin in _of_both(rows).get("worst words", [])
    ]
    heads = ("word", "difference"), ("word", "correct", "predicted", "difference")
    lines = (
        {"published": dict(zip(heads[0], theirs, strict=False)), "ours": dict(zip(heads[1], own, strict=False))}
        for theirs, own in zip_longest(published, ours, fillvalue=())
    )
    return Section(lines)
