"""The rules of a pack over all suites and on the run itself, and the numbers they need.

These are the rules that every pack implies: floors, regressions, errors, the bench score; the drop
over all suites, and the correction for several drops.

Conditions are rules that exist only if they apply: facts about a run that affect its verdict. A
condition that holds keeps a run from passing and cannot be waived; one that warns is a caveat on
the first page. Each is stored in the settings of the sealed policy, so that judging the same
evidence again gives the same rules.

One condition is that every call could be made. Counting an outage as a wrong answer would fail a
candidate for somebody else's network; leaving the items out would base a number on those that
happened to arrive. So a suite with such items has no score, and the verdict is inconclusive,
whichever arm or judge could not be called. Answers still count if more answers cannot change the
finding: a broken probe stays broken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.core.policy import (
    LINE_TOLERANCE,
    MAY_BE_CHANCE,
    MAY_BE_CHANCE_AMONG_CLAIMS,
    Against,
    Policy,
    Rule,
    Setting,
    Severity,
    SuiteShare,
    Waiver,
)
from gatemark.core.result import Result
from gatemark.evidence.rows import Row, Snapshot
from gatemark.packs.answers import Answer, asked_rows, is_same_target, latency_and_cost_rules
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
from gatemark.packs.suites.arms import HARM_P, PairedItems, drop_numbers, no_drop
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport
from gatemark.statistics.significance import holm, look_levels
from gatemark.targets.port import OUTAGES

ASKED: Final = "run.asked"
CHANGED: Final = "run.changed"
CONTRADICTED: Final = "run.contradicted"
UNASKED: Final = "run.unasked"
MODELS: Final = "run.models"
IN_PROCESS: Final = "run.in_process"
ISOLATED: Final = "run.isolated"
CACHED: Final = "run.cached"
RESUMED: Final = "run.resumed"
OTHER_INPUTS: Final = "run.other_inputs"
UNRELATED_INPUTS: Final = "run.unrelated_inputs"
OTHER_TARGETS: Final = "run.other_targets"
SAME_ARMS: Final = "run.same_arms"

SEVERITIES: Final[Mapping[str, Severity]] = {
    CONTRADICTED: "hold",
    ASKED: "hold",
    CHANGED: "hold",
    UNASKED: "hold",
    UNRELATED_INPUTS: "hold",
    OTHER_TARGETS: "hold",
    MODELS: "hold",
    IN_PROCESS: "hold",
    ISOLATED: "warn",
    CACHED: "warn",
    RESUMED: "warn",
    OTHER_INPUTS: "warn",
    SAME_ARMS: "warn",
}
"""In the order in which they are reported."""

Conditions = Mapping[str, str]
"""Reasons for each condition that applies."""


def condition_rules(conditions: Conditions) -> tuple[Rule, ...]:
    """Return one rule per condition; none of them can be met."""
    return tuple(
        Rule(id=name, metric=name, op=">=", bound=1.0, severity=severity)
        for name, severity in SEVERITIES.items()
        if name in conditions
    )


def condition_measurements(conditions: Conditions) -> tuple[Measurement, ...]:
    """Return the measurements that the rules of the conditions check: no number, and the reason."""
    return tuple(
        unmeasured(name, conditions[name], direction="higher_is_better")
        for name in SEVERITIES
        if name in conditions
    )


def conditions_of(result: Result) -> dict[str, str]:
    """Return the conditions under which a sealed result was made."""
    settings = result.policy.settings
    return {name: str(settings[name]) for name in SEVERITIES if name in settings}


def other_targets(
    rows: Sequence[Mapping[str, object]], targets: Mapping[str, Sequence[object]]
) -> dict[str, str]:
    """Return the condition that scores of the log were given for other targets than the data's."""
    compared = [r for r in rows if r.get("target") is not None and str(r["id"]) in targets]
    others = [r for r in compared if not is_same_target(r["target"], targets[str(r["id"])])]
    if not others:
        return {}
    return {
        OTHER_TARGETS: (
            f"{len(others)} of {len(compared)} recorded scores were given for another target than "
            f"the data has, such as {others[0]['id']!r}; use the log of these items, or remove "
            "target from the data if the log writes the same targets in another way"
        )
    }


def limit_of(result: Result) -> int | None:
    """Return the number of items per suite that a run was limited to, or None."""
    limit = result.policy.settings.get("limit")
    return limit if isinstance(limit, int) else None


