"""Check the bundled CoNLL corpus files and print what they contain.

Usage: ``python scripts/validate_corpus.py assets/corpus/*.conll``. Every problem is printed as
``file:line: message``; the exit code is 1 when there is at least one.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc

WORD_TAGS = (
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH "
    "VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB"
)
MARK_TAGS = "HYPH -LRB- -RRB- , . : `` '' $ #"
XPOS_TAGS = frozenset(f"{WORD_TAGS} {MARK_TAGS}".split())
CHUNK_TYPES = ("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST")
ENTITY_TYPES = ("PER", "ORG", "LOC", "DATE", "MONEY", "PRODUCT", "EVENT")
DOC_START = ("-DOCSTART-", "-X-", "O", "O")
# Letters outside ASCII that occur in the names of the corpus, and two currency signs.
NON_ASCII = frozenset("áäåçéèëíïñóöøúüÉÅØ£€")
CLOSING_MARKS = (".", ",", ";", ":", "!", "?", ")", "%", "...")
CLITICS = ("'", "'s", "n't", "'re", "'ll", "'ve", "'d", "'m")
NO_SPACE_BEFORE = frozenset(CLOSING_MARKS + CLITICS)
NO_SPACE_AFTER = frozenset(("(", "$", "£", "€", "#"))


@dataclass(frozen=True)
class Token:
    """One row of a file."""

    line: int
    word: str
    tag: str
    chunk: str
    entity: str


@dataclass(frozen=True)
class Span:
    """A chunk or an entity: the half-open token range and its type."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Problem:
    """One complaint about one line."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass
class FileReport:
    """The sentences of one file and the problems found so far."""

    path: Path
    documents: int = 0
    sentences: list[list[Token]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def complain(self, line: int, message: str) -> None:
        """Record a problem."""
        self.problems.append(Problem(self.path, line, message))


def read_file(path: Path) -> FileReport:
    """Split a file into sentences, checking its layout on the way."""
    report = FileReport(path)
    text = path.read_bytes().decode("utf-8", errors="replace")
    if "\r" in text:
        report.complain(1, "carriage return; use plain newlines")
    lines = text.replace("\r", "").split("\n")
    check_ending(report, lines)
    current: list[Token] = []
    expect_blank = False
    for number, line in enumerate(lines, start=1):
        if line and expect_blank:
            report.complain(number, "-DOCSTART- must be followed by a blank line")
        expect_blank = line.startswith("-DOCSTART-")
        if expect_blank:
            read_doc_start(report, number, line, inside_sentence=bool(current))
        elif line:
            current.extend(read_row(report, number, line))
        elif current:
            report.sentences.append(current)
            current = []
    if current:
        report.sentences.append(current)
    return report


def check_ending(report: FileReport, lines: Sequence[str]) -> None:
    """A file ends with a newline and one blank line; no other blank lines are doubled."""
    last = len(lines)
    if lines[-1] != "":
        report.complain(last, "no newline at the end of the file")
    elif len(lines) < 3 or lines[-2] != "":
        report.complain(last, "no blank line at the end of the file")
    for index in range(1, last - 1):
        if lines[index] == "" and lines[index - 1] == "":
            report.complain(index + 1, "more than one blank line")


def read_doc_start(report: FileReport, number: int, line: str, *, inside_sentence: bool) -> None:
    """Check a document start line."""
    report.documents += 1
    if tuple(line.split("\t")) != DOC_START:
        report.complain(number, "malformed -DOCSTART- line")
    if inside_sentence:
        report.complain(number, "-DOCSTART- inside a sentence")


def read_row(report: FileReport, number: int, line: str) -> list[Token]:
    """Read one token row; an unusable row gives an empty list."""
    if not report.documents:
        report.complain(number, "token before the first -DOCSTART- line")
        report.documents = 1
    if line != line.rstrip():
        report.complain(number, "trailing white space")
    columns = line.rstrip().split("\t")
    if len(columns) == 1:
        report.complain(number, "no tabs: columns must be separated by single tabs")
        return []
    if len(columns) != 4:
        report.complain(number, f"expected 4 columns, found {len(columns)}")
        return []
    if any(not column or column != column.strip() or " " in column for column in columns):
        report.complain(number, "empty column or space inside a column")
        return []
    return [Token(number, *columns)]


def check_tokens(report: FileReport) -> None:
    """Check the tag and the characters of every token."""
    for token in (token for sentence in report.sentences for token in sentence):
        if token.tag not in XPOS_TAGS:
            report.complain(token.line, f"unknown tag {token.tag!r}")
        odd = sorted({char for char in token.word if not char.isascii()} - NON_ASCII)
        if odd:
            report.complain(token.line, f"unexpected character {', '.join(map(ascii, odd))}")
        if not all(char.isprintable() for char in token.word):
            report.complain(token.line, "unprintable character")


def check_iob(report: FileReport, kind: str, rows: Sequence[tuple[int, str]], types: Sequence[str]) -> list[Span]:
    """Check one IOB2 column of a sentence and return its spans."""
    spans: list[Span] = []
    previous = "O"
    for index, (line, value) in enumerate(rows):
        prefix, _, label = value.partition("-")
        if value != "O" and (prefix not in ("B", "I") or not label):
            report.complain(line, f"malformed {kind} label {value!r}")
        elif value != "O" and label not in types:
            report.complain(line, f"unknown {kind} type {label!r}")
        if prefix == "I" and previous not in (f"B-{label}", f"I-{label}"):
            report.complain(line, f"{kind} label {value!r} cannot follow {previous!r}")
        if prefix == "B":
            spans.append(Span(index, index + 1, label))
        elif prefix == "I" and spans and spans[-1].end == index:
            spans[-1] = Span(spans[-1].start, index + 1, spans[-1].label)
        previous = value
    return spans


def crosses(first: Span, second: Span) -> bool:
    """Whether two spans overlap without one lying inside the other."""
    return first.start < second.start < first.end < second.end or second.start < first.start < second.end < first.end


def check_spans(report: FileReport) -> Counter[str]:
    """Check both span columns and that they nest; return the number of spans of each type."""
    counts: Counter[str] = Counter()
    for sentence in report.sentences:
        chunk_rows = [(token.line, token.chunk) for token in sentence]
        entity_rows = [(token.line, token.entity) for token in sentence]
        chunks = check_iob(report, "chunk", chunk_rows, CHUNK_TYPES)
        entities = check_iob(report, "entity", entity_rows, ENTITY_TYPES)
        counts.update(span.label for span in chunks + entities)
        for entity in entities:
            if any(crosses(entity, chunk) for chunk in chunks):
                line = sentence[entity.start].line
                report.complain(line, f"{entity.label} entity crosses a chunk border")
    return counts


def spaces(sentence: Sequence[Token]) -> list[bool]:
    """Guess, for each token, whether a space follows it in running text."""
    result = []
    for index, token in enumerate(sentence):
        following = sentence[index + 1] if index + 1 < len(sentence) else None
        result.append(following is not None and has_space(token, following))
    return result


def has_space(token: Token, following: Token) -> bool:
    """Whether there is a space between two neighbouring tokens."""
    if token.tag in ("HYPH", "``") or token.word in NO_SPACE_AFTER:
        return False
    if following.tag in ("HYPH", "''") or following.word.lower() in NO_SPACE_BEFORE:
        return False
    return not (token.word.lower() == "can" and following.word.lower() == "not")


def check_tokenization(report: FileReport, nlp: Language) -> None:
    """Compare every sentence with what spaCy makes of its text."""
    for sentence in report.sentences:
        words = [token.word for token in sentence]
        text = Doc(nlp.vocab, words=words, spaces=spaces(sentence)).text
        tokens = [token.text for token in nlp.make_doc(text)]
        if tokens == words:
            continue
        pairs = zip(words, tokens, strict=False)
        index = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(words), len(tokens)))
        wanted, got = words[index : index + 3], tokens[index : index + 3]
        line = sentence[min(index, len(sentence) - 1)].line
        report.complain(line, f"tokenization: file has {wanted}, spaCy makes {got}")


def check_duplicates(reports: Sequence[FileReport]) -> None:
    """A sentence of one file must not occur in another file."""
    seen: dict[tuple[str, ...], FileReport] = {}
    for report in reports:
        for sentence in report.sentences:
            key = tuple(token.word.lower() for token in sentence)
            other = seen.setdefault(key, report)
            if other is not report:
                report.complain(sentence[0].line, f"sentence also occurs in {other.path.name}")


def table(reports: Sequence[FileReport], counts: Sequence[Counter[str]]) -> Iterator[str]:
    """The lines of the count table: one row for each quantity, one column for each file."""
    width = max(10, *(len(report.path.name) for report in reports))
    tokens = [sum(map(len, report.sentences)) for report in reports]

    def row(name: str, cells: Sequence[object]) -> str:
        return f"{name:<12}" + "".join(f"{cell!s:>{width + 2}}" for cell in cells)

    yield row("", [report.path.name for report in reports])
    yield row("documents", [report.documents for report in reports])
    yield row("sentences", [len(report.sentences) for report in reports])
    yield row("tokens", tokens)
    for label in CHUNK_TYPES + ENTITY_TYPES:
        yield row(label, [count[label] for count in counts])


def validate(paths: Sequence[Path]) -> tuple[list[Problem], str]:
    """Check the files together; return the problems and the count table."""
    nlp = spacy.blank("en")
    reports = [read_file(path) for path in paths]
    counts = []
    for report in reports:
        check_tokens(report)
        counts.append(check_spans(report))
        check_tokenization(report, nlp)
    check_duplicates(reports)
    problems = [problem for report in reports for problem in sorted(report.problems, key=lambda item: item.line)]
    return problems, "\n".join(table(reports, counts))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks from the command line."""
    parser = argparse.ArgumentParser(description="Check CoNLL corpus files.")
    parser.add_argument("files", nargs="+", type=Path, help="the .conll files to check together")
    problems, counts = validate(parser.parse_args(argv).files)
    print(counts)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
