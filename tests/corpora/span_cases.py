"""Files in the formats of annotated spans, with the command that reads each and what it counts, for docs/formats.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spacy_crfseq.corpora.layouts import Asked
from spacy_crfseq.errors import count_of

TEXT = "Ada met Bo in New York."
LINE = {"text": TEXT}
WORDS = ["Ada", "met", "Bo", "in", "New", "York", "."]
TAGS = ["B-PER", "O", "B-PER", "O", "B-LOC", "I-LOC", "O"]
DICTS = [
    {"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 10, "label": "PER"},
    {"start": 14, "end": 22, "label": "LOC"},
]  # fmt: skip
LISTS = [[0, 3, "PER"], [8, 10, "PER"], [14, 22, "LOC"]]
PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


class Counts(NamedTuple):
    """The contents of a file: spans of each label, and known and unknown tokens, and those with candidates."""

    labels: Mapping[str, int] = {"PER": 2, "LOC": 1}
    known: int = 7
    unknown: int = 0
    candidates: int = 0


class Case(NamedTuple):
    """A format: its name, its files, the first of which is read, options of the command, and the counts.

    said: What the command says of spans that it cannot use.
    """

    name: str
    files: Mapping[str, Any]
    options: str = ""
    counts: Counts = Counts()
    said: str = ""

    def write(self, folder: Path) -> Path:
        """Write the files into a folder, and return the one to read."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_text(content if isinstance(content, str) else written(name, content), encoding="utf8")
        return folder / self.path

    @property
    def path(self) -> str:
        """The file to read, or the folder that has all files."""
        return next(iter(self.files)).partition("/")[0]

    @property
    def asked(self) -> Asked:
        """The options as values."""
        words = self.options.split()
        given = dict(zip(words[::2], words[1::2], strict=True))
        score = given.get("--min-score")
        return Asked(
            columns=given.get("--columns"),
            outside=given.get("--outside"),
            min_score=float(score) if score else None,
            match=given.get("--match"),
            alternatives=given.get("--alternatives"),
        )

    @property
    def command(self) -> str:
        """The command that examines the file."""
        return f"python -m spacy crfseq debug-data {self.path} {self.options}".strip()

    def block(self) -> str:
        """Return the format as docs/formats.md shows it."""
        shown = []
        for name, content in self.files.items():
            if not callable(content):
                text = content if isinstance(content, str) else written(name, content)
                shown.append(f'```text title="{name}"\n{text.rstrip()}\n```')
        labels = ", ".join(f"{label} {count}" for label, count in self.counts.labels.items())
        tokens = f"{count_of(self.counts.known, 'token')} known, {self.counts.unknown} unknown"
        if self.counts.candidates:
            tokens += f", {self.counts.candidates} with candidates"
        said = f" It says: *{self.said}*." if self.said else ""
        counts = f"The command `{self.command}` counts {labels}; {tokens}.{said}"
        return "\n\n".join([f"### {self.name}", *shown, counts])


def written(name: str, content: Any) -> str:
    """Return JSON as a file of this name has it: on one line, or over several."""
    if name.endswith(".jsonl"):
        return json.dumps(content, ensure_ascii=False) + "\n"
    items = content if isinstance(content, list) else [content]
    lines = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in items)
    return f"[\n  {lines}\n]\n" if isinstance(content, list) else f"{lines}\n"


def parquet_of(rows: Mapping[str, Any], features: Any = None) -> Any:
    """Return a function that writes a table, as Parquet or, by its name, Arrow."""

    def write(path: Path) -> None:
        import pyarrow
        from pyarrow import ipc, parquet

        table = pyarrow.table(dict(rows))
        if features is not None:
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        if path.suffix == ".parquet":
            parquet.write_table(table, path)
            return
        with ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)

    return write


def docbin(path: Path) -> None:
    """Write the text as a DocBin."""
    import spacy
    from spacy.tokens import DocBin

    doc = spacy.blank("xx")(TEXT)
    doc.ents = [doc.char_span(*span[:2], label=span[2]) for span in LISTS]
    DocBin(docs=[doc]).to_disk(path)


