from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.evidence.diagnose import diagnose
from gatemark.evidence.record_fields import TextField
from gatemark.plugins.advisory.privacy_scan import FREE_FIELDS
from gatemark.plugins.advisory.record import (
    ALLOWED_ACTIONS,
    CLOSED_FLAGS,
    DEFAULT_ACTIONS,
    AdvisoryDecision,
)
from gatemark.plugins.advisory.record_examples import AGREEING, change_record
from gatemark.plugins.advisory.record_rules import CONTRADICTIONS
from gatemark.plugins.advisory.record_schema import SCHEMA, are_all_sound
from gatemark.testing.schemas import check_schema

from .decisions import NORMAL, decision, findings_of

FORM = SCHEMA.forms[0]
SECRET = "hunter2-" + "Zq8" * 9


def test_the_schema_keeps_its_promises() -> None:
    check_schema(SCHEMA)


@pytest.mark.parametrize("hashed", ["sha256:example", "sha256:" + "ab" * 32, None])
def test_the_documents_own_example_is_a_record(hashed: str | None) -> None:
    record = change_record(
        AGREEING, {"source.content_hash": hashed, "actual_action.side_effects": []}
    )
    assert diagnose(json.dumps(record).encode(), FORM.strictest, max_depth=64) == ()


def test_the_screen_agrees_with_the_rules() -> None:
    for example in (*FORM.good, *(bad.record for bad in FORM.bad)):
        try:
            record = msgspec.convert(example, AdvisoryDecision)
        except msgspec.ValidationError:
            continue
        assert are_all_sound([record]) == (not CONTRADICTIONS.find_problems(record))


@pytest.mark.parametrize(
    "changes",
    [
        {"source.kind": SECRET},
        {"decision_id": SECRET},
        {"timestamp": SECRET},
        {"source.content_hash": SECRET},
        {"service.name": SECRET + "/"},
        {"recommendation.label": SECRET},
        {"recommendation.reasons": SECRET},
        {"confidence.score": SECRET},
        {"notes": [SECRET, 4]},
        {"notes": {SECRET: SECRET}},
        {SECRET: 1},
        {"latency.total_ms": SECRET},
        {"privacy": SECRET},
        {"actual_action.side_effects": [SECRET]},
        {"fallback": {"occurred": True, "reason": SECRET, "expected": False}},
    ],
)
def test_a_refused_value_is_never_repeated(changes: dict[str, Any]) -> None:
    line = json.dumps(change_record(AGREEING, changes)).encode()
    problems = diagnose(line, FORM.strictest, max_depth=64)
    assert problems
    assert SECRET not in str(problems)


def test_a_key_written_twice_is_refused_without_its_name() -> None:
    line = json.dumps(AGREEING)[:-1] + f', "{SECRET}": 1, "{SECRET}": 2}}'
    problems = diagnose(line.encode(), FORM, max_depth=64)
    assert any("a key appears more than once" in problem.message for problem in problems)
    assert SECRET not in str(problems)


def test_validate_refuses_what_an_exam_would_count(
    gatemark: Callable[..., Any], write_jsonl: Callable[..., Path]
) -> None:
    open_flag = change_record(AGREEING, {"authority_flags.can_send_outbound": True})
    clean = gatemark("validate", write_jsonl("clean.jsonl", [AGREEING]))
    assert clean.code == 0
    refused = gatemark("validate", write_jsonl("open.jsonl", [open_flag]))
    assert refused.code == 2
    assert "open.jsonl:1: must be false at $.authority_flags.can_send_outbound" in (
        refused.out + refused.err
    )


def test_the_closed_flags_are_the_only_ones_without_a_breach() -> None:
    flags = msgspec.to_builtins(CLOSED_FLAGS)
    assert len(flags) == 11
    assert {name for name, value in flags.items() if value} == {
        "requires_human_approval",
        "advisory_only",
    }
    assert set(DEFAULT_ACTIONS) < ALLOWED_ACTIONS


def test_a_text_that_looks_wrong_is_told_in_words_and_not_repeated() -> None:
    for path, said in (
        ("decision_id", "must be a UUID or a ULID in capitals"),
        ("timestamp", "must be an existing time in UTC such as 2026-06-06T12:30:00Z"),
        ("source.content_hash", "must be sha256: and 64 hexadecimal digits"),
    ):
        record = change_record(AGREEING, {path: "confidential " + "x" * 20})
        (problem,) = diagnose(json.dumps(record).encode(), FORM, max_depth=16)
        assert (problem.path, problem.message) == (f"$.{path}", said)


@pytest.mark.parametrize("field", FREE_FIELDS, ids=[field.path for field in FREE_FIELDS])
def test_every_free_text_is_searched_for_private_content(field: TextField) -> None:
    private = "ada@example.org"
    change = {field.path: [private] if field.is_list else private}
    if field.path == "fallback.reason":
        change = {
            "fallback": {"occurred": True, "kind": "cpu", "reason": private, "expected": True}
        }
    records = [decision(number, NORMAL) for number in range(2)]
    changed = change_record(records[1], change)
    if field.pattern is None:
        assert findings_of(records)["advisory.privacy"].verdict == "pass"
        assert findings_of([records[0], changed])["advisory.privacy"].verdict == "fail"
    else:
        assert diagnose(json.dumps(changed).encode(), FORM, max_depth=16)
