"""The report of a calibration: tables, settings, and a page for people."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from gatemark.exams.runlog.calibrate.choose_policy import ChosenPolicy
from gatemark.exams.runlog.calibrate.sweep import CaseSweep, PolicySweep
from gatemark.exams.runlog.calibrate.sweep_config import SweepConfig
from gatemark.exams.runlog.records.names import SHORT, shorten_hash
from gatemark.exams.runlog.replay.token_gate import GateSettings
from gatemark.exams.runlog.traces.files import render_json_lines, render_plain_json

NOBODY: Final = "none"
_TOP: Final = 5
_SETTINGS: Final = GateSettings.__struct_fields__
_COLUMNS: Final = PolicySweep.__struct_fields__[2:-1]
"""The numbers of a policy, without the policy, the count of cases and the violations."""


class CalibrationReport(Struct, frozen=True):
    """Inputs and outcome of a calibration."""

    run_id: str
    config: SweepConfig
    trace_dataset_hash: str
    config_hash: str
    code_commit: str
    mas_run_id: str
    case_count: int
    failed_cases: Mapping[str, str]
    invalid_policies: Sequence[str]
    policies: Sequence[PolicySweep]
    cases: Sequence[CaseSweep]
    choice: ChosenPolicy | None

    @property
    def survivors(self) -> list[PolicySweep]:
        """Return the policies that break no constraint."""
        return [found for found in self.policies if not found.violations]


def name_calibration(trace_dataset_hash: str, config_hash: str, commit: str) -> str:
    """Return the name of a calibration, from its inputs and code."""
    parts = (shorten_hash(trace_dataset_hash), shorten_hash(config_hash), commit[:SHORT])
    return "_".join(("calib", *parts))


def render_calibration(found: CalibrationReport) -> dict[str, bytes]:
    """Return every file by name; settings only if a policy was chosen."""
    files = {
        "calibration_results.csv": _render_results(found),
        "calibration_per_case.jsonl": render_json_lines(found.cases),
        "calibration_summary.json": render_plain_json(_summarize_calibration(found)),
        "calibration_config.yaml": render_plain_json(found.config),
        "calibration_report.md": "".join(f"{line}\n" for line in _render_report(found)).encode(),
        "spam_sensitivity.json": render_plain_json(_measure_sensitivity(found)),
    }
    if found.choice is not None:
        files["chosen_tokengate_params.yaml"] = _render_chosen(found.choice)
    return files


def _render_results(found: CalibrationReport) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("policy_id", *_SETTINGS, *_COLUMNS, "constraint_violations", "weighted_score"))
    scores = {} if found.choice is None else found.choice.scores
    for policy in found.policies:
        name = policy.policy.policy_id
        writer.writerow(
            (
                name,
                *(getattr(policy.policy.settings, key) for key in _SETTINGS),
                *(_render_cell(getattr(policy, column)) for column in _COLUMNS),
                "; ".join(policy.violations),
                _render_cell(scores.get(name)),
            )
        )
    return text.getvalue().encode()


def _render_cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _summarize_calibration(found: CalibrationReport) -> dict[str, object]:
    choice = found.choice
    return {
        "calibration_run_id": found.run_id,
        "trace_dataset_hash": found.trace_dataset_hash,
        "config_hash": found.config_hash,
        "code_commit": found.code_commit,
        "mas_run_id": found.mas_run_id,
        "compat": found.config.compat,
        "case_count": found.case_count,
        "failed_cases": dict(found.failed_cases),
        "policy_count": len(found.policies),
        "invalid_policy_count": len(found.invalid_policies),
        "survivor_count": len(found.survivors),
        "violation_counts": _count_violations(found),
        "selection_method": NOBODY if choice is None else choice.method,
        "selected": None if choice is None else msgspec.to_builtins(choice.chosen),
        "bounds": None if choice is None else msgspec.to_builtins(choice.bounds),
        "dropped_objectives": [] if choice is None else list(choice.dropped),
        "pareto": [] if choice is None else list(choice.pareto),
    }


def _count_violations(found: CalibrationReport) -> dict[str, int]:
    return Counter(
        name
        for policy in found.policies
        for name in {violation.split(" ", maxsplit=1)[0] for violation in policy.violations}
    )


def _measure_sensitivity(found: CalibrationReport) -> dict[str, dict[str, float]]:
    """Return the share of small pieces by threshold, for the best policies."""
    choice = found.choice
    if choice is None:
        return {}
    near = sorted(choice.distances, key=lambda name: (choice.distances[name], name))
    high = sorted(choice.scores, key=lambda name: (-choice.scores[name], name))
    wanted = {choice.chosen.policy.policy_id, *near[:_TOP], *high[:_TOP]}
    sums: dict[str, dict[str, list[float]]] = {name: {} for name in sorted(wanted)}
    for case in found.cases:
        if case.policy_id in sums:
            for alpha, rate in case.spam_rates.items():
                sums[case.policy_id].setdefault(alpha, []).append(rate)
    return {
        name: {alpha: sum(rates) / len(rates) for alpha, rates in by_alpha.items()}
        for name, by_alpha in sums.items()
    }


def _render_chosen(choice: ChosenPolicy) -> bytes:
    settings = choice.chosen.policy.settings
    lines = (
        f"# {choice.chosen.policy.policy_id}, chosen by {choice.method}",
        "token_gate:",
        "  enabled: true",
        f"  min_words: {settings.min_words}",
        f"  max_words: {settings.max_words}",
        f"  silence_timer: {settings.silence_ms / 1000:g}",
        f"  max_wait_timeout: {settings.max_wait_ms / 1000:g}",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _render_report(found: CalibrationReport) -> Iterator[str]:
    yield f"# Token gate calibration {found.run_id}"
    yield ""
    yield f"- traces: `{found.trace_dataset_hash}`, {found.case_count} cases"
    yield f"- code: {found.code_commit}, timers as in {found.config.compat}"
    yield f"- policies: {len(found.policies)} tried, {len(found.survivors)} hold every constraint"
    if found.failed_cases:
        yield f"- cases that could not be replayed: {', '.join(sorted(found.failed_cases))}"
    yield ""
    counts = _count_violations(found)
    if counts:
        yield "| Constraint | Policies that break it |"
        yield "|---|---|"
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            yield f"| {name} | {count} |"
        yield ""
    choice = found.choice
    if choice is None:
        yield "No policy holds every constraint, so none was chosen."
        return
    settings = choice.chosen.policy.settings
    yield f"## Chosen: {choice.chosen.policy.policy_id}"
    yield ""
    yield f"By {choice.method}, from a Pareto set of {len(choice.pareto)}."
    if choice.dropped:
        yield f"Objectives that hardly differ were left out: {', '.join(choice.dropped)}."
    yield ""
    yield "| Setting | Value |"
    yield "|---|---|"
    for name in _SETTINGS:
        yield f"| {name} | {getattr(settings, name)} |"
    for column in _COLUMNS:
        yield f"| {column} | {_render_cell(getattr(choice.chosen, column)) or 'not measured'} |"
