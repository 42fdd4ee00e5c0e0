"""Turn ranked suspects into the four answers and into proposals.

One answer is whether the verifier should have caught the step: a rule objected at the time, a rule
would object today, or there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import UNSET

from gatemark.core.canonical import digest
from gatemark.core.measurement import Interval
from gatemark.release.attribution.clues import (
    MIN_PROBABILITY,
    StepLikelihood,
    estimate_likelihoods,
    is_measured,
    sum_by_name,
)
from gatemark.release.attribution.decision import DecisionStep, PlannedDecision
from gatemark.release.attribution.delta import Minimal
from gatemark.release.attribution.nouns import (
    SCHEMA,
    Attribution,
    ChangeSet,
    PlanStep,
    Remedy,
    ReplayFact,
    SuspectLine,
    VerifierFinding,
    add_id,
)
from gatemark.release.attribution.rank import CALL_FAILED, Suspect, rank_suspects
from gatemark.release.attribution.replay import Effect
from gatemark.release.attribution.rules import RulePack, find_objections
from gatemark.release.attribution.spectrum import Suspicion


def should_have_caught(
    decision: PlannedDecision, step: DecisionStep, packs: tuple[RulePack, ...]
) -> VerifierFinding:
    """Return whether a rule objected at the time, or would object today.

    Without a current rule pack, the second question stays unanswered.
    """
    then = tuple(
        (f"{check.pack}/{check.rule}", "objected when the decision was taken")
        for check in step.failed_checks
    )
    if then:
        return VerifierFinding("caught_then", then)
    now = find_objections(packs, decision, step)
    if now:
        return VerifierFinding("catchable_now", now)
    return VerifierFinding("no_rule" if packs else "not_asked", ())


SHOWN_PARTS = 20
NOTHING_KNOWN = "no recorded evidence points to a step, and no step could be run again"
ALONE = "alone makes the decision go wrong"
TOGETHER = "belongs to the smallest change that makes the decision go wrong"
NOTHING_HELPED = (
    "no recorded evidence points to a step, and repeating any single step does not fix the decision"
)


def conclude_attribution(
    decision: PlannedDecision,
    *,
    effects: Sequence[Effect],
    company: Sequence[Suspicion],
    packs: tuple[RulePack, ...],
    replay: ReplayFact,
    changes: Minimal | None,
    changed: Collection[str] = (),
) -> Attribution:
    """Return the attribution of one wrong decision.

    ``changed`` are the components with an unusual version. The clues of the record are read only if
    no step could be run again, because replay is more reliable.
    """
    guilty = () if changes is None or changes.reason is not None else changes.changes
    alone = len(guilty) == 1
    reads_clues = is_measured(decision) and not any(one.effect is not None for one in effects)
    likely = estimate_likelihoods(decision, changed) if reads_clues else ()
    suspects = rank_suspects(decision, effects, company, guilty, changed=changed, likely=likely)
    cause = suspects[0] if suspects[0].confidence != "none" else None
    step = None if cause is None else decision.step(cause.step)
    verifier = None if step is None else should_have_caught(decision, step, packs)
    return add_id(
        Attribution(
            id="",
            schema=SCHEMA,
            decision=decision.id,
            decision_digest=digest(decision),
            cause=None if step is None else step.id,
            reason=None if step is not None else _explain_missing_cause(effects, likely),
            suspects=tuple(
                _make_suspect_line(
                    number, suspect, decision.step(suspect.step), ALONE if alone else TOGETHER
                )
                for number, suspect in enumerate(suspects, start=1)
            ),
            active=_find_active_versions(decision, step),
            verifier=verifier,
            replay=replay,
            changes=_change_set(decision, replay, changes),
            company=tuple(
                (one.part, one.ochiai) for one in company[:SHOWN_PARTS] if one.ochiai is not None
            ),
            proposals=()
            if step is None or verifier is None
            else _propose_remedies(decision, step, verifier),
            plan=tuple(PlanStep(s.id, s.kind, s.name, s.sources) for s in decision.steps),
            by_name=_rank_names(decision, likely),
        )
    )


def _explain_missing_cause(effects: Sequence[Effect], likely: Sequence[StepLikelihood]) -> str:
    if likely:
        highest = max(one.probability for one in likely)
        return (
            "no step could be run again, and the record does not point to one: "
            f"the most likely has a probability of {highest:.2f}, below {MIN_PROBABILITY:g}"
        )
    ran = any(effect.effect is not None for effect in effects)
    return NOTHING_HELPED if ran else NOTHING_KNOWN


def _rank_names(
    decision: PlannedDecision, likely: Sequence[StepLikelihood]
) -> tuple[tuple[str, float], ...]:
    shares = sum_by_name(decision, likely) if likely else {}
    return tuple(sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_PARTS])


def _make_suspect_line(
    number: int, suspect: Suspect, step: DecisionStep, what_versions_do: str
) -> SuspectLine:
    effect = suspect.effect
    return SuspectLine(
        rank=number,
        step=step.id,
        kind=step.kind,
        name=step.name,
        confidence=suspect.confidence,
        why=_explain_suspect(suspect, what_versions_do),
        right_after_repair=None if effect is None else effect.effect,
        interval=None if effect is None else _get_ends(effect.interval),
        by_versions=None if effect is None else effect.by_versions,
        by_versions_interval=None if effect is None else _get_ends(effect.versions_interval),
        recorded=suspect.recorded,
        company=suspect.company,
        probability=None if suspect.likelihood is None else suspect.likelihood.probability,
    )


def _get_ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _explain_suspect(suspect: Suspect, what_versions_do: str) -> str:
    said = []
    effect = suspect.effect
    if effect is not None and effect.effect is not None:
        tally = effect.repaired
        how = "with the reference versions" if effect.by_versions is not None else "run again"
        said.append(f"{how}, {tally.right} of {tally.judged} ends were right")
        if effect.by_versions is not None and effect.rerun.judged:
            said.append(f"{effect.rerun.right} of {effect.rerun.judged} with nothing changed")
    elif effect is not None:
        said.append(f"could not be run again: {effect.reason}")
    if suspect.versions:
        said.append(f"{', '.join(suspect.versions)} {what_versions_do}")
    said.extend(suspect.recorded)
    if suspect.likelihood is not None:
        clues = ", ".join(suspect.likelihood.clues) or "no clue against it"
        said.append(f"probability {suspect.likelihood.probability:.2f}: {clues}")
    elif suspect.failed_calls:
        said.append(f"{CALL_FAILED}: {', '.join(suspect.failed_calls)}")
    if suspect.company:
        said.append(f"its versions occur with wrong decisions (Ochiai {suspect.company:.2f})")
    return "; ".join(said) or "no evidence against it"


def _find_active_versions(decision: PlannedDecision, step: DecisionStep | None) -> dict[str, str]:
    """Return the versions at the cause, and those of earlier steps for kinds it lacks."""
    if step is None:
        return {}
    active = dict(step.components())
    kinds = {name.partition(":")[0] for name in active}
    for source in reversed(_list_upstream(decision, step)):
        for name, version in source.components():
            if name.partition(":")[0] not in kinds:
                active[f"upstream {name}"] = version
    return active


def _list_upstream(decision: PlannedDecision, step: DecisionStep) -> list[DecisionStep]:
    wanted = set(step.sources)
    found = []
    for other in reversed(decision.steps):
        if other.id in wanted:
            wanted |= set(other.sources)
            found.append(other)
    return list(reversed(found))


def _change_set(
    decision: PlannedDecision, replay: ReplayFact, changes: Minimal | None
) -> ChangeSet | None:
    if changes is None:
        return None
    active = decision.pins()
    changed = tuple(
        sorted(name for name, version in replay.reference.items() if active.get(name) != version)
    )
    return ChangeSet(
        changed=changed,
        smallest=changes.changes,
        is_minimal=changes.is_minimal,
        tests=changes.tests,
        unknown=changes.unknown,
        reason=changes.reason,
    )


def _propose_remedies(
    decision: PlannedDecision, step: DecisionStep, verifier: VerifierFinding
) -> tuple[Remedy, ...]:
    found = []
    judgement = decision.judgement
    if judgement is not UNSET and judgement.expected is not UNSET:
        content: dict[str, object] = {
            "id": f"attributed-{decision.id}",
            "input": decision.input,
            "target": judgement.expected,
            "tags": {"cause": step.name, "from": "attribution"},
        }
        summary = "ask this question in the golden suite, with the reviewer's answer as the target"
        found.append(Remedy("golden_item", summary, content))
    else:
        content = {"id": f"attributed-{decision.id}", "input": decision.input}
        summary = "make a probe of this question; its right answer is not known yet"
        found.append(Remedy("adversarial_item", summary, content))
    if verifier.catch != "caught_then":
        words = {
            "catchable_now": "run the rule that objects today over this kind of step",
            "no_rule": "no rule objects to this output; write one",
            "not_asked": "no rule pack was given; give today's rules with --rules",
        }
        content = {"step": step.name, "kind": step.kind, "rules": [r for r, _ in verifier.rules]}
        found.append(Remedy("rule_gap", words[verifier.catch], content))
    components = dict(step.components())
    if components:
        summary = "route around these versions until the cause is fixed"
        found.append(Remedy("routing_note", summary, {"avoid": components}))
    return tuple(found)
