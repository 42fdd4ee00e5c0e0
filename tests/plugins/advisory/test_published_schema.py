"""Published schema, the check of one record and that of a batch refuse the same records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.changed_records import change_all, list_changes

from gatemark.evidence.columns import read_columns
from gatemark.evidence.diagnose import diagnose
from gatemark.evidence.private_text import PrivateTextRules, PrivateTextScan
from gatemark.evidence.record_fields import list_text_fields
from gatemark.evidence.record_rules import RecordRules
from gatemark.packs.documents import make_json_schema
from gatemark.plugins.advisory.record import TIME_PATTERN, AdvisoryDecision
from gatemark.plugins.advisory.record_columns import read_fields
from gatemark.plugins.advisory.record_examples import AGREEING, change_record
from gatemark.plugins.advisory.record_rules import BREACHES, CONTRADICTIONS
from gatemark.plugins.advisory.record_schema import SCHEMA, are_all_sound
from gatemark.plugins.advisory.violations import find_violations

_FORM = SCHEMA.form("decision")
_VALIDATOR = jsonschema_rs.validator_for(make_json_schema(SCHEMA.name))


_STRICT = _FORM.strictest
_RULES = RecordRules((*CONTRADICTIONS.rules, *BREACHES.rules))
_NOTHING_PRIVATE = PrivateTextRules(
    private_roots=(), code_chars_max=10_000, note_chars_max=10_000, code_words_max=500
)


def refused(record: dict[str, Any]) -> bool:
    """Whether ``gatemark validate`` refuses a record."""
    return bool(diagnose(json.dumps(record).encode(), _STRICT, max_depth=64))


def is_refused_in_batch(record: dict[str, Any]) -> bool:
    """Whether the types or the checks of whole batches refuse a record."""
    try:
        typed = msgspec.convert(record, AdvisoryDecision)
    except msgspec.ValidationError:
        return True
    agreeing = msgspec.convert(AGREEING, AdvisoryDecision)
    return not _RULES.hold_for_all(read_columns([agreeing, typed, agreeing], AdvisoryDecision))


def contradicts_itself(record: AdvisoryDecision) -> bool:
    return bool(CONTRADICTIONS.find_problems(record))


_VALUES = (
    *(0.97, ["send_message"], ["a"] * 33, "a?b=1", "2026-02-30T00:00:00Z"),
    *(["local_report_write:restarted nginx"], ["local_report:../a.json"]),
)
_CHANGES = list(list_changes(AdvisoryDecision, _VALUES))


_CASES = [pytest.param(dict(good), id=str(number)) for number, good in enumerate(_FORM.good)]


@pytest.mark.parametrize("good", _CASES)
def test_the_schema_and_the_command_agree_on_mutants(good: dict[str, Any]) -> None:
    assert _VALIDATOR.is_valid(good)
    for change in _CHANGES:
        changed = change_all(good, [change])
        answers = {not _VALIDATOR.is_valid(changed), refused(changed), is_refused_in_batch(changed)}
        assert len(answers) == 1, f"{change.name}: {json.dumps(changed)}"
    assert len(_CHANGES) > 1_000


@pytest.mark.parametrize("bad", [pytest.param(one, id=one.title) for one in _FORM.bad])
def test_the_schema_refuses_every_bad_example(bad: Any) -> None:
    assert not _VALIDATOR.is_valid(bad.record)


@given(data=st.data())
def test_schema_record_and_batch_agree_on_several_changes_at_once(data: st.DataObject) -> None:
    good = data.draw(st.sampled_from(list(_FORM.good)))
    changes = data.draw(st.lists(st.sampled_from(_CHANGES), min_size=1, max_size=4))
    record = change_all(dict(good), changes)
    is_broken = refused(record)
    assert is_broken != _VALIDATOR.is_valid(record), json.dumps(record)
    assert is_broken == is_refused_in_batch(record), json.dumps(record)


@given(data=st.data())
def test_records_of_a_batch_are_judged_as_if_alone(data: st.DataObject) -> None:
    """The exam checks whole columns, so nothing may hide behind another record."""
    drawn = data.draw(
        st.lists(st.tuples(st.sampled_from(_FORM.good), st.sampled_from(_CHANGES)), min_size=1)
    )
    records = []
    for good, change in drawn:
        try:
            records.append(msgspec.convert(change_all(dict(good), [change]), AdvisoryDecision))
        except msgspec.ValidationError:
            continue
    assert are_all_sound(records) == (not any(map(contradicts_itself, records)))
    found = find_violations(records, read_fields(records), PrivateTextScan(_NOTHING_PRIVATE))
    for place, record in enumerate(records):
        alone = {rule.kind for rule, _ in BREACHES.find_broken(record)}
        assert found.kinds.get(place, set()) == alone


def test_the_command_refuses_every_broken_record_of_a_file(
    gatemark: Callable[..., Any], write_jsonl: Callable[..., Path]
) -> None:
    """Every single change of the good records, in one file: what the schema refuses, no more."""
    cases = [change_all(dict(good), [change]) for good in _FORM.good for change in _CHANGES]
    broken = [case for case in cases if not _VALIDATOR.is_valid(case)]
    sound = [case for case in cases if _VALIDATOR.is_valid(case)]
    assert len(broken) > 4_000
    for number, case in enumerate(sound):
        case["decision_id"] = f"01J{number:023d}"
    checked = gatemark("validate", write_jsonl("cases.jsonl", [*sound, *broken]), "--json")
    assert checked.code == 2
    (file,) = json.loads(checked.out)["files"]
    assert (file["accepted"], file["rejected"]) == (len(sound), len(broken))


@pytest.mark.parametrize(
    "text",
    [
        "\u7406\u7531",
        "caf\u00e9",
        "\u200b",
        "\u00a0",
        "\ufeff",
        "\x1c",
        "\u034f",
        "\u061c",
        "\u180e",
    ],
)
def test_a_reason_is_readable_to_the_schema_as_to_the_command(text: str) -> None:
    fallback = {"occurred": True, "kind": "cpu", "reason": text, "expected": True}
    record = change_record(AGREEING, {"fallback": fallback})
    assert _VALIDATOR.is_valid(record) != refused(record)
    assert refused(record) == is_refused_in_batch(record) == (not any(map(str.isalnum, text)))


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
@example(0, 1, 1)
@example(1900, 2, 29)
@example(2000, 2, 29)
@example(2023, 2, 29)
@example(2024, 2, 29)
def test_a_day_is_one_of_the_calendar(year: int, month: int, day: int) -> None:
    try:
        date(year, month, day)
        exists = True
    except ValueError:
        exists = False
    text = f"{year:04}-{month:02}-{day:02}T12:00:00Z"
    assert (re.fullmatch(TIME_PATTERN, text) is not None) == exists


def test_every_text_of_a_record_has_a_pattern_or_is_searched() -> None:
    named = {field.path for field in list_text_fields(AdvisoryDecision)}
    assert {path for path in list_texts(AdvisoryDecision) if path not in named} == set()


def list_texts(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The paths of all texts that are not one of some words."""
    for field in msgspec.inspect.type_info(kind).fields:
        path = f"{prefix}{field.name}"
        if isinstance(field.type, msgspec.inspect.StructType):
            yield from list_texts(field.type.cls, f"{path}.")
        elif "StrType" in repr(field.type):
            yield path
