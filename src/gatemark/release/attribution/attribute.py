"""``gatemark attribute``: rank and seal the causes of a wrong decision.

(1) Read the decision, and others to compare it with. (2) Run its steps again, if possible. (3) Find
the smallest change that still goes wrong. (4) Apply the current rules. (5) Rank, answer, propose,
and seal if requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.evidence.settings_file import read_settings
from gatemark.ledger.event import Event, EventDraft
from gatemark.release.attribution.conclude import conclude_attribution
from gatemark.release.attribution.decision import DecisionJudgement, PlannedDecision
from gatemark.release.attribution.decision_files import find_problems, read_decisions
from gatemark.release.attribution.delta import Minimal, find_smallest_change, make_versions_test
from gatemark.release.attribution.events import ATTRIBUTION_SEALED
from gatemark.release.attribution.nouns import Attribution, ReplayFact
from gatemark.release.attribution.replay import Effect, Experiment, LiveSteps, Oracle, RecordedSteps
from gatemark.release.attribution.rules import RulePack
from gatemark.release.attribution.spectrum import rank_parts
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace


class ReplayPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How steps are run again: by a target, or from the other decisions if there is none.

    ``reference`` names the versions to compare with; ``accept`` lists further outputs that count as
    right, such as handing the question to a person. After ``max_calls`` of a target, further
    outcomes are unknown.
    """

    reference: dict[str, str]
    target: dict[str, object] | None = None
    accept: tuple[object, ...] = ()
    repeats: Annotated[int, Meta(ge=1, le=10_000)] = 20
    seed: int = 0
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    max_calls: Annotated[int, Meta(ge=1)] = 50_000


class AttributeRequest(msgspec.Struct, frozen=True):
    """What to attribute, and how.

    ``id`` picks one of several decisions in a file; ``judgement`` is what a reviewer found, if the
    file does not have it yet.
    """

    decision: str
    id: str | None = None
    judgement: DecisionJudgement | None = None
    runs: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    replay: str | None = None
    seal: bool = False


class AttributeOutcome(msgspec.Struct, frozen=True):
    """An attribution, and the event that seals it."""

    attribution: Attribution
    event: Event | None


def attribute(workspace: Workspace, request: AttributeRequest) -> AttributeOutcome:
    """Find what made a decision go wrong."""
    decision = _apply_judgement(_pick_decision(read_decisions(request.decision), request), request)
    if request.seal:
        _check_version(workspace, decision, request.decision)
    others = [
        other for path in request.runs for other in read_decisions(path) if other.id != decision.id
    ]
    packs = tuple(_read_yaml(path, RulePack) for path in request.rules)
    effects: tuple[Effect, ...] = ()
    smallest: Minimal | None = None
    fact = ReplayFact("none", 0, 0, {}, "replay was not requested")
    if request.replay is not None:
        plan = _read_yaml(request.replay, ReplayPlan)
        _check_accepted(plan, request.replay)
        fact, effects, smallest = _replay(
            decision, others, plan, Path(request.replay).resolve().parent
        )
        unused = tuple(sorted(plan.reference.keys() - decision.pins().keys()))
        fact = msgspec.structs.replace(fact, unused=unused)
    found = conclude_attribution(
        decision,
        effects=effects,
        company=rank_parts([decision, *others]) if others else (),
        packs=packs,
        replay=fact,
        changes=smallest,
        changed=_find_changed_components(decision, others, fact.reference),
    )
    return AttributeOutcome(found, _seal(workspace, found, decision) if request.seal else None)


def _find_changed_components(
    decision: PlannedDecision, others: Sequence[PlannedDecision], reference: Mapping[str, str]
) -> frozenset[str]:
    """Return components in another version than the reference, or than any right decision."""
    usual: dict[str, set[str]] = {name: {version} for name, version in reference.items()}
    for other in others:
        if other.judgement is not UNSET and other.judgement.verdict == "right":
            for name, version in other.pins().items():
                usual.setdefault(name, set()).add(version)
    return frozenset(
        name
        for name, version in decision.pins().items()
        if version not in usual.get(name, {version})
    )


def _pick_decision(
    decisions: Sequence[PlannedDecision], request: AttributeRequest
) -> PlannedDecision:
    found = [one for one in decisions if request.id in (None, one.id)]
    if len(found) == 1:
        return found[0]
    path = request.decision
    if request.id is not None:
        raise BadInputError(f"{path}: holds {len(found)} decisions with the id {request.id!r}")
    raise BadInputError(f"{path}: holds {len(found)} decisions; name one with --id")


