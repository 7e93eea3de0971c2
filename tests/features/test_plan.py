"""Slots of a plan: every template in exactly one, and in the right kind."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.features.attributes import BUILT_IN, TOKEN_COLUMNS
from spacy_crfseq.features.templates import Plan, make_plan, parse

PARTS = st.builds("{}[{}]".format, st.sampled_from(["LOWER", "SHAPE", "IS_TITLE", "TAG", "POS"]), st.integers(-2, 2))
TEMPLATES = st.lists(st.lists(PARTS, min_size=1, max_size=3).map("|".join), max_size=12)


def plan_of(texts: list[str]) -> Plan:
    return make_plan(parse(texts, BUILT_IN))


@given(TEMPLATES)
def test_every_template_is_in_exactly_one_slot_of_its_kind(texts: list[str]) -> None:
    plan = plan_of(texts)
    placed = Counter(n for slot in (*plan.lexeme_slots, *plan.column_slots) for n in slot.templates)
    placed += Counter(plan.single_slots)
    assert placed == Counter(range(len(plan.templates)))
    assert plan.templates == tuple(parse(texts, BUILT_IN))
    offsets = [slot.key for slot in plan.lexeme_slots]
    assert len(offsets) == len(set(offsets))
    for slot in plan.lexeme_slots:
        for n in slot.templates:
            assert {part.offset for part in plan.templates[n].parts} == {slot.key}
            assert not {part.attribute for part in plan.templates[n].parts} & set(TOKEN_COLUMNS)
    for slot in plan.column_slots:
        assert slot.key in slot.templates
        assert len(slot.templates) > 1
        key = plan.templates[slot.key].parts
        assert {part.attribute for part in key} <= set(TOKEN_COLUMNS)
        assert all(set(plan.templates[n].parts) <= set(key) for n in slot.templates)
    used = {part.attribute for template in plan.templates for part in template.parts}
    assert {*plan.columns, *plan.lexical} == used
    assert set(plan.columns) <= set(TOKEN_COLUMNS)
    assert not set(plan.lexical) & set(TOKEN_COLUMNS)
    assert plan.width == max([1, *(abs(part.offset) for template in plan.templates for part in template.parts)])


def test_a_chunker_has_few_slots() -> None:
    plan = plan_of(["LOWER[-2..2]", "TAG[-2..2]", "TAG[-1]|TAG[0]", "TAG[-2]|TAG[-1]|TAG[0]", "LOWER[-1]|LOWER[0]"])
    assert [len(slot.templates) for slot in plan.lexeme_slots] == [1] * 5
    assert [len(slot.templates) for slot in plan.column_slots] == [5]  # the trigram, its bigram and its three tags
    assert {plan.templates[number].name for number in plan.single_slots} == {
        "TAG[1]", "TAG[2]", "LOWER[-1]|LOWER[0]",
    }  # fmt: skip
