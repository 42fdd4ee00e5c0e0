from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gatemark.core.policy import Waiver, decide
from gatemark.core.result import Table
from gatemark.evidence.exam import VerdictNotes
from gatemark.evidence.private_text import PrivateTextRules
from gatemark.plugins.advisory.loosened_policy import list_loosened

from .decisions import (
    LANE,
    NORMAL,
    NOW,
    OTHER,
    PROMISE,
    PROMOTION,
    UNSURE,
    WRONG,
    account,
    decision,
    exam_of,
    good_lane,
    named,
    numbered,
    policy_of,
    report_of,
    summary_of,
    verdict_of,
)

BOTH = policy_of(
    lane_defaults=PROMISE, lanes={LANE: {"promotion": PROMOTION}, OTHER: {"promotion": PROMOTION}}
)


def promotion(records: list[dict[str, Any]], policy: Any, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = summary_of(records, policy, **more)["promotion"]
    return found


def test_a_lane_that_keeps_every_bound_is_a_candidate_for_discussion() -> None:
    found = promotion(good_lane(), named())
    assert found["candidate_lanes"] == [LANE]
    assert found["blockers"] == []
    assert found["lanes"][LANE] == {
        "status": "candidate for discussion",
        "blockers": [],
        "smaller_scope": None,
        **PROMOTION,
    }


def test_no_lane_is_listed_without_scope_rollback_plan_and_reviewer() -> None:
    for policy in (policy_of(), policy_of(lanes={LANE: {}})):
        found = promotion(good_lane(), policy)
        assert found["candidate_lanes"] == []
        assert found["lanes"][LANE]["status"].startswith("not scoped")
        assert any("scopes no lane" in text for text in found["caveats"])


@pytest.mark.parametrize("name", PROMOTION)
@pytest.mark.parametrize("text", ["TBD", "?", "n/a", " - ", "todo.", "None"])
def test_a_placeholder_is_neither_a_scope_nor_a_plan_nor_a_person(name: str, text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"promotion.{name} must be filled in"):
        policy_of(lanes={LANE: {"promotion": PROMOTION | {name: text}}})


def test_a_reviewer_who_approved_the_scope_is_a_caveat() -> None:
    both = named(promotion=PROMOTION | {"reviewer": "ADA"})
    assert any("reviews it as well" in text for text in promotion(good_lane(), both)["caveats"])
    assert not any("reviews it" in text for text in promotion(good_lane(), named())["caveats"])


def test_one_lane_never_speaks_for_another() -> None:
    records = [*good_lane(), *numbered([NORMAL] * 26 + [WRONG] * 4, lane=OTHER, start=900)]
    found = promotion(records, BOTH)
    assert found["candidate_lanes"] == [LANE]
    assert found["lanes"][OTHER]["status"] == "blocked"
    assert any(
        "agreement_rate must be >= 0.9" in text for text in found["lanes"][OTHER]["blockers"]
    )


def test_a_named_lane_without_records_is_no_candidate() -> None:
    found = promotion(good_lane(), BOTH)
    assert found["candidate_lanes"] == [LANE]
    assert found["lanes"][OTHER]["status"] == "blocked"


def test_a_violation_anywhere_blocks_every_lane() -> None:
    stray = decision(999, {"authority_flags.advisory_only": False}, lane=OTHER)
    found = promotion([*good_lane(), stray], BOTH)
    assert found["candidate_lanes"] == []
    assert "authority_flag_violation_count must be <= 0, got 1 (n=121)" in found["blockers"]


def test_other_lanes_do_not_stop_a_named_one() -> None:
    records = [*good_lane(), *numbered([NORMAL], lane=OTHER, start=900)]
    found = promotion(records, named())
    assert found["candidate_lanes"] == [LANE]
    (blocker,) = found["blockers"]
    assert blocker.startswith("other_lanes_below_count must be <= 0, got 1 (n=2): context_gate/")
    assert "comparable" in blocker


def test_a_lost_record_leaves_no_candidates() -> None:
    found = promotion(good_lane(), named(), lost=1)
    assert found["candidate_lanes"] == []
    assert found["lanes"][LANE]["status"] == "blocked"


def test_a_lane_without_a_latency_bound_is_no_candidate() -> None:
    found = promotion(good_lane(), policy_of(lanes={LANE: {"promotion": PROMOTION}}))
    assert found["candidate_lanes"] == []
    assert found["lanes"][LANE]["blockers"] == [
        f"{LANE}: the policy names no latency bound (p95_total_ms_max)"
    ]
    assert any(text.startswith(f"{LANE} is no candidate: ") for text in found["caveats"])


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("advisory.authority", {"authority_flags.can_execute_tools": True}),
        ("advisory.privacy", {"privacy.payload_logged": True}),
        ("advisory.side_effects", {"actual_action.performed": True}),
    ],
)
def test_no_waiver_makes_candidates_of_violations(rule: str, kind: dict[str, Any]) -> None:
    records = [*good_lane()[:-1], decision(119, UNSURE, kind, run="run:2", fixture=39)]
    waiver = Waiver(
        rule=rule, owner="Ada", reason="known", expires_at=datetime.max.replace(tzinfo=UTC)
    )
    exam = exam_of(named())
    report = report_of(records, named())
    evidence = account(len(records))
    verdict = decide(exam.policy(), (evidence,), report.measurements, (waiver,), now=NOW)
    assert verdict.outcome == "pass"
    found = exam.summary(report, evidence, verdict)["promotion"]
    assert found["candidate_lanes"] == []
    assert found["lanes"][LANE]["status"] == "blocked"


