"""Each row gives the same answer for a record, for a batch and as JSON Schema."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from gatemark.evidence.record_rules import (
    ABSENT,
    MISSING,
    NOT_FALSE,
    PRESENT,
    RecordRule,
    RecordRules,
    RemarkRule,
    differs,
    fits,
    follows_from,
    matches,
    names_match,
    publish,
    remark_on,
)


class Row(msgspec.Struct, frozen=True):
    name: str | UnsetType | None = UNSET
    stray: Any = UNSET
    flag: bool | UnsetType | None = UNSET
    count: int = 0
    total: int = 0
    parts: dict[str, int] = {}


def name_count(count: int, total: int) -> str:
    return f"{count}/{total}"


RULES = RecordRules(
    (
        RecordRule("$.stray", must=MISSING, says="belongs elsewhere"),
        RecordRule("$.flag", must=NOT_FALSE, says="must not be false"),
        RecordRule("$.name", must=matches("^[a-z0-9/]+$"), says="got {value!r}"),
        RecordRule("$.parts", must=names_match("^[a-z]+$"), says="must have small names"),
        RecordRule("$.name", when={"flag": ABSENT}, must=MISSING, says="must not be there"),
        RecordRule("$.flag", when={"name": differs("x"), "stray": MISSING}, must=PRESENT, says="!"),
    )
)
RELATIONS = RecordRules(
    (
        RecordRule(
            "$.name",
            must=follows_from(name_count, "count", "total"),
            says="got {value!r}, expected {wanted!r}",
        ),
        RecordRule(
            "$.total",
            must=fits(lambda total, parts: total == sum(parts.values()), "parts"),
            says="must be the sum of {record.parts}",
        ),
    )
)
PATHS = sorted({path for rule in RULES.rules for path in rule.paths})
_VALIDATOR = jsonschema_rs.validator_for(publish(RULES.rules))

rows = st.builds(
    Row,
    name=st.sampled_from([UNSET, None, "x", "0/0", "", "A", "x\n"]),
    stray=st.sampled_from([UNSET, None, 0, {}, []]),
    flag=st.sampled_from([UNSET, None, True, False]),
    count=st.integers(0, 1),
    total=st.integers(0, 1),
    parts=st.sampled_from([{}, {"a": 1}, {"A": 0}]),
)


@given(st.lists(rows, min_size=1, max_size=4))
def test_a_batch_is_judged_as_its_records_are(batch: list[Row]) -> None:
    broken = {rule.place + rule.says for one in batch for rule, _ in RULES.find_broken(one)}
    columns = {path: list(map(attrgetter(path), batch)) for path in PATHS}
    assert {rule.place + rule.says for rule in RULES.list_broken(columns)} == broken
    assert RULES.hold_for_records(batch) == RULES.hold_for_all(columns) == (not broken)
    related = [problem for one in batch for problem in RELATIONS.find_problems(one)]
    assert RELATIONS.hold_for_records(batch) == (not related)


@given(rows)
def test_a_schema_refuses_what_the_rows_refuse(row: Row) -> None:
    assert _VALIDATOR.is_valid(msgspec.to_builtins(row)) == (not RULES.find_problems(row))


def test_what_compares_fields_is_not_published() -> None:
    assert publish(RELATIONS.rules) == {}


@pytest.mark.parametrize("name", ["1/3", "x" * 500])
def test_a_message_names_what_was_wanted_and_repeats_no_more_than_a_line(name: str) -> None:
    (problem,) = RELATIONS.find_problems(Row(name=name, count=1, total=2, parts={"a": 2}))
    assert problem.message == f"got {name[:80]!r}, expected '1/2'"


def test_a_remark_has_the_line_the_name_and_the_grade_of_its_row() -> None:
    row = RemarkRule(
        "$.count",
        name="even",
        must=fits(lambda n: n % 2 == 0),
        says="odd: {value}",
        grade="warning",
    )
    found = list(remark_on(RecordRules([row]), [4, 9], [Row(count=2), Row(count=3)]))
    assert [(one.line, one.rule, one.path, one.message, one.grade) for one in found] == [
        (9, "even", "$.count", "odd: 3", "warning")
    ]
    assert list(remark_on(RecordRules[RemarkRule](()), [4], [Row()])) == []
