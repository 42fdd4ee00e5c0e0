"""Real inputs of a shadow are no fixtures: they count in the rates, not towards the minimum."""

from __future__ import annotations

from typing import Any

import pytest

from .decisions import (
    ACTION,
    FALSE_ALARM,
    LANE,
    NORMAL,
    UNSURE,
    decision,
    findings_of,
    good_lane,
    named,
    summary_of,
)
from .test_inputs import with_content

INPUTS = f"{LANE}.inputs"


def real(*changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the harness records about an input of a shadow."""
    found: dict[str, Any] = {
        "source.kind": "human_review",
        "source.fixture_set": "inputs",
        "service.mode": "shadow",
        "human_or_atlas_decision.source": "human_label",
    }
    for change in changes:
        found |= change
    return {**found, "notes": [], **more}


def runs(kinds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        decision(1_000 * run + place, kind, run=f"run:{run}", fixture=place)
        for run in range(3)
        for place, kind in enumerate(kinds)
    ]


def test_a_signal_of_atlas_contradicts_no_reference() -> None:
    atlas = real({"source.kind": "atlas_shadow", "human_or_atlas_decision.source": "atlas_shadow"})
    kinds = [NORMAL] * 16 + [ACTION] * 10 + [FALSE_ALARM] * 10 + [UNSURE] * 4
    records = with_content(runs([*kinds, {**ACTION, **atlas}]), "case_0040", "case_0000")
    assert findings_of(records, named())[INPUTS].verdict == "pass"


def test_inputs_of_a_shadow_do_not_fill_the_minimum() -> None:
    """Nobody sees which real inputs were left out; they count in the rates only."""
    kinds = [NORMAL, ACTION, FALSE_ALARM, UNSURE, *[real()] * 28]
    found = summary_of(runs(kinds), named())
    assert found["verdict"] != "pass"
    assert found["promotion"]["candidate_lanes"] == []
    lane = found["lanes"][LANE]
    assert lane["comparable_inputs"] == 3
    assert lane["comparable_records"] == 93
    blockers = " ".join(found["promotion"]["lanes"][LANE]["blockers"])
    assert "28 inputs of a shadow do not count here" in blockers


@pytest.mark.parametrize(
    "disguise",
    [
        {"notes": ["case:action_needed"]},
        {"human_or_atlas_decision.source": "fixture_expected"},
        {"service.mode": "dry_run", "notes": ["case:action_needed"]},
        {"source.kind": "atlas_shadow", "notes": ["case:action_needed"]},
    ],
)
def test_an_input_of_a_shadow_is_no_fixture(disguise: dict[str, Any]) -> None:
    """It has neither a case nor an expected decision, in whatever mode it was asked."""
    kinds = [NORMAL] * 20 + [ACTION] * 10 + [FALSE_ALARM] * 10 + [UNSURE] * 4
    assert summary_of(runs([*kinds, real()]), named())["verdict"] == "pass"
    records = runs([*kinds, real() | disguise])
    assert findings_of(records, named())[INPUTS].verdict == "fail"
    (blocker,) = summary_of(records, named())["promotion"]["lanes"][LANE]["blockers"]
    assert "1 inputs of a shadow are recorded like fixtures" in blocker


def test_a_fixture_that_only_atlas_decided_is_no_disguise() -> None:
    decided = {"source.kind": "atlas_shadow", "human_or_atlas_decision.source": "atlas_shadow"}
    kinds = [NORMAL] * 20 + [ACTION] * 10 + [FALSE_ALARM] * 10 + [UNSURE] * 4
    found = findings_of(runs([*kinds, {**NORMAL, **decided}]), named())
    assert found[INPUTS].verdict == "pass"


def test_fixtures_that_are_asked_in_shadow_mode_are_fixtures() -> None:
    records = good_lane()
    for record in records:
        record["service"]["mode"] = "shadow"
    assert summary_of(records, named())["verdict"] == "pass"
