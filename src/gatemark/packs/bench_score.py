"""The bench score: the weighted sum of the suites' scores, and its change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatemark.core.measurement import (
    Interval,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.core.reason import ReasonKind, find_reason
from gatemark.packs.pack import Pack

SUITES_WITHOUT_SCORE: Final = ReasonKind(
    "suites_without_score", "no score from {suites}: {because}"
)


def compute_bench(pack: Pack, scores: Mapping[str, Measurement], name: str) -> Measurement:
    """Return the weighted sum of the suites' scores; a missing score leaves no sum."""
    missing = {
        suite.id: reason for suite in pack.suites if (reason := scores[suite.id].reason) is not None
    }
    n = sum(scores[suite.id].n for suite in pack.suites)
    if missing:
        why = "; ".join(f"{suite}: {reason}" for suite, reason in missing.items())
        reason = SUITES_WITHOUT_SCORE.word(
            f"no score from {why}",
            suites=", ".join(missing),
            because=next(iter(missing.values())),
        )
        return unmeasured(name, reason, direction="higher_is_better", n=n)
    total = sum(suite.weight * (scores[suite.id].value or 0.0) for suite in pack.suites)
    return measured(name, total, n=n, direction="higher_is_better")


def compute_bench_delta(
    pack: Pack,
    candidate: Measurement,
    baseline: Measurement,
    errors: Mapping[str, float | None],
    z: float,
) -> Measurement:
    """Return the change of the bench score, with an interval if every suite has an error."""
    if candidate.value is None or baseline.value is None:
        reason = find_reason(candidate, baseline)
        return unmeasured("bench_delta", reason, direction="higher_is_better")
    value = candidate.value - baseline.value
    if any(errors[suite.id] is None for suite in pack.suites):
        return measured("bench_delta", value, n=candidate.n, direction="higher_is_better")
    # Suites over the same answers have correlated errors; at worst they add up.
    together: dict[str, float] = {}
    for suite in pack.suites:
        group = suite.source or suite.id
        together[group] = together.get(group, 0.0) + suite.weight * (errors[suite.id] or 0.0)
    half = z * sum(error**2 for error in together.values()) ** 0.5
    return measured(
        "bench_delta",
        value,
        n=candidate.n,
        direction="higher_is_better",
        interval=Interval(low=value - half, high=value + half, level=0.95, method="normal"),
    )
