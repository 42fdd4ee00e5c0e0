"""The drift policy: watched metrics, thresholds, and the responses to each level."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from gatemark.core.canonical import digest, plain
from gatemark.core.durations import seconds_of
from gatemark.core.errors import InvalidValueError
from gatemark.core.levels import Level
from gatemark.core.result import AssetKind
from gatemark.release.drift.signal import ALARMS, Harm, Mode

ANY_METRIC: Final = "*"
FALSE_ALARMS: Final = 0.15
"""Default number of false warnings a year that a watch may raise for one metric."""
METRICS_IN_FULL: Final = 5
"""Above this number of metrics, an asset's metrics share a fixed total of false warnings."""
SUDDEN_ALARMS: Final = 0.025
"""The part of the false warnings that is spent on single-window changes."""
SEALED_ALARMS: Final = 0.05
"""The part spent on sealed scores; a drop from a lucky sealed score is not a false alarm."""
SCORED: Final = ("golden_accuracy", ANY_METRIC)
"""Metrics that a sealed result may have a score for."""
LONG: Final = 90
SUDDEN_BREACH: Final = 3.5
SHIFT_BREACH: Final = 4.25

Positive = Annotated[float, msgspec.Meta(gt=0, le=1000)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Few = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Scale = Literal["number", "rate"]
Act = Literal["alert", "shadow", "demote", "pause", "roll_back"]
OnBreach = Literal["keep_last", "fallback", "stop"]
WatchedStage = Literal["shadow", "canary", "enabled"]


class Watch(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
):
    """How one metric is watched.

    ``classes`` are the kinds of assets that are expected to have the metric; empty means every
    kind. Other kinds that have it are watched in the same way. ``window`` merges shorter pushed
    windows; without it, windows are judged as pushed. Mean and spread come from ``baseline``
    windows among the latest ``span``; with fewer than ``enough`` nothing is decided, with fewer
    than ``displayed`` no number is reported. ``warn`` and ``breach`` are in
    sigmas, and a breach must last ``sustained`` windows. ``scale: rate`` derives the minimum noise
    of a rate from the items of a window; ``min_sd`` sets it for other numbers. A change smaller
    than ``min_effect`` never raises an alarm. Windows with fewer than ``min_items`` items do not
    count. An episode closes after ``clear_windows`` windows below ``clear_below``.
    ``false_alarms`` is the number of warnings a year that the watch may raise for a healthy metric:
    WARN needs a rarer change.
    """

    metric: str
    detector: str = "sigma"
    classes: tuple[AssetKind, ...] = ()
    harm: Harm = "both"
    window: str | None = None
    baseline: Few = 14
    enough: Few = 14
    displayed: Few = 7
    span: Few = 28
    warn: Positive = 2.0
    breach: Positive = 3.0
    sustained: Few = 2
    warn_only: bool = False
    scale: Scale = "number"
    min_sd: NotNegative | None = None
    min_effect: NotNegative = 0.0
    min_items: Annotated[int, msgspec.Meta(ge=1)] = 1
    max_missing: Few = 2
    clear_below: Positive = 1.5
    clear_windows: Few = 3
    options: dict[str, object] = {}
    false_alarms: Positive | None = None

    def __post_init__(self) -> None:
        name = f"watch of {self.metric}"
        if not self.metric.strip():
            raise InvalidValueError("a watch needs a metric")
        if self.window is not None:
            seconds_of(self.window)
        if self.warn > self.breach:
            raise InvalidValueError(
                f"{name}: warn must be <= breach, got {self.warn} and {self.breach}"
            )
        if self.clear_below > self.warn:
            raise InvalidValueError(f"{name}: clear_below must be <= warn, got {self.clear_below}")
        if not 2 <= self.enough <= self.baseline <= self.span:
            raise InvalidValueError(
                f"{name}: 2 <= enough <= baseline <= span must hold, "
                f"got {self.enough}, {self.baseline}, {self.span}"
            )
        if self.displayed > self.enough:
            raise InvalidValueError(f"{name}: displayed must be <= enough, got {self.displayed}")

    def is_for(self, kind: AssetKind) -> bool:
        """Return whether this watch is meant for a kind of asset."""
        return not self.classes or kind in self.classes


class Response(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The actions that follow when an asset in a stage reaches a level."""

    stage: WatchedStage
    level: Level
    acts: tuple[Act, ...]

    def __post_init__(self) -> None:
        if not self.acts:
            raise InvalidValueError(
                f"{self.level} of a {self.stage} asset must name at least one act"
            )
        whole = f"{self.level} of {self.stage}"
        if self.level not in _ANSWERED:
            raise InvalidValueError(f"{whole} cannot have a response: it is not an alarm")
        allowed = _POSSIBLE[self.stage] if self.level in ALARMS else _ONLY_ALERTED
        wrong = [act for act in self.acts if act not in allowed]
        if wrong:
            raise InvalidValueError(
                f"{whole} cannot be followed by {wrong[0]}, only by {', '.join(allowed)}"
            )


_ANSWERED: Final[frozenset[Level]] = ALARMS | {"STALE"}
_ONLY_ALERTED: Final[tuple[Act, ...]] = ("alert",)
"""Missing points say nothing about an asset, so they can only raise an alert."""
_POSSIBLE: Final[dict[WatchedStage, tuple[Act, ...]]] = {
    "enabled": ("alert", "shadow", "demote", "roll_back"),
    "canary": ("alert", "pause", "shadow", "demote", "roll_back"),
    "shadow": ("alert", "demote"),
}


def _make_default_responses() -> tuple[Response, ...]:
    alert: tuple[Act, ...] = ("alert",)
    everywhere: tuple[WatchedStage, ...] = ("shadow", "canary", "enabled")
    return (
        Response("enabled", "WARN", ("shadow", "alert")),
        Response("enabled", "DEGENERATE", ("shadow", "alert")),
        Response("enabled", "BREACH", ("demote", "alert")),
        Response("canary", "WARN", ("pause", "alert")),
        Response("canary", "DEGENERATE", ("pause", "alert")),
        Response("canary", "BREACH", ("roll_back", "alert")),
        Response("shadow", "WARN", alert),
        Response("shadow", "DEGENERATE", alert),
        Response("shadow", "BREACH", ("demote", "alert")),
        *(Response(stage, level, alert) for stage in everywhere for level in _ALERTED),
    )


_ALERTED: Final[tuple[Level, ...]] = ("NEW_CLASS", "STALE")
_EXTRACTING: Final[tuple[AssetKind, ...]] = ("extractor", "classifier")

LITERAL_DEFAULTS: Final = (
    Watch(
        metric="golden_accuracy",
        classes=("model", "prompt", "tool", "agent"),
        harm="down",
        window="1d",
        scale="rate",
    ),
    Watch(metric="verifier_block_ratio", classes=("agent",), window="1d", scale="rate"),
    Watch(
        metric="confidence_kl",
        detector="kl",
        classes=_EXTRACTING,
        harm="up",
        window="1d",
        min_items=50,
    ),
    Watch(metric="rejection_ratio", classes=("rule_pack",), window="1d", scale="rate"),
    Watch(
        metric="calibration_ece",
        detector="ece_excess",
        classes=_EXTRACTING,
        harm="up",
        window="1d",
        min_items=100,
    ),
    Watch(metric="tool_error_classes", detector="chi_square", classes=("tool",), window="1d"),
    Watch(metric=ANY_METRIC),
    Watch(metric=ANY_METRIC, detector="kl", harm="up", min_items=50),
    Watch(metric=ANY_METRIC, detector="ece_excess", harm="up", min_items=100),
    Watch(metric=ANY_METRIC, detector="chi_square"),
)
"""The table of watched metrics, and the default watches of all other metrics, by form."""


def correct_watches(watch: Watch) -> tuple[Watch, ...]:
    """Return a sigma probe with a long baseline, and a watch for lasting shifts alongside it.

    The probe is for sudden changes: it warns of a single window only if that is far out. A metric
    that may have a sealed score is also compared with it.
    """
    if watch.detector != "sigma":
        return (watch,)
    long = msgspec.structs.replace(watch, baseline=LONG, span=LONG + LONG // 3)
    sealed = msgspec.structs.replace(
        long,
        detector="sealed",
        harm="down",
        scale="rate",
        sustained=1,
        breach=SHIFT_BREACH,
        false_alarms=SEALED_ALARMS,
    )
    return (
        msgspec.structs.replace(
            long,
            breach=SUDDEN_BREACH,
            false_alarms=SUDDEN_ALARMS,
            options={"correlation": True},
        ),
        msgspec.structs.replace(
            long,
            detector="shift",
            sustained=1,
            breach=SHIFT_BREACH,
            false_alarms=FALSE_ALARMS - SUDDEN_ALARMS,
        ),
        *((sealed,) if watch.metric in SCORED else ()),
    )


CORRECTED_DEFAULTS: Final = tuple(
    each for watch in LITERAL_DEFAULTS for each in correct_watches(watch)
)
"""The same for corrected mode: with watches for lasting shifts and for sealed scores."""


class DriftPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A drift policy: watches, statistics and responses.

    ``mode: literal`` is the plain sigma probe: trailing baseline, no correction, no freezing. ``q``
    bounds the share of false warnings among those of one tick, instead of the ``false_alarms`` of
    each watch. ``breach_by_mean`` also calls a breach when ``sustained`` + 1 windows all warn and
    their mean is beyond the threshold. ``lateness`` is how long after its end a window may still
    get points. ``catch_up`` is how many windows a tick goes back for those that were never judged.
    ``on_breach`` says what happens to the live version: ``fallback`` (the default) removes it only
    when an earlier version can take over, ``keep_last`` never removes it, ``stop`` removes it on a
    BREACH even when nothing serves afterwards.
    """

    name: str = "watched-metrics"
    mode: Mode = "corrected"
    watches: tuple[Watch, ...] = CORRECTED_DEFAULTS
    q: Share | None = None
    breach_by_mean: bool = True
    lateness: str | None = None
    catch_up: Annotated[int, msgspec.Meta(ge=1, le=400)] = 30
    responses: tuple[Response, ...] = _make_default_responses()
    on_breach: OnBreach | None = None

    def __post_init__(self) -> None:
        if self.mode == "literal" and self.watches == CORRECTED_DEFAULTS:
            # Literal mode has its own table of watches, without those of corrected mode.
            msgspec.structs.force_setattr(self, "watches", LITERAL_DEFAULTS)
        if not self.watches:
            raise InvalidValueError(f"policy {self.name} watches nothing")
        if self.lateness is not None:
            seconds_of(self.lateness)
        places = [(watch.metric, watch.detector, watch.classes) for watch in self.watches]
        if len(set(places)) < len(places):
            raise InvalidValueError(f"policy {self.name} watches a metric twice in the same way")
        keys = [(response.stage, response.level) for response in self.responses]
        repeated = sorted({" ".join(key) for key in keys if keys.count(key) > 1})
        if repeated:
            raise InvalidValueError(f"policy {self.name} responds twice to {repeated[0]}")

    @property
    def digest(self) -> str:
        """The digest of the whole policy."""
        return _digest_of(msgspec.json.encode(plain(self)))

    @property
    def lateness_s(self) -> int:
        """``lateness`` in seconds."""
        return seconds_of(self.lateness) if self.lateness else 0

    def allowed_a_year(self, watch: Watch) -> float:
        """Return how many false warnings a year a watch may raise for one metric."""
        return FALSE_ALARMS if watch.false_alarms is None else watch.false_alarms

    def keeps_live(self, stage: str | None) -> bool:
        """Return whether drift never moves a version in this stage."""
        return stage == "enabled" and self.on_breach == "keep_last"

    def acts_for(self, stage: str | None, level: Level) -> tuple[Act, ...]:
        """Return the actions for a stage and level; without a stage, at most an alert."""
        for response in self.responses:
            if (response.stage, response.level) == (stage, level):
                return response.acts
        is_set = any(response.level == level for response in self.responses)
        return ("alert",) if is_set and stage is None else ()


@lru_cache(maxsize=64)
def _digest_of(policy: bytes) -> str:
    """Cached, since the digest is used often and policies rarely change."""
    return digest(msgspec.json.decode(policy))
