"""What a pack demands over all its suites, and the numbers for it.

The rules that every pack implies: floors, regressions, errors, the bench score. The drop over all
suites, and how sure one can be of several drops at once. Latency, tokens and money: an answer that
did not tell is never counted as 0; one of them leaves the number without a value, and a rule on it
holds the verdict open. Answers that were cached or recorded have the latency and the cost of when
they were given.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.core.policy import (
    ITEMS_NEEDED,
    LINE_TOLERANCE,
    MAY_BE_CHANCE,
    MAY_BE_CHANCE_AMONG_CLAIMS,
    Against,
    Policy,
    Rule,
    Setting,
    SuiteShare,
    Waiver,
)
from gatemark.core.result import Cell, Figure, Table
from gatemark.evidence.rows import Row, Snapshot
from gatemark.packs.answers import Answer, asked_rows
from gatemark.packs.conditions import Conditions, condition_rules
from gatemark.packs.pack import (
    FIRST_RULES,
    RULES,
    RULES_SETTING,
    WORST_SLICE_DROP,
    WORST_SLICE_SCORE,
    Pack,
    RegressionMode,
    SuiteSpec,
)
from gatemark.packs.pack_file import OpenPack, suite_plugin
from gatemark.packs.suites.arms import HARM_P, MEASURE_VERSION, PairedItems, drop_numbers
from gatemark.packs.suites.suite import ArmsReport
from gatemark.statistics.multiplicity import holm, look_levels
from gatemark.statistics.quantiles import percentile_disc

BENCH_RULE = "bench.score_min"
POOLED_RULE = "bench.regression"
POOLED = "bench_regression"
DEFAULT_GUARD = 2.0
"""How many times ``regression_max`` one suite may drop by when the pack says nothing."""
WHOLE_RUN = "run.whole"


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


FEWEST_POOLED = 2


class Look(msgspec.Struct, frozen=True):
    """One of the rounds in which an adaptive pack is asked: the ids due by then, and its level."""

    number: int
    total: int
    alpha: float
    due: dict[str, frozenset[str]]

    @property
    def is_last(self) -> bool:
        """Whether nothing is asked after it."""
        return self.number == self.total

    @property
    def settings(self) -> dict[str, int | float]:
        """What a sealed policy says about it."""
        return {"look": self.number, "looks": self.total, "look_alpha": self.alpha}


def looks_of(
    opened: OpenPack, modes: Mapping[str, RegressionMode], compared: frozenset[str]
) -> tuple[Look, ...]:
    """The looks of an adaptive pack; none where it has nothing to compare item by item.

    Rounds take items of suites whose drop is judged with its noise; all other suites, and those
    that another suite looks at again, are asked in full. The order of items follows from the data
    alone, so that no score can bend it, and items of a cluster come together.
    """
    pack = opened.pack
    if pack.adaptive is None:
        return ()
    sources = {suite.source for suite in pack.suites}
    staged = [
        suite.id
        for suite in pack.suites
        if suite.id in compared
        and suite.dataset is not None
        and suite.id not in sources
        and modes[suite.id] == "non_inferiority"
        and suite_plugin(suite).is_paired
    ]
    if not staged:
        return ()
    order = {name: _order(opened.snapshots[name]) for name in staged}
    total, budget = sum(map(len, order.values())), pack.adaptive.budget
    if budget is not None and budget < total:
        order = {name: ids[: max(1, len(ids) * budget // total)] for name, ids in order.items()}
    whole = {s.id: opened.snapshots[s.id].ids for s in pack.suites if s.dataset is not None}
    count = pack.adaptive.looks
    return tuple(
        Look(
            number=number,
            total=count,
            alpha=alpha,
            due={
                **whole,
                **{
                    name: frozenset(ids[: -(-len(ids) * number // count)])
                    for name, ids in order.items()
                },
            },
        )
        for number, alpha in enumerate(look_levels(count, pack.level), start=1)
    )


def _order(snapshot: Snapshot) -> list[str]:
    def place(row: Row) -> tuple[bytes, str]:
        group = f"id:{row.id}" if row.cluster is None else f"cluster:{row.cluster}"
        return hashlib.sha256(f"{snapshot.digest}\x00{group}".encode()).digest(), row.id

    return [row.id for row in sorted(snapshot.rows, key=place)]


def pooled_suites(
    pack: Pack, modes: Mapping[str, RegressionMode], compared: frozenset[str], rules: int
) -> frozenset[str]:
    """The suites that one test judges together: compared item by item, and with a weight.

    A pool of one would say the same twice; then that suite is judged on its own.
    """
    if rules == FIRST_RULES:
        return frozenset()
    found = frozenset(
        suite.id
        for suite in pack.suites
        if suite.id in compared
        and suite.dataset is not None
        and suite.weight > 0
        and modes[suite.id] == "non_inferiority"
        and suite_plugin(suite).is_paired
    )
    return found if len(found) >= FEWEST_POOLED else frozenset()


def pooled_numbers(
    opened: OpenPack, reports: Mapping[str, ArmsReport], pooled: frozenset[str], alpha: float
) -> list[Measurement]:
    """The weighted drop over the pooled suites; one without a drop of its own leaves none."""
    if not pooled:
        return []
    pack = opened.pack
    suites = [suite for suite in pack.suites if suite.id in pooled]
    for suite in suites:
        missing = next(
            (n for n in reports[suite.id].measurements if n.name == "regression" and n.reason), None
        )
        if missing is not None:
            reason = f"{suite.id}: {missing.reason}"
            return [
                unmeasured(HARM_P, reason, direction="neutral"),
                unmeasured(POOLED, reason, direction="lower_is_better", version=MEASURE_VERSION),
                unmeasured(POOLED + ITEMS_NEEDED, reason, direction="neutral", unit="count"),
            ]
    items = [
        PairedItems(
            lane=suite.id,
            weight=suite.weight,
            pairs=reports[suite.id].pairs,
            rows=asked_rows(suite.kind, opened.snapshots[suite.id].rows),
            largest_drop=suite.largest_drop or 1.0,
        )
        for suite in sorted(suites, key=lambda suite: suite.id)
    ]
    return drop_numbers(POOLED, None, items, margin=pack.regression_max, alpha=alpha)


def with_chance(
    numbers: Sequence[Measurement], alpha: float, rules: int
) -> tuple[Measurement, ...]:
    """Mark the drops that are no longer sure once one counts how many were looked at.

    Passing needs no such care: every drop must pass. Failing does, or a pack of many suites would
    fail good candidates ever more often.
    """
    if rules == FIRST_RULES:
        return _first_with_chance(numbers, alpha)
    claims = [n for n in numbers if n.name == HARM_P and n.value is not None]
    adjusted = holm([claim.value or 0.0 for claim in claims])
    doubtful = {
        claim.lane
        for claim, p in zip(claims, adjusted, strict=True)
        if p > alpha >= (claim.value or 0.0)
    }
    return _marked(numbers, {"regression", POOLED}, doubtful, MAY_BE_CHANCE_AMONG_CLAIMS)


def _first_with_chance(numbers: Sequence[Measurement], alpha: float) -> tuple[Measurement, ...]:
    claims = [n for n in numbers if n.name == "drop_p" and n.value is not None]
    adjusted = holm([claim.value or 0.0 for claim in claims])
    doubtful = {claim.lane for claim, p in zip(claims, adjusted, strict=True) if p > alpha}
    return _marked(numbers, {"regression"}, doubtful, MAY_BE_CHANCE)


def _marked(
    numbers: Sequence[Measurement], names: set[str], lanes: set[str | None], caveat: str
) -> tuple[Measurement, ...]:
    return tuple(
        msgspec.structs.replace(number, caveats=(*number.caveats, caveat))
        if number.name in names and number.lane in lanes and (number.value or 0.0) > 0
        else number
        for number in numbers
    )


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
