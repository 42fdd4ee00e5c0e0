"""Run a command: read the state, decide, append; decide again after a conflict.

Use ``act(workspace, command)``. It returns the new events (none if nothing changes) and raises
RefusedError (exit 1) with the reason and, for illegal moves, the legal ones. Commands are in
``gatemark.release.lifecycle.commands``.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import dropwhile
from typing import Final

import msgspec

from gatemark.core.errors import (
    ConflictError,
    InvalidValueError,
    OutageError,
    RefusedError,
    UsageError,
)
from gatemark.evidence.inputs import visible_form
from gatemark.ledger.event import Event, EventDraft
from gatemark.ledger.event_kinds import (
    CLOCK_SET_BACK,
    DECIDED_BY,
    LIFECYCLE_RULES,
    SYSTEM,
    DecidedBy,
    as_payload,
)
from gatemark.release.lifecycle.citations import Citations, result_ids
from gatemark.release.lifecycle.commands import (
    AdoptPolicy,
    Approve,
    AssetCommand,
    Command,
    Demote,
    Promote,
    PushShadow,
    PushWindow,
    ReportService,
    RollBack,
    Tick,
)
from gatemark.release.lifecycle.decisions.decide import TAKES_AWAY, Decided, decide, rule_on
from gatemark.release.lifecycle.decisions.decision import DecisionMoment, UnknownAssetError
from gatemark.release.lifecycle.default_policy import default_document
from gatemark.release.lifecycle.events.fact import WORKSPACE_SUBJECT, Fact, Facts
from gatemark.release.lifecycle.model.nouns import MAX_NOTE, Actor, AssetName, name_problem
from gatemark.release.lifecycle.model.release_policy import recorded_policy
from gatemark.release.lifecycle.model.state import LifecycleState
from gatemark.release.lifecycle.state_cache import (
    asset_state_cache,
    describe_undecided,
    unknown_asset,
)
from gatemark.workspace import Workspace

ATTEMPTS: Final = 50
_GOES_ON: Final = (*TAKES_AWAY, Tick, PushWindow, PushShadow, ReportService)
"""Commands that may lead to facts which give nobody authority."""
_UNPRINTED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
STOPPED: Final = "(stop)"
"""Prefix of the note of a person who accepts that nothing serves afterwards."""
MAX_DUE: Final = 10_000


class CommandResult(msgspec.Struct, frozen=True):
    """The facts and events that a command wrote; empty if nothing changed.

    ``undecided`` says which events it went past because it gives nobody authority.
    """

    facts: Facts
    events: tuple[Event, ...]
    undecided: tuple[str, ...] = ()

    @property
    def is_change(self) -> bool:
        """Whether anything was written."""
        return bool(self.events)


def act(workspace: Workspace, command: Command) -> CommandResult:
    """Run a command. Of two concurrent commands, the second is decided again."""
    now = workspace.clock()
    asset = _name_asset(command)
    command = _complete(workspace, command)
    cache = asset_state_cache(workspace)
    for _ in range(ATTEMPTS):
        with cache.lock:
            head = workspace.events.head()
            state = _set_back_times(workspace, cache.read(asset, head), now)
            try:
                decided = _decide(workspace, state, command, now)
            except UnknownAssetError as error:
                raise RefusedError(str(unknown_asset(workspace, asset))) from error
        if not decided.facts:
            return CommandResult((), (), describe_undecided(state))
        at = decided.at
        if decided.at > now or isinstance(command, TAKES_AWAY):
            at = max(
                [decided.at, *(event.at for event, _ in workspace.events.events(head.seq - 1))]
            )
        first = _draft_first_policy(workspace, state, at)
        by = _name_deciding_rules(workspace, state)
        drafts = [_draft(fact, command.actor, at, by) for fact in decided.facts]
        try:
            events = workspace.events.append([*first, *drafts], head)
        except ConflictError:
            continue
        except OutageError:
            # Commands that remove authority must also work on a full disk.
            if isinstance(command, TAKES_AWAY) and workspace.release_reserve():
                continue
            raise
        if isinstance(command, Promote):
            workspace.keep_reserve()
        return CommandResult(decided.facts, events[len(first) :], describe_undecided(state))
    raise ConflictError(
        f"the ledger changed {ATTEMPTS} times in a row; nothing was written, try again"
    )


def _draft_first_policy(
    workspace: Workspace, state: LifecycleState, at: datetime
) -> list[EventDraft]:
    """Return the event that records the default release policy of a new store."""
    if state.governance.revision:
        return []
    document = default_document()
    command = AdoptPolicy(
        actor=SYSTEM,
        policy=recorded_policy(document),
        document=document,
        note="the default policy",
    )
    facts = rule_on(state, command, DecisionMoment(at))
    by = _name_deciding_rules(workspace, state)
    return [_draft(fact, SYSTEM, at, by) for fact in facts]


def _draft(fact: Fact, actor: str, at: datetime, by: DecidedBy) -> EventDraft:
    """Return the event draft of a fact; refuse a fact that could not be read back."""
    payload = as_payload(fact)
    try:
        msgspec.convert(payload, type(fact))
        msgspec.convert(actor, Actor)
    except msgspec.ValidationError as error:
        raise InvalidValueError(f"{fact.declared.name}: {error}") from error
    payload[DECIDED_BY] = as_payload(by)
    return EventDraft(fact.declared.name, at, actor, fact.subject, payload)


def _name_deciding_rules(workspace: Workspace, state: LifecycleState) -> DecidedBy:
    return DecidedBy(state.governance.policy_digest, LIFECYCLE_RULES.current, workspace.channel)


def check_rules(state: LifecycleState) -> None:
    """Refuse to decide on top of an event that this build cannot decide."""
    for seq, undecided in sorted(state.undecided.items()):
        raise undecided.error(f"event {seq}: {undecided.why}")


def _decide(
    workspace: Workspace, state: LifecycleState, command: Command, now: datetime
) -> Decided:
    """Decide a command; after a decision of other rules, only what gives nobody authority."""
    if not isinstance(command, _GOES_ON):
        check_rules(state)
    decided = decide(state, _add_evidence(workspace, command), now)
    if any(fact.gives_authority for fact in decided.facts):
        check_rules(state)
    return decided


def preview(workspace: Workspace, command: Command) -> Facts:
    """Return the facts that a command would write now; refuse as ``act`` would."""
    cache = asset_state_cache(workspace)
    command = _complete(workspace, command)
    with cache.lock:
        now = workspace.clock()
        state = _set_back_times(workspace, cache.read(_name_asset(command)), now)
        return _decide(workspace, state, command, now).facts


def run_due(workspace: Workspace, asset: str, environment: str) -> tuple[CommandResult, ...]:
    """Do everything that is due for an asset now, one step after the other."""
    done: list[CommandResult] = []
    while len(done) < MAX_DUE:
        result = act(workspace, Tick(actor=SYSTEM, asset=asset, environment=environment))
        if not result.is_change:
            return tuple(done)
        done.append(result)
    raise RefusedError(f"{asset}: more than {MAX_DUE} steps are due; tick more often")


def _name_asset(command: Command) -> str:
    if not isinstance(command, AssetCommand):
        return WORKSPACE_SUBJECT
    try:
        return msgspec.convert(command.asset, AssetName)
    except msgspec.ValidationError as error:
        raise RefusedError(
            f"{command.asset!r} cannot name an asset: Latin letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit, at most 128"
        ) from error


def _set_back_times(workspace: Workspace, state: LifecycleState, now: datetime) -> LifecycleState:
    """Return the state with times no later than the last event that set the clock back."""
    if all(part.last_at is None or part.last_at <= now for part in (state.governance, state.asset)):
        return state
    set_back = [event for event, _ in workspace.events.events(kind=CLOCK_SET_BACK)]
    if not set_back:
        return state
    known, asset = state.governance, state.asset
    if known.revision < set_back[-1].seq and known.last_at is not None:
        known = msgspec.structs.replace(known, last_at=min(known.last_at, set_back[-1].at))
    if asset.revision < set_back[-1].seq and asset.last_at is not None:
        asset = msgspec.structs.replace(asset, last_at=min(asset.last_at, set_back[-1].at))
    return LifecycleState(known, asset)


def _complete(workspace: Workspace, command: Command) -> Command:
    """Return the command with full ids of results, and an actor and note for the ledger.

    A note that is too long for a demotion or rollback is cut, so that it never blocks them. What
    is kept begins with the first sign that shows something.
    """
    problem = name_problem(command.actor)
    if problem is not None:
        raise UsageError(problem)
    note = _UNPRINTED.sub(" ", command.note.replace("\r\n", "\n"))
    if isinstance(command, TAKES_AWAY):
        note = "".join(dropwhile(lambda sign: not visible_form(sign), note))
    if isinstance(command, Demote | RollBack) and command.stop and command.actor != SYSTEM:
        # The mark is no reason: a demotion without one stays without one.
        note = f"{STOPPED} {note}".strip() if note or isinstance(command, RollBack) else note
    if len(note) > MAX_NOTE:
        if not isinstance(command, TAKES_AWAY):
            raise UsageError(f"a note must have at most {MAX_NOTE} characters, got {len(note)}")
        note = note[: MAX_NOTE - 1] + "…"
    changes: dict[str, object] = {"note": note}
    if isinstance(command, Promote | Approve):
        changes["result_ids"] = result_ids(workspace, command.result_ids)
    return msgspec.structs.replace(command, **changes)


def _add_evidence(workspace: Workspace, command: Command) -> Command:
    """Return the command with a lookup of the results that its decision may depend on."""
    if not isinstance(command, Promote | Approve | Demote | RollBack | Tick):
        return command
    must_go_on = isinstance(command, Demote | RollBack | Tick)
    changes: dict[str, object] = {
        "evidence": Citations(workspace, command.asset, must_go_on=must_go_on)
    }
    return msgspec.structs.replace(command, **changes)
