"""The policy of a pack: floors, drops, errors, the bench score, and the rules of its suites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from gatemark.core.errors import UsageError
from gatemark.core.policy import (
    LINE_TOLERANCE,
    Against,
    Policy,
    Rule,
    Setting,
    Severity,
    SuiteShare,
    Waiver,
    refuse_strays,
)
from gatemark.packs.conditions import Conditions, make_condition_rules
from gatemark.packs.exam_suites import make_exam_rules
from gatemark.packs.judge_qualification import make_qualification_rule
from gatemark.packs.latency_and_cost import make_latency_and_cost_rules
from gatemark.packs.limited_runs import WHOLE_RUN, refuse_waived_limit
from gatemark.packs.looks import PackLook
from gatemark.packs.margins import choose_regression_modes, find_bound
from gatemark.packs.pack import PACK_POLICY, Pack
from gatemark.packs.pooled_drop import POOLED, choose_pooled_suites
from gatemark.packs.suite_plugins import find_suite_plugin, parse_suite_options
from gatemark.packs.suite_spec import WORST_SLICE_DROP, WORST_SLICE_SCORE, RegressionMode, SuiteSpec

BENCH_RULE = "bench.score_min"
POOLED_RULE = "bench.regression"


def build_policy(
    pack: Pack,
    *,
    modes: Mapping[str, RegressionMode],
    suite_rules: Mapping[str, Sequence[Rule]],
    compared: frozenset[str],
    settings: Mapping[str, Setting],
    limit: int | None,
    conditions: Conditions = MappingProxyType({}),
    pooled: frozenset[str] = frozenset(),
    level: float | None = None,
) -> Policy:
    """Return every rule of a pack, in the order of the gate.

    ``compared`` are the suites that have a baseline, ``pooled`` those that one test judges
    together; ``limit`` is the number of items per suite that a run was limited to. ``level`` is the
    significance level (default: that of one of the pack's candidates).
    """
    rules = list(make_condition_rules(conditions))
    if limit is not None:
        rules.append(Rule(id=WHOLE_RUN, metric=WHOLE_RUN, op=">=", bound=1.0, severity="hold"))
    for suite in pack.suites:
        if suite.evidence is None:
            for arm in ("", "baseline_") if suite.id in compared else ("",):
                names = f"{arm}errors", f"{arm}error_rate"
                rules.append(suite.rule(*names, "<=", suite.errors_max, severity="hold"))
        if suite.min is not None:
            rules.append(_make_floor_rule(pack, suite))
        rules.extend(_make_slice_rules(suite, is_compared=suite.id in compared))
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
        _make_regression_rule(pack, suite, modes[suite.id], pooled)
        for suite in pack.suites
        if suite.id in compared
    )
    rules.append(Rule(id=BENCH_RULE, metric="bench", op=">=", bound=pack.score_min))
    rules.extend(make_latency_and_cost_rules(pack))
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
            "alpha": pack.level if level is None else level,
            "line_tolerance": LINE_TOLERANCE,
            "baseline": "given" if compared else "none",
            **({} if limit is None else {"limit": limit}),
            **conditions,
            **settings,
        },
    )


def _make_floor_rule(pack: Pack, suite: SuiteSpec) -> Rule:
    """Return the floor rule: blocking for a required suite, else a warning by default."""
    blocks = suite.id in pack.required_suites or suite.severity == "block"
    severity: Severity = "block" if blocks else "warn"
    return suite.rule("floor", "score", ">=", suite.min or 0.0, severity=severity)


def _make_slice_rules(suite: SuiteSpec, *, is_compared: bool) -> Iterator[Rule]:
    """Yield one rule over all slices of a suite; its reason names the worst slice."""
    if suite.slice_min is not None:
        yield suite.rule("slice_floor", WORST_SLICE_SCORE, ">=", suite.slice_min)
    if suite.slice_regression_max is not None and is_compared:
        bound = suite.slice_regression_max
        yield suite.rule("slice_regression", WORST_SLICE_DROP, "<=", bound, against="interval")


def _make_regression_rule(
    pack: Pack, suite: SuiteSpec, mode: RegressionMode, pooled: frozenset[str]
) -> Rule:
    """Return the rule on the drop itself, or on its whole interval."""
    bound = find_bound(pack, suite, pooled)
    against: Against = "value" if mode == "point" else "interval"
    return suite.rule("regression", "regression", "<=", bound, against=against)


def check_waivers_and_rules(
    pack: Pack, *, has_baseline: bool, limit: int | None, waivers: Sequence[Waiver]
) -> None:
    """Refuse options, rules and waivers that could not be judged by, before anybody is asked."""
    alone = [suite.id for suite in pack.suites if suite.comparing_judge and not has_baseline]
    if alone:
        raise UsageError(
            f"suite {alone[0]} compares answers with those of a baseline, and there is none; name "
            "one under targets.baseline, or remove the suite"
        )
    if limit is not None:
        refuse_waived_limit(waivers)
    # A result as baseline may have evidence that the pack itself does not name.
    compared = {s.id for s in pack.suites if has_baseline or s.evidence is not None}
    refuse_strays(waivers, make_run_policy(pack, frozenset(compared), limit))


def make_pack_policy(pack: Pack, *, has_baseline: bool) -> Policy:
    """Return the rules of a pack and of its suites."""
    compared = frozenset(
        suite.id
        for suite in pack.suites
        if (has_baseline if suite.evidence is None else suite.baseline_evidence != "none")
    )
    return make_run_policy(pack, compared, None)


def make_run_policy(
    pack: Pack,
    compared: frozenset[str],
    limit: int | None,
    conditions: Conditions = MappingProxyType({}),
    *,
    look: PackLook | None = None,
) -> Policy:
    """Return the policy of a run, with the digest of what the pack alone makes of it."""
    modes = choose_regression_modes(pack)
    rules, settings = _make_suite_rules(pack)
    build = partial(
        build_policy,
        pack,
        modes=modes,
        suite_rules=rules,
        compared=compared,
        limit=limit,
        pooled=choose_pooled_suites(pack, modes, compared),
    )
    of_pack = build(settings=settings, level=pack.alpha)
    of_run = {} if look is None else look.settings
    return build(
        settings={**of_run, **settings, PACK_POLICY: of_pack.digest}, conditions=conditions
    )


def _make_suite_rules(pack: Pack) -> tuple[dict[str, tuple[Rule, ...]], dict[str, Setting]]:
    """Return the rules that every suite brings, and the settings that the pack makes."""
    rules: dict[str, tuple[Rule, ...]] = {}
    settings: dict[str, Setting] = {}
    if pack.adaptive is not None:
        # Part of the exam's identity: a pack that asks in rounds is another exam.
        settings["adaptive_looks"] = pack.adaptive.looks
        settings["adaptive_budget"] = pack.adaptive.budget
    for suite in pack.suites:
        if suite.evidence is not None:
            rules[suite.id], of_exam = make_exam_rules(suite)
            settings.update(of_exam)
            continue
        plugin = find_suite_plugin(suite)
        own = plugin.rules(suite, parse_suite_options(suite, plugin.options))
        rules[suite.id] = (*own, *_make_judge_rules(pack, suite))
    return rules, settings


def _make_judge_rules(pack: Pack, suite: SuiteSpec) -> tuple[Rule, ...]:
    return (
        () if suite.judge is None else (make_qualification_rule(suite, pack.judges[suite.judge]),)
    )
