"""Latency, tokens and money: what the answers of each arm took, and the rules on it.

An answer that did not tell is never counted as 0: one of them leaves the number without a value,
and a rule on it holds the verdict open. Answers that were cached or recorded have the latency and
the cost of when they were given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from gatemark.core.figure import Cell, Figure, Table
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.packs.answers import Answer
from gatemark.packs.pack import Pack
from gatemark.statistics.quantiles import percentile_disc

WHOLE: Final = "bench"
"""Begins the ids of the rules on all suites together."""
BASELINE: Final = "baseline_"

_METRICS: Final = {
    "p50_ms_max": "latency_p50",
    "p95_ms_max": "latency_p95",
    "tokens_per_item_max": "tokens_per_item",
    "tokens_max": "tokens_total",
    "money_per_item_max": "money_per_item",
    "money_max": "money_total",
}
"""The metric that each bound of a pack is on."""


class _Quantity(msgspec.Struct, frozen=True):
    """Something that an answer may tell, and the metrics over all answers."""

    stated: str
    unit: str
    read: Callable[[Answer], float | None]
    metrics: Mapping[str, Callable[[Sequence[float]], float]]


def _percentile(percent: int) -> Callable[[Sequence[float]], float]:
    return lambda values: percentile_disc(np.sort(np.array(values, dtype=np.float64)), percent)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


_QUANTITIES: Final = (
    _Quantity(
        "latency",
        "ms",
        lambda answer: answer.latency_ms,
        {"latency_p50": _percentile(50), "latency_p95": _percentile(95)},
    ),
    _Quantity(
        "tokens",
        "tokens",
        lambda answer: answer.tokens,
        {"tokens_per_item": _mean, "tokens_total": math.fsum},
    ),
    _Quantity(
        "cost",
        "money",
        lambda answer: answer.cost,
        {"money_per_item": _mean, "money_total": math.fsum},
    ),
)
METRICS: Final = frozenset(
    prefix + name for one in _QUANTITIES for name in one.metrics for prefix in ("", BASELINE)
)


def latency_and_cost_rules(pack: Pack) -> tuple[Rule, ...]:
    """The bounds that a pack sets, for each suite and for all of them."""
    places = [(suite.id, suite.id, suite.latency, suite.cost) for suite in pack.suites]
    return tuple(
        Rule(
            id=f"{name}.{_METRICS[key]}",
            metric=_METRICS[key],
            lane=lane,
            op="<=",
            bound=float(bound),
        )
        for name, lane, latency, cost in (*places, (WHOLE, None, pack.latency, pack.cost))
        for bounds in (latency, cost)
        if bounds is not None
        for key, bound in bounds.given.items()
    )


Arm = Mapping[str, Sequence[Answer]]


def latency_and_cost_numbers(
    pack: Pack, candidate: Arm, baseline: Arm | None, caveat: str | None
) -> list[Measurement]:
    """What both arms took, by suite and altogether.

    A quantity that nobody stated anything about and no rule asks for is left out.
    """
    asked = {rule.metric for rule in latency_and_cost_rules(pack)}
    suites = [suite.id for suite in pack.suites if suite.dataset is not None]
    found = []
    for prefix, arm in (("", candidate), (BASELINE, baseline)):
        if arm is None or not suites:
            continue
        everything = [answer for suite in suites for answer in arm[suite]]
        for quantity in _QUANTITIES:
            is_stated = any(quantity.read(answer) is not None for answer in everything)
            if not is_stated and (prefix or asked.isdisjoint(quantity.metrics)):
                continue
            for lane, answers in (*((suite, arm[suite]) for suite in suites), (None, everything)):
                found += _numbers(quantity, prefix, lane, answers, caveat)
    return found


def _numbers(
    quantity: _Quantity,
    prefix: str,
    lane: str | None,
    answers: Sequence[Answer],
    caveat: str | None,
) -> list[Measurement]:
    stated = [value for answer in answers if (value := quantity.read(answer)) is not None]
    missing = len(answers) - len(stated)
    reason = "no items were answered"
    if missing:
        reason = f"{missing} of {len(answers)} answers state no {quantity.stated}"
    caveats = () if caveat is None else (caveat,)
    return [
        unmeasured(
            prefix + name,
            reason,
            direction="lower_is_better",
            unit=quantity.unit,
            n=len(stated),
            caveats=caveats,
            lane=lane,
        )
        if missing or not stated
        else measured(
            prefix + name,
            compute(stated),
            n=len(stated),
            direction="lower_is_better",
            unit=quantity.unit,
            caveats=caveats,
            lane=lane,
        )
        for name, compute in quantity.metrics.items()
    ]


def latency_and_cost_table(pack: Pack, numbers: Sequence[Measurement]) -> tuple[Figure, ...]:
    """What each arm took, suite by suite, where anything is known."""
    by_key = {number.key: number for number in numbers if number.name in METRICS}
    names = [name for one in _QUANTITIES for name in one.metrics]
    rows: list[tuple[Cell, ...]] = []
    for lane in (*(suite.id for suite in pack.suites), None):
        for arm, prefix in (("candidate", ""), ("baseline", BASELINE)):
            values = [by_key.get((prefix + name, lane)) for name in names]
            shown = [None if one is None or one.value is None else one.value for one in values]
            if any(value is not None for value in shown):
                rows.append((lane or "all suites", arm, *(_short(value) for value in shown)))
    if not rows:
        return ()
    columns = ("suite", "arm", "p50 ms", "p95 ms", "tokens/item", "tokens", "money/item", "money")
    return (Table("Latency and cost", columns, tuple(rows), len(rows)),)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
