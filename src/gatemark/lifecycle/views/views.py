"""What pages and tables about an asset show; their fields are the keys of the JSON documents."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from gatemark.lifecycle.events.fact import Tone
from gatemark.lifecycle.model.nouns import GateFinding, Pins

Worth = Literal["verified", "missing", "changed"]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What every view has in common."""


class HistoryLine(View, frozen=True, kw_only=True):
    """One event in words: what happened to which version, by whom and on what grounds."""

    seq: int
    at: datetime
    actor: str
    version: str | None
    environment: str | None
    what: str
    tone: Tone
    note: str = ""
    result_ids: tuple[str, ...] = ()
    approved_by: tuple[str, ...] = ()


class Live(View, frozen=True, kw_only=True):
    """What served in one environment at one moment, and why."""

    environment: str
    version: str | None
    since: datetime | None
    why: str
    result_ids: tuple[str, ...] = ()
    approved_by: tuple[str, ...] = ()
    canary: str | None = None
    canary_share: float | None = None
    shadow: tuple[str, ...] = ()


class StageSpan(View, frozen=True, kw_only=True):
    """A span of time that a version spent in one stage."""

    environment: str
    version: str
    stage: str
    start: datetime
    end: datetime | None


class History(View, frozen=True, kw_only=True):
    """An asset from its first event on; ``at`` is the moment that ``live`` speaks of."""

    asset: str
    kind: str
    risk: str
    at: datetime
    live: tuple[Live, ...]
    segments: tuple[StageSpan, ...]
    lines: tuple[HistoryLine, ...]
    more_lines: int = 0


class Citation(View, frozen=True, kw_only=True):
    """A result that a stage rests on, and what it is worth today.

    ``caveat`` is what one should know although it holds.
    """

    id: str
    worth: Worth
    reason: str
    caveat: str | None = None
    verdict: str | None = None
    title: str | None = None
    pack: str | None = None
    actor: str | None = None
    sealed_at: datetime | None = None


class ShownVote(View, frozen=True, kw_only=True):
    """What somebody said about a step."""

    seq: int
    actor: str
    stage: str
    decision: str
    at: datetime
    expires_at: datetime
    was_used: bool
    is_expired: bool = False
    is_replaced: bool = False
    note: str = ""


class ClimbStep(View, frozen=True, kw_only=True):
    """One move of the climb to the current stage."""

    seq: int
    at: datetime
    actor: str
    before: str
    after: str
    cause: str
    note: str
    result_ids: tuple[str, ...]
    approved_by: tuple[str, ...]
    window_count: int
    gates: tuple[GateFinding, ...]
    policy_digest: str


class Why(View, frozen=True, kw_only=True):
    """Why a version is where it is."""

    asset: str
    version: str
    environment: str
    kind: str
    risk: str
    stage: str
    since: datetime | None
    author: str
    parent: str | None
    digest: str
    pins: Pins
    pins_digest: str
    paused: str | None
    glass: str | None
    steps: tuple[ClimbStep, ...]
    citations: tuple[Citation, ...]
    votes: tuple[ShownVote, ...]
    overrides: tuple[str, ...]
    problems: tuple[str, ...]
    next_moves: tuple[str, ...]


class VersionLine(View, frozen=True, kw_only=True):
    """One version as a list shows it."""

    version: str
    stage: str
    since: datetime
    author: str
    parent: str | None
    digest: str
    pins: Pins
    paused: str | None
    has_broken_glass: bool
    result_ids: tuple[str, ...]


class AssetCard(View, frozen=True, kw_only=True):
    """An asset and its versions, the newest first."""

    asset: str
    kind: str
    risk: str
    environment: str
    revision: int
    full_pack: str | None
    full_pack_editor: str | None
    enabled: str | None
    canary: str | None
    versions: tuple[VersionLine, ...]


class AssetRow(View, frozen=True, kw_only=True):
    """An asset in one environment as a list shows it."""

    asset: str
    kind: str
    risk: str
    environment: str
    enabled: str | None
    canary: str | None
    version_count: int
