"""Levels, signals and episodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from math import isfinite
from typing import Final, Literal, get_args

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.levels import Level

Harm = Literal["down", "up", "both"]
Mode = Literal["literal", "corrected"]
Ending = Literal["quiet", "takeover", "reset"]
"""What ended an episode: quiet windows, another version that serves, or a new start of its own.

After a takeover or a reset, windows from before it are never judged again; after a reset, the
baseline starts anew.
"""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""All levels, from the least to the most serious."""
ALARMS: Final[frozenset[Level]] = frozenset({"NEW_CLASS", "DEGENERATE", "WARN", "BREACH"})
"""The levels that open an episode."""
UNJUDGED: Final[frozenset[Level]] = frozenset({"INSUFFICIENT_BASELINE", "STALE"})
"""The levels that say nothing about the asset's health, good or bad."""


_VERSIONED: Final = re.compile(r'(?P<metric>.+)\{version="(?P<version>[^"{}]+)"\}\Z')


def versioned_metric(metric: str, version: str) -> str:
    """Return the series name of a metric that was measured on one version only."""
    return f'{metric}{{version="{version}"}}'


def split_metric(name: str) -> tuple[str, str | None]:
    """Return the metric of a series, and the version that its points name."""
    found = _VERSIONED.match(name) if name.endswith('"}') else None
    return (name, None) if found is None else (found["metric"], found["version"])


def rank_level(level: Level) -> int:
    """Return the rank of a level, from 0 for the least serious."""
    return LEVELS.index(level)


def find_worst(levels: Iterable[Level]) -> Level | None:
    """Return the most serious level, or None if there are none."""
    return max(levels, key=rank_level, default=None)


class Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A closed span of time from ``start`` (included) to ``end`` (excluded)."""

    start: datetime
    end: datetime

    @property
    def id(self) -> str:
        """Identifier of the window within its series."""
        seconds = round((self.end - self.start).total_seconds())
        return f"{self.start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}/{seconds}s"


class DriftSignal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The finding of a detector about one metric of one asset in one window.

    ``sigma`` is the distance from the baseline in its standard deviations; ``z`` is its normal
    score after correction for a small baseline of ``baseline_windows`` windows. A number that could
    not be computed is None, and ``reason`` says why. ``version`` is the measured version, None for
    assets that are not registered.
    """

    asset: str
    metric: str
    detector: str
    level: Level
    reason: str
    sigma: float | None
    z: float | None
    p_value: float | None
    value: float | None
    mu: float | None
    sd: float | None
    n: int
    window: Window | None
    baseline_windows: int
    episode: str | None = None
    extras: dict[str, float] = {}
    version: str | None = None

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InvalidValueError(f"the signal of {self.asset} {self.metric} has no reason")
        numbers = (self.sigma, self.z, self.p_value, self.value, self.mu, self.sd)
        known = [number for number in (*numbers, *self.extras.values()) if number is not None]
        # A finite sum has finite terms; to look at each takes longer than to make the signal.
        if not isfinite(sum(known)) and not all(map(isfinite, known)):
            raise InvalidValueError(f"the signal of {self.asset} {self.metric} is not finite")


def make_unjudged_signal(
    names: tuple[str, str, str],
    level: Level,
    reason: str,
    *,
    n: int = 0,
    window: Window | None = None,
    version: str | None = None,
    extras: dict[str, float] | None = None,
) -> DriftSignal:
    """Return a signal without numbers; ``names`` are asset, metric and detector."""
    asset, metric, detector = names
    return DriftSignal(
        asset=asset,
        metric=metric,
        detector=detector,
        level=level,
        reason=reason,
        sigma=None,
        z=None,
        p_value=None,
        value=None,
        mu=None,
        sd=None,
        n=n,
        window=window,
        baseline_windows=0,
        extras=extras or {},
        version=version,
    )


class Episode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One period of drift of one metric, from the window that opened it until it closes.

    ``level`` is the worst level reached. Its baseline is frozen: ``baseline_ids`` name the windows
    and their revisions, ``baseline_digest`` covers their content. A breach closes only by a fresh
    result; ``closed_because`` has the reason in words, ``ending`` what follows from it.
    ``version`` is the version that drifted.
    """

    id: str
    asset: str
    metric: str
    detector: str
    level: Level
    opened: Window
    latest: Window
    breached: Window | None
    signal: DriftSignal
    policy_digest: str
    baseline_ids: tuple[str, ...]
    baseline_digest: str
    closed_at: datetime | None = None
    closed_because: str | None = None
    ending: Ending | None = None
    version: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the episode is still open."""
        return self.closed_at is None
