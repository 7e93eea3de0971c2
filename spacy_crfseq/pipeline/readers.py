"""Registered readers for spaCy's training configs: columns, CoNLL-U, XML, attribute files, annotations, raw text."""

# No `from __future__ import annotations`: spaCy validates a config with the evaluated annotations.

from pathlib import Path

from ..corpora import CRFSUITE, CUSTOM, PRESETS, Preset, check_columns
from ..corpora.crfsuite import WORD, read_crfsuite
from ..corpora.layouts import ANNOTATIONS, COLUMNS, SPAN_LAYOUTS, TEXTS, Asked, layout_by_ending, span_layout
from ..corpora.spans import SpanRules
from ..corpora.splitting import SPACES
from ..corpora.xml import XMLForm
from ..errors import ConfigError
from ..schemes import SPAN_SCHEMES, scheme_named
from .corpus_reader import CorpusReader, TextReader, part_of, read_sentences
from .doc_builder import SPANS, CorpusSettings, check_setting


def create_conll_reader(
    path: Path | None,
    columns: list[str] = ["word", "tag", "chunk"],  # noqa: B006
    scheme: str = "IOB2",
    given: list[str] = [],  # noqa: B006
    unit: str = "sentence",
    chunks_key: str = "chunks",
    on_invalid: str = "error",
    encoding: str = "utf8",
    limit: int = 0,
    weight: float = 1.0,
    joined: float = 0.0,
    twice: bool = False,
    apart: float = 0.0,
    group: str = "",
    skip_invalid: bool = False,
) -> CorpusReader:
    """Create a reader of a column file (``spacy_crfseq.ConllReader.v1``).

    path (Path): The file; or a folder, a pattern such as train-*.conll, or several of these, comma-separated, whose
        files are one corpus.
    columns (list[str]): What each column holds: word, tag, pos (a UPOS tag, "_" is missing), lemma, morph ("_" is
        no features), ent (into doc.ents, "-" is missing), chunk (into doc.spans), weight (of the sentence: a number at
        its first token, "_" or the same at the others; into doc._.crf_weight), or "_" to ignore it.
    scheme (str): How ent and chunk are tagged: IOB2, IOB1, BILUO, IOBES, BMES or BMEWO.  Tags have their prefix before
        the type (B-PER), after it (PER-B), or alone (B), where the type is SPAN.
    given (list[str]): Columns that the predicted doc also has because they are an input of the task, such as the
        automatic part-of-speech tags of CoNLL-2000.
    unit (str): "sentence" makes each a doc, "document" all up to the next -DOCSTART- line, with sentence starts on
        both docs; a file without such lines is one doc.  "passage" makes a doc of up to 25 sentences in a row, which
        stand in for documents where the file marks none.
    chunks_key (str): The key of the chunks in doc.spans.
    on_invalid (str): Tags that violate the scheme are an "error", or read as the CoNLL scorer does ("conlleval"), with
        one warning per file.
    encoding (str): The encoding of the file.
    limit (int): The maximum number of docs, 0 for all.
    weight (float): Weight of each doc in training; 2 is like having it twice, 0 like omitting it.
    joined (float): Share of the sentences, drawn by a fixed seed, that are joined to the one before them: in documents
        they have no sentence start, else they share a doc with it.  For training, as the next two, so that a model
        also expects texts whose sentences are unknown.  Sentences of two documents or with weights stay apart.
    twice (bool): Yield each doc with all sentence starts, too, before the joined form: more accurate, twice as slow.
    apart (float): Share of the docs whose sentences `DocumentWords` and `DocumentLabels` read as docs of their own.
    group (str): The group of each text, which folds keep together: a column, "document" or "file"; of CoNLL-U also the
        key of a comment, of JSON a key of the record (into doc._.crf_group).  No doc has sentences of two groups.
    skip_invalid (bool): Leave out what cannot be read, with a warning that counts it; else it is an error.

    A file that ends as one of annotated spans (.jsonl, .json, .ann, .parquet, .arrow) is read as
    `create_annotation_reader` does, if columns are word and ent alone.
    Raises ConfigError on invalid settings; the reader raises FormatError with file and line.
    """
    for name in columns:
        check_setting("columns", name, COLUMNS)
    if path is not None and layout_by_ending(Path(path), SPAN_LAYOUTS):
        others = [name for name in columns if name not in (*ANNOTATIONS.columns, "_")]
        if others:
            raise ConfigError(
                f"{path}: annotated spans are entities (ent), but the reader's columns name "
                f"{', '.join(others)}. Give a column file, or train crf_ner alone."
            )
        return create_annotation_reader(path, limit, weight, encoding, group=group, skip_invalid=skip_invalid)
    check_columns(columns)
    if scheme != "plain":
        scheme = scheme_named(scheme)
    elif not set(SPANS).isdisjoint(columns):
        raise ConfigError(
            f"scheme = 'plain' marks no spans, but columns holds ent or chunk. Give {' or '.join(SPAN_SCHEMES)}."
        )
    layout = Preset(CUSTOM, tuple(columns), scheme, encoding, "", skip_invalid=skip_invalid)
    rest = limit, weight, joined, twice, apart, group
    return CorpusReader(CorpusSettings(_given(path), layout, tuple(given), unit, chunks_key, on_invalid, *rest))


