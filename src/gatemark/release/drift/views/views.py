"""The view of an asset's drift; its fields are the keys of the JSON document."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatemark.core.levels import Level
from gatemark.release.drift.signal import DriftSignal, Episode


class WindowView(msgspec.Struct, frozen=True, kw_only=True):
    """One window of a series: its value and its baseline; None where unknown."""

    start: datetime
    end: datetime
    n: int
    value: float | None
    mu: float | None
    sd: float | None
    z: float | None
    level: Level | None


class SeriesView(msgspec.Struct, frozen=True, kw_only=True):
    """One metric under one detector, its windows in order, and its current level."""

    metric: str
    detector: str
    warn: float
    breach: float
    signal: DriftSignal
    windows: tuple[WindowView, ...]


class ActView(msgspec.Struct, frozen=True, kw_only=True):
    """An action on an episode."""

    at: datetime
    metric: str
    level: str
    act: str
    outcome: str
    events: tuple[int, ...]


class DriftView(msgspec.Struct, frozen=True, kw_only=True):
    """The drift of one asset."""

    asset: str
    kind: str | None
    stage: str | None
    version: str | None
    at: datetime
    policy: str
    mode: str
    policy_digest: str
    series: tuple[SeriesView, ...]
    episodes: tuple[Episode, ...]
    acts: tuple[ActView, ...]
