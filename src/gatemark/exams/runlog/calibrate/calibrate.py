"""``gatemark runlog calibrate``: try every policy of the token gate on every case, and choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.exam import option
from gatemark.evidence.settings_file import parse_settings, read_settings, settings_as
from gatemark.exams.runlog.calibrate.choose_policy import choose_policy
from gatemark.exams.runlog.calibrate.report import (
    CalibrationReport,
    name_calibration,
    render_calibration,
)
from gatemark.exams.runlog.calibrate.sweep import (
    CaseSweep,
    SweepCase,
    aggregate_policy,
    judge_policy,
    pick_at_share,
    prepare_case,
    sweep_policy,
    time_to_words,
)
from gatemark.exams.runlog.calibrate.sweep_config import GatePolicy, SweepConfig, list_policies
from gatemark.exams.runlog.records.manifest import RunManifest, TraceEntry
from gatemark.exams.runlog.records.names import UNKNOWN_COMMIT, hash_json
from gatemark.exams.runlog.records.run import Compat
from gatemark.exams.runlog.records.trace_rules import ReadingMode
from gatemark.exams.runlog.traces.dataset import find_dataset_hash
from gatemark.exams.runlog.traces.files import (
    ReadTrace,
    find_manifest,
    find_traces,
    read_manifest,
    read_trace,
)

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
    valid, invalid = list_policies(config.grid)
    if not valid:
        raise BadInputError("the grid holds no valid policy")
    paths = [
        _locate_trace(folder, entry) for entry in manifest.entries if entry.case_id not in failed
    ]
    job = _SweepJob(config, paths, request)
    found: list[CaseSweep] = []
    for data in engine.run(partial(_sweep_batch, job), _split_batches(valid)):
        found.extend(msgspec.msgpack.decode(data, type=list[CaseSweep]))
        if on_progress is not None:
            on_progress(len(found) // max(1, len(cases)), len(valid))
    calibration = _build_report(
        request, config, manifest, _SweepOutcome(cases, failed, valid, invalid, found)
    )
    place = Path(request.output) / calibration.run_id
    for name, data in render_calibration(calibration).items():
        write_whole(place / name, [data])
    return place, calibration


def _split_batches(valid: Sequence[GatePolicy]) -> list[Sequence[GatePolicy]]:
    """Policies per batch; large, because every batch reads all traces."""
    size = max(1, min(BATCH_POLICIES, len(valid) // 4))
    return [valid[start : start + size] for start in range(0, len(valid), size)]


def _locate_trace(folder: Path, entry: TraceEntry) -> str:
    return str(folder / Path(entry.file).name)


def _read_trace(path: str, request: CalibrateRequest) -> ReadTrace:
    return read_trace(path, mode=request.mode, allow_stub=request.allow_stub)


def _read_cases(
    manifest: RunManifest, folder: Path, request: CalibrateRequest
) -> tuple[list[SweepCase], dict[str, str]]:
    cases: list[SweepCase] = []
    failed: dict[str, str] = {}
    for entry in manifest.entries:
        try:
            read = _read_trace(_locate_trace(folder, entry), request)
            if read.content_hash != entry.sha256:
                raise BadInputError(f"{entry.file}: is not the trace of the manifest")
            cases.append(prepare_case(read.trace))
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


def _sweep_batch(job: _SweepJob, batch: Sequence[GatePolicy]) -> bytes:
    """Replay some policies on every case; each worker reads the traces."""
    cases = [prepare_case(_read_trace(path, job.request).trace) for path in job.paths]
    return msgspec.msgpack.encode(
        [sweep_policy(case, policy, job.config) for policy in batch for case in cases]
    )


class _SweepOutcome(NamedTuple):
    """Inputs and outcome of a sweep."""

    cases: list[SweepCase]
    failed: dict[str, str]
    valid: list[GatePolicy]
    invalid: list[str]
    found: list[CaseSweep]


def _build_report(
    request: CalibrateRequest, config: SweepConfig, manifest: RunManifest, swept: _SweepOutcome
) -> CalibrationReport:
    by_policy: dict[str, list[CaseSweep]] = {}
    for one in sorted(swept.found, key=lambda one: (one.policy_id, one.case_id)):
        by_policy.setdefault(one.policy_id, []).append(one)
    reach = {low: _find_reach_p95_ms(swept.cases, low) for low in config.grid.min_words}
    judged_policies = [
        judge_policy(
            aggregate_policy(policy, by_policy[policy.policy_id]),
            config,
            reach[policy.settings.min_words],
        )
        for policy in swept.valid
    ]
    dataset_hash = find_dataset_hash(manifest)
    config_hash = hash_json(msgspec.to_builtins(config))
    return CalibrationReport(
        run_id=name_calibration(dataset_hash, config_hash, request.code_commit),
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
        choice=choose_policy(
            [one for one in judged_policies if not one.violations], config.weights
        ),
    )


def _find_reach_p95_ms(cases: Sequence[SweepCase], words: int) -> float | None:
    times = sorted(t for case in cases if (t := time_to_words(case, words)) is not None)
    return pick_at_share(times, 0.95)
