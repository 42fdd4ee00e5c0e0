"""``gatemark release``: promote a version as far as possible, and say who must do what next.

(1) Do what is due. (2) Find the next stage. (3) Find results to cite; if requested, run the full
pack if one is missing. (4) Approve, if requested. (5) Take the step, and start again. Every step is
an ordinary promotion or approval, with the same rules and the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from gatemark.core.errors import GatemarkError, RefusedError
from gatemark.core.result import AssetRef
from gatemark.ledger.event_kinds import RESULT_SEALED
from gatemark.release.lifecycle.act import act, check_rules, preview, run_due
from gatemark.release.lifecycle.citations import Citations
from gatemark.release.lifecycle.commands import Approve, Promote
from gatemark.release.lifecycle.decisions.decision import known_version
from gatemark.release.lifecycle.events.fact import Fact
from gatemark.release.lifecycle.model.nouns import PRODUCTION, Cited, Gate, Role, Stage, VersionRef
from gatemark.release.lifecycle.model.stages import CANARY, LANE, Move, move, moves_of
from gatemark.release.lifecycle.model.state import LifecycleState
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

MAX_STEPS: Final = 20
_NEXT: Final[dict[Stage, Stage]] = {
    "draft": "evaluating",
    "rejected": "evaluating",
    "demoted": "evaluating",
    "rolled_back": "evaluating",
    "evaluating": "eligible",
    "eligible": "shadow",
    "canary_1": "canary_5",
    "canary_5": "canary_25",
    "canary_25": "enabled",
}

RunFullPack = Callable[[dict[str, AssetRef]], None]
"""Runs the required pack of the asset; the argument maps arms to the versions they are."""


class ReleaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The version to release, by whom, and what may be done on the way."""

    ref: VersionRef
    actor: str
    environment: str = PRODUCTION
    note: str = ""
    approve: bool = False
    run: RunFullPack | None = None
    dry_run: bool = False


class ReleaseProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What a release did, where the version is, and what is missing for the next stage.

    The field names are JSON keys. ``next_by`` are the people who can continue.
    """

    asset: str
    version: str
    environment: str
    stage: Stage
    done: tuple[str, ...]
    next_stage: Stage | None
    missing: tuple[str, ...]
    next_by: tuple[str, ...]
    next_command: str | None
    is_dry_run: bool = False


class MissingForMove(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing for one legal move; empty if it can be made now."""

    stage: Stage
    roles: tuple[Role, ...]
    people: tuple[str, ...]
    missing: tuple[str, ...]


def release(workspace: Workspace, request: ReleaseRequest) -> ReleaseProgress:
    """Promote a version as far as it may go now."""
    workspace.existing_store()
    ref = request.ref
    done: list[str] = []
    missing: tuple[str, ...] = ()
    for _ in range(MAX_STEPS):
        # (1) First do what is due: a canary may already be due for its next share.
        if not request.dry_run:
            done.extend(
                fact.sentence
                for one in run_due(workspace, ref.asset, request.environment)
                for fact in one.facts
            )
        state = read_state(workspace, ref.asset)
        check_rules(state)
        known_version(state, ref.version)
        # (2) The next stage.
        target = next_stage(state, request.environment, ref.version)
        if target is None or target in CANARY[1:]:
            missing = _list_waits(state, request.environment, ref.version)
            break
        # (3)-(5) Its evidence, its approval, and the step itself.
        facts, missing = _step(workspace, request, target)
        done.extend(fact.sentence for fact in facts)
        if missing or request.dry_run:
            break
    return _describe_progress(workspace, request, tuple(done), missing)


def next_stage(state: LifecycleState, environment: str, version: str) -> Stage | None:
    """Return the next stage of a usual promotion, or None at the end."""
    stage = state.asset.track(environment, version).stage
    if stage == "shadow":
        if state.asset.kind == LANE:
            return None
        return "enabled" if state.asset.place(environment).enabled is None else "canary_1"
    return _NEXT.get(stage)


