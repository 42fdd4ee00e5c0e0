"""The ledger for page and API: events, checkpoints and verification."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Final

from gatemark.accounts.account_events import record_account_event
from gatemark.accounts.events import SIGN_IN_FAILED
from gatemark.accounts.identity import Identity
from gatemark.core.errors import NotAllowedError, RefusedError
from gatemark.integrity import verify
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import CHECKPOINT_ASKED
from gatemark.ledger.keys import sign_checkpoint
from gatemark.ledger.verify import VerifyRequest
from gatemark.lifecycle.model.nouns import Role
from gatemark.lifecycle.state_cache import asset_state_cache
from gatemark.review.events import REVIEW_CREATED, REVIEW_LOOKED_AT, REVIEW_UNBLINDED, VOTE_CAST
from gatemark.web.areas.views import CheckpointView, EventPage, EventView, LedgerHead
from gatemark.web.problems import ProblemResponse
from gatemark.web.site import Site
from gatemark.workspace import Workspace

MAX_PAGE: Final = 200
SIGNING: Final[frozenset[Role]] = frozenset({"admin", "auditor"})
BLINDING: Final = {
    REVIEW_CREATED: ("tells",),
    REVIEW_LOOKED_AT: ("numbers",),
    VOTE_CAST: ("digest",),
}
"""Fields that could reveal the arms while a review is open."""


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


def may_sign(identity: Identity) -> bool:
    """Return whether the caller may sign checkpoints with the server's key."""
    return bool(SIGNING & set(identity.roles))


def make_checkpoint(workspace: Workspace, identity: Identity, key: str | None) -> CheckpointView:
    """Sign a checkpoint with the server's key and record who requested it."""
    if not may_sign(identity):
        raise NotAllowedError(f"{identity.person} must be admin or auditor to sign a checkpoint")
    if key is None:
        raise RefusedError("this server has no key: start it with --signing-key")
    record_account_event(workspace, CHECKPOINT_ASKED, identity.person)
    note = sign_checkpoint(workspace, key)
    size = workspace.events.checkpoints()[-1][0]
    return CheckpointView(size=size, note=note)


def verified(site: Site) -> LedgerReport:
    """Verify the whole ledger; refuse while another verification runs."""
    if not site.verifying.acquire(blocking=False):
        raise ProblemResponse(
            HTTPStatus.TOO_MANY_REQUESTS,
            "the ledger is being checked right now",
            headers={"Retry-After": "5"},
        )
    try:
        return verify(site.workspace, VerifyRequest())
    finally:
        site.verifying.release()


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
