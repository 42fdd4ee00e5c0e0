"""The page about the lifecycle shows the table of moves as it is, and the policy's defaults."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from gatemark.release.lifecycle.model.nouns import CANARY_SHARES, Stage
from gatemark.release.lifecycle.model.release_policy import DEFAULT_GATES, GATES
from gatemark.release.lifecycle.model.stages import MOVES, Move

RANK = {
    "draft": 0,
    "rejected": 0,
    "demoted": 0,
    "rolled_back": 0,
    "retired": 0,
    "superseded": 0,
    "evaluating": 1,
    "eligible": 2,
    "shadow": 3,
    "canary_1": 4,
    "canary_5": 5,
    "canary_25": 6,
    "enabled": 7,
}
"""How much authority a stage carries. A step to a higher rank above evaluating needs evidence."""
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "lifecycle.md"


EVIDENCE_WORDS = {
    "none": "nothing",
    "required_pack": "a passing result of the required pack, newer than any demotion",
    "failed_required_pack": "a failed result of the required pack",
    "shadow": (
        "the required-pack result, and a passing comparison with the live version made in shadow"
    ),
    "windows": "the results so far, and clean canary windows",
    "original": "the results it was enabled by",
    "earlier": "a passing result of any age",
}


def move_rows() -> list[str]:
    """One row per kind of move, those that differ only in where they start together."""

    def kind(row: Move) -> tuple[object, ...]:
        return (row.after, row.cause, row.roles, row.evidence, row.is_approved, row.only_if)

    rows = []
    for _, several in groupby(MOVES, key=kind):
        moves = list(several)
        first = moves[0]
        starts = ", ".join(row.before for row in moves)
        who = ", ".join(first.roles)
        approvals = "needed" if first.is_approved else "none"
        evidence = EVIDENCE_WORDS[first.evidence]
        if first.only_if:
            evidence += f"; only while {first.only_if}"
        rows.append(
            f"| {starts} | {first.after} | {first.cause} | {who} | {evidence} | {approvals} |"
        )
    return rows


def gate_rows() -> list[str]:
    rows = []
    for gate in GATES:
        rule = DEFAULT_GATES[gate]
        stages = ", ".join(rule.stages)
        over = "yes, with a note" if rule.overridable else "no"
        rows.append(f"| {gate} | {stages} | {rule.on_fail} | {rule.on_unjudged} | {over} |")
    return rows


def test_the_page_shows_every_move() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("| From | To |")[2].partition("\n\n")[0]
    assert [line for line in table.splitlines() if line.startswith("| ")] == move_rows()


def test_the_page_shows_every_gate_with_its_defaults() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("| Gate | Checked before |")[2].partition("\n\n")[0]
    assert [line for line in table.splitlines() if line.startswith("| ")] == gate_rows()


def test_every_stage_is_in_the_table_of_moves_and_two_need_an_approval() -> None:
    stages = set(Stage.__args__)  # type: ignore[attr-defined]
    assert stages == set(RANK)
    assert {row.before for row in MOVES} | {row.after for row in MOVES} == stages
    assert set(CANARY_SHARES) <= stages
    approved = {row.after for row in MOVES if row.is_approved}
    assert approved == {"canary_1", "enabled"}


def test_no_move_is_listed_twice() -> None:
    keys = [(row.before, row.after, row.cause) for row in MOVES]
    assert len(keys) == len(set(keys))


def test_every_step_up_in_authority_rests_on_evidence() -> None:
    for row in MOVES:
        if RANK[row.after] > RANK[row.before] and RANK[row.after] >= RANK["eligible"]:
            assert row.evidence != "none", row
        if row.after in ("canary_1", "enabled") and row.cause == "promote":
            assert row.is_approved, row
            assert "system" not in row.roles, row
