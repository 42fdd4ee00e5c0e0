"""The rules that every pack implies, whatever its suites: floors, regressions, errors, bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.core.policy import Policy, Rule, Setting, SuiteShare, Waiver
from gatemark.gate.decide import LINE_TOLERANCE
from gatemark.packs.conditions import Conditions, condition_rules
from gatemark.packs.pack import Pack, RegressionMode, SuiteSpec

BENCH_RULE = "bench.score_min"
WHOLE_RUN = "run.whole"


def regression_mode(pack: Pack, suite: SuiteSpec, default: RegressionMode) -> RegressionMode:
    """How a suite's drop is judged: as the pack says, by the point where it is required."""
    if suite.regression is not None:
        return suite.regression
    return "point" if suite.id in pack.required_suites else default


def margin_of(pack: Pack, suite: SuiteSpec) -> float:
    """How far a suite may drop."""
    return pack.regression_max if suite.regression_max is None else suite.regression_max


def pack_policy(
    pack: Pack,
    *,
    modes: Mapping[str, RegressionMode],
    suite_rules: Mapping[str, Sequence[Rule]],
    compared: frozenset[str],
    settings: Mapping[str, Setting],
    limit: int | None,
    conditions: Conditions,
) -> Policy:
    """Every rule of a pack, in the order in which the gate speaks of them.

    ``compared`` are the suites that have a baseline to regress from; ``limit`` is the number of
    items per suite that a run was cut to.
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
            rules.append(
                Rule(
                    id=f"{suite.id}.floor", metric="score", lane=suite.id, op=">=", bound=suite.min
                )
            )
    rules.extend(
        _regression_rule(pack, suite, modes[suite.id])
        for suite in pack.suites
        if suite.id in compared
    )
    rules.append(Rule(id=BENCH_RULE, metric="bench", op=">=", bound=pack.score_min))
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
            "alpha": pack.alpha,
            "line_tolerance": LINE_TOLERANCE,
            "baseline": "given" if compared else "none",
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


def _regression_rule(pack: Pack, suite: SuiteSpec, mode: RegressionMode) -> Rule:
    return Rule(
        id=f"{suite.id}.regression",
        metric="regression",
        lane=suite.id,
        op="<=",
        bound=margin_of(pack, suite),
        against="value" if mode == "point" else "non_inferiority",
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
