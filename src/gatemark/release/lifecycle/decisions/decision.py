"""What decisions share: the registry of deciding functions, the clock, roles, and moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from gatemark.core.errors import InvalidValueError, NotAllowedError, RefusedError
from gatemark.evidence.inputs import visible_form
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.commands import Command
from gatemark.release.lifecycle.events.fact import AssetFact, Facts
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.nouns import Cause, GateFinding, Role, Stage
from gatemark.release.lifecycle.model.stages import EVIDENCED, describe_legal_moves
from gatemark.release.lifecycle.model.state import GovernanceState, LifecycleState


class DecisionMoment(msgspec.Struct, frozen=True):
    """The time of a decision, and how far the clock was behind."""

    now: datetime
    behind_ms: int = 0


Decision = Callable[[LifecycleState, Any, DecisionMoment], Facts]
DECISIONS: Final[dict[type[Command], Decision]] = {}
"""The function that decides each command."""
D = TypeVar("D", bound=Decision)


def decides(command: type[Command]) -> Callable[[D], D]:
    """Register the function that decides a command."""

    def register(decision: D) -> D:
        DECISIONS[command] = decision
        return decision

    return register


def decide_declared(kind: type[AssetFact], state: LifecycleState, command: Command) -> Facts:
    """Decide a command as its event declares.

    (1) The actor has one of the roles, (2) the asset exists, (3) the event changes something.
    """
    declared = kind.declared
    require_role(state.governance, command.actor, declared.roles, declared.act)
    if not state.asset.versions:
        raise UnknownAssetError(f"there is no asset {state.asset.name}")
    shared = set(kind.__struct_fields__).intersection(command.__struct_fields__)
    fact = kind(**{name: getattr(command, name) for name in shared})
    return () if fact.is_known(state.asset) else (fact,)


def settle_clock(state: LifecycleState, now: datetime, *, must_act: bool) -> DecisionMoment:
    """Return the time of a decision: the clock's, or that of the last event if it is later.

    A clock that is far behind could make an expired approval valid again, so no promotion is
    allowed. Commands that remove authority (``must_act``) go on, and record how far behind the
    clock was.
    """
    if now.utcoffset() != timedelta(0):
        raise InvalidValueError(f"now must be UTC, got {now.isoformat()}")
    known = [at for at in (state.governance.last_at, state.asset.last_at) if at is not None]
    last = max(known, default=datetime.min.replace(tzinfo=UTC))
    if now >= last:
        return DecisionMoment(now)
    behind = last - now
    allowed = timedelta(seconds=state.policy.clock_skew_seconds)
    if behind > allowed and not must_act:
        raise RefusedError(
            f"the clock says {now:%Y-%m-%d %H:%M:%SZ}, but the last event is from "
            f"{last:%Y-%m-%d %H:%M:%SZ}; set the clock right first "
            "(if it was ahead then: gatemark ledger resync-clock)"
        )
    return DecisionMoment(last, behind_ms=int(behind / timedelta(milliseconds=1)))


def roles_of(governance: GovernanceState, actor: str) -> tuple[Role, ...]:
    """Return the current roles of a person."""
    return ("system",) if actor == SYSTEM else governance.roles.get(actor, ())


def require_role(
    governance: GovernanceState, actor: str, allowed: Iterable[Role], what: str
) -> None:
    """Refuse an actor who has none of the allowed roles."""
    wanted = tuple(allowed)
    held = roles_of(governance, actor)
    if not set(wanted) & set(held):
        raise NotAllowedError(
            f"{actor} must be {_join_with_or(wanted)} to {what}, "
            f"but is {', '.join(held) or 'without a role'}"
        )


def _join_with_or(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def require_note(command: Command, what: str) -> None:
    """Refuse an act without a reason that people can read; some signs show nothing."""
    if not visible_form(command.note):
        raise RefusedError(f"{what} needs a note that says why")


class UnknownAssetError(RefusedError):
    """A command about an asset that was never added."""


def known_version(state: LifecycleState, version: str) -> None:
    """Refuse a version that was never added."""
    if not state.asset.versions:
        raise UnknownAssetError(f"there is no asset {state.asset.name}")
    if version not in state.asset.versions:
        known = ", ".join(state.asset.versions)
        raise RefusedError(f"{state.asset.name} has no version {version} (known: {known})")


def illegal(state: LifecycleState, version: str, before: Stage, after: Stage) -> RefusedError:
    """Return the error for a move that is not in the table of legal moves."""
    return RefusedError(
        f"{state.asset.name}@{version}: cannot go from {before} to {after}; "
        f"{describe_legal_moves(before, state.asset.kind)}"
    )


def moved(
    state: LifecycleState,
    environment: str,
    moment: DecisionMoment,
    version: str,
    after: Stage,
    *,
    cause: Cause,
    note: str,
    result_ids: tuple[str, ...] | None = None,
    approvals: tuple[int, ...] = (),
    windows: tuple[int, ...] = (),
    signals: tuple[int, ...] = (),
    gates: tuple[GateFinding, ...] = (),
) -> VersionMoved:
    """Return the fact of a move; a version keeps its citations while its stage needs them."""
    track = state.asset.track(environment, version)
    kept = track.result_ids if after in EVIDENCED else ()
    return VersionMoved(
        asset=state.asset.name,
        environment=environment,
        version=version,
        candidate_digest=state.asset.versions[version].digest,
        before=track.stage,
        after=after,
        cause=cause,
        policy_digest=state.governance.policy_digest,
        note=note,
        result_ids=kept if result_ids is None else result_ids,
        approvals=approvals,
        windows=windows,
        signals=signals,
        gates=gates,
        clock_behind_ms=moment.behind_ms,
    )
