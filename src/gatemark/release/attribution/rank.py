"""Rank the steps by the evidence against them, most suspect first.

Evidence counts in this order: replay, versions, recorded checks and errors, clues, co-occurrence.

A step whose repair makes the outcome right is the cause. Among steps whose repair helps about as
much, the last one is named: running an early step again runs the later ones too, so repairing an
innocent step before a broken one helps just as much as repairing the broken one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.release.attribution.clues import LIKELY, TOOL, StepLikelihood, find_named_step
from gatemark.release.attribution.decision import DecisionStep, PlannedDecision
from gatemark.release.attribution.nouns import Confidence
from gatemark.release.attribution.replay import Effect
from gatemark.release.attribution.spectrum import Suspicion, list_step_parts

SURELY: Final = 0.1
"""Minimum rate of right outcomes after a repair for high confidence."""
CHECK_FAILED, STEP_FAILED = "recorded check failed", "the step ended in an error"
CALL_FAILED = "a tool that it called ended in an error"


class Suspect(msgspec.Struct, frozen=True):
    """One step with the evidence against it.

    ``versions`` are its components in the smallest change that makes the decision go wrong.
    ``failed_calls`` are the tools it called that ended in an error.
    """

    step: str
    confidence: Confidence
    effect: Effect | None
    recorded: tuple[str, ...]
    company: float | None
    versions: tuple[str, ...] = ()
    failed_calls: tuple[str, ...] = ()
    likelihood: StepLikelihood | None = None


def rank_suspects(
    decision: PlannedDecision,
    effects: Sequence[Effect],
    spectrum: Sequence[Suspicion],
    guilty: Collection[str] = (),
    *,
    changed: Collection[str] = (),
    likely: Sequence[StepLikelihood] = (),
) -> tuple[Suspect, ...]:
    """Return every step, most suspect first.

    ``guilty`` is the smallest set of changed components that goes wrong, ``changed`` are all
    components with an unusual version, and ``likely`` is what the clues say.
    """
    by_step = {effect.step: effect for effect in effects}
    company = _measure_company(decision, spectrum)
    position = {step.id: number for number, step in enumerate(decision.steps)}
    best = _choose_best(effects)
    clues = {one.step: one for one in likely}
    named = find_named_step(decision, likely) if likely else None
    suspects = [
        msgspec.structs.replace(
            _make_suspect(decision, step, by_step.get(step.id), company, best, changed=changed),
            versions=tuple(name for name, _ in step.components() if name in guilty),
            likelihood=clues.get(step.id),
        )
        for step in decision.steps
    ]
    suspects = [_set_by_clues(_raise_by_versions(suspect), named) for suspect in suspects]

    def key(suspect: Suspect) -> tuple[float, ...]:
        near = _is_near(suspect.effect, best)
        effect = suspect.effect.effect if suspect.effect and suspect.effect.effect else 0.0
        return (
            -float(near),
            -float(position[suspect.step]) if near else -effect,
            -float(len(suspect.versions)),
            -float(len(suspect.recorded)),
            -(suspect.likelihood.probability if suspect.likelihood else 0.0),
            -float(len(suspect.failed_calls)),
            -(suspect.company or 0.0),
            float(position[suspect.step]),
        )

    return tuple(sorted(suspects, key=key))


def _choose_best(effects: Sequence[Effect]) -> Effect | None:
    known = [e for e in effects if e.effect is not None and e.interval and e.interval.low > 0]
    return max(known, key=lambda e: e.effect or 0.0, default=None)


def _is_near(effect: Effect | None, best: Effect | None) -> bool:
    """Return whether a repair helped about as much as the best one."""
    if effect is None or best is None or best.interval is None:
        return False
    if effect.effect is None or effect.interval is None:
        return False
    return effect.interval.low > 0 and effect.effect >= best.interval.low


def _raise_by_versions(suspect: Suspect) -> Suspect:
    """Raise the confidence of a step with versions of the smallest change that goes wrong."""
    if suspect.versions and suspect.confidence in {"low", "none"}:
        return msgspec.structs.replace(suspect, confidence="medium")
    return suspect


def _set_by_clues(suspect: Suspect, named: StepLikelihood | None) -> Suspect:
    """Set the confidence of the step that the clues name, and of no other by clues alone."""
    if suspect.likelihood is None or suspect.recorded or suspect.versions:
        return suspect
    if named is None or suspect.step != named.step:
        return msgspec.structs.replace(suspect, confidence="none")
    confidence: Confidence = "medium" if named.probability >= LIKELY else "low"
    return msgspec.structs.replace(suspect, confidence=confidence)


def _make_suspect(
    decision: PlannedDecision,
    step: DecisionStep,
    effect: Effect | None,
    companies: Mapping[str, float],
    best: Effect | None,
    *,
    changed: Collection[str],
) -> Suspect:
    recorded = _list_recorded(decision, step, changed)
    failed_calls = _list_failed_calls(decision, step, changed)
    company = companies.get(step.id)
    confidence: Confidence = "none"
    if effect is not None and effect.interval is not None and _is_near(effect, best):
        confidence = "high" if effect.interval.low >= SURELY else "medium"
    elif recorded:
        # Running the step again did not help, so the recorded failure is hardly the cause.
        confidence = "medium" if effect is None or effect.effect is None else "low"
    elif company or (failed_calls and (effect is None or effect.effect is None)):
        confidence = "low"
    return Suspect(step.id, confidence, effect, recorded, company, failed_calls=failed_calls)


def _measure_company(decision: PlannedDecision, spectrum: Sequence[Suspicion]) -> dict[str, float]:
    """Return how much the components of each step occur with wrong decisions.

    What all steps share does not distinguish them, so a step that stands out no more than the least
    suspicious one gets 0.
    """
    ochiai = {one.part: one.ochiai for one in spectrum if one.ochiai is not None}
    if not ochiai:
        return {}
    found = {
        step.id: max((ochiai.get(part, 0.0) for part in list_step_parts(step)), default=0.0)
        for step in decision.steps
    }
    known = [found[step.id] for step in decision.steps if list_step_parts(step)]
    least = min(known, default=0.0) if len(known) > 1 else 0.0
    return {step: value if value > least else 0.0 for step, value in found.items()}


def _list_recorded(
    decision: PlannedDecision, step: DecisionStep, changed: Collection[str]
) -> tuple[str, ...]:
    """Return what was recorded against a step whose sources have no such record."""
    marks = []
    if step.error is not UNSET and not _find_callers(decision, step, changed):
        marks.append(STEP_FAILED)
    marks.extend(f"{CHECK_FAILED}: {check.pack}/{check.rule}" for check in step.failed_checks)
    return () if _is_spoiled(decision, step) else tuple(marks)


def _list_failed_calls(
    decision: PlannedDecision, step: DecisionStep, changed: Collection[str]
) -> tuple[str, ...]:
    """Return tools that a step called and that failed, though they had not changed."""
    if _is_spoiled(decision, step):
        return ()
    return tuple(
        other.id
        for other in decision.steps
        if other.error is not UNSET and step.id in _find_callers(decision, other, changed)
    )


def _find_callers(
    decision: PlannedDecision, step: DecisionStep, changed: Collection[str]
) -> tuple[str, ...]:
    """Return the steps to blame for a tool error: its sources, unless the tool changed."""
    if step.kind != TOOL or any(name in changed for name, _ in step.components()):
        return ()
    return tuple(
        source.id for source in decision.steps if source.id in step.sources and source.kind != TOOL
    )


def _is_spoiled(decision: PlannedDecision, step: DecisionStep) -> bool:
    """Return whether a source of a step failed, so that the step only passed it on."""
    return any(
        source.failed_checks or source.error is not UNSET
        for source in decision.steps
        if source.id in step.sources
    )
