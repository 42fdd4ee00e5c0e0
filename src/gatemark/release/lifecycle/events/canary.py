"""Events of a running canary and of the watch after enabling: measurements and verdicts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta

from gatemark.core.errors import InvalidValueError
from gatemark.ledger.event_kinds import CANARY_JUDGED
from gatemark.release.lifecycle.commands import PushShadow, PushWindow, ReportService, Tick
from gatemark.release.lifecycle.events.fact import (
    AssetFact,
    LifecycleEvent,
    Tone,
    VersionFact,
    event,
)
from gatemark.release.lifecycle.model.nouns import (
    ArmMetric,
    AssetName,
    InvariantCount,
    MetricVerdict,
    Role,
    ShadowPairs,
    Stage,
    Traffic,
    VersionName,
    WindowState,
)
from gatemark.release.lifecycle.model.state import Asset, CanaryWindow, ServiceSpan

REPORTERS: Final[tuple[Role, ...]] = ("evaluator", "operator", "system")
SERVICE_MEMORY: Final = timedelta(days=1)
"""How long reports of a service stay in the state; the longest burn window is shorter."""


@event(
    "canary_window",
    "measurements of a canary window arrive",
    roles=REPORTERS,
    command=PushWindow,
    is_measurement=True,
)
class WindowPushed(VersionFact, frozen=True, kw_only=True):
    """Measurements of one canary window, complete or in parts."""

    start: datetime
    end: datetime
    metrics: Annotated[tuple[ArmMetric, ...], Meta(max_length=1000)] = ()
    invariants: Annotated[tuple[InvariantCount, ...], Meta(max_length=100)] = ()
    traffic: Traffic | None = None

    @property
    def gives_authority(self) -> bool:
        return False

    def apply(self, asset: Asset, _event: LifecycleEvent) -> None:
        rollout = asset.ensure_place(self.environment).rollout
        if rollout is None or rollout.version != self.version:
            return
        empty = CanaryWindow(start=self.start, end=self.end)
        window = rollout.pending.setdefault(self.start, empty)
        for part in self.metrics:
            window.moments.setdefault(part.metric, {})[part.arm] = part.moments
            if part.values:
                window.values.setdefault(part.metric, {})[part.arm] = part.values
        for invariant in self.invariants:
            window.invariants[invariant.name] = (invariant.checked, invariant.violations)
        if self.traffic is not None:
            window.traffic = self.traffic

    @property
    def sentence(self) -> str:
        count = len(self.metrics) + len(self.invariants)
        return f"window {self.start:%Y-%m-%d %H:%MZ}, {count} measurements"


@event(
    CANARY_JUDGED,
    "a canary window is judged",
    roles=("system",),
    command=Tick,
    compared=(
        *("environment", "version", "start", "end", "stage", "state", "judge"),
        *("missing_count", "is_ratio_off", "is_pooled"),
    ),
)
class WindowJudged(VersionFact, frozen=True, kw_only=True):
    """The verdict on one window, or on a run of windows that never arrived."""

    start: datetime
    end: datetime
    stage: Stage
    state: WindowState
    judge: str
    reasons: tuple[str, ...]
    metrics: tuple[MetricVerdict, ...] = ()
    missing_count: int = 0
    is_ratio_off: bool = False
    is_pooled: bool | None = None

    @property
    def gives_authority(self) -> bool:
        return False

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        """Count the window and drop its single values."""
        rollout = asset.ensure_place(self.environment).rollout
        if rollout is None or rollout.version != self.version:
            return
        window = rollout.pending.pop(self.start, None)
        if window is not None:
            window.values = {}
            rollout.history.append(window)
        rollout.judged_until = self.end
        rollout.last = (event.seq, self.state, self.is_ratio_off)
        if self.state == "clean":
            rollout.pool_since = self.end
            rollout.streak.append(event.seq)
            rollout.held_count = 0
            rollout.clean_count += 1
        else:
            # A window that only lacks samples is judged together with the next one.
            rollout.streak = rollout.streak if self.is_pooled else []
            rollout.other_count += max(1, self.missing_count)
            if self.state == "inconclusive":
                rollout.held_count += max(1, self.missing_count)

    @property
    def sentence(self) -> str:
        where = f"window {self.start:%Y-%m-%d %H:%MZ} at {self.stage}"
        return f"{where} is {self.state}: {'; '.join(self.reasons)}"

    @property
    def tone(self) -> Tone:
        return "note" if self.state == "clean" else "flag"


@event(
    "watch_closed",
    "the watch after enabling ends",
    roles=("system",),
    command=Tick,
    compared=("environment", "version"),
)
class WatchClosed(VersionFact, frozen=True, kw_only=True):
    """The watch after enabling ends; the version now gets all traffic."""

    clean_count: int
    other_count: int

    def may_raise(self, _asset: Asset) -> bool:
        return False

    def apply(self, asset: Asset, _event: LifecycleEvent) -> None:
        place = asset.ensure_place(self.environment)
        if place.rollout is not None and place.rollout.version == self.version:
            place.rollout = None

    @property
    def sentence(self) -> str:
        counts = f"{self.clean_count} clean windows, {self.other_count} others"
        return f"the watch is over, {counts}"


@event(
    "shadow_measured",
    "a shadow and the live version are measured on the same inputs",
    roles=REPORTERS,
    command=PushShadow,
    compared=("environment", "version", "live", "pairs"),
    is_measurement=True,
)
class ShadowMeasured(VersionFact, frozen=True, kw_only=True):
    """Paired measurements of a shadow and the live version."""

    live: VersionName
    pairs: ShadowPairs

    @property
    def gives_authority(self) -> bool:
        return False

    def apply(self, asset: Asset, _event: LifecycleEvent) -> None:
        track = asset.ensure_track(self.environment, self.version)
        track.shadowed = [*track.shadowed, (self.live, self.pairs)]

    @property
    def sentence(self) -> str:
        pairs = self.pairs
        return f"{pairs.n} pairs with {self.live}, {pairs.agreed} agree, to {pairs.end:%H:%MZ}"


@event(
    "service_reported",
    "a service reports good and bad events",
    roles=REPORTERS,
    command=ReportService,
    is_measurement=True,
)
class ServiceReported(AssetFact, frozen=True, kw_only=True):
    """Good and total events of a service in a time span, for its error budget."""

    environment: AssetName
    start: datetime
    end: datetime
    good: Annotated[int, Meta(ge=0, le=10**12)]
    total: Annotated[int, Meta(ge=0, le=10**12)]

    def __post_init__(self) -> None:
        if self.good > self.total:
            raise InvalidValueError(f"good {self.good} exceeds total {self.total}")
        if self.start >= self.end:
            raise InvalidValueError("a span must end after it starts")

    @property
    def gives_authority(self) -> bool:
        return False

    @property
    def span(self) -> ServiceSpan:
        """The report as the state stores it."""
        return ServiceSpan(self.start, self.end, self.good, self.total)

    def apply(self, asset: Asset, _event: LifecycleEvent) -> None:
        """Add the span, and drop those that are too old to matter."""
        place = asset.ensure_place(self.environment)
        newest = max([self.end, *(span.end for span in place.service)])
        place.service = sorted(
            span for span in [*place.service, self.span] if span.end > newest - SERVICE_MEMORY
        )

    @property
    def sentence(self) -> str:
        return f"{self.good} of {self.total} good to {self.end:%Y-%m-%d %H:%MZ}"
