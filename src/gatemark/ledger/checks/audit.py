"""Whether decisions rest on what they cite: results, approvals, windows, and other people.

The auditor walks along the events and remembers only what later decisions may cite. It trusts no
field that it can derive: where a version stands follows from its moves, who wrote it from its
registration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from gatemark.core.canonical import digest, same_digest
from gatemark.core.stored import convert_stored
from gatemark.ledger.chain import CLOCK_SKEW
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import (
    APPROVAL,
    ASSET_REGISTERED,
    BREAK_GLASS,
    CANARY_JUDGED,
    EXAM_SET,
    RESULT_SEALED,
    TRANSITION,
)
from gatemark.ledger.payloads import (
    APPROVED_STAGES,
    EVIDENCE_FROM,
    RANK,
    ROLLBACK,
    SYSTEM,
    ApprovalPayload,
    AssetRegistered,
    BreakGlassPayload,
    ResultSealed,
    TransitionMade,
    WindowVerdict,
)

T = TypeVar("T")
Place = tuple[str | None, str, str]
"""Asset, environment and version."""

AUDITED: Final = frozenset(
    {RESULT_SEALED, ASSET_REGISTERED, APPROVAL, TRANSITION, BREAK_GLASS, CANARY_JUDGED, EXAM_SET}
)


class RecordedApproval(NamedTuple):
    """An approval as it was given."""

    subject: str | None
    actor: str
    given: ApprovalPayload


class SealedAt(NamedTuple):
    """A sealed result and the event that told of it."""

    seq: int
    said: ResultSealed


class Auditor:
    """Takes events in order; ``step`` gives what is wrong with each."""

    def __init__(self) -> None:
        self.results: dict[str, SealedAt] = {}
        self.decision_count = 0
        self._versions: dict[tuple[str | None, str], AssetRegistered] = {}
        self._authors: dict[tuple[str | None, str], set[str]] = {}
        self._votes: dict[int, RecordedApproval] = {}
        self._windows: dict[int, tuple[str | None, WindowVerdict]] = {}
        self._glass: dict[Place, datetime] = {}
        self._stages: dict[Place, str] = {}
        self._enabled: dict[tuple[str | None, str], str] = {}
        self._enabled_by: dict[Place, set[str]] = {}
        self._exam_editors: dict[str | None, str] = {}
        self._steps: dict[str, Callable[[Event, Mapping[str, Any]], Iterator[str]]] = {
            RESULT_SEALED: self._result,
            ASSET_REGISTERED: self._registered,
            APPROVAL: self._approval,
            TRANSITION: self._transition,
            BREAK_GLASS: self._broken_glass,
            CANARY_JUDGED: self._window,
            EXAM_SET: self._exam,
        }

    def step(self, event: Event, payload: Mapping[str, Any]) -> list[str]:
        """What is wrong with this event, given all before it."""
        try:
            return list(self._steps[event.kind](event, payload))
        except msgspec.ValidationError as error:
            return [f"its payload is not that of a {event.kind}: {error}"]

    def _result(self, event: Event, payload: Mapping[str, Any]) -> Iterator[str]:
        said = convert_stored(payload, ResultSealed)
        occasion = {"id": said.result_id, "occasion": said.occasion}
        if not same_digest(digest(occasion), said.stamp):
            yield f"the stamp of result {said.result_id} does not cover its occasion"
        first = self.results.setdefault(said.result_id, SealedAt(event.seq, said))
        if _judgement(first.said) != _judgement(said):
            yield f"tells of result {said.result_id} otherwise than event {first.seq}"

    def _registered(self, event: Event, payload: Mapping[str, Any]) -> Iterator[str]:
        said = convert_stored(payload, AssetRegistered)
        if (event.subject, said.version) in self._versions:
            yield f"{event.subject}@{said.version} was registered before"
            return
        self._versions[event.subject, said.version] = said
        self._authors.setdefault((event.subject, said.digest), set()).add(said.author)

    def _approval(self, event: Event, payload: Mapping[str, Any]) -> Iterator[str]:
        given = convert_stored(payload, ApprovalPayload)
        self._votes[event.seq] = RecordedApproval(event.subject, event.actor, given)
        authors = self._authors.get((event.subject, given.candidate_digest), set())
        if given.decision == "approve" and event.actor in authors:
            yield f"{event.actor} approves a version of which {event.actor} is the author"

    def _broken_glass(self, event: Event, payload: Mapping[str, Any]) -> Iterator[str]:
        said = convert_stored(payload, BreakGlassPayload)
        self._glass[event.subject, said.environment, said.version] = said.until
        yield from ()

    def _window(self, event: Event, payload: Mapping[str, Any]) -> Iterator[str]:
        self._windows[event.seq] = (event.subject, convert_stored(payload, WindowVerdict))
        yield from ()

    def _exam(self, event: Event, _payload: Mapping[str, Any]) -> Iterator[str]:
        self._exam_editors[event.subject] = event.actor
        yield from ()

    def _transition(self, event: Event, payload: Mapping[str, Any]) -> Iterator[str]:
        said = convert_stored(payload, TransitionMade)
        self.decision_count += 1
        place = (event.subject, said.environment, said.version)
        name = f"{event.subject}@{said.version}"
        version = self._versions.get((event.subject, said.version))
        if version is None:
            yield f"{name} was never registered"
        elif version.digest != said.candidate_digest:
            yield f"{name} is {version.digest}, the move is about {said.candidate_digest}"
        stage = self._stages.get(place, "draft")
        if said.before != stage:
            yield f"{name} starts from {said.before}, but stands at {stage}"
        unknown = {said.before, said.after} - RANK.keys()
        if unknown:
            yield f"{name}: nobody knows the stage {sorted(unknown)[0]!r}"
            return
        yield from self._citations(said)
        if RANK[said.after] > RANK[said.before] and RANK[said.after] >= EVIDENCE_FROM:
            yield from self._step_up(event, said, place)
        yield from self._settle(event, said, place)

    def _citations(self, said: TransitionMade) -> Iterator[str]:
        """Each cited result is there, and about this candidate."""
        for result_id in said.result_ids:
            sealed = self.results.get(result_id)
            if sealed is None:
                yield f"cites result {result_id}, which was not sealed before"
                continue
            candidate = sealed.said.candidate
            if candidate is None or candidate.digest != said.candidate_digest:
                found = "no candidate" if candidate is None else candidate.digest
                yield f"cites result {result_id}, which is about {found}, not this candidate"

    def _step_up(self, event: Event, said: TransitionMade, place: Place) -> Iterator[str]:
        if not said.result_ids:
            yield f"goes up to {said.after} without citing a result"
        for result_id in said.result_ids:
            sealed = self.results.get(result_id)
            if sealed is not None and sealed.said.verdict != "pass":
                yield f"cites result {result_id}, whose verdict is {sealed.said.verdict}"
        if said.cause == ROLLBACK:
            yield from self._return(said, place)
        elif said.cause == BREAK_GLASS:
            until = self._glass.get(place)
            if until is None or until < event.at:
                yield "breaks the glass without an event that says so"
        else:
            yield from self._window_citations(event, said)
            if said.after in APPROVED_STAGES:
                yield from self._approvals(event, said)

    def _return(self, said: TransitionMade, place: Place) -> Iterator[str]:
        original = self._enabled_by.get(place)
        if original is None:
            yield "rolls back to a version that was never enabled"
        elif set(said.result_ids) != original:
            yield "rolls back citing other results than the version was enabled by"

    def _window_citations(self, event: Event, said: TransitionMade) -> Iterator[str]:
        if said.before.startswith("canary") and not said.windows:
            yield f"goes up from {said.before} without a clean window"
        for seq in said.windows:
            subject, window = self._windows.get(seq, (None, None))
            if window is None or subject != event.subject:
                yield f"cites event {seq}, which judges no canary window of {event.subject}"
            elif (window.version, window.stage, window.state) != (
                said.version,
                said.before,
                "clean",
            ):
                yield (
                    f"cites event {seq}, a window of {window.version} at {window.stage} "
                    f"that was {window.state}"
                )

    def _approvals(self, event: Event, said: TransitionMade) -> Iterator[str]:
        if not said.approvals:
            yield f"goes up to {said.after} without an approval"
        people = [vote.actor for seq in said.approvals if (vote := self._votes.get(seq))]
        for person in sorted({name for name in people if people.count(name) > 1}):
            yield f"counts the approval of {person} twice"
        for seq in said.approvals:
            vote = self._votes.get(seq)
            if vote is None:
                yield f"cites event {seq}, which is no approval before it"
            else:
                yield from (f"approval {seq} {why}" for why in self._void(event, said, vote))

    def _void(self, event: Event, said: TransitionMade, vote: RecordedApproval) -> Iterator[str]:
        given = vote.given
        bound: tuple[tuple[str, object, object], ...] = (
            ("asset", vote.subject, event.subject),
            ("candidate", given.candidate_digest, said.candidate_digest),
            ("stage", given.stage, said.after),
            ("policy", given.policy_digest, said.policy_digest),
            ("decision", given.decision, "approve"),
        )
        for word, approved, moved in bound:
            if approved != moved:
                yield f"is for another {word}: {approved}, not {moved}"
        if set(given.result_ids) != set(said.result_ids):
            yield "is bound to other results"
        if given.expires_at + CLOCK_SKEW <= event.at:
            yield f"expired at {given.expires_at.isoformat()}"
        if vote.actor == SYSTEM:
            yield "was given by no person"
        if vote.actor in self._authors.get((event.subject, said.candidate_digest), set()):
            yield f"was given by the author, {vote.actor}"
        if vote.actor == self._exam_editors.get(event.subject):
            yield f"was given by {vote.actor}, who last edited the full pack"

    def _settle(self, event: Event, said: TransitionMade, place: Place) -> Iterator[str]:
        """Let the move happen; at most one version is enabled at any time."""
        spot = (event.subject, said.environment)
        if said.after == "enabled":
            other = self._enabled.get(spot)
            if other is not None and other != said.version:
                yield f"is enabled beside {other}"
            self._enabled[spot] = said.version
            self._enabled_by[place] = set(said.result_ids)
        elif self._enabled.get(spot) == said.version:
            del self._enabled[spot]
        self._stages[place] = said.after


def _judgement(said: ResultSealed) -> ResultSealed:
    """What must be the same whenever a result is sealed again."""
    return msgspec.structs.replace(said, stamp="", occasion={})