def create_conllu_reader(
    path: Path | None,
    given: list[str] = [],  # noqa: B006
    unit: str = "sentence",
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "utf8",
    joined: float = 0.0,
    twice: bool = False,
    group: str = "",
    skip_invalid: bool = False,
) -> CorpusReader:
    """Create a reader of a CoNLL-U file (``spacy_crfseq.ConlluReader.v1``).

    Sets tag, pos, morph and lemma, and head and dep in docs where each sentence's heads make a tree.

    unit (str): "sentence" makes each a doc, "document" all up to the next ``# newdoc``, "passage" up to 25 sentences.
    The other settings and the errors are those of `create_conll_reader`.
    """
    layout = PRESETS["conllu"]._replace(encoding=encoding, skip_invalid=skip_invalid)
    settings = CorpusSettings(
        _given(path), layout, tuple(given), unit, limit=limit, weight=weight, joined=joined, twice=twice, group=group
    )
    return CorpusReader(settings)


def create_crfsuite_reader(
    path: Path | None,
    column: str = "tag",
    scheme: str = "IOB2",
    word: str = WORD,
    chunks_key: str = "chunks",
    on_invalid: str = "error",
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "utf8",
    skip_invalid: bool = False,
) -> CorpusReader:
    """Create a reader of an attribute file of CRFsuite (``spacy_crfseq.CRFsuiteReader.v1``).

    column (str): What its labels are: tag, pos, morph, ent (into doc.ents) or chunk (into doc.spans).
    word (str): The beginning of the attribute whose rest is the word, as CRFsuite's own examples name it; the text of
        a token without one is "_".  For people to read: features are the attributes alone.
    The other settings and the errors are those of `create_conll_reader`.
    """
    path = _given(path)
    check_setting("column", column, ("tag", "pos", "morph", "ent", "chunk"))
    layout = Preset(CRFSUITE, ("word", column), scheme_named(scheme), encoding, column, skip_invalid=skip_invalid)
    settings = CorpusSettings(path, layout, (), "sentence", chunks_key, on_invalid, limit, weight)
    return CorpusReader(settings, lambda _, part, note, __: read_crfsuite(part.path, column, word, encoding, note))


def create_xml_reader(
    path: Path | None,
    sequence: str = "",
    nested: str = "innermost",
    other: str | None = "O",
    ignore: list[str] = [],  # noqa: B006
    attributes: list[str] = [],  # noqa: B006
    join: bool = False,
    pattern: str = SPACES,
    between: str = "words",
    part: str = "all",
    chunks_key: str = "chunks",
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "",
    rename: dict[str, str] = {},  # noqa: B006
    group: str = "",
    skip_invalid: bool = False,
) -> CorpusReader:
    """Create a reader of XML elements whose children are labelled segments (``spacy_crfseq.XMLReader.v1``).

    Each sequence becomes a doc, with its text: the label of each token as its tag, for `crf_tagger`; segments in
    doc.ents, for `crf_ner`; and segments in doc.spans[chunks_key], for `crf_chunker`.

    sequence (str): The name of the elements that are sequences; by default, the outermost ones that hold segments.
    nested (str): Where elements in a sequence hold others, the label is the name of the "innermost" or the "outermost";
        "error" rejects them.
    other (str | None): The label of text outside of segments; null for text that is not annotated.
    ignore (list[str]): Elements that are no labels; their text belongs to the element around them.
    attributes (list[str]): XML attributes that are part of a label: level makes <title level="a"> title-a.
    join (bool): Adjacent segments of one label are one span; as plain labels they are the same.
    pattern, between (str): How text becomes tokens, as in RegexTokenizer.  A token never crosses a segment's end.
    rename (dict[str, str]): New names of labels, after `attributes`; one for several merges them, "O" is no segment.
    part (str): "train" leaves out each tenth sequence, "dev" takes only these, "all" takes all: for a corpus without
        development data.
    encoding (str): The encoding of the file; by default, the one that the file declares.
    The other settings and the errors are those of `create_conll_reader`.
    """
    check_setting("part", part, ("all", "train", "dev"))
    form = XMLForm(sequence, nested, other, tuple(ignore), tuple(attributes), join, pattern, between, rename)
    form.check()
    layout = PRESETS["xml"]._replace(encoding=encoding, form=form, skip_invalid=skip_invalid)
    settings = CorpusSettings(_given(path), layout, chunks_key=chunks_key, limit=limit, weight=weight, group=group)
    return CorpusReader(settings, lambda nlp, *of: part_of(read_sentences(layout, nlp, *of), part, settings.path))


