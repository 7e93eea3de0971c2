"""Slots of a plan: every template in exactly one, and in the right kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spacy_crfseq.features.attributes import BUILT_IN, TOKEN_COLUMNS
from spacy_crfseq.features.plan import Plan, make_plan
from spacy_crfseq.features.templates import parse

PARTS = st.builds("{}[{}]".format, st.sampled_from(["LOWER", "SHAPE", "IS_TITLE", "TAG", "POS"]), st.integers(-2, 2))
TEMPLATES = st.lists(st.lists(PARTS, min_size=1, max_size=3).map("|".join), max_size=12)


def plan_of(texts: list[str]) -> Plan:
    return make_plan(parse(texts, BUILT_IN))


@given(TEMPLATES)
def test_every_template_is_in_exactly_one_slot_of_its_kind(texts: list[str]) -> None:
    plan = plan_of(texts)
    templates, columns = plan.templates, set(TOKEN_COLUMNS)
    assert templates == tuple(parse(texts, BUILT_IN))
    placed = [n for slot in (*plan.lexeme_slots, *plan.column_slots) for n in slot.templates]
    assert sorted([*placed, *(slot.template for slot in plan.single_slots)]) == list(range(len(templates)))
    assert len({slot.offset for slot in plan.lexeme_slots}) == len(plan.lexeme_slots)
    for slot in plan.lexeme_slots:
        parts = [part for n in slot.templates for part in templates[n].parts]
        assert {part.offset for part in parts} == {slot.offset}
        assert not {part.attribute for part in parts} & columns
    for slot in plan.column_slots:
        assert slot.key in slot.templates
        assert len(slot.templates) > 1
        key = set(templates[slot.key].parts)
        assert {part.attribute for part in key} <= columns
        assert all(key.issuperset(templates[n].parts) for n in slot.templates)


@given(TEMPLATES)
def test_what_must_be_read(texts: list[str]) -> None:
    plan = plan_of(texts)
    parts = [part for template in plan.templates for part in template.parts]
    assert {*plan.columns, *plan.lexical} == {part.attribute for part in parts}
    assert set(plan.columns) <= set(TOKEN_COLUMNS)
    assert not set(plan.lexical) & set(TOKEN_COLUMNS)
    assert plan.width == max([1, *(abs(part.offset) for part in parts)])


def test_a_chunker_has_few_slots() -> None:
    plan = plan_of(["LOWER[-2..2]", "TAG[-2..2]", "TAG[-1]|TAG[0]", "TAG[-2]|TAG[-1]|TAG[0]", "LOWER[-1]|LOWER[0]"])
    assert [len(slot.templates) for slot in plan.lexeme_slots] == [1] * 5
    assert [len(slot.templates) for slot in plan.column_slots] == [5]  # the trigram, its bigram and its three tags
    assert {plan.templates[slot.template].name for slot in plan.single_slots} == {
        "TAG[1]", "TAG[2]", "LOWER[-1]|LOWER[0]",
    }  # fmt: skip
