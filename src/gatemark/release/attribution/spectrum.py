"""Components that occur with wrong decisions: Ochiai's coefficient over many runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
from msgspec import UNSET

from gatemark.release.attribution.decision import DecisionStep, PlannedDecision


class Suspicion(msgspec.Struct, frozen=True):
    """One component in one version, and how its use correlates with wrong decisions."""

    part: str
    wrong_with: int
    right_with: int
    ochiai: float | None


def rank_parts(decisions: Iterable[PlannedDecision]) -> tuple[Suspicion, ...]:
    """Return every component version, failed check and error, most suspicious first.

    Decisions without a judgement are left out. Without decisions of both kinds there is no
    coefficient.
    """
    wrong = right = 0
    with_part: dict[str, list[int]] = {}
    for decision in decisions:
        if decision.judgement is UNSET:
            continue
        is_wrong = decision.judgement.verdict == "wrong"
        wrong += is_wrong
        right += not is_wrong
        for part in list_parts(decision):
            with_part.setdefault(part, [0, 0])[0 if is_wrong else 1] += 1
    found = [
        Suspicion(part, bad, good, _compute_ochiai(bad, good, wrong) if right else None)
        for part, (bad, good) in with_part.items()
    ]
    return tuple(sorted(found, key=lambda one: (-(one.ochiai or 0.0), one.part)))


def list_parts(decision: PlannedDecision) -> frozenset[str]:
    """Return what a decision used or showed: versions, failed checks, errors."""
    return frozenset(part for step in decision.steps for part in list_step_parts(step))


def list_step_parts(step: DecisionStep) -> frozenset[str]:
    """Return what one step used or showed."""
    parts = {f"{name}@{version}" for name, version in step.components()}
    parts.update(f"check:{step.name}:{check.pack}/{check.rule}" for check in step.failed_checks)
    if step.error is not UNSET:
        parts.add(f"error:{step.name}")
    return frozenset(parts)


def _compute_ochiai(wrong_with: int, right_with: int, wrong: int) -> float | None:
    used = wrong_with + right_with
    return wrong_with / math.sqrt(wrong * used) if wrong and used else None
