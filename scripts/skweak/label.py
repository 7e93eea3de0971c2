"""Label texts by the hidden Markov model of skweak, in an environment of its own (requirements.txt beside this file).

    skweak/bin/python scripts/skweak/label.py TEXTS OUTPUT LABEL,... SOURCE,...

The spans of the sources are in doc.spans of a file .spacy, as `crfseq aggregate` writes them; the output has the labels
of the model as entities.  Prints the seconds of processor time of learning and labelling, as JSON.
"""

import json
import sys
import warnings
from contextlib import redirect_stdout
from time import process_time


def label(texts, output, labels, sources):
    """Write the texts with the labels of the model; return the seconds of learning and of labelling.

    texts, output (str): Files.
    labels, sources (list[str]): Names.
    """
    import spacy
    from skweak.generative import HMM
    from spacy.tokens import Doc, DocBin, Span

    vocab, docs = spacy.blank("xx").vocab, []
    for old in DocBin().from_disk(texts).get_docs(vocab):
        doc = Doc(vocab, [token.text for token in old], [bool(token.whitespace_) for token in old])
        for name in sources:
            spans = old.spans.get(name, [])
            doc.spans[name] = [Span(doc, span.start, span.end, span.label_) for span in spans]
        docs.append(doc)
    with redirect_stdout(sys.stderr):  # where it reports on its iterations
        begun = process_time()
        model = HMM("hmm", labels)
        model.fit(docs)
        learned = process_time()
        docs = list(model.pipe(docs))
        ended = process_time()
    result = DocBin()
    for doc in docs:
        doc.ents = list(doc.spans["hmm"])
        for name in list(doc.spans):
            del doc.spans[name]
        result.add(doc)
    result.to_disk(output)
    return {"learn": learned - begun, "label": ended - learned}


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("Give the file of the texts, that of the output, the labels and the sources, separated by commas.")
    warnings.simplefilter("ignore")
    print(json.dumps(label(sys.argv[1], sys.argv[2], sys.argv[3].split(","), sys.argv[4].split(","))))