def test_a_policy_that_asks_for_less_says_so() -> None:
    lax = named(bounds={"agreement_rate_min": 0.5, "conservative": True, "proof_required": True})
    (text,) = [t for t in promotion(good_lane(), lax)["caveats"] if "asks for less" in t]
    assert f"{LANE}.agreement_rate_min 0.5, default 0.9" in text
    assert f"{LANE}.conservative true, default false" in text
    assert "proof" not in text
    strict = named(bounds={"agreement_rate_min": 0.99})
    assert not [t for t in promotion(good_lane(), strict)["caveats"] if "asks for less" in t]
    unbound = policy_of(
        overall={"uncertain_rate_max": 0.9},
        stability={"runs_min": 2},
        lane_defaults={"p95_total_ms_max": 9, "proof_required": True},
        lanes={LANE: {"bounds": {"p95_total_ms_max": None, "proof_required": False}}},
    )
    assert list_loosened(unbound) == [
        "overall.uncertain_rate_max 0.9, default 0.15",
        f"{LANE}.proof_required false, default true",
        f"{LANE}.p95_total_ms_max none, default 9",
        "stability.runs_min 2, default 3",
    ]
    blind = policy_of(
        privacy={
            "note_chars_max": 9_000,
            "private_roots": list(PrivateTextRules().private_roots[1:]),
        },
        labels={
            "no_op": ["suppress", "escalate"],
            "action": ["summarize"],
            "deferred": ["unknown", "needs_human"],
        },
    )
    assert list_loosened(blind) == [
        "privacy leaves out /home/",
        "privacy.note_chars_max 9000, default 280",
        "labels.escalate means no_op, default action",
    ]
    assert list_loosened(policy_of()) == []


def test_caveats_tell_what_the_numbers_do_not() -> None:
    shadow = {"human_or_atlas_decision.source": "atlas_shadow"}
    expected = {"fallback": {"occurred": True, "kind": "cpu", "reason": "no_npu", "expected": True}}
    unproved = {"npu_proof": {"proof_mode": "unavailable", "inference_ran": True, "proof_ok": None}}
    records = numbered([NORMAL | unproved, shadow | unproved, expected | unproved])
    stated = {"outcome.promotion_blocker": True, "outcome.error_type": "npu_proof_missing"}
    blocked = promotion([*records, decision(9, stated)], named())["caveats"]
    assert any(text.endswith("no bound judges: npu_proof_missing 1") for text in blocked)
    own_word = {"npu_proof.proof_mode": "service_reported_delta"}
    claimed = promotion([*records, decision(9, own_word)], named())["caveats"]
    assert any(text.startswith("1 proofs are the services' own count") for text in claimed)
    caveats = promotion(records, named())["caveats"]
    assert not any("own count" in text for text in caveats)
    assert any("not pinned" in text for text in caveats)
    assert "1 records have only an Atlas decision, which is a signal and no reference" in caveats
    assert "1 expected fallbacks (33.3% of all records)" in caveats
    assert "no record proves that an NPU ran" in caveats


def test_the_report_for_people_tells_candidates_caveats_and_what_stands_against_a_lane() -> None:
    def closing(policy: Any) -> VerdictNotes:
        report = report_of(good_lane(), policy)
        return exam_of(policy).closing(report, account(120), verdict_of(good_lane(), policy))

    found = closing(named())
    assert found.caveats[0] == (
        f"candidates for discussion: {LANE}; no authority is granted by this run"
    )
    assert any("not pinned" in text for text in found.caveats)
    (table,) = found.figures
    assert isinstance(table, Table)
    assert table.rows == ((LANE, "candidate for discussion", "nothing"),)
    unbound = closing(policy_of(lanes={LANE: {"promotion": PROMOTION}}))
    assert unbound.caveats[0].startswith("candidates for discussion: none;")
    (table,) = unbound.figures
    assert isinstance(table, Table)
    assert table.rows[0][1:] == (
        "blocked",
        "the policy names no latency bound (p95_total_ms_max)",
    )


def test_lanes_that_nobody_named_are_named_where_they_fail() -> None:
    report = report_of(numbered([NORMAL] * 29), policy_of())
    (number,) = [m for m in report.measurements if m.name == "other_lanes_below_count"]
    assert number.caveats == (f"{LANE} breaks comparable, cases",)


def test_no_word_says_that_authority_was_granted() -> None:
    for records, policy in ((good_lane(), named()), (good_lane(), BOTH)):
        words = str(promotion(records, policy)).lower()
        assert "candidate for discussion" in words
        assert "no authority is granted" in words
        rest = words.replace("no authority is granted", "")
        assert not re.search(r"grant|authoris|authoriz|is promoted|may act|go live", rest)
