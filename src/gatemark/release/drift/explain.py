"""``gatemark drift policy --explain``: false alarms and detection of a policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

import msgspec

from gatemark.core.result import AssetKind
from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.judging.policy import ANY_METRIC, DriftPolicy, Watch
from gatemark.release.drift.judging.simulate import (
    KINDS,
    SHIFTS,
    Detection,
    Watched,
    estimate_detection,
    estimate_false_alarms,
    estimate_false_alarms_by_kind,
    isolate_series,
)

DAYS: Final = 110
MONTHS: Final = 12


class WatchFigures(msgspec.Struct, frozen=True):
    """The simulated false alarms and detection of one watch on one healthy metric.

    Fields without ``alone`` are from a tick that judges all simulated series together. A metric
    that is alone in its tick is warned about more often.
    """

    metric: str
    detector: str
    false_warnings_per_month: float
    false_demotions_per_month: float
    false_demotions_per_year: float
    alone_false_warnings_per_month: float
    alone_false_demotions_per_month: float
    alone_false_demotions_per_year: float


class ClassFigures(msgspec.Struct, frozen=True):
    """The false alarms of a healthy asset of a class: the sum over its metrics."""

    asset_class: str
    metrics: tuple[str, ...]
    false_demotions_per_month: float
    false_demotions_per_year: float
    alone_false_demotions_per_month: float
    alone_false_demotions_per_year: float


class KindFigures(msgspec.Struct, frozen=True):
    """False alarms a year of one healthy metric, by the correlation of its windows."""

    kind: str
    false_warnings_per_year: float
    false_demotions_per_year: float


class PolicyExplanation(msgspec.Struct, frozen=True):
    """All figures about a policy; the fields are the keys of the JSON document."""

    policy: str
    mode: str
    policy_digest: str
    seed: int
    series: int
    days: int
    watches: tuple[WatchFigures, ...]
    classes: tuple[ClassFigures, ...]
    kinds: tuple[KindFigures, ...]
    detection: tuple[Detection, ...]


def explain(policy: DriftPolicy, *, seed: int, series: int = 400) -> PolicyExplanation:
    """Simulate a policy: each watch on healthy series, and scalar watches on all kinds of series.

    Scalar watches are simulated together, as they judge a metric that has no watch of its own.
    """
    numbers = select_scalar_watches(policy)
    figures = tuple(_simulate_watch(policy, watch, seed, series) for watch in policy.watches)
    return PolicyExplanation(
        policy=policy.name,
        mode=policy.mode,
        policy_digest=policy.digest,
        seed=seed,
        series=series,
        days=DAYS,
        watches=figures,
        classes=tuple(_sum_classes(policy, figures)),
        kinds=_simulate_kinds(policy, numbers, seed, series // 4) if numbers else (),
        detection=estimate_detection(
            policy, numbers, changes=(*SHIFTS, None), seed=seed, series=series
        )
        if numbers
        else (),
    )


def _simulate_watch(policy: DriftPolicy, watch: Watch, seed: int, series: int) -> WatchFigures:
    watched = [(_strip_scale(watch), detectors().get(watch.detector))]
    found = estimate_false_alarms(policy, watched, seed=seed, assets=series, metrics=1, days=DAYS)
    lone = found
    if policy.mode == "corrected" and policy.q is not None:
        lone = estimate_false_alarms(
            isolate_series(policy), watched, seed=seed, assets=series, metrics=1, days=DAYS
        )
    return WatchFigures(
        metric=watch.metric,
        detector=watch.detector,
        false_warnings_per_month=found.warnings_per_month,
        false_demotions_per_month=found.demotions_per_month,
        false_demotions_per_year=found.demotions_per_year,
        alone_false_warnings_per_month=lone.warnings_per_month,
        alone_false_demotions_per_month=lone.demotions_per_month,
        alone_false_demotions_per_year=lone.demotions_per_year,
    )


def _sum_classes(policy: DriftPolicy, figures: Iterable[WatchFigures]) -> Iterable[ClassFigures]:
    known = list(zip(policy.watches, figures, strict=True))
    for kind in get_args(AssetKind):
        mine = [
            found for watch, found in known if watch.metric != ANY_METRIC and watch.is_for(kind)
        ]
        if mine:
            per_year = sum(found.false_demotions_per_year for found in mine)
            lone = sum(found.alone_false_demotions_per_year for found in mine)
            yield ClassFigures(
                asset_class=kind,
                metrics=tuple(dict.fromkeys(found.metric for found in mine)),
                false_demotions_per_month=per_year / MONTHS,
                false_demotions_per_year=per_year,
                alone_false_demotions_per_month=lone / MONTHS,
                alone_false_demotions_per_year=lone,
            )


def _strip_scale(watch: Watch) -> Watch:
    """Return the watch without scale and min_items, which depend on the user's data."""
    return msgspec.structs.replace(watch, scale="number", min_sd=None, min_effect=0, min_items=1)


def select_scalar_watches(policy: DriftPolicy) -> list[Watched]:
    """Return the watches of a scalar metric, preferably those for any metric."""
    watched = [(_strip_scale(watch), detectors().get(watch.detector)) for watch in policy.watches]
    numbers = [
        pair
        for pair in watched
        if "value" in pair[1].forms - pair[1].named_forms and not pair[1].needs_reference
    ]
    named = [pair for pair in numbers if pair[0].metric == ANY_METRIC] or numbers
    first = named[0][0].metric if named else ANY_METRIC
    return [
        (msgspec.structs.replace(watch, harm="both"), detector)
        for watch, detector in named
        if watch.metric == first
    ]


def _simulate_kinds(
    policy: DriftPolicy, watched: list[Watched], seed: int, series: int
) -> tuple[KindFigures, ...]:
    found = estimate_false_alarms_by_kind(
        isolate_series(policy), watched, KINDS, seed=seed, assets=series
    )
    return tuple(
        KindFigures(kind, alarms.warnings_per_year, alarms.demotions_per_year)
        for kind, alarms in found.items()
    )
