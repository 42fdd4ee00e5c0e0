"""Every output says which records are wrong, unsure or violating, worst first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gatemark.plugins.advisory.chat_message import MESSAGE_CHARS_MAX, render_message
from gatemark.plugins.advisory.wrong_records import SHOWN_WRONG

from .decisions import (
    ACTION,
    FALSE_NEGATIVE,
    FALSE_POSITIVE,
    LANE,
    NORMAL,
    UNSURE,
    WRONG,
    exam_of,
    numbered,
    report_of,
    summary_of,
    typed,
)

Run = Callable[..., Any]
Write = Callable[..., Path]
_SENT: dict[str, Any] = {"authority_flags.can_send_outbound": True}
_KINDS = [NORMAL, ACTION, UNSURE, WRONG, FALSE_POSITIVE, FALSE_NEGATIVE, _SENT]


def test_wrong_records_are_named_worst_first_with_expected_and_given() -> None:
    wrong = summary_of(numbered(_KINDS))["wrong_records"]
    assert [(one["problem"], one["fixture_id"]) for one in wrong["worst"]] == [
        ("authority_violation", "case_0006"),
        ("false_negative", "case_0005"),
        ("false_positive", "case_0004"),
        ("disagree", "case_0003"),
        ("uncertain", "case_0002"),
    ]
    assert wrong["total"] == 5
    missed = wrong["worst"][1]
    assert (missed["expected"], missed["given"]) == ("escalate/high", "suppress/high")
    assert (missed["run"], missed["lane"]) == ("run:1", LANE)
    assert missed["decision_id"] == f"01J{5:023d}"


def test_the_list_is_bounded_and_states_the_total() -> None:
    wrong = summary_of(numbered([WRONG, FALSE_NEGATIVE] * 300))["wrong_records"]
    assert wrong["total"] == 600
    assert wrong["by_problem"] == {"false_negative": 300, "disagree": 300}
    assert len(wrong["worst"]) <= SHOWN_WRONG
    assert {one["problem"] for one in wrong["worst"]} == {"false_negative", "disagree"}


def test_right_records_are_not_listed() -> None:
    assert summary_of(numbered([NORMAL, ACTION]))["wrong_records"] == {
        "total": 0,
        "by_problem": {},
        "worst": [],
    }


def test_the_list_does_not_depend_on_how_the_evidence_is_split() -> None:
    records = numbered(_KINDS * 5)
    whole = report_of(records).facts["wrong_records"]
    exam = exam_of()
    parts = [exam.step(exam.zero(place), typed(records[place::3])) for place in range(3)]
    backwards = exam.merge(parts[2], exam.merge(parts[1], parts[0]))
    forwards = exam_of().merge(exam.merge(parts[0], parts[1]), parts[2])
    left, right = exam.finish(backwards).facts, exam.finish(forwards).facts
    assert left["wrong_records"] == right["wrong_records"]
    assert {one["decision_id"] for one in left["wrong_records"]["worst"]} == {
        one["decision_id"] for one in whole["worst"]
    }


def test_a_private_fixture_id_is_withheld() -> None:
    records = numbered([WRONG])
    records[0]["source"]["fixture_id"] = "ada@example.org"
    (one,) = summary_of(records)["wrong_records"]["worst"]
    assert one["fixture_id"] == "withheld"


def test_reports_and_messages_list_them(gatemark: Run, write_jsonl: Write, tmp_path: Path) -> None:
    file = write_jsonl("d.jsonl", numbered(_KINDS))
    page = tmp_path / "r.html"
    ran = gatemark("score", "advisory", file, "--out", tmp_path / "out", "-o", page)
    assert "Records to look at, worst first" in page.read_text()
    message = (tmp_path / "out" / "summary.md").read_text()
    assert "false_negative case_0005" in message
    assert message.index("**Lanes**") < message.index("**Promotion blockers**")
    assert "case_0005" in ran.out


def test_a_message_never_exceeds_its_bound() -> None:
    name = "n" * 120
    records = numbered([WRONG] * 20, lane=f"{name}/{name}")
    summary = summary_of(records) | {"generated_at": "2026-06-06T00:00:00Z"}
    summary["run_ids"] = ["r" * 600, "s" * 600, "t" * 600]
    message = render_message(summary).decode()
    assert len(message) <= MESSAGE_CHARS_MAX
    assert message.endswith("No authority is granted by this run.\n")


def test_rates_have_intervals() -> None:
    lane = summary_of(numbered([NORMAL] * 20))["lanes"][LANE]
    low, high = lane["intervals"]["agreement_rate"]
    assert 0.8 < low < 0.9
    assert high == 1.0
