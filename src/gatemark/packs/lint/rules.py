"""Find rules that can never be judged or never pass, and suites that can never have a score."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.core.policy import COVERAGE, Rule
from gatemark.packs.answers import Answer
from gatemark.packs.judge_qualification import METRIC as QUALIFICATION
from gatemark.packs.latency_and_cost import METRICS as LATENCY_AND_COST
from gatemark.packs.lint.report import LintWarning
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.part_scores import PART_METRICS
from gatemark.packs.questions import make_asked_rows, make_sample
from gatemark.packs.repeated_inputs import find_first_items
from gatemark.packs.sample_lines import PART_MARK
from gatemark.packs.suite_plugins import build_scorer, find_suite_plugin
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.packs.suites.slices import DEFAULT_MIN_ITEMS, find_slices
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.scorers.combined import NAME as COMBINED
from gatemark.scorers.combined import name_parts
from gatemark.scorers.scorer import Scorable, scorers

OF_THE_PACK = frozenset({"bench", "bench_baseline", "bench_delta", "bench_regression", COVERAGE})
OF_EVERY_SUITE = frozenset({"score", "baseline_score", "error_rate", "baseline_error_rate"})
AT_MOST_ONE = frozenset({"bench", "bench_baseline", "score", "baseline_score", COVERAGE})
PROBE = "probe"
TRIAL = "an answer that gives nothing away"
SURE = 0.5
"""Confidence of the invented answers in a trial run."""


def find_unsatisfiable_rules(opened: OpenPack) -> Iterator[LintWarning]:
    """Yield warnings about rules that can never be met."""
    trials = {
        suite.id: _try_rules(opened, suite)
        for suite in opened.pack.suites
        if suite.evidence is None and suite.judge is None
    }
    for number, suite in enumerate(opened.pack.suites):
        path = f"$.suites[{number}]"
        yield from (LintWarning(path, found) for found in _find_missing_tags(opened, suite))
        yield from (LintWarning(path, found) for found in _find_unscorable(opened, suite))
        yield from _find_small_slices(opened, suite, path)
        score = trials.get(suite.id, {}).get("score")
        if score is not None and score.value is None:
            yield LintWarning(path, f"suite {suite.id} can never have a score: {score.reason}")
    for number, rule in enumerate(opened.pack.rules):
        for found in _find_vain_reasons(opened, rule, trials):
            yield LintWarning(f"$.rules[{number}]", found)


def _try_rules(opened: OpenPack, suite: SuiteSpec) -> dict[str, Measurement]:
    """Return a suite's measurements if every answer of both arms is right and confident."""
    rows = opened.snapshots[suite.id].rows
    firsts = find_first_items(rows)
    rows = tuple(row for row in rows if firsts[row.id] == row.id)
    asked = opened.pack.suite(suite.source) if suite.source is not None else suite
    answers = tuple(
        Answer(row.id, epoch, "", 1.0, None, confidence=SURE, cluster=row.cluster, tags=row.tags)
        for row in rows
        for epoch in range(1, asked.repeats + 1)
    )
    plugin = find_suite_plugin(suite)
    report = plugin.examine(
        ArmsEvidence(
            spec=suite,
            rows=rows,
            candidate=answers,
            baseline=answers if opened.pack.has_baseline else None,
            margin=opened.pack.regression_max,
            alpha=opened.pack.level,
        ),
        msgspec.convert(suite.options, plugin.options),
    )
    found = (report.score, report.baseline_score, *report.measurements)
    return {number.name: number for number in found}


def _find_missing_tags(opened: OpenPack, suite: SuiteSpec) -> Iterator[str]:
    if suite.evidence is not None:
        return
    tags = {tag for row in opened.snapshots[suite.id].rows for tag in row.tags}
    wanted = [*suite.slices, *([suite.sample.stratify] if suite.sample else [])]
    for tag in wanted:
        if tag is not None and tag not in tags:
            yield f"suite {suite.id}: no item carries the tag {tag!r}"


