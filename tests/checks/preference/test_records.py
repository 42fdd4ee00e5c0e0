from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.checks.preference.records import SCHEMA, Vote
from gatemark.evidence.diagnose import diagnose
from gatemark.testing.schemas import check_schema

FORM = SCHEMA.form("vote")
KEYS = ("item", "reviewer", "choice", "first", "schema", "x")
VALUES = st.sampled_from(["candidate", "baseline", "tie", "i1", "", "a\nb", SCHEMA.name])


def test_examples_types_and_document_agree():
    check_schema(SCHEMA)


def test_the_contract_names_exactly_these_fields_and_an_optional_schema():
    fields = {field.name: field.required for field in msgspec.structs.fields(Vote)}
    assert {name for name, required in fields.items() if required} == {
        *("item", "reviewer", "choice", "first")
    }
    assert fields["schema"] is False


def test_several_reviewers_may_vote_on_an_item():
    votes = [Vote("a", name, "tie", "baseline") for name in ("r1", "r2")]
    assert [FORM.namer()(vote) for vote in votes] == ["a\x1fr1", "a\x1fr2"]
    assert FORM.key_words(("a", "r1")) == "item 'a', reviewer 'r1'"


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES | st.none() | st.integers()) | st.text())
def test_any_value_is_a_vote_or_has_problems(value: Any):
    if not diagnose(json.dumps(value).encode(), FORM, max_depth=64):
        vote = msgspec.convert(value, Vote)
        assert vote.choice in ("candidate", "baseline", "tie")
        assert vote.first in ("candidate", "baseline")
        assert vote.item.strip()
        assert "\n" not in vote.item + vote.reviewer
