"""The fixture is the unit of evidence: asking again, relabelling and dropping inputs is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gatemark.plugins.advisory.input_rows import InputGroup, InputTable, join_tables
from gatemark.plugins.advisory.lane_inputs import derive_lane_inputs
from gatemark.plugins.advisory.policy import AdvisoryPolicy

from .decisions import ACTION, LANE, decision, findings_of, good_lane, named, numbered, summary_of
from .test_history import KINDS, a_run


def changed_in(run: str, records: list[dict[str, Any]], field: str, value: Any) -> None:
    section, name = field.split(".")
    for record in records:
        if record["source"]["artifact_ref"] == run:
            text = value(record) if callable(value) else value
            record[section][name] = text


def with_content(records: list[dict[str, Any]], name: str, other: str) -> list[dict[str, Any]]:
    """Give one fixture the content of another."""
    content = {r["source"]["fixture_id"]: r["source"]["content_hash"] for r in records}
    for record in records:
        if record["source"]["fixture_id"] == name:
            record["source"]["content_hash"] = content[other]
    return records


def test_four_fixtures_asked_ten_times_are_four_inputs() -> None:
    records = good_lane()
    for place, record in enumerate(records):
        record["source"]["fixture_id"] = f"case_{place % 4}"
        record["source"]["content_hash"] = "sha256:" + f"{place % 4 + 1:02x}" * 32
    found = findings_of(records, named())[f"{LANE}.comparable"]
    assert found.verdict == "fail"


def test_one_content_under_many_ids_is_one_input() -> None:
    records = good_lane()
    for record in records:
        record["source"]["content_hash"] = "sha256:" + "5e" * 32
    assert findings_of(records, named())[f"{LANE}.comparable"].verdict == "fail"


def test_one_content_under_two_names_has_one_reference() -> None:
    """Whoever may name an input twice could expect both answers of it."""
    torn = with_content(good_lane(), "case_0016", "case_0000")
    found = findings_of(torn, named())[f"{LANE}.inputs"]
    assert found.verdict == "fail"
    section = summary_of(torn, named())["promotion"]
    assert section["candidate_lanes"] == []
    assert "1 contents have more than one reference" in section["lanes"][LANE]["blockers"][0]


def test_one_content_under_two_names_with_one_reference_counts_once() -> None:
    same = with_content(good_lane(), "case_0001", "case_0000")
    assert findings_of(same, named())[f"{LANE}.inputs"].verdict == "pass"
    assert summary_of(same, named())["lanes"][LANE]["comparable_inputs"] == 35


def test_records_that_name_no_input_are_not_counted() -> None:
    records = good_lane()
    for record in records:
        record["source"]["fixture_id"] = record["source"]["content_hash"] = None
    assert findings_of(records, named())[f"{LANE}.comparable"].verdict != "pass"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source.content_hash", lambda r: "sha256:" + r["source"]["content_hash"][7:-2] + "00"),
        ("source.fixture_id", lambda r: r["source"]["fixture_id"] + "x"),
        ("source.fixture_set", "another_set"),
        ("service.model", "another-model"),
    ],
)
def test_runs_over_other_inputs_or_models_are_not_stable(field: str, value: Any) -> None:
    records = good_lane()
    changed_in("run:1", records, field, value)
    assert findings_of(records, named())[f"{LANE}.stability"].verdict == "inconclusive"


def test_contradictory_references_hold() -> None:
    records = good_lane()
    changed_in("run:2", records[80:81], "human_or_atlas_decision.severity", "low")
    found = findings_of(records, named())[f"{LANE}.inputs"]
    assert found.verdict == "fail"
    assert "1" in str(found.reason)


def test_an_action_case_recorded_as_a_probe_holds() -> None:
    probe = {
        "source.kind": "service_health_probe",
        "recommendation.label": "unknown",
        "human_or_atlas_decision": {"source": "missing"},
    }
    records = [
        record for number in range(3) for record in a_run(number, kinds=[*KINDS, ACTION | probe])
    ]
    assert findings_of(records, named())[f"{LANE}.inputs"].verdict == "fail"


def test_equal_runs_over_forty_inputs_keep_every_rule() -> None:
    found = findings_of(good_lane(), named())
    assert {name for name, one in found.items() if one.verdict != "pass"} == set()


def test_a_fixture_dropped_from_every_run_is_missed_when_the_manifest_is_pinned() -> None:
    pinned = {
        "fixture_set": "npu_advisory_eval_v1",
        "fixtures": [
            {
                "input_class": "cron_n8n_event",
                "fixture_id": f"case_{place:04d}",
                "content_hash": f"sha256:{place + 1:016x}" + "5e" * 24,
            }
            for place in range(40)
        ],
    }
    whole = findings_of(good_lane(), named(), fixtures=pinned)
    assert whole[f"{LANE}.fixtures"].verdict == "pass"
    dropped = [r for r in good_lane() if r["source"]["fixture_id"] != "case_0007"]
    found = findings_of(dropped, named(), fixtures=pinned)[f"{LANE}.fixtures"]
    assert found.verdict == "fail"
    strange = [*good_lane(), decision(999, run="run:1", fixture=70)]
    assert findings_of(strange, named(), fixtures=pinned)[f"{LANE}.fixtures"].verdict == "fail"


def test_a_lane_that_is_pinned_and_not_there_is_missed() -> None:
    pinned = {
        "fixture_set": "npu_advisory_eval_v1",
        "fixtures": [
            {
                "input_class": "cron_n8n_event",
                "fixture_id": "case_9999",
                "content_hash": "sha256:" + "11" * 32,
            }
        ],
    }
    found = findings_of(numbered(KINDS), named(), fixtures=pinned)
    assert found[f"{LANE}.fixtures"].verdict == "fail"


def _table(names: list[int], run: str) -> InputTable:
    pairs = np.array([[name, name + 7] for name in names], dtype=np.uint64)
    group = {field: getattr(_GROUP, field) for field in _GROUP.__struct_fields__}
    columns = {name: [value] * len(names) for name, value in (group | {"run": run}).items()}
    table = InputTable()
    table.add_rows(columns, pairs)
    return table


_GROUP = InputGroup(
    label="log",
    severity="info",
    bucket="high",
    reference_source="fixture_expected",
    reference_label="log",
    reference_severity="info",
    applicable=True,
    lane="a/b",
    fixture_set=None,
    model=None,
    is_shadow=False,
    is_disguised=False,
)


def test_an_input_is_kept_once_per_run_and_group() -> None:
    once = _table([1, 2, 2, 3], "run:1")
    once.drop_repeats()
    assert len(once) == 3
    both = join_tables([once, _table([3, 4], "run:2"), _table([1, 2], "run:1")])
    assert (list(both.groups), list(both.runs)) == ([_GROUP], ["run:1", "run:2"])
    found = derive_lane_inputs(both, "a/b", AdvisoryPolicy())
    assert found.comparable == 4
    assert {run: own.size for run, own in found.by_run.items()} == {"run:1": 3, "run:2": 2}
    own = derive_lane_inputs(both.select_runs({"run:2"}), "a/b", AdvisoryPolicy())
    assert list(own.by_run) == ["run:2"]


def test_rows_that_come_again_do_not_pile_up() -> None:
    same = _table(list(range(1, 20_001)), "run:1")
    total = InputTable()
    for _ in range(12):
        total = join_tables([total, same])
    assert len(total) <= 2 * 20_000 + 50_000 + 20_000
