"""Measurements of one arm in one canary window: ``gatemark.canary/1``."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadExample, Form, Problem, RecordSchema

NAME: Final = "gatemark.canary/1"

Moment = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=128)]
Count = Annotated[int, Meta(ge=0, le=10**12)]


class CanaryMetric(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A sample in one of three forms: a count of n, sums, or single values."""

    n: Count | UnsetType = UNSET
    count: Count | UnsetType = UNSET
    sum: float | UnsetType = UNSET
    sum_squares: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    values: Annotated[list[float], Meta(max_length=2_000)] | UnsetType = UNSET


class Invariant(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """How often an invariant was checked, and how often it was violated."""

    checked: Count
    violations: Count


class ArmWindow(Struct, frozen=True, forbid_unknown_fields=True):
    """Measurements of one arm in one window; ``keys`` is the number of keys routed to it."""

    start: Moment
    end: Moment
    arm: Literal["canary", "baseline"]
    metrics: dict[Name, CanaryMetric]
    keys: Count | UnsetType = UNSET
    invariants: dict[Name, Invariant] | UnsetType = UNSET
    schema: Literal["gatemark.canary/1"] | UnsetType = UNSET


_WAYS: Final = (
    frozenset({"n", "count"}),
    frozenset({"n", "sum", "sum_squares"}),
    frozenset({"values"}),
)


def metrics_have_one_form(window: ArmWindow) -> list[Problem]:
    """Require one form per metric: n and count, n with two sums, or single values."""
    problems = []
    for name, metric in window.metrics.items():
        given = {field for field in metric.__struct_fields__ if getattr(metric, field) is not UNSET}
        if given not in _WAYS:
            allowed = "n and count, or n, sum and sum_squares, or values"
            seen = ", ".join(sorted(given)) or "nothing"
            problems.append(Problem(f"$.metrics.{name}", f"needs {allowed}; has {seen}"))
        elif metric.count is not UNSET and metric.n is not UNSET and metric.count > metric.n:
            problems.append(
                Problem(f"$.metrics.{name}", f"count {metric.count} exceeds n {metric.n}")
            )
        elif not _is_possible(metric):
            problems.append(Problem(f"$.metrics.{name}", "sum_squares is too small for n and sum"))
    return problems


def _is_possible(metric: CanaryMetric) -> bool:
    if metric.n is UNSET or metric.sum is UNSET or metric.sum_squares is UNSET:
        return True
    if metric.n == 0:
        return metric.sum == 0 and metric.sum_squares == 0
    least = metric.sum * metric.sum / metric.n
    return math.isfinite(least) and metric.sum_squares >= least * (1 - 1e-9)


def rates_are_possible(window: ArmWindow) -> list[Problem]:
    """Require that a metric named as a rate lies between 0 and 1, or it could hide errors."""
    return [
        Problem(f"$.metrics.{name}", "a rate must lie between 0 and 1, in sums and in values")
        for name, metric in window.metrics.items()
        if name.endswith("_rate") and not _is_rate(metric)
    ]


def _is_rate(metric: CanaryMetric) -> bool:
    if metric.values is not UNSET:
        return all(0 <= value <= 1 for value in metric.values)
    if metric.n is UNSET or metric.sum is UNSET or metric.sum_squares is UNSET:
        return True
    most = metric.sum * (1 + 1e-9)
    return 0 <= metric.sum <= metric.n * (1 + 1e-9) and metric.sum_squares <= most


def samples_have_keys(window: ArmWindow) -> list[Problem]:
    """Refuse samples without routed keys: 0 to 0 would look like an even split of traffic."""
    if window.keys is UNSET or window.keys > 0:
        return []
    return [
        Problem("$.keys", f"is 0, but {name} has samples; count the keys routed to this arm")
        for name, metric in window.metrics.items()
        if (metric.values if metric.values is not UNSET else metric.n)
    ][:1]


def violations_were_checked(window: ArmWindow) -> list[Problem]:
    """Require at most as many violations as checks."""
    if window.invariants is UNSET:
        return []
    return [
        Problem(f"$.invariants.{name}", f"{one.violations} violations in {one.checked} checks")
        for name, one in window.invariants.items()
        if one.violations > one.checked
    ]


_WINDOW: Final = {
    "start": "2027-03-01T08:00:00Z",
    "end": "2027-03-01T08:15:00Z",
    "arm": "canary",
    "keys": 312,
    "metrics": {
        "error_rate": {"n": 312, "count": 3},
        "latency_ms": {"n": 312, "sum": 37440.0, "sum_squares": 4600000.0},
    },
    "invariants": {"schema": {"checked": 312, "violations": 0}},
}


def _make_window(metric: object) -> dict[str, object]:
    return _WINDOW | {"metrics": {"latency_ms": metric}}


def _make_sums(n: int, total: float, squares: float) -> dict[str, object]:
    return {"n": n, "sum": total, "sum_squares": squares}


SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="What one arm of a canary did in one window: metrics, invariants, traffic.",
    forms=(
        Form(
            name="window",
            type=ArmWindow,
            marks=frozenset({"start", "end", "arm", "metrics"}),
            identity="start",
            unique=("start", "arm"),
            good=(
                _WINDOW,
                _WINDOW | {"schema": NAME, "arm": "baseline"},
                _make_window({"values": [101.5, 98.0, 120.25]}),
            ),
            bad=(
                BadExample("a third arm", _WINDOW | {"arm": "control"}, "$.arm"),
                BadExample("a local time", _WINDOW | {"start": "2027-03-01T08:00:00"}, "$.start"),
                BadExample(
                    "two ways at once",
                    _make_window({"n": 1, "count": 1, "sum": 1.0}),
                    "$.metrics.latency_ms",
                ),
                BadExample("no way at all", _make_window({}), "$.metrics.latency_ms"),
                BadExample(
                    "more than all", _make_window({"n": 2, "count": 3}), "$.metrics.latency_ms"
                ),
                BadExample(
                    "squares that cannot be",
                    _make_window({"n": 2, "sum": 10.0, "sum_squares": 1.0}),
                    "$.metrics.latency_ms",
                ),
                BadExample(
                    "more broken than checked",
                    _WINDOW | {"invariants": {"schema": {"checked": 1, "violations": 2}}},
                    "$.invariants.schema",
                ),
                BadExample(
                    "fewer errors than none",
                    _WINDOW | {"metrics": {"error_rate": _make_sums(200, -50.0, 50.0)}},
                    "$.metrics.error_rate",
                ),
                BadExample(
                    "more errors than samples",
                    _WINDOW | {"metrics": {"error_rate": _make_sums(200, 400.0, 800.0)}},
                    "$.metrics.error_rate",
                ),
                BadExample(
                    "a rate above 1",
                    _WINDOW | {"metrics": {"error_rate": {"values": [0.5, 1.5]}}},
                    "$.metrics.error_rate",
                ),
                BadExample("samples without keys", _WINDOW | {"keys": 0}, "$.keys"),
                BadExample("a misspelled field", _WINDOW | {"metric": {}}, "$"),
                BadExample("fewer than none", _WINDOW | {"keys": -1}, "$.keys"),
            ),
            rules=(
                metrics_have_one_form,
                rates_are_possible,
                samples_have_keys,
                violations_were_checked,
            ),
        ),
    ),
)
