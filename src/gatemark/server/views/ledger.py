"""The ledger: its events, its checkpoints, and its verification."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Final

from fastapi import Query, Response

from gatemark.core.canonical import json_text
from gatemark.core.errors import NotAllowedError, RefusedError
from gatemark.integrity import verify
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import CHECKPOINT_ASKED
from gatemark.ledger.keys import sign_checkpoint
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.model.nouns import Role
from gatemark.release.lifecycle.state_cache import asset_state_cache
from gatemark.release.lifecycle.views.views import View
from gatemark.release.review.events import (
    REVIEW_CREATED,
    REVIEW_LOOKED_AT,
    REVIEW_UNBLINDED,
    VOTE_CAST,
)
from gatemark.server.accounts.account_events import record_account_event
from gatemark.server.accounts.events import SIGN_IN_FAILED
from gatemark.server.accounts.identity import Identity
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.parameters import Cursor, Limit
from gatemark.server.problems import ProblemResponse
from gatemark.workspace import Workspace

doors = Doors("ledger")
SHOWN: Final = 30
SIGNING: Final[frozenset[Role]] = frozenset({"admin", "auditor"})
BLINDING: Final = {
    REVIEW_CREATED: ("tells",),
    REVIEW_LOOKED_AT: ("numbers",),
    VOTE_CAST: ("digest",),
}
"""Fields that could reveal the arms while a review is open."""
Word = Annotated[str | None, Query(min_length=1, max_length=256)]


class EventView(View, frozen=True, kw_only=True):
    """A ledger event with its payload, None if it was erased.

    ``withheld`` names the fields that are hidden while a review is open.
    """

    seq: int
    at: datetime
    kind: str
    actor: str
    subject: str | None
    digest: str
    payload_digest: str
    payload: dict[str, object] | None
    withheld: tuple[str, ...] = ()


class EventPage(View, frozen=True, kw_only=True):
    """A page of events, newest first, and the cursor of the next page."""

    items: tuple[EventView, ...]
    next: str | None


class CheckpointView(View, frozen=True, kw_only=True):
    """A signed checkpoint."""

    size: int
    note: str


class LedgerHead(View, frozen=True, kw_only=True):
    """The last event of the ledger, and its checkpoints."""

    seq: int
    digest: str
    checkpoints: tuple[CheckpointView, ...]


def ledger_head(workspace: Workspace) -> LedgerHead:
    """Return the last event and all checkpoints, newest first."""
    events = workspace.existing_store().events
    head = asset_state_cache(workspace).head()
    return LedgerHead(
        seq=head.seq,
        digest=head.digest,
        checkpoints=tuple(
            CheckpointView(size=size, note=note) for size, note in reversed(events.checkpoints())
        ),
    )


def event_page(
    workspace: Workspace,
    identity: Identity,
    *,
    before: int | None = None,
    kind: str | None = None,
    subject: str | None = None,
    limit: int = 50,
) -> EventPage:
    """Return events with numbers below ``before``, newest first.

    Names and addresses of failed sign-ins are only for admins and auditors.
    """
    store = workspace.existing_store().events
    end = asset_state_cache(workspace).head().seq + 1 if before is None else before
    if kind is None and subject is None:
        start = max(0, end - 1 - limit)
        found = list(islice(store.events(after=start), max(0, end - 1 - start)))
        more = start > 0
    else:
        kept: deque[tuple[Event, Mapping[str, object] | None]] = deque(maxlen=limit + 1)
        matching = store.events(kind=kind, subject=subject)
        kept.extend(one for one in matching if one[0].seq < end)
        found = list(kept)[-limit:]
        more = len(kept) > limit
    kept_back = _find_withheld(workspace, [event for event, _ in found])
    if not SIGNING & set(identity.roles):
        for event, payload in found:
            if event.kind == SIGN_IN_FAILED and payload is not None:
                kept_back[event.seq] = tuple(sorted(name for name in payload if name != "count"))
    items = tuple(
        EventView(
            seq=event.seq,
            at=event.at,
            kind=event.kind,
            actor=event.actor,
            subject=event.subject,
            digest=event.digest,
            payload_digest=event.payload_digest,
            payload=None
            if payload is None
            else {name: one for name, one in payload.items() if name not in kept_back[event.seq]},
            withheld=() if payload is None else kept_back[event.seq],
        )
        for event, payload in reversed(found)
    )
    return EventPage(items=items, next=str(items[-1].seq) if more and items else None)


def _find_withheld(workspace: Workspace, events: Sequence[Event]) -> dict[int, tuple[str, ...]]:
    """Return the fields of each event that are withheld until its review is closed."""
    subjects = {event.subject for event in events if event.kind in BLINDING}
    closed = {
        subject
        for subject in subjects
        if any(workspace.events.events(kind=REVIEW_UNBLINDED, subject=subject))
    }
    return {
        event.seq: () if event.subject in closed else BLINDING.get(event.kind, ())
        for event in events
    }


@doors.view("/ledger", LedgerHead)
def head(visit: Visit) -> LedgerHead:
    """Return the last event and all checkpoints."""
    return ledger_head(visit.workspace)


@doors.view("/ledger/checkpoints", tuple[CheckpointView, ...])
def checkpoints(visit: Visit) -> tuple[CheckpointView, ...]:
    """List all checkpoints, newest first."""
    return ledger_head(visit.workspace).checkpoints


@doors.view("/ledger/events", EventPage)
def events(
    visit: Visit, before: Cursor = None, kind: Word = None, subject: Word = None, limit: Limit = 50
) -> EventPage:
    """List events, newest first; ``next`` is the cursor of the next page."""
    return event_page(
        visit.workspace,
        visit.identity,
        before=before,
        # The form of the page sends them even if they are empty.
        kind=kind or None,
        subject=subject or None,
        limit=limit,
    )


@events.page("/ledger", "ledger.html", limit=SHOWN)
def ledger_page(
    visit: Visit, document: EventPage, kind: str | None = None, subject: str | None = None
) -> Context:
    """Show events, newest first."""
    payloads = {
        event.seq: json_text(event.payload) for event in document.items if event.payload is not None
    }
    has_key = visit.site.settings.signing_key is not None
    return {
        "title": "Ledger",
        "view": document,
        "payloads": payloads,
        "head": ledger_head(visit.workspace),
        "kind": kind or "",
        "subject": subject or "",
        "report": None,
        "may_sign": has_key and _may_sign(visit.identity),
    }


def _may_sign(identity: Identity) -> bool:
    return bool(SIGNING & set(identity.roles))


@doors.act("/ledger/checkpoints", CheckpointView, status=201, in_person=True)
def post_checkpoint(visit: Visit) -> CheckpointView:
    """Sign a checkpoint with the server's key. Needs a session."""
    person, key = visit.identity.person, visit.site.settings.signing_key
    if not _may_sign(visit.identity):
        raise NotAllowedError(f"{person} must be admin or auditor to sign a checkpoint")
    if key is None:
        raise RefusedError("this server has no key: start it with --signing-key")
    # The ledger has who asked for it, beside what was signed.
    record_account_event(visit.workspace, CHECKPOINT_ASKED, person)
    note = sign_checkpoint(visit.workspace, key)
    return CheckpointView(size=visit.workspace.events.checkpoints()[-1][0], note=note)


post_checkpoint.form("/ledger/checkpoints", to="/ledger", done="signed")


@doors.act("/ledger/verification", LedgerReport, scope="read")
def verification(visit: Visit) -> LedgerReport:
    """Verify the whole ledger; one verification at a time."""
    if not visit.site.verifying.acquire(blocking=False):
        raise ProblemResponse(
            HTTPStatus.TOO_MANY_REQUESTS,
            "the ledger is being checked right now",
            headers={"Retry-After": "5"},
        )
    try:
        return verify(visit.workspace, VerifyRequest())
    finally:
        visit.site.verifying.release()


@verification.form_page("/ledger/verify")
def post_ledger_verify(visit: Visit, document: LedgerReport) -> Response:
    """Show the report above the newest events."""
    newest = event_page(visit.workspace, visit.identity, limit=SHOWN)
    return visit.show("ledger.html", {**ledger_page(visit, newest), "report": document})