def studio(**value: Any) -> dict[str, Any]:
    """Return a task of Label Studio."""
    result = [
        {"type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": start, "end": end, "text": TEXT[start:end], "labels": [label]}}
        for start, end, label in LISTS
    ]  # fmt: skip
    return {"id": 1, "data": LINE, "annotations": [{"id": 2, "result": [*result, *value.get("more", [])]}]}


FEATURES = {"ner_tags": {"feature": {"names": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], "_type": "ClassLabel"}}}
NUMBERS = [1, 0, 1, 0, 3, 4, 0]
SCORED = [{**span, "score": score} for span, score in zip(DICTS, (0.98, 0.41, 0.87), strict=True)]
PIECES = [
    {"entity": "B-PER", "score": 0.99, "index": 1, "word": "Ada", "start": 0, "end": 3},
    {"entity": "B-PER", "score": 0.98, "index": 3, "word": "B", "start": 8, "end": 9},
    {"entity": "B-PER", "score": 0.97, "index": 4, "word": "##o", "start": 9, "end": 10},
    {"entity": "B-LOC", "score": 0.95, "index": 6, "word": "New", "start": 14, "end": 17},
    {"entity": "I-LOC", "score": 0.94, "index": 7, "word": "York", "start": 18, "end": 22},
]
WEBANNO = "\n".join([
    "#FORMAT=WebAnno TSV 3.3", "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value", "", "",
    f"#Text={TEXT}", "1-1\t0-3\tAda\t*\tPER", "1-2\t4-7\tmet\t_\t_", "1-3\t8-10\tBo\t*\tPER", "1-4\t11-13\tin\t_\t_",
    "1-5\t14-17\tNew\t*[1]\tLOC[1]", "1-6\t18-22\tYork\t*[1]\tLOC[1]", "1-7\t22-23\t.\t_\t_", "",
])  # fmt: skip
CAS = {
    "%TYPES": {},
    "%FEATURE_STRUCTURES": [
        {"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaNum": 1, "sofaID": "_InitialView", "sofaString": TEXT},
        *({"%ID": 2 + i, "%TYPE": "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity", "@sofa": 1, "begin": start,
           "end": end, "value": label} for i, (start, end, label) in enumerate(LISTS)),
    ],
    "%VIEWS": {"_InitialView": {"%SOFA": 1, "%MEMBERS": [2, 3, 4]}},
}  # fmt: skip
ANN = "T1\tPER 0 3\tAda\nT2\tPER 8 10\tBo\nT3\tLOC 14 22\tNew York\nR1\tvisits Arg1:T1 Arg2:T3\n"
HTML = "<p><b>Ada</b> met Bo in New York.</p>"

