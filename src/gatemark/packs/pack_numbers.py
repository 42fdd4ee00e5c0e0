"""All measurements of a pack, suite by suite and together."""

from __future__ import annotations

from collections.abc import Mapping

from gatemark.core.measurement import Measurement
from gatemark.packs.bench_score import compute_bench, compute_bench_delta
from gatemark.packs.conditions import CACHED, make_condition_measurements
from gatemark.packs.error_rates import measure_error_rate
from gatemark.packs.latency_and_cost import measure_latency_and_cost
from gatemark.packs.limited_runs import make_limited_run_number
from gatemark.packs.run import AnsweredRun
from gatemark.packs.suites.suite import ArmsReport
from gatemark.statistics.proportion import two_sided_z


def measure_suites_and_bench(
    answered: AnsweredRun, reports: Mapping[str, ArmsReport]
) -> tuple[Measurement, ...]:
    """Return the numbers of the run, of every suite, and of the bench score."""
    run, compared = answered.run, answered.compared
    pack = run.pack
    numbers = list(make_condition_measurements(answered.conditions))
    if run.limit is not None:
        numbers.append(make_limited_run_number())
    for suite in pack.suites:
        report = reports[suite.id]
        numbers.append(report.score)
        if suite.id in compared:
            numbers.append(report.baseline_score)
        numbers.extend(report.measurements)
        if suite.id in run.exams:
            continue
        numbers.append(measure_error_rate("error_rate", suite.id, answered.candidate[suite.id]))
        if answered.baseline is not None:
            numbers.append(
                measure_error_rate("baseline_error_rate", suite.id, answered.baseline[suite.id])
            )
    scores = {suite.id: reports[suite.id].score for suite in pack.suites}
    total = compute_bench(pack, scores, "bench")
    numbers.append(total)
    if compared:
        before = compute_bench(
            pack, {s.id: reports[s.id].baseline_score for s in pack.suites}, "bench_baseline"
        )
        errors_by_suite = {suite.id: reports[suite.id].delta_error for suite in pack.suites}
        numbers.append(before)
        numbers.append(compute_bench_delta(pack, total, before, errors_by_suite, two_sided_z(0.95)))
    return tuple(numbers)


def measure_answer_costs(answered: AnsweredRun) -> list[Measurement]:
    """Return latency, tokens and money of the answers; reused answers get a caveat."""
    # Judging the same evidence again must give the same, so only stored evidence counts.
    pack = answered.run.pack
    arms = () if pack.targets is None else (pack.targets.candidate, pack.targets.baseline)
    caveat = None
    if CACHED in answered.conditions or any("recorded" in arm for arm in arms):
        caveat = "reused answers have the latency and cost of when they were given"
    return measure_latency_and_cost(pack, answered.candidate, answered.baseline, caveat)
