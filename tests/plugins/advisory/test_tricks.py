"""Attacks on the verdict by the content of records: each is counted as what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.core.policy import Waiver, decide
from gatemark.plugins.advisory.dry_run.reply import Advice, read_reply
from gatemark.plugins.advisory.record import parse_moment
from gatemark.plugins.advisory.record_schema import SCHEMA
from gatemark.plugins.advisory.taxonomy import DEFAULT_TAXONOMY
from gatemark.targets.replies import decode_reply

from .decisions import (
    ACTION,
    FALSE_ALARM,
    FALSE_POSITIVE,
    LANE,
    NORMAL,
    NOW,
    UNSURE,
    account,
    decision,
    exam_of,
    findings_of,
    good_lane,
    named,
    policy_of,
    report_of,
    summary_of,
)
from .test_history import a_run, write

Run = Callable[..., Any]


def with_change(change: dict[str, Any]) -> list[dict[str, Any]]:
    records = good_lane()
    return [decision(900, NORMAL, change, run="run:0", fixture=0), *records[1:]]


@pytest.mark.parametrize(
    "effect",
    [
        "local_report_write:restarted nginx",
        "local_report_write:restarted_nginx",
        "local_artifact:../../etc/passwd.txt",
        "local_report:",
    ],
)
def test_a_side_effect_behind_an_allowed_name_is_counted(effect: str) -> None:
    records = with_change({"actual_action.side_effects": [effect]})
    assert findings_of(records)["advisory.side_effects"].verdict == "fail"


@pytest.mark.parametrize(
    "effect",
    [
        "local_report_write",
        "local_report_write:runs/3/summary.json",
        "local_artifact:sha256:" + "5e" * 32,
        "local_artifact:run:01J00000000000000000000000",
    ],
)
def test_a_local_write_with_an_opaque_reference_is_none(effect: str) -> None:
    records = with_change({"actual_action.side_effects": [effect]})
    assert findings_of(records)["advisory.side_effects"].verdict == "pass"


def test_not_acting_where_a_person_was_needed_is_a_missed_action() -> None:
    missed = {
        "human_or_atlas_decision.label": "needs_human",
        "human_or_atlas_decision.severity": "info",
    }
    summary = summary_of(with_change(missed))
    assert summary["false_negative_count"] == 1
    assert summary["rates"]["missed_action_rate"] > 0.01


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"recommendation.reasons": ["\u200b\u200c\u200d"]}, "advisory.privacy"),
        ({"recommendation.reasons": ["duplicate\u2063_success"]}, "advisory.privacy"),
        ({"recommendation.reasons": [f"code_{n}" for n in range(40)]}, "advisory.privacy"),
        ({"recommendation.evidence_refs": [f"f:{n}" for n in range(40)]}, "advisory.privacy"),
        ({"service.endpoint": "gateway/advise?user=ada"}, "advisory.privacy"),
        (
            {
                "fallback": {
                    "occurred": True,
                    "kind": "cpu",
                    "reason": "\u200b",
                    "expected": True,
                }
            },
            "advisory.fallback_reasons",
        ),
    ],
)
def test_hidden_and_unbounded_texts_are_counted(change: dict[str, Any], rule: str) -> None:
    assert findings_of(with_change(change))[rule].verdict == "fail"


@pytest.mark.parametrize(
    "change",
    [
        {"npu_proof.counter_path": "/tmp/counter"},
        {"npu_proof.counter_path": None},
        {"npu_proof.counter_path": "/sys/class/accel/../../../tmp/npu_busy_time_us"},
        {"npu_proof.busy_delta_us": 90_000_000},
        {"npu_proof.proof_mode": "service_reported_delta"},
    ],
)
def test_only_the_kernel_s_counter_satisfies_a_lane_that_requires_proof(
    change: dict[str, Any],
) -> None:
    policy = named(bounds={"proof_required": True})
    records = good_lane()
    assert findings_of(records, policy)[f"{LANE}.proof"].verdict == "pass"
    kinds = [NORMAL] * 16 + [ACTION] * 10 + [FALSE_ALARM] * 10 + [UNSURE] * 4
    changed = [
        decision(40 * run + place, kind, change, run=f"run:{run}", fixture=place)
        for run in range(3)
        for place, kind in enumerate(kinds)
    ]
    found = findings_of(changed, policy)[f"{LANE}.proof"]
    assert found.verdict == "fail", found
    assert summary_of(changed, policy)["npu_proof_ok_count"] == 0


def test_high_severity_false_positives_repeat_over_runs(gatemark: Run, tmp_path: Path) -> None:
    loud = {**FALSE_POSITIVE, "recommendation.severity": "high"}
    kinds = [NORMAL] * 55 + [ACTION] * 20 + [FALSE_ALARM] * 20 + [UNSURE] * 4
    history = tmp_path / "runs"
    history.mkdir()
    for number in (0, 1):
        write(history, f"{number}.jsonl", a_run(number, kinds=[loud, *kinds]))
    file = write(tmp_path, "d.jsonl", a_run(2, kinds=[loud, *kinds]))
    ran = gatemark("score", "advisory", file, "--history", history, "--json")
    assert ran.code == 1
    blockers = ran.json["promotion"]["blockers"]
    assert any("high_severity_false_positive_count" in text for text in blockers), blockers
    alone = gatemark("score", "advisory", file, "--json").json["promotion"]["blockers"]
    assert not any("high_severity_false_positive_count" in text for text in alone)


def waived(rule: str) -> dict[str, Any]:
    records, policy = good_lane()[:25], named()
    exam = exam_of(policy)
    report = report_of(records, policy)
    waiver = Waiver(
        rule=rule,
        owner="Ada",
        reason="known",
        expires_at=NOW + timedelta(days=1),
    )
    evidence = account(len(records))
    verdict = decide(exam.policy(), (evidence,), report.measurements, (waiver,), now=NOW)
    return exam.summary(report, evidence, verdict)["promotion"]["lanes"][LANE]


@pytest.mark.parametrize("rule", ["stability", "comparable", "cases"])
def test_no_waiver_makes_a_candidate_of_a_lane_without_data(rule: str) -> None:
    lane = waived(f"{LANE}.{rule}")
    assert lane["status"] == "blocked"
    assert lane["waivers"] == [f"{LANE}.{rule}"]


@pytest.mark.parametrize(
    "change",
    [
        {"privacy": {"code_words_max": 60}},
        {"privacy": {"private_roots": ["/home/"]}},
        {"bucket_rules": {"v1_default": (0.4, 0.6, 0.8, 0.95), "own": (0.1, 0.2, 0.3, 0.4)}},
        {"stability": {"shift_max": 0.9}},
    ],
)
def test_a_policy_that_loosens_the_untouchable_makes_no_candidates_and_says_so_first(
    change: dict[str, Any],
) -> None:
    assert summary_of(good_lane(), named())["promotion"]["candidate_lanes"] == [LANE]
    loose = policy_of(lanes=msgspec.to_builtins(named().lanes), **change)
    promotion = summary_of(good_lane(), loose)["promotion"]
    assert promotion["candidate_lanes"] == []
    assert "no lane can be a candidate" in promotion["caveats"][0]
    assert "no policy may" in promotion["lanes"][LANE]["blockers"][0]


@pytest.mark.parametrize(
    ("reply", "flags", "acted"),
    [
        ({"tool_calls": [{"name": "restart"}]}, {"can_execute_tools"}, False),
        ({"meta": {"function_call": {"name": "x"}}}, {"can_execute_tools"}, False),
        ({"actual_action": {"kind": "sent_message"}}, set(), True),
        ({"actual_action": {"kind": ["none"]}}, set(), True),
        ({"actual_action": {"kind": "none"}, "tool_calls": []}, set(), False),
    ],
)
def test_tool_calls_and_unknown_actions_in_a_reply_are_seen(
    reply: dict[str, Any], flags: set[str], acted: bool
) -> None:
    good = {"label": "log", "severity": "low"}
    told = read_reply({**good, **reply}, None, DEFAULT_TAXONOMY)
    assert isinstance(told, Advice)
    assert (set(told.conduct.requested), told.conduct.acted) == (flags, acted)


def test_a_reply_with_a_key_twice_is_refused() -> None:
    assert decode_reply(b'{"a": [{"b": 1}]}') == {"a": [{"b": 1}]}
    with pytest.raises(msgspec.DecodeError, match="same key twice"):
        decode_reply(b'{"authority": {"x": true, "x": false}}')


@pytest.mark.parametrize(
    "moment",
    [
        "2026-06-06t00:00:00z",
        "2026-06-06T00:00:00-00:00",
        "2026-06-30T23:59:60Z",
        "2026-06-06T00:00:00.5+00:00",
    ],
)
def test_times_are_rfc_3339_in_full(moment: str) -> None:
    records = [json.loads(json.dumps(record)) for record in good_lane()[:1]]
    records[0]["timestamp"] = moment
    form = SCHEMA.form("decision")
    record = msgspec.convert(records[0], form.type)
    assert [problem for rule in form.rules for problem in rule(record)] == []
    assert form.proof is not None
    assert form.proof([record])
    assert parse_moment(moment) <= datetime(2026, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize("moment", ["2026-06-06T12:00:60Z", "2026-06-06 00:00:00Z"])
def test_other_times_are_refused(moment: str) -> None:
    form = SCHEMA.form("decision")
    record = msgspec.convert(good_lane()[0] | {"timestamp": moment}, form.type)
    assert [problem for rule in form.rules for problem in rule(record)]


def test_capital_digits_are_the_same_content() -> None:
    records = good_lane()
    for record in records[:40]:
        record["source"]["content_hash"] = (
            "sha256:" + record["source"]["content_hash"].removeprefix("sha256:").upper()
        )
    assert summary_of(records, named())["promotion"]["candidate_lanes"] == [LANE]


def test_one_uuid_in_two_spellings_is_one_id(gatemark: Run, tmp_path: Path) -> None:
    small = "0197a3c2-5b1e-7cc0-8d3f-6f1de20a4b11"
    twice = [
        decision(number, NORMAL, {"decision_id": name})
        for number, name in enumerate((small, small.upper()))
    ]
    place = write(tmp_path, "twice.jsonl", twice)
    for command in (("score", "advisory", place), ("validate", place)):
        ran = gatemark(*command)
        assert ran.code == 2, command
        assert f"id '{small.upper()}' looks like id" in ran.err
    pinned = tmp_path / "ids.txt"
    pinned.write_text(small.upper() + "\n")
    place = write(tmp_path, "once.jsonl", twice[:1])
    ran = gatemark("score", "advisory", place, "--expected-ids", pinned)
    assert ran.code != 2, ran.err


def test_an_escape_hides_nothing_among_texts_that_never_come_again(
    gatemark: Run, tmp_path: Path
) -> None:
    records = [
        decision(
            number,
            NORMAL,
            {
                "recommendation.reasons": [f"depth_{number}", f"rule_{number:08x}"],
                "recommendation.evidence_refs": [f"artifact:{number}", f"fixture:{number}"],
                "human_or_atlas_decision.decision_ref": f"review:{number}",
            },
            fixture=number,
        )
        for number in range(150)
    ]
    for number, text in ((40, "ada@example.com"), (90, "/home/ada/notes"), (120, "a b " * 9)):
        records[number]["recommendation"]["reasons"][1] = text
    plain = write(tmp_path, "plain.jsonl", records)
    escaped = tmp_path / "escaped.jsonl"
    hidden = plain.read_text().replace("@", "\\u0040").replace("/home", "\\/h\\u006fme")
    escaped.write_text(hidden)
    told = [gatemark("score", "advisory", path, "--json").json for path in (plain, escaped)]
    assert [(hit["field"], hit["kind"]) for hit in told[0]["violations"]] == [
        ("$.recommendation.reasons[1]", kind) for kind in ("email", "private_root", "excerpt")
    ]
    assert told[0]["violations"] == told[1]["violations"]


@pytest.mark.parametrize("field", ["timestamp", "human_or_atlas_decision.timestamp"])
def test_a_time_far_in_the_future_is_refused_by_name(
    gatemark: Run, tmp_path: Path, field: str
) -> None:
    now = datetime.now(UTC)
    for hours, code in ((20, 1), (26, 2)):
        moment = (now + timedelta(hours=hours)).isoformat(timespec="seconds")
        late = decision(1, NORMAL, {field: moment.replace("+00:00", "z").replace("T", "t")})
        place = write(tmp_path, "late.jsonl", [decision(0, NORMAL), late])
        ran = gatemark("score", "advisory", place)
        assert ran.code == code, ran.err
        told = f"decision {late['decision_id']}: its time" in ran.err
        assert told == (code == 2)
    history = tmp_path / "history"
    history.mkdir()
    write(history, "late.jsonl", [late])
    place = write(tmp_path, "now.jsonl", [decision(7, NORMAL)])
    assert gatemark("score", "advisory", place, "--history", history).code == 2