CASES = [
    Case("Spans as objects", {"a.jsonl": {**LINE, "spans": DICTS}}),
    Case("Spans as lists", {"a.jsonl": {**LINE, "entities": LISTS}}),
    Case("Other names of the keys", {"a.jsonl": {**LINE, "ents": [
        {"start_char": start, "end_char": end, "type": label, "text": TEXT[start:end]}
        for start, end, label in LISTS]}}),
    Case("Offsets and lengths", {"a.jsonl": {**LINE, "entities": [
        {"offset": start, "length": end - start, "category": label} for start, end, label in LISTS]}}),
    Case("A JSON array", {"a.json": [{**LINE, "entities": LISTS}]}),
    Case("Scores, as models give them", {"a.jsonl": {**LINE, "predictions": SCORED}}, "--min-score 0.5",
         Counts({"PER": 1, "LOC": 1}, 6, 1), "1 span below min_score; the tokens there are unknown"),
    Case("Texts without positions, as language models give them", {"a.jsonl": {**LINE, "entities": [
        {"text": "Ada", "label": "PER"}, {"text": "BO", "label": "PER"}, {"text": "new york", "label": "LOC"},
        {"text": "Eve", "label": "PER"}]}}, "--match all",
         said="1 span left out that came as a text: 1 not in the text of the record"),
    Case("Texts by label", {"a.jsonl": {**LINE, "entities": {"PER": ["Ada", "Bo"], "LOC": ["New York"]}}},
         "--match all"),
    Case("Only some entities are annotated", {"a.jsonl": {**LINE, "spans": DICTS}}, "--outside unknown",
         Counts(known=4, unknown=3)),
    Case("Spans that overlap", {"a.jsonl": {**LINE, "spans": [*DICTS, {"start": 14, "end": 17, "label": "ORG"}]}},
         said="1 span left out because of an overlap with one of a higher score or, of the same score, a longer one"),
    Case("Several labels at one place", {"a.jsonl": {
        **LINE, "spans": [*DICTS[:2], {"start": 14, "end": 22, "label": ["LOC", "ORG"]}]}},
        counts=Counts({"PER": 2}, 5, candidates=2),
        said="1 span with several labels, which are candidates: one of them is right"),
    Case("Several labels with scores", {"a.jsonl": {**LINE, "spans": [
        *({**span, "score": 0.9} for span in DICTS), {**DICTS[2], "label": "ORG", "score": 0.4}]}},
         "--alternatives all", Counts({"PER": 2}, 5, candidates=2),
         "1 span with several labels, which are candidates: one of them is right"),
    Case("spaCy's training data", {"a.json": [[TEXT, {"entities": LISTS}]]}),
    Case("Training data with its classes", {"a.json": {"classes": ["PER", "LOC"],
                                                       "annotations": [[TEXT, {"entities": LISTS}]]}}),
    Case("spaCy's Doc.to_json, and the output of tag", {"a.jsonl": {
        **LINE, "tokens": [{"id": 0, "start": 0, "end": 3}], "ents": SCORED, "spans": {"sc": []}}}),
    Case("spaCy's binary format", {"a.spacy": docbin}),
    Case("Prodigy", {"a.jsonl": {**LINE, "spans": DICTS, "answer": "accept", "_view_id": "ner_manual"}}),
    Case("Prodigy, one decision at a time", {"a.jsonl": {
        **LINE, "spans": DICTS[:1], "answer": "accept", "_view_id": "ner", "_is_binary": True}}, "",
        Counts({"PER": 1}, 1, 6)),
    Case("doccano", {"a.jsonl": {"id": 7, **LINE, "label": LISTS, "Comments": []}}),
    Case("doccano with relations", {"a.jsonl": {**LINE, "relations": [], "entities": [
        {"id": i, "label": label, "start_offset": s, "end_offset": e} for i, (s, e, label) in enumerate(LISTS)]}}),
    Case("Label Studio", {"a.json": [studio()]}),
    Case("Label Studio, JSON-MIN", {"a.json": [{**LINE, "id": 1, "annotator": 1, "annotation_id": 9, "label": [
        {"start": s, "end": e, "text": TEXT[s:e], "labels": [label]} for s, e, label in LISTS]}]}),
    Case("Label Studio, HTML", {"a.json": [{"data": {"text": HTML}, "annotations": [{"result": [{"value": {
        "start": "/p[1]/b[1]/text()[1]", "end": "/p[1]/b[1]/text()[1]", "startOffset": 0, "endOffset": 3, "text": "Ada",
        "globalOffsets": {"start": 0, "end": 3}, "hypertextlabels": ["PER"]}}]}]}]}, "", Counts({"PER": 1}, 7)),
    Case("Label Studio, predictions where nobody has annotated", {"a.json": [{
        "data": LINE, "annotations": [], "predictions": [{"score": 0.9, "result": [
            {"value": {"start": start, "end": end, "labels": [label]}} for start, end, label in LISTS]}]}]},
        said="1 text without annotation, read with predictions of a model"),
    Case("Argilla", {"a.json": [{"fields": LINE, "suggestions": {}, "responses": {"entities": [
        {"value": DICTS, "user_id": "1"}]}, "status": "completed"}]}),
    Case("Argilla, suggestions without a response", {"a.json": [{
        "fields": LINE, "suggestions": {"entities": {"value": DICTS, "score": [0.9, 0.4, 0.9], "agent": "llm"}},
        "responses": {}}]}, "--min-score 0.5", Counts({"PER": 1, "LOC": 1}, 6, 1),
        said="1 text without annotation, read with predictions of a model"),
    Case("Rasa", {"a.json": {"rasa_nlu_data": {"common_examples": [{**LINE, "intent": "x", "entities": [
        {"start": s, "end": e, "value": TEXT[s:e].lower(), "entity": label} for s, e, label in LISTS]}]}}}),
    Case("Transformers: pipeline(\"ner\"), aggregated", {"a.jsonl": {**LINE, "entities": [
        {"entity_group": label, "score": 0.9, "word": TEXT[s:e].lower(), "start": s, "end": e}
        for s, e, label in LISTS]}}),
    Case("Transformers: pipeline(\"ner\"), word pieces", {"a.jsonl": {**LINE, "entities": PIECES}}),
    Case("GLiNER: predictions", {"a.jsonl": {**LINE, "entities": [
        {"start": s, "end": e, "text": TEXT[s:e], "label": label, "score": 0.9} for s, e, label in LISTS]}}),
    Case("GLiNER: training data", {"a.json": [{"tokenized_text": WORDS,
                                               "ner": [[0, 0, "PER"], [2, 2, "PER"], [4, 5, "LOC"]]}]}),
    Case("Spans of tokens", {"a.jsonl": {"tokens": WORDS, "entities": [
        {"type": "PER", "start": 0, "end": 1}, {"type": "PER", "start": 2, "end": 3},
        {"type": "LOC", "start": 4, "end": 6}]}}),
    Case("Tokens and tags", {"a.jsonl": {"tokens": WORDS, "ner_tags": TAGS}}),
    Case("Tokens and tags in IOBES", {"a.jsonl": {
        "words": WORDS, "labels": ["S-PER", "O", "S-PER", "O", "B-LOC", "E-LOC", "O"]}}),
    Case("Tokens and numbers of tags, named in labels.txt", {
        "a.jsonl": {"tokens": WORDS, "ner_tags": NUMBERS}, "labels.txt": "O\nB-PER\nI-PER\nB-LOC\nI-LOC\n"}),
    Case("Tokens and numbers of tags, named in dataset_info.json", {
        "a.jsonl": {"tokens": WORDS, "ner_tags": NUMBERS}, "dataset_info.json": {"features": FEATURES}}),
    Case("Parquet of the Hugging Face Hub", {
        "a.parquet": parquet_of({"tokens": [WORDS], "ner_tags": [NUMBERS]}, FEATURES)}),
    Case("A folder of datasets (save_to_disk)", {
        "train/data-00000-of-00001.arrow": parquet_of({"tokens": [WORDS], "ner_tags": [NUMBERS]}, FEATURES),
        "train/dataset_info.json": {"features": FEATURES}, "train/state.json": {"_split": None}}),
    Case("brat", {"a.ann": ANN, "a.txt": TEXT}),
    Case("brat, with a discontinuous span", {"a.ann": ANN + "T4\tPER 0 3;8 10\tAda Bo\n", "a.txt": TEXT}, "",
         Counts(known=6, unknown=1), "1 span cannot be used; the tokens there count as not annotated"),
    Case("INCEpTION: WebAnno TSV 3", {"a.tsv": WEBANNO}),
    Case("INCEpTION: UIMA CAS JSON", {"a.json": CAS}),
    Case("Columns, as tag writes them", {
        "a.conll": "".join(f"{word} {tag}\n" for word, tag in zip(WORDS, TAGS, strict=True))}, "--columns word,ent"),
]  # fmt: skip

if __name__ == "__main__":  # write the page again
    head = PAGE.read_text(encoding="utf8").partition("\n### ")[0]
    PAGE.write_text("\n\n".join([head.rstrip(), *(case.block() for case in CASES)]) + "\n", encoding="utf8")
