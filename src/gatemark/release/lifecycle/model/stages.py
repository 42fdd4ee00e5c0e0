"""The table of legal moves. A move that is not in it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from gatemark.core.result import AssetKind
from gatemark.release.lifecycle.model.nouns import Cause, Role, Stage

Evidence = Literal[
    "none", "required_pack", "failed_required_pack", "shadow", "windows", "original", "earlier"
]


class Move(msgspec.Struct, frozen=True):
    """One legal move: from where to where, why, by whom, and on what evidence."""

    before: Stage
    after: Stage
    cause: Cause
    roles: tuple[Role, ...]
    evidence: Evidence
    is_approved: bool = False
    only_if: str = ""


_DRAFTERS: Final[tuple[Role, ...]] = ("author", "evaluator", "system")
_JUDGES: Final[tuple[Role, ...]] = ("evaluator", "system")
_HANDS: Final[tuple[Role, ...]] = ("operator", "approver", "system")
_STEPPERS: Final[tuple[Role, ...]] = ("operator", "approver")
_MACHINE: Final[tuple[Role, ...]] = ("system",)
_OPERATOR: Final[tuple[Role, ...]] = ("operator",)
_NO_BASELINE: Final = "no version is enabled, so that a canary would have nothing to compare with"

MOVES: Final[tuple[Move, ...]] = (
    Move("draft", "evaluating", "promote", _DRAFTERS, "none"),
    Move("rejected", "evaluating", "promote", _DRAFTERS, "none"),
    Move("demoted", "evaluating", "promote", _DRAFTERS, "none"),
    Move("rolled_back", "evaluating", "promote", _DRAFTERS, "none"),
    Move("evaluating", "eligible", "promote", _JUDGES, "required_pack"),
    Move("evaluating", "rejected", "promote", _JUDGES, "failed_required_pack"),
    Move("eligible", "shadow", "promote", _HANDS, "required_pack"),
    Move("shadow", "canary_1", "promote", _STEPPERS, "shadow", is_approved=True),
    Move(
        "shadow",
        "enabled",
        "promote",
        _STEPPERS,
        "required_pack",
        is_approved=True,
        only_if=_NO_BASELINE,
    ),
    Move("canary_1", "canary_5", "ramp", _MACHINE, "windows"),
    Move("canary_5", "canary_25", "ramp", _MACHINE, "windows"),
    Move("canary_25", "enabled", "promote", _STEPPERS, "windows", is_approved=True),
    Move("enabled", "superseded", "supersede", ("operator", "approver", "system"), "none"),
    *(
        Move(before, "retired", "promote", _OPERATOR, "none")
        for before in (
            "draft",
            "evaluating",
            "rejected",
            "eligible",
            "shadow",
            "enabled",
            "superseded",
            "demoted",
            "rolled_back",
        )
    ),
    *(
        Move(before, "shadow", "demote", _HANDS, "none")
        for before in ("canary_1", "canary_5", "canary_25", "enabled")
    ),
    *(
        Move(before, "demoted", "demote", _HANDS, "none")
        for before in ("shadow", "canary_1", "canary_5", "canary_25", "enabled")
    ),
    *(
        Move(before, "rolled_back", "rollback", _HANDS, "none")
        for before in ("canary_1", "canary_5", "canary_25", "enabled")
    ),
    Move("superseded", "enabled", "rollback", _HANDS, "original"),
    *(
        Move(before, "enabled", "break_glass", _OPERATOR, "earlier")
        for before in ("eligible", "shadow", "canary_1", "canary_5", "canary_25", "superseded")
    ),
)
"""Every move a version can make. Rows with the same (before, after) differ in their cause."""

FALLEN: Final[frozenset[Stage]] = frozenset({"rejected", "demoted", "rolled_back"})
"""Stages that a version can leave only with a fresh result of the required pack."""

EVIDENCED: Final[frozenset[Stage]] = frozenset(
    {"eligible", "shadow", "canary_1", "canary_5", "canary_25", "enabled", "superseded"}
)
"""Stages that require cited results."""

AUTHORITY: Final[Mapping[Stage, int]] = {
    "eligible": 1,
    "shadow": 2,
    "canary_1": 3,
    "canary_5": 4,
    "canary_25": 5,
    "superseded": 6,
    "enabled": 7,
}
"""How far up a stage is; 0 for stages that give no traffic. A superseded version may return."""

CANARY: Final[tuple[Stage, ...]] = ("canary_1", "canary_5", "canary_25")

LANE: Final = "lane"
"""The kind of an advisory lane: people discuss it, it gets no traffic and decides nothing."""
LANE_NOTE: Final = (
    "An advisory lane is a candidate for discussion. Its last stage is shadow; no stage gives it "
    "authority."
)
_LANE_STAGES: Final[frozenset[Stage]] = frozenset(
    {"draft", "evaluating", "rejected", "eligible", "shadow", "demoted", "retired"}
)
_LANE_MOVES: Final[tuple[Move, ...]] = tuple(
    msgspec.structs.replace(row, roles=_STEPPERS, is_approved=True)
    if (row.before, row.after) == ("eligible", "shadow")
    else row
    for row in MOVES
    if {row.before, row.after} <= _LANE_STAGES
)
"""The moves of an advisory lane: people approve its packet before it goes to shadow."""


def moves_of(kind: AssetKind | None) -> tuple[Move, ...]:
    """Return the moves that a version of this kind can make."""
    return _LANE_MOVES if kind == LANE else MOVES


def lane_of(asset: str) -> str:
    """Return the lane of an asset: the first dot of its name stands for the slash."""
    return asset.replace(".", "/", 1)


def move(before: Stage, after: Stage, cause: Cause, kind: AssetKind | None = None) -> Move | None:
    """Return the row of the table, or None if there is none."""
    for row in moves_of(kind):
        if (row.before, row.after, row.cause) == (before, after, cause):
            return row
    return None


def describe_legal_moves(before: Stage, kind: AssetKind | None = None) -> str:
    """Return the stages that can be reached from one, and how; for error messages."""
    rows = [row for row in moves_of(kind) if row.before == before]
    if not rows:
        return f"nothing leads out of {before}"
    return "legal from " + before + ": " + ", ".join(f"{row.after} ({row.cause})" for row in rows)