def create_annotation_reader(
    path: Path | None,
    limit: int = 0,
    weight: float = 1.0,
    encoding: str = "utf8",
    format: str | None = None,
    outside: str = "known",
    min_score: float = 0.0,
    match: str = "none",
    alternatives: str = "best",
    group: str = "",
    skip_invalid: bool = False,
) -> CorpusReader:
    """Create a reader of annotated spans in texts (``spacy_crfseq.AnnotationReader.v1``).

    Entities are stored in doc.ents, spans rejected in Prodigy in doc.spans["incorrect"]: set incorrect_spans_key =
    "incorrect" in crf_ner to learn from those.  The pipeline's tokenizer is used; spans that do not match its tokens
    are missing annotation, and a warning lists them.  Of spans that overlap, the one with the highest score is kept,
    else the longest; the labels of spans with the same start and end are candidates, of which one is right.  A number
    under "weight", or under "weight" in "meta", weights a text in training (doc._.crf_weight).

    format (str | None): jsonl, brat, webanno or parquet; None for that of the ending.
    outside (str): "known" if text outside of spans is in no entity, "unknown" if only some entities are annotated.
    min_score (float): Spans with a lower score are unknown, both as entities and as text in none.
    match (str): How spans that come as texts without positions are looked up: "all" marks all occurrences of a text,
        "first" the first one (the next one if it is given again), and "order" the first one after the span before;
        "none" refuses them.
    alternatives (str): Which labels of spans with the same start and end are candidates: "best", those that have the
        highest score, or "all".
    The settings and the errors are those of `create_conll_reader`.
    """
    path, rules = _given(path), SpanRules(outside, min_score, match, alternatives).check()
    layout = span_layout(path, format)._replace(encoding=encoding, spans=rules, skip_invalid=skip_invalid)
    return CorpusReader(CorpusSettings(path, layout, limit=limit, weight=weight, group=group))


def create_text_reader(
    path: Path | None,
    format: str | None = None,
    encoding: str | None = None,
    limit: int = 0,
    skip_invalid: bool = False,
) -> TextReader:
    """Create a reader of texts without annotation (``spacy_crfseq.TextReader.v1``), for terms of an objective.

    path (Path): A file, also packed (.gz), a folder, a pattern, or several of these, comma-separated.
    format (str | None): Layout of the files: txt (a text per line), jsonl (a "text" in each line), spacy, or that of a
        corpus, such as conll2003 or conllu, of which the words are read; None finds it by the ending, else by the
        first lines.
    encoding (str | None): Of the files; None for utf8, or that of the format.
    limit (int): The maximum number of texts, 0 for all.
    skip_invalid (bool): Leave out what cannot be read, with a warning that counts it; else it is an error.
    Raises ConfigError on invalid settings; the reader raises FormatError with file and line.
    """
    asked = Asked(format, encoding=encoding, skip_invalid=skip_invalid)
    asked.layout(TEXTS)
    if path is None:
        raise ConfigError("spacy_crfseq.TextReader.v1 has no path. Give the file or folder in its block of [corpora].")
    if limit < 0:
        raise ConfigError(f"spacy_crfseq.TextReader.v1: limit must be 0 (all) or more, but {limit} was given.")
    return TextReader(Path(path), asked, limit)


def _given(path: Path | None) -> Path:
    if path is None:
        raise ConfigError(
            "A corpus reader has no path. Give the file on the command line with --paths.train FILE or "
            "--paths.dev FILE, or under [paths] in the config."
        )
    return Path(path)
