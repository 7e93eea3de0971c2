"""Addresses by the model of usaddress: the script of examples/addresses against usaddress and fastaddress (Rust)."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from functools import partial
from typing import Any

from bench._harness import Measure, Options, Row, benchmark, in_turn, need, one_thread, seconds
from scripts.kit import ROOT

ADDRESSES, ONE_AT_A_TIME = 100_000, 10_000


@benchmark("addresses", minutes=1)
def addresses(options: Options) -> list[Row]:
    """The 1,513 addresses of usaddress, repeated up to 100,000, parsed by the model that usaddress contains. Ours is
    `examples/addresses/scripts/usaddress_model.py` on one thread, which takes lists of addresses and single ones. The
    others are loops over `parse`, that of usaddress over a tenth of the addresses, and so is the last row of ours."""
    usaddress, fast = need("usaddress"), need("fastaddress")
    texts = ["".join(address.itertext()) for address in ET.parse(options.corpus("usaddress", "labeled.xml")).getroot()]
    repeated = (texts * (ADDRESSES // len(texts) + 1))[: options.few(2000, ADDRESSES)]
    few = repeated[: options.few(200, ONE_AT_A_TIME)]
    sys.path.append(str(ROOT / "examples" / "addresses" / "scripts"))
    parser: Any = need("usaddress_model").Parser(usaddress.MODEL_PATH)

    def timed(work: Any, addresses: list[str]) -> Measure:
        return lambda: 1e6 * seconds(lambda: work(addresses)) / len(addresses)

    contenders = {
        "usaddress": timed(partial(_looped, usaddress.parse), few),
        "fastaddress": timed(partial(_looped, fast.parse), repeated),
        "ours": timed(lambda some: list(parser.parse_all(some)), repeated),
        "ours, marginals": timed(lambda some: list(parser.marginals(some)), repeated),
        "ours, one at a time": timed(partial(_looped, parser.parse), few),
    }
    with one_thread():
        figures = in_turn(options.rounds, contenders, warm=["ours", "ours, marginals"])
    different = sum(pairs != usaddress.parse(text) for text, pairs in zip(texts, parser.parse_all(texts), strict=True))
    note = f"words or labels of {different} of {len(texts):,} addresses differ from those of usaddress"
    bulk, unit = "100,000 addresses, a list", "us/address"
    return [
        Row(bulk, unit, figures["ours"], figures["fastaddress"], "fastaddress", target=1, note=note),
        Row(bulk, unit, figures["ours"], figures["usaddress"], "usaddress", target=12),
        Row("probabilities of all labels", unit, figures["ours, marginals"], kind="value"),
        Row("one at a time", unit, figures["ours, one at a time"], figures["usaddress"], "usaddress", target=5),
    ]


def _looped(parse: Any, texts: list[str]) -> None:
    for text in texts:
        parse(text)
