"""Which command an act must have come from, told from the events it left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from gatemark.ledger.payloads import SYSTEM
from gatemark.lifecycle.decisions.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    Command,
    Demote,
    GrantRoles,
    PauseVersion,
    Promote,
    PushWindow,
    ReportService,
    ResumeVersion,
    ReviewGlass,
    RollBack,
    SetExam,
    Tick,
    Waive,
)
from gatemark.lifecycle.model.events import (
    ApprovalGiven,
    BreakGlassReviewed,
    BreakGlassUsed,
    ExamSet,
    GateOverridden,
    GateWaived,
    LifecycleEvent,
    PolicyAdopted,
    RolesGranted,
    ServiceReported,
    VersionAdded,
    VersionMoved,
    VersionPaused,
    WatchClosed,
    WindowJudged,
    WindowPushed,
)
from gatemark.lifecycle.model.release_policy import recorded_policy


class PossibleCommands(NamedTuple):
    """Commands that may have been given, and which of the events tells what it was all about.

    ``breaks_off`` says that no event does, although these lead up to one.
    """

    commands: tuple[Command, ...]
    main: int = 0
    breaks_off: bool = False


def asked_for(lines: Sequence[LifecycleEvent]) -> PossibleCommands:
    """What was asked for when the first of these events came to be.

    ``lines`` are events of one actor at one moment, and may be those of several acts.
    """
    fact = lines[0].fact
    if isinstance(fact, VersionMoved | GateOverridden | BreakGlassUsed):
        return _move(lines)
    return PossibleCommands(_COMMANDS[type(fact)](fact, lines[0].actor))


def _move(lines: Sequence[LifecycleEvent]) -> PossibleCommands:
    """The step that these events lead up to; a fall is its own first event."""
    first, actor = lines[0].fact, lines[0].actor
    glass = first if isinstance(first, BreakGlassUsed) else None
    for number, line in enumerate(lines):
        fact = line.fact
        if not isinstance(fact, VersionMoved) or fact.cause == "supersede":
            continue
        if glass is not None and fact.cause != "break_glass":
            continue
        if isinstance(first, GateOverridden) and fact.cause != "promote":
            continue
        return PossibleCommands(_step(fact, glass, actor, lines[number + 1 :]), number)
    # An override, a broken glass or a version that makes room, and then nothing.
    return PossibleCommands((), breaks_off=True)


def _step(
    fact: VersionMoved, glass: BreakGlassUsed | None, actor: str, later: Sequence[LifecycleEvent]
) -> tuple[Command, ...]:
    common: dict[str, Any] = {
        "actor": actor,
        "asset": fact.asset,
        "environment": fact.environment,
        "note": fact.note,
    }
    tick = Tick(actor=actor, asset=fact.asset, environment=fact.environment)
    if fact.cause in ("promote", "break_glass"):
        incident = glass.incident if glass is not None else None
        step = Promote(
            version=fact.version,
            to=fact.after,
            result_ids=fact.result_ids,
            incident=incident if fact.cause == "break_glass" else None,
            **common,
        )
        # Broken glass is told before the step; a step that says so by itself was never asked for.
        return () if fact.cause == "break_glass" and glass is None else (step,)
    if fact.cause == "ramp":
        return (tick,)
    if fact.cause == "demote":
        to = fact.after
        return (Demote(version=fact.version, to=to, signals=fact.signals, **common),)
    returned = next(
        (
            line.fact.version
            for line in later
            if isinstance(line.fact, VersionMoved) and line.fact.after == "enabled"
        ),
        None,
    )
    ways = tuple(
        RollBack(version=fact.version, to=to, signals=fact.signals, **common)
        for to in dict.fromkeys((None, returned))
    )
    return (tick, *ways) if actor == SYSTEM else ways


def _paused(fact: VersionPaused, actor: str) -> tuple[Command, ...]:
    common: dict[str, Any] = {
        "actor": actor,
        "asset": fact.asset,
        "environment": fact.environment,
        "version": fact.version,
        "note": fact.note,
    }
    if fact.reason is None:
        return (ResumeVersion(**common),)
    pause = PauseVersion(reason=fact.reason, **common)
    return (*_tick(fact, actor), pause) if actor == SYSTEM else (pause,)


def _tick(fact: Any, actor: str) -> tuple[Command, ...]:
    return (Tick(actor=actor, asset=fact.asset, environment=fact.environment),)


def _same(command: type[Command], *left_out: str) -> Callable[[Any, str], tuple[Any, ...]]:
    """A command whose fields are those of the event, but for some that the rules fill in."""
    asked_fields = frozenset(command.__struct_fields__) - {"actor", *left_out}

    def asked(fact: Any, actor: str) -> tuple[Command, ...]:
        shared = asked_fields.intersection(fact.__struct_fields__)
        return (command(actor=actor, **{name: getattr(fact, name) for name in shared}),)

    return asked


_COMMANDS: Final[dict[type, Callable[[Any, str], tuple[Command, ...]]]] = {
    RolesGranted: lambda fact, actor: (
        GrantRoles(actor=actor, person=fact.actor, roles=fact.roles, note=fact.note),
    ),
    PolicyAdopted: lambda fact, actor: (
        AdoptPolicy(
            actor=actor,
            policy=recorded_policy(fact.policy),
            document=fact.policy,
            note=fact.note,
        ),
    ),
    VersionAdded: _same(AddVersion, "author"),
    ExamSet: _same(SetExam),
    ApprovalGiven: _same(Approve, "candidate_digest", "policy_digest", "expires_at"),
    GateWaived: _same(Waive, "candidate_digest"),
    BreakGlassReviewed: _same(ReviewGlass, "incident"),
    VersionPaused: _paused,
    WindowPushed: _same(PushWindow, "version"),
    WindowJudged: _tick,
    WatchClosed: _tick,
    ServiceReported: _same(ReportService),
}