def _step(
    workspace: Workspace, request: ReleaseRequest, target: Stage
) -> tuple[list[Fact], tuple[str, ...]]:
    """Take one step; return its facts, and what is missing if it is refused."""
    facts: list[Fact] = []
    cites, missing = _choose_citation(workspace, request, target)
    if missing and request.run is not None and not request.dry_run and _lacks_result(missing):
        request.run(_name_arms(workspace, request))
        cites, missing = _choose_citation(workspace, request, target)
    if missing and request.approve and _is_voted(workspace, request, target):
        try:
            vote = _make_approval(request, target, cites)
            given = preview(workspace, vote) if request.dry_run else act(workspace, vote).facts
        except RefusedError as error:
            return facts, tuple(error.lines())
        facts.extend(given)
        if request.dry_run:
            return facts, ()
        cites, missing = _choose_citation(workspace, request, target)
    if missing:
        return facts, missing
    step = _make_promotion(request, target, cites)
    facts.extend(preview(workspace, step) if request.dry_run else act(workspace, step).facts)
    return facts, ()


def _make_promotion(request: ReleaseRequest, target: Stage, cites: tuple[str, ...]) -> Promote:
    return Promote(
        actor=request.actor,
        asset=request.ref.asset,
        version=request.ref.version,
        environment=request.environment,
        to=target,
        result_ids=cites,
        note=request.note,
    )


def _make_approval(request: ReleaseRequest, target: Stage, cites: tuple[str, ...]) -> Approve:
    return Approve(
        actor=request.actor,
        asset=request.ref.asset,
        version=request.ref.version,
        environment=request.environment,
        stage=target,
        result_ids=cites,
        note=request.note,
    )


def _is_voted(workspace: Workspace, request: ReleaseRequest, target: Stage) -> bool:
    state = read_state(workspace, request.ref.asset)
    stage = state.asset.track(request.environment, request.ref.version).stage
    row = move(stage, target, "promote", state.asset.kind)
    return row is not None and row.is_approved


