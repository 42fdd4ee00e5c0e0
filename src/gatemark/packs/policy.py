"""The rules that every pack implies, whatever its suites: floors, regressions, errors, bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.core.policy import Against, Policy, Rule, Setting, SuiteShare, Waiver
from gatemark.gating.decide import LINE_TOLERANCE
from gatemark.packs.conditions import Conditions, condition_rules
from gatemark.packs.latency_and_cost import latency_and_cost_rules
from gatemark.packs.pack import (
    FIRST_RULES,
    RULES,
    RULES_SETTING,
    Pack,
    RegressionMode,
    SuiteSpec,
)

BENCH_RULE = "bench.score_min"
POOLED_RULE = "bench.regression"
POOLED = "bench_regression"
DEFAULT_GUARD = 2.0
"""How many times ``regression_max`` one suite may drop by when the pack says nothing."""
WHOLE_RUN = "run.whole"
WORST_SLICE_SCORE = "worst_slice_score"
WORST_SLICE_DROP = "worst_slice_regression"


def regression_mode(
    pack: Pack, suite: SuiteSpec, default: RegressionMode, rules: int = RULES
) -> RegressionMode:
    """How a suite's drop is judged: as the pack says, or as its kind does."""
    if suite.regression is not None:
        return suite.regression
    is_first = rules == FIRST_RULES and suite.id in pack.required_suites
    return "point" if is_first else default


def margin_of(pack: Pack, suite: SuiteSpec) -> float:
    """How far a suite may drop that is judged on its own."""
    return pack.regression_max if suite.regression_max is None else suite.regression_max


def guard_of(pack: Pack, suite: SuiteSpec) -> float:
    """How far a suite of the pooled test may drop; the pool as a whole may less."""
    if suite.regression_max is not None:
        return suite.regression_max
    if pack.guard_max is not None:
        return pack.guard_max
    return min(1.0, DEFAULT_GUARD * pack.regression_max)


def bound_of(pack: Pack, suite: SuiteSpec, pooled: frozenset[str]) -> float:
    """How far a suite may drop, in the pooled test or on its own."""
    return guard_of(pack, suite) if suite.id in pooled else margin_of(pack, suite)


def pack_policy(
    pack: Pack,
    *,
    modes: Mapping[str, RegressionMode],
    suite_rules: Mapping[str, Sequence[Rule]],
    compared: frozenset[str],
    settings: Mapping[str, Setting],
    limit: int | None,
    conditions: Conditions = MappingProxyType({}),
    pooled: frozenset[str] = frozenset(),
    rules_version: int = RULES,
) -> Policy:
    """Every rule of a pack, in the order in which the gate speaks of them.

    ``compared`` are the suites that have a baseline to regress from, ``pooled`` those that one
    test judges together; ``limit`` is the number of items per suite that a run was cut to.
    """
    rules = list(condition_rules(conditions))
    if limit is not None:
        rules.append(Rule(id=WHOLE_RUN, metric=WHOLE_RUN, op=">=", bound=1.0, severity="hold"))
    for suite in pack.suites:
        if suite.evidence is None:
            rules.append(_errors_rule(suite, "errors", "error_rate"))
            if suite.id in compared:
                rules.append(_errors_rule(suite, "baseline_errors", "baseline_error_rate"))
        if suite.min is not None:
            rules.append(_floor_rule(pack, suite, rules_version))
        rules.extend(_slice_rules(suite, is_compared=suite.id in compared))
    if pooled:
        rules.append(
            Rule(
                id=POOLED_RULE,
                metric=POOLED,
                op="<=",
                bound=pack.regression_max,
                against="interval",
            )
        )
    rules.extend(
        _regression_rule(pack, suite, modes[suite.id], pooled, rules_version)
        for suite in pack.suites
        if suite.id in compared
    )
    rules.append(Rule(id=BENCH_RULE, metric="bench", op=">=", bound=pack.score_min))
    rules.extend(latency_and_cost_rules(pack))
    for suite in pack.suites:
        rules.extend(suite_rules.get(suite.id, ()))
    rules.extend(pack.rules)
    return Policy(
        name=pack.name,
        rules=tuple(rules),
        suites=tuple(SuiteShare(suite.id, suite.weight, suite.min) for suite in pack.suites),
        score_min=pack.score_min,
        regression_max=pack.regression_max,
        settings={
            "alpha": pack.alpha if rules_version == FIRST_RULES else pack.level,
            "line_tolerance": LINE_TOLERANCE,
            "baseline": "given" if compared else "none",
            **({} if rules_version == FIRST_RULES else {RULES_SETTING: rules_version}),
            **({} if limit is None else {"limit": limit}),
            **conditions,
            **settings,
        },
    )


