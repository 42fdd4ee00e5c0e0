"""Latency, tokens and money of the answers, and the rules on them.

A missing value is never counted as 0: one missing value leaves the number without a value, and a
rule on it makes the verdict inconclusive. Cached and recorded answers keep the latency and cost
they had when they were given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from gatemark.core.measurement import NOTHING_ANSWERED, Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.core.reason import ReasonKind
from gatemark.core.result import Cell, Figure, Table
from gatemark.packs.answers import Answer, SuiteAnswers
from gatemark.packs.pack import Pack
from gatemark.statistics.quantiles import percentile_disc

WHOLE: Final = "bench"
"""Prefix of the ids of rules on all suites together."""
BASELINE: Final = "baseline_"
ANSWERS_STATE_NONE: Final = ReasonKind(
    "answers_state_none", "{missing} of {n} answers state no {what}"
)
_METRICS: Final = {
    "p50_ms_max": "latency_p50",
    "p95_ms_max": "latency_p95",
    "tokens_per_item_max": "tokens_per_item",
    "tokens_max": "tokens_total",
    "money_per_item_max": "money_per_item",
    "money_max": "money_total",
}
"""The metric that each limit of a pack applies to."""


class _Quantity(msgspec.Struct, frozen=True):
    """A quantity that an answer may state, and the metrics over all answers."""

    stated: str
    unit: str
    read: Callable[[Answer], float | None]
    metrics: Mapping[str, Callable[[Sequence[float]], float]]


def _make_percentile(percent: int) -> Callable[[Sequence[float]], float]:
    return lambda values: percentile_disc(np.sort(np.array(values, dtype=np.float64)), percent)


def _compute_mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


_QUANTITIES: Final = (
    _Quantity(
        "latency",
        "ms",
        lambda answer: answer.latency_ms,
        {"latency_p50": _make_percentile(50), "latency_p95": _make_percentile(95)},
    ),
    _Quantity(
        "tokens",
        "tokens",
        lambda answer: answer.tokens,
        {"tokens_per_item": _compute_mean, "tokens_total": math.fsum},
    ),
    _Quantity(
        "cost",
        "money",
        lambda answer: answer.cost,
        {"money_per_item": _compute_mean, "money_total": math.fsum},
    ),
)
METRICS: Final = frozenset(
    prefix + name for one in _QUANTITIES for name in one.metrics for prefix in ("", BASELINE)
)


def make_latency_and_cost_rules(pack: Pack) -> tuple[Rule, ...]:
    """Return the latency and cost rules of a pack, per suite and overall."""
    places = [(suite.id, suite.id, suite.latency, suite.cost) for suite in pack.suites]
    return tuple(
        Rule(
            id=f"{name}.{_METRICS[key]}",
            metric=_METRICS[key],
            scope=scope,
            op="<=",
            bound=float(bound),
        )
        for name, scope, latency, cost in (*places, (WHOLE, None, pack.latency, pack.cost))
        for bounds in (latency, cost)
        if bounds is not None
        for key, bound in bounds.given.items()
    )


def measure_latency_and_cost(
    pack: Pack, candidate: SuiteAnswers, baseline: SuiteAnswers | None, caveat: str | None
) -> list[Measurement]:
    """Return latency, tokens and cost of both arms, by suite and overall.

    A quantity that no answer states and no rule needs is left out.
    """
    asked = {rule.metric for rule in make_latency_and_cost_rules(pack)}
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
            for scope, answers in (*((suite, arm[suite]) for suite in suites), (None, everything)):
                found += _measure_quantity(quantity, prefix, scope, answers, caveat)
    return found


def _measure_quantity(
    quantity: _Quantity,
    prefix: str,
    scope: str | None,
    answers: Sequence[Answer],
    caveat: str | None,
) -> list[Measurement]:
    stated = [value for answer in answers if (value := quantity.read(answer)) is not None]
    missing = len(answers) - len(stated)
    reason = NOTHING_ANSWERED()
    if missing:
        reason = ANSWERS_STATE_NONE(missing=missing, n=len(answers), what=quantity.stated)
    caveats = () if caveat is None else (caveat,)
    return [
        unmeasured(
            prefix + name,
            reason,
            direction="lower_is_better",
            unit=quantity.unit,
            n=len(stated),
            caveats=caveats,
            scope=scope,
        )
        if missing or not stated
        else measured(
            prefix + name,
            compute(stated),
            n=len(stated),
            direction="lower_is_better",
            unit=quantity.unit,
            caveats=caveats,
            scope=scope,
        )
        for name, compute in quantity.metrics.items()
    ]


def make_latency_and_cost_table(pack: Pack, numbers: Sequence[Measurement]) -> tuple[Figure, ...]:
    """Return a table of latency and cost per arm and suite, or None if nothing is known."""
    by_key = {number.key: number for number in numbers if number.name in METRICS}
    names = [name for one in _QUANTITIES for name in one.metrics]
    rows: list[tuple[Cell, ...]] = []
    for scope in (*(suite.id for suite in pack.suites), None):
        for arm, prefix in (("candidate", ""), ("baseline", BASELINE)):
            values = [by_key.get((prefix + name, scope)) for name in names]
            shown = [None if one is None or one.value is None else one.value for one in values]
            if any(value is not None for value in shown):
                rows.append((scope or "all suites", arm, *(_shorten(value) for value in shown)))
    if not rows:
        return ()
    columns = ("suite", "arm", "p50 ms", "p95 ms", "tokens/item", "tokens", "money/item", "money")
    return (Table("Latency and cost", columns, tuple(rows), len(rows)),)


def _shorten(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
