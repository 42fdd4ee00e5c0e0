"""From both arms' answers to a judged result; no target is called here.

The gate speaks in this order: (1) every suite has its minimum of whole answers and its floor,
(2) no suite regressed, (3) the bench score is reached, (4) no adversarial probe broke. What gets
through is eligible for shadow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from gatemark.core.answers import Answer
from gatemark.core.canonical import digest
from gatemark.core.change import AssetRef
from gatemark.core.dataset import Snapshot
from gatemark.core.errors import UsageError
from gatemark.core.evidence import Evidence, EvidenceFile
from gatemark.core.exam import ArmsEvidence, ArmsReport
from gatemark.core.exhibit import Cell, Exhibit, Table
from gatemark.core.measurement import Measurement, rate
from gatemark.core.pack import Pack, SuiteSpec
from gatemark.core.policy import Policy, Waiver
from gatemark.core.result import Blob, Cost, PackRef, Result, seal
from gatemark.core.verdict import Bench, Finding, Verdict
from gatemark.flow.house import House
from gatemark.flow.pack_arms import suite_plugin
from gatemark.flow.pack_data import OpenPack
from gatemark.flow.runtime import runtime_versions
from gatemark.gate.decide import decide
from gatemark.gate.judge import MAY_BE_CHANCE
from gatemark.gate.pack_policy import (
    BENCH_RULE,
    bench,
    bench_delta,
    margin_of,
    pack_policy,
    regression_mode,
)
from gatemark.statistics.multiplicity import holm
from gatemark.statistics.proportion import two_sided_z

Arm = Mapping[str, tuple[Answer, ...]]


class Judged(msgspec.Struct, frozen=True):
    """A decision over a pack, before it is sealed."""

    policy: Policy
    measurements: tuple[Measurement, ...]
    exhibits: tuple[Exhibit, ...]
    verdict: Verdict
    evidence: tuple[Evidence, ...]


def judge_pack(
    opened: OpenPack,
    candidate: Arm,
    baseline: Arm | None,
    files: Sequence[EvidenceFile],
    *,
    waivers: Sequence[Waiver],
    now: datetime,
) -> Judged:
    """Examine every suite and decide."""
    pack, snapshots = opened.pack, opened.snapshots
    plugins = {suite.id: suite_plugin(suite) for suite in pack.suites}
    options = {suite.id: _options(suite, plugins[suite.id].options) for suite in pack.suites}
    policy = policy_of(pack, has_baseline=baseline is not None)
    reports: dict[str, ArmsReport] = {}
    for suite in pack.suites:
        evidence = ArmsEvidence(
            spec=suite,
            rows=snapshots[suite.id].rows,
            candidate=candidate[suite.id],
            baseline=None if baseline is None else baseline[suite.id],
            margin=margin_of(pack, suite),
            alpha=pack.alpha,
        )
        reports[suite.id] = plugins[suite.id].examine(evidence, options[suite.id])
    accounts = tuple(
        _account(suite, snapshots[suite.id], candidate, files)
        for suite in pack.suites
        if suite.source is None
    )
    numbers = _among_suites(
        _numbers(pack, reports, candidate, has_baseline=baseline is not None), pack.alpha
    )
    verdict = decide(policy, accounts, numbers, waivers, now=now)
    return Judged(
        policy=policy,
        measurements=numbers,
        exhibits=(
            _gate_steps(pack, verdict),
            _suite_table(pack, reports),
            *(exhibit for suite in pack.suites for exhibit in reports[suite.id].exhibits),
        ),
        verdict=verdict,
        evidence=accounts,
    )


def policy_of(pack: Pack, *, has_baseline: bool) -> Policy:
    """The rules that a pack comes to, with those of its suites."""
    plugins = {suite.id: suite_plugin(suite) for suite in pack.suites}
    return pack_policy(
        pack,
        modes={
            suite.id: regression_mode(pack, suite, plugins[suite.id].default_regression)
            for suite in pack.suites
        },
        suite_rules={
            suite.id: plugins[suite.id].rules(suite, _options(suite, plugins[suite.id].options))
            for suite in pack.suites
        },
        has_baseline=has_baseline,
    )


def _options(suite: SuiteSpec, options_type: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return msgspec.convert(suite.options, options_type)
    except msgspec.ValidationError as error:
        raise UsageError(f"suite {suite.id}: options: {error}") from error


def _account(
    suite: SuiteSpec, snapshot: Snapshot, candidate: Arm, files: Sequence[EvidenceFile]
) -> Evidence:
    """Items pinned by the snapshot against items answered; a limited run is short of some."""
    answered = {answer.id for answer in candidate[suite.id]}
    return Evidence(
        received=len(candidate[suite.id]),
        accepted=len(candidate[suite.id]),
        rejected=0,
        usable=len(answered),
        missing=len(snapshot.ids - answered),
        expected=len(snapshot.rows),
        files=tuple(file for file in files if file.name.startswith(f"{suite.id}.")),
        checks={"suite": suite.id, "kind": suite.kind, "snapshot": snapshot.reference},
    )


def _numbers(
    pack: Pack, reports: Mapping[str, ArmsReport], candidate: Arm, *, has_baseline: bool
) -> tuple[Measurement, ...]:
    numbers: list[Measurement] = []
    for suite in pack.suites:
        report = reports[suite.id]
        answers = candidate[suite.id]
        failed = sum(answer.score is None for answer in answers)
        numbers.append(report.score)
        if has_baseline:
            numbers.append(report.baseline_score)
        numbers.extend(report.measurements)
        errors = rate("error_rate", failed, len(answers), direction="lower_is_better")
        numbers.append(msgspec.structs.replace(errors, lane=suite.id))
    scores = {suite.id: reports[suite.id].score for suite in pack.suites}
    total = bench(pack, scores, "bench")
    numbers.append(total)
    if has_baseline:
        before = bench(
            pack, {s.id: reports[s.id].baseline_score for s in pack.suites}, "bench_baseline"
        )
        errors_by_suite = {suite.id: reports[suite.id].delta_error for suite in pack.suites}
        numbers.append(before)
        numbers.append(bench_delta(pack, total, before, errors_by_suite, two_sided_z(0.95)))
    return tuple(numbers)


def _among_suites(numbers: Sequence[Measurement], alpha: float) -> tuple[Measurement, ...]:
    """Mark the drops that are no longer sure once one counts how many suites were looked at.

    Passing needs no such care: every suite must pass. Failing does, or a pack of many suites would
    fail equal models ever more often.
    """
    claims = [n for n in numbers if n.name == "drop_p" and n.value is not None]
    adjusted = holm([claim.value or 0.0 for claim in claims])
    doubtful = {claim.lane for claim, p in zip(claims, adjusted, strict=True) if p > alpha}
    return tuple(
        msgspec.structs.replace(number, caveats=(*number.caveats, MAY_BE_CHANCE))
        if number.name == "regression" and number.lane in doubtful
        else number
        for number in numbers
    )


def _gate_steps(pack: Pack, verdict: Verdict) -> Table:
    """The four steps, each with the rule that came closest to its line."""
    suite_ids = {suite.id for suite in pack.suites}
    steps: dict[str, list[Finding]] = {
        "1 minimum probes": [],
        "2 regression": [],
        "3 score": [],
        "4 adversarial probes": [],
    }
    for finding in verdict.findings:
        lane, _, kind = finding.rule.rpartition(".")
        if finding.rule == BENCH_RULE:
            steps["3 score"].append(finding)
        elif lane in suite_ids and kind == "regression":
            steps["2 regression"].append(finding)
        elif lane in suite_ids and kind == "broken_probes":
            steps["4 adversarial probes"].append(finding)
        else:
            steps["1 minimum probes"].append(finding)
    rows: list[tuple[Cell, ...]] = []
    for step, findings in steps.items():
        if not findings:
            rows.append((step, "not asked for", None, None))
            continue
        states = {finding.verdict for finding in findings}
        state = next((s for s in ("fail", "inconclusive") if s in states), "pass")
        tightest = min(findings, key=lambda f: (f.slack is not None, f.slack or 0.0))
        rows.append((step, state, tightest.rule, tightest.slack))
    eligible = "yes" if verdict.outcome == "pass" else "no"
    rows.append(("eligible for shadow", eligible, None, None))
    return Table("Gate", ("step", "outcome", "tightest rule", "slack"), tuple(rows), len(rows))


def _suite_table(pack: Pack, reports: Mapping[str, ArmsReport]) -> Table:
    rows = tuple(
        (
            suite.id,
            suite.kind,
            suite.weight,
            _rounded(reports[suite.id].score),
            _rounded(reports[suite.id].baseline_score),
            suite.min,
            "yes" if suite.id in pack.required_suites else "no",
        )
        for suite in pack.suites
    )
    columns = ("suite", "kind", "weight", "candidate", "baseline", "floor", "required")
    return Table("Suites", columns, rows, len(rows))


def _rounded(number: Measurement) -> float | None:
    return None if number.value is None else round(number.value, 4)


def result_of(
    opened: OpenPack,
    judged: Judged,
    house: House,
    *,
    candidate: AssetRef,
    baseline: AssetRef | None,
    blobs: Sequence[Blob],
    runtime: Mapping[str, str],
    waivers: Sequence[Waiver],
    started_at: datetime,
    finished_at: datetime,
    cost: Cost,
) -> Result:
    """The sealed result of a judged pack."""
    pack = opened.pack
    verdict = judged.verdict
    numbers = {number.key: number for number in judged.measurements}
    total = numbers["bench", None]
    drops = [n for n in judged.measurements if n.name == "regression"]
    worst = max((n.value for n in drops if n.value is not None), default=None)
    unknown = next((n.reason for n in drops if n.value is None), None)
    return seal(
        title=f"{pack.asset.name} ({pack.asset.kind}), pack {pack.name} v{pack.version}",
        pack=PackRef(pack.name, pack.version, digest(pack)),
        policy=judged.policy,
        policy_digest=judged.policy.digest,
        candidate=candidate,
        baseline=baseline,
        snapshots=opened.references,
        runtime={**runtime_versions(), **runtime},
        evidence=judged.evidence,
        measurements=judged.measurements,
        findings=verdict.findings,
        bench=Bench(total.value, total.reason),
        regression=Bench(
            None if unknown or not drops else worst,
            unknown or (None if drops else "the pack says that there is no baseline"),
        ),
        verdict=verdict.outcome,
        blockers=verdict.blockers,
        caveats=verdict.caveats,
        exhibits=judged.exhibits,
        blobs=tuple(blobs),
        waivers=tuple(waivers),
        started_at=started_at,
        finished_at=finished_at,
        actor=house.actor,
        cost=cost,
    )
