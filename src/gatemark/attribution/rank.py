"""The ladder of evidence: replay over recorded checks over company, most suspect step first.

A step that was repaired and made the end right is the cause. Among steps whose repair helps about
as much, the one furthest down the plan is named: running an early step again runs the later ones
too, so repairing an innocent ancestor of a broken step helps just as much as repairing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from gatemark.attribution.replay import Effect
from gatemark.attribution.spectrum import Suspicion
from gatemark.core.attribution import Confidence
from gatemark.core.decision import Decision, Step

CHECK_FAILED, STEP_FAILED = "recorded check failed", "the step ended in an error"


class Suspect(msgspec.Struct, frozen=True):
    """One step with everything that speaks against it."""

    step: str
    confidence: Confidence
    effect: Effect | None
    recorded: tuple[str, ...]
    company: float | None


def rank(
    decision: Decision, effects: Sequence[Effect], spectrum: Sequence[Suspicion]
) -> tuple[Suspect, ...]:
    """Every step, the most suspect first."""
    by_step = {effect.step: effect for effect in effects}
    ochiai = {one.part: one.ochiai for one in spectrum}
    position = {step.id: number for number, step in enumerate(decision.steps)}
    best = _best(effects)
    suspects = [
        _suspect(decision, step, by_step.get(step.id), ochiai, best) for step in decision.steps
    ]

    def key(suspect: Suspect) -> tuple[float, ...]:
        near = _is_near(suspect.effect, best)
        effect = suspect.effect.effect if suspect.effect and suspect.effect.effect else 0.0
        return (
            -float(near),
            -float(position[suspect.step]) if near else -effect,
            -float(len(suspect.recorded)),
            -(suspect.company or 0.0),
            float(position[suspect.step]),
        )

    return tuple(sorted(suspects, key=key))


def _best(effects: Sequence[Effect]) -> Effect | None:
    known = [e for e in effects if e.effect is not None and e.interval and e.interval.low > 0]
    return max(known, key=lambda e: e.effect or 0.0, default=None)


def _is_near(effect: Effect | None, best: Effect | None) -> bool:
    """Whether a repair helped about as much as the best one did."""
    if effect is None or best is None or best.interval is None:
        return False
    if effect.effect is None or effect.interval is None:
        return False
    return effect.interval.low > 0 and effect.effect >= best.interval.low


def _suspect(
    decision: Decision,
    step: Step,
    effect: Effect | None,
    ochiai: Mapping[str, float | None],
    best: Effect | None,
) -> Suspect:
    recorded = _recorded(decision, step)
    parts = [f"{name}@{version}" for name, version in step.components()]
    company = max((ochiai.get(part) or 0.0 for part in parts), default=0.0) if ochiai else None
    confidence: Confidence = "none"
    if _is_near(effect, best):
        confidence = "high"
    elif recorded:
        confidence = "medium"
    elif company:
        confidence = "low"
    return Suspect(step.id, confidence, effect, recorded, company)


def _recorded(decision: Decision, step: Step) -> tuple[str, ...]:
    """What was on record against a step whose own sources had nothing against them."""
    marks = []
    if step.error is not UNSET:
        marks.append(STEP_FAILED)
    marks.extend(f"{CHECK_FAILED}: {check.pack}/{check.rule}" for check in step.failed_checks)
    spoiled = [
        source
        for source in decision.steps
        if source.id in step.sources and (source.failed_checks or source.error is not UNSET)
    ]
    return () if spoiled else tuple(marks)