def _choose_citation(
    workspace: Workspace, request: ReleaseRequest, target: Stage
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return results that allow the step, or the best ones and what is missing."""
    best: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    for cites in _list_citations(workspace, request, target):
        try:
            preview(workspace, _make_promotion(request, target, cites))
        except RefusedError as error:
            missing = tuple(error.lines())
            if best is None or len(missing) < len(best[1]):
                best = cites, missing
        else:
            return cites, ()
    return best or ((), ("a result must be cited",))


def _list_citations(
    workspace: Workspace, request: ReleaseRequest, target: Stage
) -> Iterator[tuple[str, ...]]:
    """Yield what could be cited: approved results first, then the newest."""
    state = read_state(workspace, request.ref.asset)
    track = state.asset.track(request.environment, request.ref.version)
    votes = [
        vote
        for vote in reversed(state.asset.approvals)
        if (vote.version, vote.environment, vote.stage)
        == (request.ref.version, request.environment, target)
    ]
    found = [tuple(set(vote.result_ids) - set(track.result_ids)) for vote in votes]
    found.append(())
    if target in ("eligible", "shadow", "canary_1", "enabled"):
        found.extend(
            (result_id,) for result_id in _list_passed_results(workspace, state, request.ref)
        )
    yield from dict.fromkeys(found)


def _list_passed_results(workspace: Workspace, state: LifecycleState, ref: VersionRef) -> list[str]:
    """Return the passed results about a version, newest first."""
    digest = state.asset.versions[ref.version].digest
    known = Citations(workspace, ref.asset, must_go_on=True)
    sealed = [
        str(payload["result_id"])
        for _, payload in workspace.events.events(kind=RESULT_SEALED, subject=ref.asset)
        if payload is not None
    ]
    found: list[Cited] = [
        known[result_id] for result_id in dict.fromkeys(reversed(sealed)) if result_id in known
    ]
    return [one.id for one in found if one.verdict == "pass" and one.candidate_digest == digest]


def _lacks_result(missing: tuple[str, ...]) -> bool:
    """Whether only a new result can help."""
    return any("eval: " in line or "result" in line for line in missing)


def _name_arms(workspace: Workspace, request: ReleaseRequest) -> dict[str, AssetRef]:
    state = read_state(workspace, request.ref.asset)
    versions = {"candidate": request.ref.version}
    live = state.asset.place(request.environment).enabled
    if live is not None and live != request.ref.version:
        versions["baseline"] = live
    return {
        arm: AssetRef(f"{request.ref.asset}/{version}", state.asset.versions[version].digest)
        for arm, version in versions.items()
    }


def _list_waits(state: LifecycleState, environment: str, version: str) -> tuple[str, ...]:
    """Return what a version waits for if the next step is automatic."""
    track, place = state.asset.track(environment, version), state.asset.place(environment)
    if track.stage in CANARY and place.rollout is not None:
        if track.paused is not None:
            return (f"it is paused ({track.paused.reason}); resume it",)
        needed = state.policy.canary.clean_windows
        clean = len(place.rollout.streak)
        return (f"{needed} clean canary windows in a row, {clean} so far (gatemark canary push)",)
    return ()


def _describe_progress(
    workspace: Workspace, request: ReleaseRequest, done: tuple[str, ...], missing: tuple[str, ...]
) -> ReleaseProgress:
    state = read_state(workspace, request.ref.asset)
    stage = state.asset.track(request.environment, request.ref.version).stage
    target = next_stage(state, request.environment, request.ref.version)
    row = None if target is None else move(stage, target, "promote", state.asset.kind)
    people, command = _find_who_continues(state, request, row, missing)
    return ReleaseProgress(
        asset=request.ref.asset,
        version=request.ref.version,
        environment=request.environment,
        stage=stage,
        done=done,
        next_stage=target,
        missing=missing,
        next_by=people,
        next_command=command,
        is_dry_run=request.dry_run,
    )


def _find_who_continues(
    state: LifecycleState, request: ReleaseRequest, row: Move | None, missing: tuple[str, ...]
) -> tuple[tuple[str, ...], str | None]:
    """Return who can continue, and by which command."""
    if row is None or not missing:
        return (), None
    command = f"gatemark release {request.ref}"
    gates: dict[Gate, Role] = {"sign_off": "approver", "security_review": "security_approver"}
    for gate, role in gates.items():
        if any(f"{gate}: " in line for line in missing):
            return people_with(
                state, (role,), request.ref.version
            ), f'{command} --approve --note "REASON"'
    if _lacks_result(missing):
        return people_with(state, ("evaluator",)), f"{command} --run"
    return people_with(state, row.roles), command


def people_with(
    state: LifecycleState, roles: tuple[Role, ...], version: str | None = None
) -> tuple[str, ...]:
    """Return who has one of these roles; for approvals, without those who may not approve."""
    from gatemark.release.lifecycle.decisions.approvals import conflict_of_interest  # noqa: PLC0415

    return tuple(
        sorted(
            person
            for person, held in state.governance.roles.items()
            if set(roles) & set(held)
            and (version is None or conflict_of_interest(state, person, version) is None)
        )
    )


def missing_for_moves(
    workspace: Workspace, ref: VersionRef, environment: str = PRODUCTION
) -> tuple[MissingForMove, ...]:
    """Return what is missing for each promotion that is legal now."""
    state = read_state(workspace, ref.asset)
    stage = state.asset.track(environment, ref.version).stage
    found = []
    for row in moves_of(state.asset.kind):
        if row.before != stage or row.cause != "promote" or row.after in ("retired", "rejected"):
            continue
        people = people_with(state, row.roles)
        missing: tuple[str, ...] = (f"nobody is {' or '.join(row.roles)}",)
        if people:
            request = ReleaseRequest(ref=ref, actor=people[0], environment=environment)
            try:
                missing = _choose_citation(workspace, request, row.after)[1]
            except GatemarkError as error:
                missing = (str(error),)
        found.append(
            MissingForMove(stage=row.after, roles=row.roles, people=people, missing=missing)
        )
    return tuple(found)


def explained_moves(
    workspace: Workspace, ref: VersionRef, environment: str, moves: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the next moves of a version as text, each with what is missing for it."""
    missing = {one.stage: one for one in missing_for_moves(workspace, ref, environment)}
    found = []
    for words in moves:
        one = missing.get(words.partition(" ")[0])  # type: ignore[call-overload]
        if one is None or "(promote by" not in words:
            found.append(words)
        elif not one.missing:
            found.append(f"{words}: nothing is missing")
        else:
            found.append(f"{words}: missing: {'; '.join(one.missing)}")
    return tuple(found)
