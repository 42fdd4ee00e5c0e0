"""Sign in with a password, and sign out."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime, timedelta
from typing import Final

from gatemark.core.errors import NotAllowedError
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.server.accounts.account_events import record_account_event
from gatemark.server.accounts.events import SIGN_IN_FAILED, SIGNED_IN, SIGNED_OUT
from gatemark.server.accounts.open_stores import people_of
from gatemark.workspace import Workspace

FAILURES_EVERY: Final = timedelta(hours=1)
MOST_NAMES: Final = 20
"""How many names and addresses an event of failed sign-ins lists, the most frequent first."""
PASSWORD: Final = "password"  # noqa: S105 - the name of a way to sign in


class FailedSignIns:
    """Failed sign-ins of one server, recorded as one event an hour and not as one each.

    The first failure is recorded at once. Those that follow are counted, and recorded together
    when the hour is over: at the next attempt, or when the server stops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported_at: datetime | None = None
        self._since: datetime | None = None
        self._names: Counter[str] = Counter()
        self._places: Counter[str] = Counter()
        self._last: dict[str, object] = {}

    def add(self, workspace: Workspace, *, where: str, **said: object) -> None:
        """Count a failure; ``said`` is what is known of it, such as the name."""
        now = workspace.clock()
        with self._lock:
            self._since = self._since or now
            self._names[str(said.get("name", "unknown"))] += 1
            self._places[where] += 1
            self._last = {"where": where, **said}
        self.settle(workspace)

    def settle(self, workspace: Workspace, *, at_once: bool = False) -> None:
        """Record what was counted, if the hour is over."""
        now = workspace.clock()
        with self._lock:
            count = self._names.total()
            is_due = self._reported_at is None or now - self._reported_at >= FAILURES_EVERY
            if not count or not (is_due or at_once):
                return
            payload = {**self._last, "count": count}
            if count > 1 and self._since is not None:
                payload["since"] = self._since.isoformat()
                payload["names"] = dict(self._names.most_common(MOST_NAMES))
                payload["places"] = dict(self._places.most_common(MOST_NAMES))
            self._reported_at, self._since = now, None
            self._names, self._places = Counter(), Counter()
        record_account_event(workspace, SIGN_IN_FAILED, SYSTEM, **payload)


def sign_in(
    workspace: Workspace,
    name: str,
    password: str,
    *,
    where: str,
    before: str | None,
    failures: FailedSignIns,
) -> str:
    """Start a new session. Failures are counted and recorded."""
    if not people_of(workspace).is_known(name, password):
        failures.add(workspace, where=where, name=name[:64])
        raise NotAllowedError("wrong name or password")
    failures.settle(workspace)
    if before is not None:
        people_of(workspace).end_session(before)
    record_account_event(workspace, SIGNED_IN, name, where=where)
    return people_of(workspace).new_session(name, PASSWORD, workspace.clock())


def sign_out(workspace: Workspace, secret: str) -> None:
    """End a session."""
    session = people_of(workspace).session(secret, workspace.clock())
    people_of(workspace).end_session(secret)
    if session is not None and session.person is not None:
        record_account_event(workspace, SIGNED_OUT, session.person)
