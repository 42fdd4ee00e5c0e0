"""The JSON Schemas of what people write for the exam, and of the summary that it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.plugins.advisory.decisions import LANE, PROMISE, PROMOTION, WRONG, good_lane, numbered

from gatemark.packs.documents import describe_schemas, make_json_schema
from gatemark.plugins.advisory.fixtures.fixture import read_builtin

Run = Callable[..., Any]
POLICY: dict[str, Any] = {
    "gatemark_advisory": 1,
    "lanes": {LANE: {"promotion": PROMOTION, "bounds": PROMISE}},
}
FIXTURE = {
    "fixture_id": "night_001",
    "input_class": "cron_n8n_event",
    "case": "backup",
    "kind": "normal",
    "privacy_class": "synthetic",
    "payload": {"status": "success"},
    "expected": {"label": "suppress", "severity": "info"},
}
LABEL = {"fixture_id": "night_001", "source": "human_label", "label": "escalate"}
INPUT = {
    "input_class": "cron_n8n_event",
    "privacy_class": "public",
    "payload": 1,
    "decision": {"source": "atlas_shadow", "label": "escalate", "severity": "high"},
}
GOOD = {
    "gatemark.advisory_policy/1": POLICY,
    "gatemark.advisory_fixture/1": FIXTURE,
    "gatemark.advisory_label/1": LABEL,
    "gatemark.advisory_input/1": INPUT,
}


def fits(name: str, value: object) -> bool:
    return bool(jsonschema_rs.validator_for(make_json_schema(name)).is_valid(value))


@pytest.mark.parametrize("name", GOOD)
def test_what_people_write_fits_its_schema(name: str) -> None:
    assert name in describe_schemas()
    assert fits(name, GOOD[name])
    assert not fits(name, {**GOOD[name], "unknown_key": 1})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("policy", {"gatemark_advisory": 2}),
        ("policy", {"overall": {"agreement_rate_min": 2}}),
        ("policy", {"lanes": {LANE: {"promotion": {"scope": "x"}}}}),
        ("fixture", {"kind": "party"}),
        ("fixture", {"fixture_id": "Night 1"}),
        ("fixture", {"expected": {"label": "suppress"}}),
        ("label", {"source": "fixture_expected"}),
        ("label", {"severity": "dire"}),
        ("label", {"confidence": 2}),
        ("input", {"privacy_class": "private_disallowed"}),
        ("input", {"decision": {"source": "atlas_shadow"}}),
    ],
)
def test_what_the_command_refuses_the_schema_refuses(name: str, change: dict[str, Any]) -> None:
    full = f"gatemark.advisory_{name}/1"
    assert not fits(full, {**GOOD[full], **change})


def test_the_built_in_fixtures_fit() -> None:
    manifest = json.loads(read_builtin("manifest.json"))
    assert fits("gatemark.advisory_manifest/1", manifest)
    for line in read_builtin(manifest["evaluation"]["file"]).splitlines():
        assert fits("gatemark.advisory_fixture/1", json.loads(line))


@pytest.mark.parametrize("wrong", [False, True])
def test_the_summary_of_a_run_fits(gatemark: Run, tmp_path: Path, wrong: bool) -> None:
    records = good_lane()
    if wrong:
        records += numbered([WRONG], run="run:9", start=900)
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "p.json").write_text(json.dumps(POLICY))
    out = tmp_path / "out"
    ran = gatemark(
        *("score", "advisory", tmp_path / "d.jsonl", "--policy", tmp_path / "p.json"),
        *("--out", out),
    )
    assert ran.code in (0, 1, 3), ran.err
    summary = json.loads((out / "summary.json").read_text())
    name = "gatemark.advisory_summary/1"
    validator = jsonschema_rs.validator_for(make_json_schema(name))
    assert [str(error) for error in validator.iter_errors(summary)] == []
    # Every key that the command writes is in the schema, so that none is undocumented.
    known = make_json_schema(name)["$defs"]["AdvisorySummary"]["properties"]
    added = {"generated_at", "policy_digest", "result_id"}
    assert set(summary) - added == set(known)
    for change in ({"verdict": "maybe"}, {"pass": 1}, {"promotion": {}}, {"agree_count": None}):
        assert not fits(name, {**summary, **change})
