"""Rank steps by evidence: replay, then versions, then records, then company; worst first.

A step that was repaired and made the end right is the cause. Among steps whose repair helps about
as much, the one furthest down the plan is named: running an early step again runs the later ones
too, so repairing an innocent ancestor of a broken step helps just as much as repairing it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.attribution.decision import DecisionStep, PlannedDecision
from gatemark.attribution.nouns import Confidence
from gatemark.attribution.replay import Effect
from gatemark.attribution.spectrum import Suspicion, parts_of_step

SURELY: Final = 0.1
"""Minimum rate of right outcomes that is not an accident."""
CHECK_FAILED, STEP_FAILED = "recorded check failed", "the step ended in an error"


class Suspect(msgspec.Struct, frozen=True):
    """One step with everything that speaks against it.

    ``versions`` are those of its components that make the decision go wrong all by themselves.
    """

    step: str
    confidence: Confidence
    effect: Effect | None
    recorded: tuple[str, ...]
    company: float | None
    versions: tuple[str, ...] = ()


def rank(
    decision: PlannedDecision,
    effects: Sequence[Effect],
    spectrum: Sequence[Suspicion],
    guilty: Collection[str] = (),
) -> tuple[Suspect, ...]:
    """Every step, the most suspect first; ``guilty`` is the smallest set of changed components."""
    by_step = {effect.step: effect for effect in effects}
    company = _company(decision, spectrum)
    position = {step.id: number for number, step in enumerate(decision.steps)}
    best = _best(effects)
    suspects = [
        msgspec.structs.replace(
            _suspect(decision, step, by_step.get(step.id), company, best),
            versions=tuple(name for name, _ in step.components() if name in guilty),
        )
        for step in decision.steps
    ]
    suspects = [_by_versions(suspect) for suspect in suspects]

    def key(suspect: Suspect) -> tuple[float, ...]:
        near = _is_near(suspect.effect, best)
        effect = suspect.effect.effect if suspect.effect and suspect.effect.effect else 0.0
        return (
            -float(near),
            -float(position[suspect.step]) if near else -effect,
            -float(len(suspect.versions)),
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


def _by_versions(suspect: Suspect) -> Suspect:
    """Where no single repair mends the end, a change that spoils it alone still speaks."""
    if suspect.versions and suspect.confidence in {"low", "none"}:
        return msgspec.structs.replace(suspect, confidence="medium")
    return suspect


def _suspect(
    decision: PlannedDecision,
    step: DecisionStep,
    effect: Effect | None,
    companies: Mapping[str, float],
    best: Effect | None,
) -> Suspect:
    recorded = _recorded(decision, step)
    company = companies.get(step.id)
    confidence: Confidence = "none"
    if effect is not None and effect.interval is not None and _is_near(effect, best):
        confidence = "high" if effect.interval.low >= SURELY else "medium"
    elif recorded:
        # Taking the step anew mended nothing: what was on record against it is hardly the cause.
        confidence = "medium" if effect is None or effect.effect is None else "low"
    elif company:
        confidence = "low"
    return Suspect(step.id, confidence, effect, recorded, company)


def _company(decision: PlannedDecision, spectrum: Sequence[Suspicion]) -> dict[str, float]:
    """How much the parts of each step go with wrong decisions.

    What all steps share tells none of them apart, so a step that stands out no more than the
    least suspicious one has no company at all.
    """
    ochiai = {one.part: one.ochiai for one in spectrum if one.ochiai is not None}
    if not ochiai:
        return {}
    found = {
        step.id: max((ochiai.get(part, 0.0) for part in parts_of_step(step)), default=0.0)
        for step in decision.steps
    }
    known = [found[step.id] for step in decision.steps if parts_of_step(step)]
    least = min(known, default=0.0) if len(known) > 1 else 0.0
    return {step: value if value > least else 0.0 for step, value in found.items()}


def _recorded(decision: PlannedDecision, step: DecisionStep) -> tuple[str, ...]:
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
