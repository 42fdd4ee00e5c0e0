"""The tables of a decision: the steps of the gate, and the suites."""

from __future__ import annotations

from collections.abc import Mapping

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Finding, Verdict
from gatemark.core.result import Cell, Table
from gatemark.packs.pack import Pack
from gatemark.packs.policy import BENCH_RULE, POOLED_RULE
from gatemark.packs.suites.suite import ArmsReport


def make_gate_table(pack: Pack, verdict: Verdict) -> Table:
    """Return the four gate steps, each with the rule closest to its bound."""
    suite_ids = {suite.id for suite in pack.suites}
    steps: dict[str, list[Finding]] = {
        "1 minimum probes": [],
        "2 regression": [],
        "3 score": [],
        "4 adversarial probes": [],
    }
    for finding in verdict.findings:
        scope, _, kind = finding.rule.rpartition(".")
        if finding.rule == BENCH_RULE:
            steps["3 score"].append(finding)
        elif finding.rule == POOLED_RULE or (scope in suite_ids and kind == "regression"):
            steps["2 regression"].append(finding)
        elif scope in suite_ids and kind == "broken_probes":
            steps["4 adversarial probes"].append(finding)
        else:
            steps["1 minimum probes"].append(finding)
    rows: list[tuple[Cell, ...]] = []
    for step, findings in steps.items():
        if not findings:
            rows.append((step, "not asked for", None, None))
            continue
        states = {_find_state(finding) for finding in findings}
        state = next(s for s in _STATES if s in states)
        tightest = min(findings, key=lambda f: (f.slack is not None, f.slack or 0.0))
        rows.append((step, state, tightest.rule, tightest.slack))
    eligible = "yes" if verdict.outcome == "pass" else "no"
    rows.append(("eligible for shadow", eligible, None, None))
    return Table("Gate", ("step", "outcome", "tightest rule", "slack"), tuple(rows), len(rows))


_STATES = ("fail", "inconclusive", "waived", "soft_pass", "warned", "pass")
"""From worst to best."""


def _find_state(finding: Finding) -> str:
    """Return the effect of a finding on its step; a hold or a warning does not fail it."""
    if finding.verdict not in {"fail", "inconclusive"} or finding.severity == "block":
        return finding.verdict
    return "inconclusive" if finding.severity == "hold" else "warned"


def make_suite_table(pack: Pack, reports: Mapping[str, ArmsReport]) -> Table:
    """Return a row for every suite: its weight, floor and scores."""
    rows = tuple(
        (
            suite.id,
            suite.kind,
            suite.weight,
            _round_value(reports[suite.id].score),
            _round_value(reports[suite.id].baseline_score),
            suite.min,
            "yes" if suite.id in pack.required_suites else "no",
        )
        for suite in pack.suites
    )
    columns = ("suite", "kind", "weight", "candidate", "baseline", "floor", "required")
    return Table("Suites", columns, rows, len(rows))


def _round_value(number: Measurement) -> float | None:
    return None if number.value is None else round(number.value, 4)