def _find_small_slices(opened: OpenPack, suite: SuiteSpec, path: str) -> Iterator[LintWarning]:
    """Yield slices with too few items to be judged, even together."""
    if suite.evidence is not None or (suite.slice_min, suite.slice_regression_max) == (None, None):
        return
    least = suite.slice_min_items or DEFAULT_MIN_ITEMS
    tags = {row.id: (row.tags,) for row in opened.snapshots[suite.id].rows}
    for tag in suite.slices:
        for one in find_slices(tag, tags, least):
            if len(one.ids) < least:
                yield LintWarning(
                    f"{path}.slices",
                    f"suite {suite.id}: slice {one.name} has {len(one.ids)} items and needs "
                    f"{least}, so the rules on slices stay inconclusive; add items or lower "
                    "slice_min_items",
                )


def _find_unscorable(opened: OpenPack, suite: SuiteSpec) -> Iterator[str]:
    """Yield items that no answer could be scored on."""
    if suite.dataset is None or suite.judge is not None:
        return
    given = suite.scorer.name if isinstance(suite.scorer, ScorerSpec) else suite.scorer
    name = given or str(find_suite_plugin(suite).scorer)
    rows = opened.snapshots[suite.id].rows
    if name == PROBE:
        score, _ = build_scorer(suite, opened.folder)
        tried = [score(Scorable(r.id, r.input, r.target, TRIAL, make_sample(r))) for r in rows]
        bad = [(row, found.reason) for row, found in zip(rows, tried, strict=True) if found.reason]
    elif scorers().get(name).needs_target:
        asked = make_asked_rows(suite.kind, rows)
        bad = [(row, f"{name} needs a target") for row in asked if row.target is None]
    else:
        bad = []
    if bad:
        row, reason = bad[0]
        yield (
            f"suite {suite.id}: {len(bad)} of {len(rows)} items can never be scored, "
            f"such as {row.id}: {reason}"
        )


def _find_unknown_part(opened: OpenPack, rule: Rule, scope: str) -> Iterator[str]:
    """Yield a rule about a part of a combined score that the suite does not have."""
    suite_id, _, part = scope.partition(PART_MARK)
    scorer = opened.pack.suite(suite_id).scorer
    if rule.metric not in PART_METRICS.values() or not isinstance(scorer, ScorerSpec):
        return
    parts = name_parts([str(each.get("scorer")) for each in scorer.options.get("scorers", ())])
    if scorer.name == COMBINED and part not in parts:
        known = ", ".join(parts)
        yield f"rule {rule.id}: suite {suite_id} has no part {part!r} (parts: {known})"


def _find_vain_reasons(
    opened: OpenPack, rule: Rule, trials: dict[str, dict[str, Measurement]]
) -> Iterator[str]:
    """Yield why a rule of the pack can never be judged, or never pass."""
    scopes = {suite.id for suite in opened.pack.suites}
    if rule.scope is None:
        known = OF_THE_PACK | LATENCY_AND_COST
        if rule.metric in OF_EVERY_SUITE:
            yield (
                f"rule {rule.id}: {rule.metric} belongs to a suite, so the rule needs a scope, "
                f"such as scope: {min(scopes)}"
            )
            return
    elif rule.scope.partition("/")[0] not in scopes:
        known_scopes = ", ".join(sorted(scopes))
        yield f"rule {rule.id}: no suite is called {rule.scope!r} (suites: {known_scopes})"
        return
    elif rule.scope not in trials:
        yield from _find_unknown_part(opened, rule, rule.scope)
        return
    else:
        known = frozenset({*OF_EVERY_SUITE, QUALIFICATION, *trials[rule.scope]})
        if opened.pack.suite(rule.scope).dataset is not None:
            known |= LATENCY_AND_COST
    if rule.metric not in known:
        names = ", ".join(sorted(known))
        yield f"rule {rule.id}: nothing measures {rule.metric!r} there (known: {names})"
    elif rule.metric in AT_MOST_ONE and (
        (rule.op == ">=" and rule.bound > 1) or (rule.op == ">" and rule.bound >= 1)
    ):
        yield (
            f"rule {rule.id}: {rule.metric} {rule.op} {rule.bound:g} can never hold; "
            "use a bound below 1"
        )
