"""The same history as in ``governed``, made by the lifecycle itself: people, roles, a policy."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from tests.release.lifecycle.world import window

from gatemark.core.result import AnswerTime, Result, answer_time_of, seal
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.act import act, run_due
from gatemark.release.lifecycle.canary import canary_state
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    Command,
    GrantRoles,
    Promote,
    RollBack,
    SetRequiredPack,
)
from gatemark.release.lifecycle.model.nouns import Gate
from gatemark.release.lifecycle.model.release_policy import DEFAULT_GATES, GateRule, ReleasePolicy
from gatemark.release.lifecycle.pack_identity import identify_result_pack
from gatemark.workspace import Workspace

from .governed import ASSET, FAILED, FIRST, ONE, SECOND, TWO
from .samples import ATTACHMENT, EVIDENCE, MOMENT

PEOPLE: dict[str, tuple[Any, ...]] = {
    "root": ("admin",),
    "alice": ("author",),
    "bob": ("approver",),
    "eve": ("evaluator",),
    "pam": ("pack_owner",),
    "olga": ("operator",),
}
# The results of these tests have no suites of their own.
NO_SUITES: dict[Gate, GateRule] = {
    "replay": GateRule(stages=()),
    "adversarial": GateRule(stages=()),
}
POLICY = ReleasePolicy(gates={**DEFAULT_GATES, **NO_SUITES}, watch_hours=0)
LENGTH = timedelta(minutes=15)


class Clock:
    """A clock that only goes when it is told to."""

    def __init__(self) -> None:
        self.now = MOMENT

    def __call__(self) -> datetime:
        return self.now


class Honest:
    """Lets things happen in a workspace, a minute apart."""

    def __init__(self, workspace: Workspace, clock: Clock) -> None:
        self.workspace, self.clock = workspace, clock

    def do(self, command: Command) -> None:
        self.clock.now += timedelta(minutes=1)
        assert act(self.workspace, command).is_change

    def note(self, text: str) -> None:
        self.clock.now += timedelta(minutes=1)
        self.workspace.events.append(
            [EventDraft("noted", self.clock.now, "carol", None, {"t": text})]
        )

    def seal(self, sealed: Result) -> None:
        """A result as of now; what was judged, and so its id, stays the same."""
        answered = answer_time_of(sealed)
        assert answered is not None
        self.clock.now = max(self.clock.now, answered.at) + timedelta(minutes=1)
        fields = {name: getattr(sealed, name) for name in sealed.__struct_fields__}
        del fields["id"], fields["stamp"], fields["schema"]
        times = {"started_at": self.clock.now, "finished_at": self.clock.now}
        made = seal(**{**fields, **times})
        assert made.id == sealed.id
        self.workspace.results.append(made)

    def promote(self, version: str, to: Any, *cites: Result, actor: str = "olga") -> None:
        ids = tuple(one.id for one in cites)
        self.do(Promote(actor=actor, asset=ASSET, version=version, to=to, result_ids=ids))

    def approve(self, version: str, stage: Any, *cites: Result) -> None:
        ids = tuple(one.id for one in cites)
        self.do(
            Approve(
                actor="bob",
                asset=ASSET,
                version=version,
                stage=stage,
                result_ids=ids,
                note="read the results",
            )
        )

    def clean_window(self) -> None:
        """One window of measurements, judged when it is over."""
        start = canary_state(self.workspace, ASSET).next_window
        self.clock.now = start + LENGTH
        pushed = window(start)
        act(self.workspace, msgspec.structs.replace(pushed, actor="eve", asset=ASSET))
        run_due(self.workspace, ASSET, "production")


def compared() -> Result:
    """The comparison of version 2 with version 1."""
    fields = {name: getattr(SECOND, name) for name in SECOND.__struct_fields__}
    del fields["id"], fields["stamp"], fields["schema"]
    baseline = msgspec.structs.replace(fields["candidate"], id="triage/baseline", digest=ONE)
    runtime = {**fields["runtime"], **AnswerTime(MOMENT + timedelta(hours=6)).runtime()}
    return seal(**{**fields, "title": "compared", "baseline": baseline, "runtime": runtime})


COMPARED = compared()


def first_version(book: Honest) -> None:
    """Version 1 from draft to enabled."""
    for data in (EVIDENCE, ATTACHMENT):
        book.workspace.blobs.put(data)
    for person, roles in PEOPLE.items():
        book.do(GrantRoles(actor="root", person=person, roles=roles))
    book.do(AdoptPolicy(actor="root", policy=POLICY))
    book.do(AddVersion(actor="alice", asset=ASSET, kind="prompt", version="1", digest=ONE))
    book.do(SetRequiredPack(actor="pam", asset=ASSET, required_pack=identify_result_pack(FIRST)))
    book.seal(FIRST)
    book.promote("1", "evaluating", actor="alice")
    book.promote("1", "eligible", FIRST, actor="eve")
    book.promote("1", "shadow")
    book.approve("1", "enabled")
    book.promote("1", "enabled")


def second_version(book: Honest) -> None:
    """Version 2 fails once, then goes through shadow and canary to the last share."""
    book.do(AddVersion(actor="alice", asset=ASSET, kind="prompt", version="2", digest=TWO))
    book.note("the author is on leave until June")
    book.seal(FAILED)
    book.promote("2", "evaluating", actor="alice")
    book.promote("2", "rejected", FAILED, actor="eve")
    book.promote("2", "evaluating", actor="alice")
    book.seal(SECOND)
    book.promote("2", "eligible", SECOND, actor="eve")
    book.promote("2", "shadow")
    book.seal(COMPARED)
    book.approve("2", "canary_1", COMPARED)
    book.promote("2", "canary_1", COMPARED)
    for _ in range(4):
        book.clean_window()


def enable_second(book: Honest) -> None:
    """The last step of version 2, with version 1 making room."""
    book.note("the author is back")
    for _ in range(2):
        book.clean_window()
    book.approve("2", "enabled")
    book.promote("2", "enabled")


def roll_back(book: Honest) -> None:
    """Back to version 1 without asking anybody."""
    book.do(RollBack(actor=SYSTEM, asset=ASSET, stop=True))


def write_history(workspace: Workspace, clock: Clock) -> Honest:
    """Everything above, in order."""
    book = Honest(workspace, clock)
    first_version(book)
    second_version(book)
    enable_second(book)
    roll_back(book)
    return book
