"""Views of the server; their fields are the keys of the JSON documents."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from gatemark.lifecycle.model.nouns import Pins
from gatemark.lifecycle.views.views import AssetRow, View

TaskKind = Literal["vote", "promote", "resume", "confirm_break_glass", "look"]


class Task(View, frozen=True, kw_only=True):
    """An open task of a person."""

    kind: TaskKind
    asset: str
    environment: str
    version: str
    what: str
    since: datetime | None


class WaitingTask(View, frozen=True):
    """A review, label set or attribution that waits for a person, and its progress."""

    kind: Literal["review", "labels", "attribution"]
    name: str
    what: str
    answered: int
    total: int


class StageRow(View, frozen=True, kw_only=True):
    """The stages of an asset's versions in one environment, without retired ones."""

    row: AssetRow
    stages: dict[str, tuple[str, ...]]
    paused: tuple[str, ...]
    has_break_glass: bool
    demoted: str | None


class Overview(View, frozen=True, kw_only=True):
    """All assets by stage, and the tasks of the caller."""

    at: datetime
    rows: tuple[StageRow, ...]
    tasks: tuple[Task, ...]
    desk: tuple[WaitingTask, ...]
    next: str | None


class OfferedResult(View, frozen=True, kw_only=True):
    """A passing result about a candidate that a step could cite."""

    id: str
    pack: str
    sealed_at: datetime
    baseline_digest: str | None
    is_cited: bool


class StepVote(View, frozen=True, kw_only=True):
    """A vote on an open step, and whether it still counts."""

    actor: str
    decision: str
    at: datetime
    expires_at: datetime
    is_expired: bool
    result_ids: tuple[str, ...]
    note: str


class OpenStep(View, frozen=True, kw_only=True):
    """A step that waits for approval, with everything that a vote is bound to."""

    asset: str
    environment: str
    version: str
    stage: str
    to: str
    kind: str
    risk: str
    author: str
    parent: str | None
    candidate_digest: str
    policy_digest: str
    pins: Pins
    note: str
    offered: tuple[OfferedResult, ...]
    votes: tuple[StepVote, ...]
    approvals_needed: int
    paused: str | None
    etag: str
    conflict: str | None


class CheckLine(View, frozen=True, kw_only=True):
    """One check and its outcome."""

    what: str
    holds: bool
    detail: str


class ResultCheck(View, frozen=True, kw_only=True):
    """The verification of a result: its seal, its evidence, and its events."""

    id: str
    verdict: Literal["pass", "fail"]
    checked_at: datetime
    lines: tuple[CheckLine, ...]


class ResultSummary(View, frozen=True, kw_only=True):
    """A sealed result in a list."""

    seq: int
    id: str
    title: str
    verdict: str
    finished_at: datetime


class ResultPage(View, frozen=True, kw_only=True):
    """A page of results, newest first, and the cursor of the next page."""

    items: tuple[ResultSummary, ...]
    next: str | None


class MeasureDelta(View, frozen=True, kw_only=True):
    """One measure in two results; None if a result lacks it, with the reason."""

    name: str
    scope: str | None
    unit: str
    direction: str
    before: float | None
    after: float | None
    delta: float | None
    is_worse: bool | None
    before_reason: str | None
    after_reason: str | None


class FindingDelta(View, frozen=True, kw_only=True):
    """One rule in two results."""

    rule: str
    before: str | None
    after: str | None
    is_worse: bool


class ItemChange(View, frozen=True, kw_only=True):
    """An item that was answered worse or better than before."""

    suite: str
    item: str
    before: float
    after: float


class ResultDelta(View, frozen=True, kw_only=True):
    """The comparison of two results. Items are paired by suite and id, on the same data only."""

    before: ResultSummary
    after: ResultSummary
    same_data: bool
    caveats: tuple[str, ...]
    measures: tuple[MeasureDelta, ...]
    findings: tuple[FindingDelta, ...]
    lost: tuple[ItemChange, ...]
    gained: tuple[ItemChange, ...]
    compared_items: int
    more_items: int


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