def refuse_waived_conditions(waivers: Sequence[Waiver]) -> None:
    """Refuse waivers for conditions that nobody can excuse."""
    for waiver in waivers:
        if SEVERITIES.get(waiver.rule) == "hold":
            raise BadInputError(f"{waiver.rule} cannot be waived: such a run never passes")


BROKEN_PROBES = "newly_broken_count"
SHOWN_LENGTH = 300


def asked(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Return the answers to what could be asked."""
    return tuple(answer for answer in answers if answer.error not in OUTAGES)


def outage_condition(arms: Mapping[str, Mapping[str, Sequence[Answer]]]) -> dict[str, str]:
    """Return the condition that holds a verdict open when something could not be asked."""
    reasons = []
    for arm, suites in arms.items():
        # A suite over another's answers has the same answers.
        each_once = {id(answers): answers for answers in suites.values()}.values()
        lost = [answer for answers in each_once for answer in _lost(answers)]
        total = sum(len(answers) for answers in each_once)
        if lost:
            reason = " ".join((lost[0].reason or "no reason was given").split())[:SHOWN_LENGTH]
            reasons.append(f"{lost[0].error}: {reason} ({arm}: {len(lost)} of {total} calls)")
    return {ASKED: "; ".join(reasons)} if reasons else {}


def without_outages(evidence: ArmsEvidence) -> ArmsEvidence:
    """Return the evidence without what could not be asked, of either arm."""
    baseline = None if evidence.baseline is None else asked(evidence.baseline)
    return msgspec.structs.replace(evidence, candidate=asked(evidence.candidate), baseline=baseline)


def outage_objection(evidence: ArmsEvidence) -> str | None:
    """Return why a suite has no score if some calls in it could not be made, or None."""
    counts = {
        "candidate": len(_lost(evidence.candidate)),
        "baseline": len(_lost(evidence.baseline or ())),
    }
    calls = [f"{count} calls of the {arm}" for arm, count in counts.items() if count]
    return f"{' and '.join(calls)} could not be asked" if calls else None


def held_report(report: ArmsReport, objection: str) -> ArmsReport:
    """Return a report without numbers that the missing answers could change."""
    return ArmsReport(
        score=_held(report.score, objection),
        baseline_score=_held(report.baseline_score, objection),
        measurements=tuple(
            number if number.name == BROKEN_PROBES and number.value else _held(number, objection)
            for number in report.measurements
        ),
        figures=report.figures,
        delta_error=None,
    )


def _lost(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.error in OUTAGES]


def _held(number: Measurement, objection: str) -> Measurement:
    return unmeasured(
        number.name,
        objection,
        direction=number.direction,
        unit=number.unit,
        n=number.n,
        version=number.version,
        lane=number.lane,
    )


BENCH_RULE = "bench.score_min"
POOLED_RULE = "bench.regression"
POOLED = "bench_regression"
DEFAULT_GUARD = 2.0
"""Default multiple of ``regression_max`` that one suite may drop by."""
WHOLE_RUN = "run.whole"


def regression_mode(
    pack: Pack, suite: SuiteSpec, default: RegressionMode, rules: int = RULES
) -> RegressionMode:
    """Return how a suite's drop is judged: by the pack, or else by its kind."""
    if suite.regression is not None:
        return suite.regression
    is_first = rules == FIRST_RULES and suite.id in pack.required_suites
    return "point" if is_first else default


def margin_of(pack: Pack, suite: SuiteSpec) -> float:
    """Return the margin of a suite that is judged on its own."""
    return pack.regression_max if suite.regression_max is None else suite.regression_max


def guard_of(pack: Pack, suite: SuiteSpec) -> float:
    """Return the margin of a single suite in the pooled test; the pool has a smaller one."""
    if suite.regression_max is not None:
        return suite.regression_max
    if pack.guard_max is not None:
        return pack.guard_max
    return min(1.0, DEFAULT_GUARD * pack.regression_max)


def bound_of(pack: Pack, suite: SuiteSpec, pooled: frozenset[str]) -> float:
    """Return the margin of a suite, in the pooled test or on its own."""
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
    """Return every rule of a pack, in the order of the gate.

    ``compared`` are the suites that have a baseline, ``pooled`` those that one test judges
    together; ``limit`` is the number of items per suite that a run was limited to.
    """
    rules = list(condition_rules(conditions))
    if limit is not None:
        rules.append(Rule(id=WHOLE_RUN, metric=WHOLE_RUN, op=">=", bound=1.0, severity="hold"))
    for suite in pack.suites:
        if suite.evidence is None:
            for arm in ("", "baseline_") if suite.id in compared else ("",):
                names = f"{arm}errors", f"{arm}error_rate"
                rules.append(suite.rule(*names, "<=", suite.errors_max, severity="hold"))
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


def _floor_rule(pack: Pack, suite: SuiteSpec, rules_version: int) -> Rule:
    """Return the floor rule: blocking for a required suite, else a warning by default."""
    blocks = suite.id in pack.required_suites or suite.severity == "block"
    severity: Severity = "block" if blocks or rules_version == FIRST_RULES else "warn"
    return suite.rule("floor", "score", ">=", suite.min or 0.0, severity=severity)


def _slice_rules(suite: SuiteSpec, *, is_compared: bool) -> Iterator[Rule]:
    """Yield one rule over all slices of a suite; its reason names the worst slice."""
    if suite.slice_min is not None:
        yield suite.rule("slice_floor", WORST_SLICE_SCORE, ">=", suite.slice_min)
    if suite.slice_regression_max is not None and is_compared:
        bound = suite.slice_regression_max
        yield suite.rule("slice_regression", WORST_SLICE_DROP, "<=", bound, against="interval")


def _regression_rule(
    pack: Pack,
    suite: SuiteSpec,
    mode: RegressionMode,
    pooled: frozenset[str],
    rules_version: int,
) -> Rule:
    """Return the rule on the drop or on its whole interval; the first rules differ."""
    by_noise: Against = "non_inferiority" if rules_version == FIRST_RULES else "interval"
    against = "value" if mode == "point" else by_noise
    bound = bound_of(pack, suite, pooled)
    return suite.rule("regression", "regression", "<=", bound, against=against)


def refuse_waived_limit(waivers: Sequence[Waiver]) -> None:
    """Refuse a waiver of the limit: a limited run never passes."""
    if any(waiver.rule == WHOLE_RUN for waiver in waivers):
        raise BadInputError(f"{WHOLE_RUN} cannot be waived: a limited run never passes")


def limited_run() -> Measurement:
    """Return the measurement that prevents a limited run from passing."""
    return unmeasured(WHOLE_RUN, "the run was limited", direction="higher_is_better")


def bench(pack: Pack, scores: Mapping[str, Measurement], name: str) -> Measurement:
    """Return the weighted sum of the suites' scores; a missing score leaves no sum."""
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
    """Return the change of the bench score, with an interval if every suite has an error."""
    if candidate.value is None or baseline.value is None:
        reason = candidate.reason or baseline.reason or "no bench score"
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


FEWEST_POOLED = 2


class PackLook(msgspec.Struct, frozen=True):
    """One round of an adaptive pack: the ids due by then, and its significance level."""

    number: int
    total: int
    alpha: float
    due: dict[str, frozenset[str]]

    @property
    def is_last(self) -> bool:
        """Whether this is the last round."""
        return self.number == self.total

    @property
    def settings(self) -> dict[str, int | float]:
        """The settings of this look in a sealed policy."""
        return {"look": self.number, "looks": self.total, "look_alpha": self.alpha}


def looks_of(
    opened: OpenPack, modes: Mapping[str, RegressionMode], compared: frozenset[str]
) -> tuple[PackLook, ...]:
    """Return the looks of an adaptive pack; none if nothing is compared item by item.

    Rounds take items of suites whose drop is tested statistically; all other suites, and those that
    another suite examines, are asked completely. The order of items depends on the data alone, so
    that no score can influence it, and items of a cluster come together.
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
        PackLook(
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
    """Return the suites that one test judges together: compared item by item, and with a weight.

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
    """Return the weighted drop over the pooled suites; none if one suite has no drop."""
    if not pooled:
        return []
    pack = opened.pack
    suites = [suite for suite in pack.suites if suite.id in pooled]
    for suite in suites:
        missing = next(
            (n for n in reports[suite.id].measurements if n.name == "regression" and n.reason), None
        )
        if missing is not None:
            return no_drop(POOLED, None, f"{suite.id}: {missing.reason}")
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
    """Mark drops that are not significant after correction for the number of drops tested.

    Passing needs no correction: every drop must pass. Failing does, or a pack of many suites would
    fail good candidates more and more often.
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
