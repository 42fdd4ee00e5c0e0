"""Calibrate the token gate: try every policy on every case, and choose the best valid one.

Writes tables, settings, and a page for people.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Struct

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.exam import option
from gatemark.evidence.settings_file import parse_settings, read_settings, settings_as
from gatemark.exams.runlog.calibrate.sweep import (
    CaseSweep,
    ChosenPolicy,
    GatePolicy,
    PolicySweep,
    SweepCase,
    SweepConfig,
    at_share,
    case_sweep,
    choose,
    judged,
    policies,
    policy_sweep,
    sweep_case,
    time_to_words,
)
from gatemark.exams.runlog.records.manifest import RunManifest, TraceEntry
from gatemark.exams.runlog.records.names import SHORT, UNKNOWN_COMMIT, json_hash, short_hash
from gatemark.exams.runlog.records.run import Compat
from gatemark.exams.runlog.records.trace_rules import ReadingMode
from gatemark.exams.runlog.replay.token_gate import GateSettings
from gatemark.exams.runlog.traces.dataset import manifest_dataset_hash
from gatemark.exams.runlog.traces.files import (
    ReadTrace,
    find_manifest,
    find_traces,
    json_lines,
    plain_json,
    read_manifest,
    read_trace,
)

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


def calibration_id(trace_dataset_hash: str, config_hash: str, commit: str) -> str:
    """Return the name of a calibration, from its inputs and code."""
    parts = (short_hash(trace_dataset_hash), short_hash(config_hash), commit[:SHORT])
    return "_".join(("calib", *parts))


def calibration_files(found: CalibrationReport) -> dict[str, bytes]:
    """Return every file by name; settings only if a policy was chosen."""
    files = {
        "calibration_results.csv": _results(found),
        "calibration_per_case.jsonl": json_lines(found.cases),
        "calibration_summary.json": plain_json(_summary(found)),
        "calibration_config.yaml": plain_json(found.config),
        "calibration_report.md": "".join(f"{line}\n" for line in _report_lines(found)).encode(),
        "spam_sensitivity.json": plain_json(_sensitivity(found)),
    }
    if found.choice is not None:
        files["chosen_tokengate_params.yaml"] = _chosen(found.choice)
    return files


def _results(found: CalibrationReport) -> bytes:
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
                *(_cell(getattr(policy, column)) for column in _COLUMNS),
                "; ".join(policy.violations),
                _cell(scores.get(name)),
            )
        )
    return text.getvalue().encode()


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _summary(found: CalibrationReport) -> dict[str, object]:
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
        "violation_counts": _violation_counts(found),
        "selection_method": NOBODY if choice is None else choice.method,
        "selected": None if choice is None else msgspec.to_builtins(choice.chosen),
        "bounds": None if choice is None else msgspec.to_builtins(choice.bounds),
        "dropped_objectives": [] if choice is None else list(choice.dropped),
        "pareto": [] if choice is None else list(choice.pareto),
    }


def _violation_counts(found: CalibrationReport) -> dict[str, int]:
    return Counter(
        name
        for policy in found.policies
        for name in {violation.split(" ", maxsplit=1)[0] for violation in policy.violations}
    )


def _sensitivity(found: CalibrationReport) -> dict[str, dict[str, float]]:
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


def _chosen(choice: ChosenPolicy) -> bytes:
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


def _report_lines(found: CalibrationReport) -> Iterator[str]:
    yield f"# Token gate calibration {found.run_id}"
    yield ""
    yield f"- traces: `{found.trace_dataset_hash}`, {found.case_count} cases"
    yield f"- code: {found.code_commit}, timers as in {found.config.compat}"
    yield f"- policies: {len(found.policies)} tried, {len(found.survivors)} hold every constraint"
    if found.failed_cases:
        yield f"- cases that could not be replayed: {', '.join(sorted(found.failed_cases))}"
    yield ""
    counts = _violation_counts(found)
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
        yield f"| {column} | {_cell(getattr(choice.chosen, column)) or 'not measured'} |"


BATCH_POLICIES = 100


class CalibrateRequest(msgspec.Struct, frozen=True):
    """Traces, configuration and output folder of a calibration."""

    traces: Annotated[
        str, option("Folder of traces to sweep the token gate over.", metavar="DIR")
    ] = ""
    manifest: Annotated[
        str | None,
        option("Manifest of the traces (default: the only one near them).", metavar="FILE"),
    ] = None
    config: Annotated[
        str | None, option("Grid, constraints and weights (default: built in).", metavar="FILE")
    ] = None
    compat: Annotated[
        Compat | None,
        option(
            "Compatibility mode of the timers (default: from the configuration).",
            "--compat",
            "--compat-mode",
        ),
    ] = None
    mode: ReadingMode = "strict"
    allow_stub: Annotated[bool, option("Sweep stub traces too.")] = False
    code_commit: Annotated[str, option("Commit under test.")] = UNKNOWN_COMMIT
    output: str = ""


class _SweepJob(msgspec.Struct, frozen=True):
    config: SweepConfig
    paths: list[str]
    request: CalibrateRequest


def read_sweep_config(path: str | None, compat: str | None = None) -> SweepConfig:
    """Return the configuration of a file, or the built-in one."""
    if path is None:
        place = "calibration.yaml"
        text = files("gatemark.exams.runlog.replay").joinpath("defaults", place).read_text("utf-8")
        raw = parse_settings(text, place)
    else:
        place, raw = path, read_settings(path)
    if isinstance(raw, dict) and compat is not None:
        raw = {**raw, "compat": compat}
    return settings_as(raw, SweepConfig, place)


def calibrate(
    engine: Engine,
    request: CalibrateRequest,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Path, CalibrationReport]:
    """Sweep, judge, choose, and write the files of the calibration into a folder."""
    config = read_sweep_config(request.config, request.compat)
    folder = find_traces(request.traces)[0].parent
    path = find_manifest(request.manifest, folder, folder.parent / "manifests", folder.parent)
    if path is None:
        raise BadInputError(f"{request.traces}: has no manifest near it; name one with --manifest")
    manifest = read_manifest(str(path))
    cases, failed = _read_cases(manifest, folder, request)
    _refuse_many_failures(failed, len(manifest.entries), config)
    valid, invalid = policies(config.grid)
    if not valid:
        raise BadInputError("the grid holds no valid policy")
    paths = [_path(folder, entry) for entry in manifest.entries if entry.case_id not in failed]
    job = _SweepJob(config, paths, request)
    found: list[CaseSweep] = []
    for data in engine.run(partial(_sweep, job), _batches(valid)):
        found.extend(msgspec.msgpack.decode(data, type=list[CaseSweep]))
        if on_progress is not None:
            on_progress(len(found) // max(1, len(cases)), len(valid))
    calibration = _calibration(
        request, config, manifest, _Swept(cases, failed, valid, invalid, found)
    )
    place = Path(request.output) / calibration.run_id
    for name, data in calibration_files(calibration).items():
        write_whole(place / name, [data])
    return place, calibration


def _batches(valid: Sequence[GatePolicy]) -> list[Sequence[GatePolicy]]:
    """Policies per batch; large, because every batch reads all traces."""
    size = max(1, min(BATCH_POLICIES, len(valid) // 4))
    return [valid[start : start + size] for start in range(0, len(valid), size)]


def _path(folder: Path, entry: TraceEntry) -> str:
    return str(folder / Path(entry.file).name)


def _read(path: str, request: CalibrateRequest) -> ReadTrace:
    return read_trace(path, mode=request.mode, allow_stub=request.allow_stub)


def _read_cases(
    manifest: RunManifest, folder: Path, request: CalibrateRequest
) -> tuple[list[SweepCase], dict[str, str]]:
    cases: list[SweepCase] = []
    failed: dict[str, str] = {}
    for entry in manifest.entries:
        try:
            read = _read(_path(folder, entry), request)
            if read.content_hash != entry.sha256:
                raise BadInputError(f"{entry.file}: is not the trace of the manifest")
            cases.append(sweep_case(read.trace))
        except GatemarkError as error:
            failed[entry.case_id] = error.lines()[0]
    return cases, failed


def _refuse_many_failures(failed: dict[str, str], total: int, config: SweepConfig) -> None:
    limit = config.constraints.failed_cases_max_rate
    if len(failed) > limit * total:
        reasons = tuple(f"{case_id}: {reason}" for case_id, reason in sorted(failed.items()))
        raise BadInputError(
            (
                f"{len(failed)} of {total} cases cannot be replayed, at most {limit:.0%} may fail",
                *reasons[:20],
            )
        )


def _sweep(job: _SweepJob, batch: Sequence[GatePolicy]) -> bytes:
    """Replay some policies on every case; each worker reads the traces."""
    cases = [sweep_case(_read(path, job.request).trace) for path in job.paths]
    return msgspec.msgpack.encode(
        [case_sweep(case, policy, job.config) for policy in batch for case in cases]
    )


class _Swept(NamedTuple):
    """Inputs and outcome of a sweep."""

    cases: list[SweepCase]
    failed: dict[str, str]
    valid: list[GatePolicy]
    invalid: list[str]
    found: list[CaseSweep]


def _calibration(
    request: CalibrateRequest, config: SweepConfig, manifest: RunManifest, swept: _Swept
) -> CalibrationReport:
    by_policy: dict[str, list[CaseSweep]] = {}
    for one in sorted(swept.found, key=lambda one: (one.policy_id, one.case_id)):
        by_policy.setdefault(one.policy_id, []).append(one)
    reach = {low: _reach_p95_ms(swept.cases, low) for low in config.grid.min_words}
    judged_policies = [
        judged(
            policy_sweep(policy, by_policy[policy.policy_id]),
            config,
            reach[policy.settings.min_words],
        )
        for policy in swept.valid
    ]
    dataset_hash = manifest_dataset_hash(manifest)
    config_hash = json_hash(msgspec.to_builtins(config))
    return CalibrationReport(
        run_id=calibration_id(dataset_hash, config_hash, request.code_commit),
        config=config,
        trace_dataset_hash=dataset_hash,
        config_hash=config_hash,
        code_commit=request.code_commit,
        mas_run_id=manifest.meta.mas_run_id,
        case_count=len(swept.cases),
        failed_cases=swept.failed,
        invalid_policies=swept.invalid,
        policies=judged_policies,
        cases=[one for many in by_policy.values() for one in many],
        choice=choose([one for one in judged_policies if not one.violations], config.weights),
    )


def _reach_p95_ms(cases: Sequence[SweepCase], words: int) -> float | None:
    times = sorted(t for case in cases if (t := time_to_words(case, words)) is not None)
    return at_share(times, 0.95)
