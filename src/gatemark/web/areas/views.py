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
