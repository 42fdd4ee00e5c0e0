"""Account events in the ledger."""

from __future__ import annotations

from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import (
    as_payload,
)
from gatemark.release.lifecycle.events.governance import AccessGiven
from gatemark.workspace import Workspace


def record_account_event(workspace: Workspace, kind: str, actor: str, **payload: object) -> None:
    """Record an account event in the ledger."""
    workspace.events.append([EventDraft(kind, workspace.clock(), actor, None, payload)])


def record_access_given(workspace: Workspace, kind: str, actor: str, person: str) -> None:
    """Record that somebody gave a person a way to sign in; votes are judged by it."""
    given, at = AccessGiven(person=person), workspace.clock()
    workspace.events.append(
        [
            EventDraft(kind, at, actor, None, {"person": person}),
            EventDraft(given.declared.name, at, actor, given.subject, as_payload(given)),
        ]
    )
