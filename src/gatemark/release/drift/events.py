"""Ledger events of drift: signals, pushed points, and changes of its tables."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatemark.ledger.event_kinds import (
    DRIFT_RECORDED,
    DRIFT_SIGNAL,
    POINTS_PUSHED,
    EventKind,
    declare,
)
from gatemark.release.lifecycle.events.fact import AssetFact, LifecycleEvent, event
from gatemark.release.lifecycle.model.nouns import PRODUCTION
from gatemark.release.lifecycle.model.state import Asset


@event(
    DRIFT_SIGNAL,
    "drift is seen, gets worse, or is over",
    roles=("system",),
    is_decided=False,
    tone="flag",
)
class DriftNoted(AssetFact, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The fields of a drift signal that the drift gate reads; the others are the detector's."""

    asset: str
    metric: str
    level: str
    detector: str = ""
    environment: str = PRODUCTION
    episode: str | None = None

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        """Set the level that a detector found in the metric, for the drift gate."""
        levels = asset.ensure_place(self.environment).drift.setdefault(self.metric, {})
        levels[self.detector] = (event.seq, self.level)

    @property
    def sentence(self) -> str:
        return f"drift of {self.metric}: {self.level}"

    @property
    def is_shown(self) -> bool:
        return self.level not in ("OK", "INFO")


class PointsPushed(msgspec.Struct, frozen=True):
    """Payload of ``points_pushed``: rows of drift points that were written with this event.

    ``digest`` covers the rows as ``drift.batches`` describes, ``rows`` counts them. ``assets``
    names the first assets, sorted; ``asset_count`` counts all.
    """

    rows: int
    digest: str
    pushed_at: datetime
    asset_count: int
    assets: tuple[str, ...]


class TableChange(msgspec.Struct, frozen=True):
    """The digests of a table before and after a write, and its row count after it."""

    rows: int
    before: str
    after: str


class JudgedUntil(msgspec.Struct, frozen=True):
    """How far a probe judged: windows that were over ``at``, by points up to an event.

    Under another policy, all windows within reach are judged again.
    """

    at: datetime
    event: int
    policy_digest: str


class DriftRecorded(msgspec.Struct, frozen=True):
    """Payload of ``drift_recorded``: the tables before and after a probe or a closed episode.

    ``tick`` is the number of the recording. Digests cover whole tables, so that an edit between two
    recordings shows: the state before must equal the state after the previous recording.
    """

    tick: int
    levels: TableChange
    episodes: TableChange
    judged: JudgedUntil


declare(
    EventKind(
        name=POINTS_PUSHED,
        when="drift points are pushed, or covered by an upgrade",
        payload=PointsPushed,
    )
)
declare(
    EventKind(
        name=DRIFT_RECORDED,
        when="a probe has judged windows, or an episode is closed",
        payload=DriftRecorded,
    )
)