def _errors_rule(suite: SuiteSpec, name: str, metric: str) -> Rule:
    return Rule(
        id=f"{suite.id}.{name}",
        metric=metric,
        lane=suite.id,
        op="<=",
        bound=suite.errors_max,
        severity="hold",
    )


def _floor_rule(pack: Pack, suite: SuiteSpec, rules_version: int) -> Rule:
    """The floor of a required suite blocks; another one warns unless the pack says otherwise."""
    blocks = suite.id in pack.required_suites or suite.severity == "block"
    return Rule(
        id=f"{suite.id}.floor",
        metric="score",
        lane=suite.id,
        op=">=",
        bound=suite.min or 0.0,
        severity="block" if blocks or rules_version == FIRST_RULES else "warn",
    )


def _slice_rules(suite: SuiteSpec, *, is_compared: bool) -> Iterator[Rule]:
    """One rule over all slices of a suite; its reason names the slice that is worst."""
    if suite.slice_min is not None:
        yield Rule(
            id=f"{suite.id}.slice_floor",
            metric=WORST_SLICE_SCORE,
            lane=suite.id,
            op=">=",
            bound=suite.slice_min,
        )
    if suite.slice_regression_max is not None and is_compared:
        yield Rule(
            id=f"{suite.id}.slice_regression",
            metric=WORST_SLICE_DROP,
            lane=suite.id,
            op="<=",
            bound=suite.slice_regression_max,
            against="interval",
        )


def _regression_rule(
    pack: Pack,
    suite: SuiteSpec,
    mode: RegressionMode,
    pooled: frozenset[str],
    rules_version: int,
) -> Rule:
    """The drop itself, or its whole interval; the first rules had a comparison of their own."""
    by_noise: Against = "non_inferiority" if rules_version == FIRST_RULES else "interval"
    return Rule(
        id=f"{suite.id}.regression",
        metric="regression",
        lane=suite.id,
        op="<=",
        bound=bound_of(pack, suite, pooled),
        against="value" if mode == "point" else by_noise,
    )


def refuse_waived_limit(waivers: Sequence[Waiver]) -> None:
    """Nobody can excuse a run from having been cut: it never passes."""
    if any(waiver.rule == WHOLE_RUN for waiver in waivers):
        raise BadInputError(f"{WHOLE_RUN} cannot be waived: a limited run never passes")


def limited_run() -> Measurement:
    """A run that was cut to some items; however they went, it cannot pass."""
    return unmeasured(WHOLE_RUN, "the run was limited", direction="higher_is_better")


def bench(pack: Pack, scores: Mapping[str, Measurement], name: str) -> Measurement:
    """The weighted sum of the suites' scores; one missing score leaves no sum at all."""
    missing = [suite.id for suite in pack.suites if scores[suite.id].value is None]
    n = sum(scores[suite.id].n for suite in pack.suites)
    if missing:
        why = "; ".join(f"{lane}: {scores[lane].reason}" for lane in missing)
        return unmeasured(name, f"no score from {why}", direction="higher_is_better", n=n)
    total = sum(suite.weight * (scores[suite.id].value or 0.0) for suite in pack.suites)
    return measured(name, total, n=n, direction="higher_is_better")


def bench_delta(
    pack: Pack,
    candidate: Measurement,
    baseline: Measurement,
    errors: Mapping[str, float | None],
    z: float,
) -> Measurement:
    """How the bench score moved, with an interval when every suite knows its own error."""
    if candidate.value is None or baseline.value is None:
        reason = candidate.reason or baseline.reason or "no bench score"
        return unmeasured("bench_delta", reason, direction="higher_is_better")
    value = candidate.value - baseline.value
    if any(errors[suite.id] is None for suite in pack.suites):
        return measured("bench_delta", value, n=candidate.n, direction="higher_is_better")
    # Suites over the same answers err together; at worst their errors add up.
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