def _apply_judgement(decision: PlannedDecision, request: AttributeRequest) -> PlannedDecision:
    if request.judgement is not None:
        if decision.judgement is not UNSET:
            by = decision.judgement.reviewer
            raise UsageError(f"{request.decision}: {by} has already judged decision {decision.id}")
        decision = msgspec.structs.replace(decision, judgement=request.judgement)
        problems = find_problems(decision)
        if problems:
            raise BadInputError(tuple(problems))
    if decision.judgement is UNSET or decision.judgement.verdict != "wrong":
        raise UsageError(
            f"{request.decision}: no reviewer judged decision {decision.id} wrong; "
            "name one with --judged-by"
        )
    return decision


def _read_yaml(path: str, type_: type[Any]) -> Any:
    try:
        return msgspec.convert(read_settings(path), type_)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadInputError(f"{path}: {error}") from error


def _check_accepted(plan: ReplayPlan, path: str) -> None:
    try:
        canonical_bytes(plan.accept)
    except InvalidValueError as error:
        raise BadInputError(f"{path}: accept: {error}") from error


def _replay(
    decision: PlannedDecision,
    others: Sequence[PlannedDecision],
    plan: ReplayPlan,
    folder: Path,
) -> tuple[ReplayFact, tuple[Effect, ...], Minimal | None]:
    mode: Literal["recorded", "live"] = "recorded" if plan.target is None else "live"
    oracle = _make_oracle(decision, plan)
    if oracle is None:
        silent = "the expected output is not known, so no outcome can be judged"
        return ReplayFact("none", 0, plan.seed, plan.reference, silent), (), None
    replayer: RecordedSteps | LiveSteps = RecordedSteps([decision, *others], plan.seed)
    if plan.target is not None:
        replayer = LiveSteps(
            plan.target, folder, timeout_s=plan.timeout_s, max_calls=plan.max_calls
        )
    try:
        experiment = Experiment(decision, plan.reference, replayer, oracle, plan.repeats, plan.seed)
        effects = experiment.effects()
        smallest = _find_smallest_change(decision, plan, experiment)
    finally:
        replayer.close()
    known = any(effect.effect is not None for effect in effects)
    why = next((effect.reason for effect in effects if effect.reason), "no step was run")
    reason = None if known else why
    fact = ReplayFact(
        mode=mode if known else "none",
        repeats=plan.repeats,
        seed=plan.seed,
        reference=plan.reference,
        reason=reason,
        calls=replayer.calls,
    )
    return fact, effects, smallest


def _find_smallest_change(
    decision: PlannedDecision, plan: ReplayPlan, experiment: Experiment
) -> Minimal | None:
    active = decision.pins()
    changed = {n: v for n, v in active.items() if plan.reference.get(n, v) != v}
    if not changed:
        return None
    return find_smallest_change(sorted(changed), make_versions_test(experiment, active, changed))


def _make_oracle(decision: PlannedDecision, plan: ReplayPlan) -> Oracle | None:
    judgement = decision.judgement
    accepted = [*plan.accept]
    if judgement is not UNSET and judgement.expected is not UNSET:
        accepted.append(judgement.expected)
    if not accepted:
        return None
    right = {canonical_bytes(value) for value in accepted}
    return lambda ended: "right" if canonical_bytes(ended) in right else "wrong"


def _check_version(workspace: Workspace, decision: PlannedDecision, path: str) -> None:
    """Refuse a decision of an asset or version that the ledger does not know."""
    if decision.asset is UNSET:
        return
    known = read_state(workspace, decision.asset).asset.versions
    if not known:
        raise UsageError(
            f"{path}: asset: there is no asset {decision.asset} in this store, so nothing "
            "can be sealed about it; see: gatemark asset list"
        )
    if decision.version is not UNSET and decision.version not in known:
        raise UsageError(
            f"{path}: version: {decision.asset} has no version {decision.version} "
            f"(known: {', '.join(known)})"
        )


def _seal(workspace: Workspace, found: Attribution, decision: PlannedDecision) -> Event:
    """Store the attribution and its decision, and record it in the ledger, once."""
    for event, payload in workspace.events.events(kind=ATTRIBUTION_SEALED):
        if payload is not None and payload["attribution"] == found.id:
            return event
    document = canonical_bytes(found)
    kept = {
        "attribution": workspace.blobs.put(document),
        "decision": workspace.blobs.put(canonical_bytes(decision)),
    }
    asset = None if decision.asset is UNSET else decision.asset
    draft = EventDraft(
        kind=ATTRIBUTION_SEALED,
        at=workspace.clock(),
        actor=workspace.actor,
        subject=asset,
        payload={
            "attribution": found.id,
            "decision": found.decision,
            "cause": found.cause,
            "proposals": [one.kind for one in found.proposals],
            "blobs": kept,
        },
    )
    (event,) = workspace.events.append([draft])
    return event
