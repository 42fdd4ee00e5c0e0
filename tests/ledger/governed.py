"""A ledger with a whole history: two versions of one asset, two people, a canary, a key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from gatemark.core.canonical import digest
from gatemark.core.result import Result
from gatemark.ledger.event import Event, EventDraft
from gatemark.ledger.event_kinds import (
    DECIDED_BY,
    LIFECYCLE_RULES,
    Channel,
    DecidedBy,
    as_payload,
    find_kind,
)
from gatemark.ledger.port import Store

from .samples import ATTACHMENT, EVIDENCE, MOMENT, result

ASSET = "triage"
ONE, TWO = digest("version one"), digest("version two")
POLICY = digest("release policy")
FIRST = result("first", candidate=ONE, with_blobs=True)
FAILED = result("second, failed", candidate=TWO, verdict="fail")
SECOND = result("second", candidate=TWO, answered_at=MOMENT + timedelta(hours=5))


class Governed:
    """Writes history as the lifecycle would, a minute per event, without asking anybody."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def add(self, kind: str, actor: str, subject: str | None = ASSET, /, **payload: Any) -> Event:
        at = self.next_minute()
        known = find_kind(kind)
        if known is not None and known.is_decided:
            policy = payload.get("policy_digest", POLICY)
            by = DecidedBy(policy, LIFECYCLE_RULES.current, Channel("command_line", "none"))
            payload.setdefault(DECIDED_BY, as_payload(by))
        (event,) = self.store.events.append((EventDraft(kind, at, actor, subject, payload),))
        return event

    def next_minute(self) -> datetime:
        """A minute after the last event, or the minute of its number."""
        seq = self.store.events.head().seq
        rows = self.store.events.rows_at([seq])
        last = datetime.fromisoformat(rows[seq].at) if rows else MOMENT
        return max(MOMENT + timedelta(minutes=seq + 1), last + timedelta(minutes=1))

    def seal(self, sealed: Result) -> int:
        self.store.results.append(sealed)
        return self.store.events.head().seq

    def register(self, version: str, candidate: str, author: str = "alice") -> Event:
        return self.add(
            "asset_registered", author, version=version, digest=candidate, author=author
        )

    def approve(self, candidate: str, stage: str, results: Sequence[Result], **more: Any) -> Event:
        at = self.next_minute()
        said = {
            "candidate_digest": candidate,
            "stage": stage,
            "result_ids": [one.id for one in results],
            "policy_digest": POLICY,
            "decision": "approve",
            "expires_at": at + timedelta(hours=72),
        }
        actor = more.pop("actor", "bob")
        return self.add("approval", actor, **{**said, **more})

    def move(
        self,
        version: str,
        before: str,
        after: str,
        results: Sequence[Result] = (),
        **more: Any,
    ) -> Event:
        said = {
            "version": version,
            "candidate_digest": ONE if version == "1" else TWO,
            "before": before,
            "after": after,
            "cause": "promote",
            "result_ids": [one.id for one in results],
            "policy_digest": POLICY,
        }
        actor = more.pop("actor", "olga")
        return self.add("transition", actor, **{**said, **more})

    def window(self, version: str, stage: str, state: str = "clean") -> Event:
        return self.add("canary_judged", "system", version=version, stage=stage, state=state)


def first_version(book: Governed) -> None:
    """Version 1 from draft to enabled."""
    store = book.store
    for data in (EVIDENCE, ATTACHMENT):
        store.blobs.put(data)
    book.register("1", ONE)
    book.seal(FIRST)
    book.move("1", "draft", "evaluating")
    book.move("1", "evaluating", "eligible", [FIRST])
    book.move("1", "eligible", "shadow", [FIRST])
    vote = book.approve(ONE, "enabled", [FIRST])
    book.move("1", "shadow", "enabled", [FIRST], approvals=[vote.seq])


def second_version(book: Governed) -> None:
    """Version 2 fails once, then goes through shadow and canary to enabled."""
    book.register("2", TWO)
    book.add("noted", "carol", text="the author is on leave until June")
    book.seal(FAILED)
    book.move("2", "draft", "evaluating")
    book.move("2", "evaluating", "rejected", [FAILED])
    book.move("2", "rejected", "evaluating")
    book.seal(SECOND)
    book.move("2", "evaluating", "eligible", [SECOND])
    book.move("2", "eligible", "shadow", [SECOND])
    vote = book.approve(TWO, "canary_1", [SECOND])
    book.move("2", "shadow", "canary_1", [SECOND], approvals=[vote.seq])
    for before, after in (("canary_1", "canary_5"), ("canary_5", "canary_25")):
        clean = [book.window("2", before).seq for _ in range(2)]
        book.move("2", before, after, [SECOND], windows=clean, cause="ramp", actor="system")


def enable_second(book: Governed) -> None:
    """The last step of version 2, with version 1 making room."""
    clean = [book.window("2", "canary_25").seq for _ in range(2)]
    vote = book.approve(TWO, "enabled", [SECOND])
    book.move("1", "enabled", "superseded", [FIRST], cause="supersede")
    book.move("2", "canary_25", "enabled", [SECOND], approvals=[vote.seq], windows=clean)


def roll_back(book: Governed) -> None:
    """Back to version 1 without asking anybody."""
    book.move("2", "enabled", "rolled_back", cause="rollback", actor="system")
    book.move("1", "superseded", "enabled", [FIRST], cause="rollback", actor="system")


def write_history(store: Store) -> Governed:
    """Everything above, in order."""
    book = Governed(store)
    first_version(book)
    second_version(book)
    enable_second(book)
    roll_back(book)
    return book
