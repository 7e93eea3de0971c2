"""Tokenization of short texts by a regular expression, compared with spaCy's tokenizer."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from bench._harness import Options, Row, benchmark, in_turn, one_thread, seconds

PATTERNS = {"white space": (r"\S+", "words"), "usaddress": (r"\(*\b[^\s,;#&()]+[.,;)\n]*|[#&]", "nothing")}
"""Patterns and what becomes of the text between matches."""


@benchmark("tokenizer", minutes=1)
def tokenizer(options: Options) -> list[Row]:
    """Docs of the training addresses of usaddress, a third of whose words are replaced by random numbers, so that most
    texts have new words: by the tokenizer `RegexTokenizer`, and by spaCy's for English."""
    import spacy

    from spacy_crfseq.corpora.xml import XMLForm, read_xml
    from spacy_crfseq.tools.tokenizer import RegexTokenizer

    draw = random.Random(0)
    addresses = [address.words for address in read_xml(options.corpus("usaddress", "labeled.xml"), XMLForm())]
    texts = [
        " ".join(str(draw.randrange(10**6)) if draw.random() < 1 / 3 else word for word in words)
        for words in addresses * (1 if options.quick else 10)
    ]

    def rate(make: Any) -> float:
        with nlp.memory_zone():
            return len(texts) / seconds(lambda: [None for text in texts if make(text) is None])

    nlp, rows = spacy.blank("en"), list[Row]()
    with one_thread():
        for name, settings in PATTERNS.items():
            contenders = {"ours": RegexTokenizer(nlp.vocab, *settings), "spaCy": nlp.tokenizer}
            figures = in_turn(options.rounds, {key: partial(rate, make) for key, make in contenders.items()})
            rows.append(Row(f"addresses, pattern: {name}", "texts/s", figures["ours"], figures["spaCy"], "spaCy"))
    return rows
