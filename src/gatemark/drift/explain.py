"""The journey of ``gatemark drift policy --explain``: what a policy does to healthy assets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

import msgspec

from gatemark.core.result import AssetKind
from gatemark.drift.detectors.registry import detectors
from gatemark.drift.judging.policy import ANY_METRIC, DriftPolicy, Watch
from gatemark.drift.judging.simulate import alone, demoted_within, false_alarms

DAYS: Final = 110
SHIFTS: Final = (3.0, 5.0)
MONTHS: Final = 12


class WatchFigures(msgspec.Struct, frozen=True):
    """What one watch does to one healthy metric, by simulation.

    The figures without ``alone`` are those of a tick that judges as many series as simulated; a
    metric alone in its tick has no others to stand out from, and is warned about more often.
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
    """What the policy does to a healthy asset of a class: the sum over the metrics it has."""

    asset_class: str
    metrics: tuple[str, ...]
    false_demotions_per_month: float
    false_demotions_per_year: float
    alone_false_demotions_per_month: float
    alone_false_demotions_per_year: float


class Power(msgspec.Struct, frozen=True):
    """How often a shift that stays leads to a demotion soon."""

    shift_sd: float
    windows: int
    demoted_share: float


class Explained(msgspec.Struct, frozen=True):
    """All figures about a policy; the fields are the keys of the JSON document."""

    policy: str
    mode: str
    policy_digest: str
    seed: int
    series: int
    days: int
    watches: tuple[WatchFigures, ...]
    classes: tuple[ClassFigures, ...]
    power: tuple[Power, ...]


def explain(policy: DriftPolicy, *, seed: int, series: int = 400) -> Explained:
    """Simulate every watch of a policy on healthy series, and its sigma probe on shifted ones."""
    figures = tuple(_figures(policy, watch, seed, series) for watch in policy.watches)
    return Explained(
        policy=policy.name,
        mode=policy.mode,
        policy_digest=policy.digest,
        seed=seed,
        series=series,
        days=DAYS,
        watches=figures,
        classes=tuple(_classes(policy, figures)),
        power=_power(policy, seed, max(100, 5 * series // 2)),
    )


def _figures(policy: DriftPolicy, watch: Watch, seed: int, series: int) -> WatchFigures:
    detector = detectors().get(watch.detector)
    # Scale and items belong to the user's data; the simulated series have their own.
    plain = msgspec.structs.replace(watch, scale="number", min_sd=None, min_effect=0, min_items=1)
    found = false_alarms(policy, plain, detector, seed=seed, assets=series, metrics=1, days=DAYS)
    lone = found
    if policy.mode == "corrected":
        lone = false_alarms(
            alone(policy), plain, detector, seed=seed, assets=series, metrics=1, days=DAYS
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


def _classes(policy: DriftPolicy, figures: Iterable[WatchFigures]) -> Iterable[ClassFigures]:
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
                metrics=tuple(found.metric for found in mine),
                false_demotions_per_month=per_year / MONTHS,
                false_demotions_per_year=per_year,
                alone_false_demotions_per_month=lone / MONTHS,
                alone_false_demotions_per_year=lone,
            )


def _power(policy: DriftPolicy, seed: int, series: int) -> tuple[Power, ...]:
    probes = [watch for watch in policy.watches if watch.detector == "sigma"]
    if not probes:
        return ()
    watch = msgspec.structs.replace(
        probes[0], harm="both", scale="number", min_sd=None, min_effect=0, min_items=1
    )
    sigma = detectors().get("sigma")
    return tuple(
        Power(
            shift_sd=shift,
            windows=watch.sustained + 1,
            demoted_share=demoted_within(
                policy, watch, sigma, seed=seed, shift_sd=shift, series=series
            ),
        )
        for shift in SHIFTS
    )
