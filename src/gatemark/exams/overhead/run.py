"""``gatemark overhead run``: run both arms of a target, write arm files, judge them.

The same seeds give the same bytes in the arm files. Time and memory differ from run to run and are
written to a file of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import json_file
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.progress import Progress
from gatemark.evidence.exam import Scored
from gatemark.evidence.settings_file import read_settings
from gatemark.evidence.source import ReadingChoices
from gatemark.exams.overhead.arms import read_arm
from gatemark.exams.overhead.costs import ArmCosts, Costs, Restored, schedule_digest
from gatemark.exams.overhead.policy import PolicyRequest, overhead_options
from gatemark.exams.overhead.targets.loading import build_target
from gatemark.exams.overhead.targets.port import AccuracyCounts, ArmName, Loss, PassSeeds
from gatemark.exams.overhead.targets.runner import (
    OverheadRun,
    PassRun,
    largest_repeat_shift,
    run_arms,
)
from gatemark.exams.score import ScoreRequest, score_exam
from gatemark.workspace import Workspace

MAX_CONFIG_BYTES: Final = 1024 * 1024
FILES: Final = {
    "bare": "bare.jsonl",
    "guarded": "guarded.jsonl",
    "noise": "noise.jsonl",
    "repeat": "repeat.jsonl",
    "costs": "costs.json",
}
REPORT: Final = "report.json"


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of a run.

    ``target`` is ``{example: numpy_lm}`` or ``{python: "module:function"}``, looked up in the
    folder of the configuration. ``policy`` names a file beside it.
    """

    gatemark_overhead: Literal[1]
    target: dict[str, str]
    options: dict[str, object] = {}
    seeds: PassSeeds = PassSeeds()
    out: str = "overhead"
    policy: str | None = None


class Ran(msgspec.Struct, frozen=True):
    """A judged run, and the files it wrote."""

    scored: Scored
    folder: Path
    files: tuple[Path, ...]


def run_overhead(
    workspace: Workspace,
    config_path: str,
    request: PolicyRequest,
    *,
    out: str | None = None,
    clock: Callable[[], float] = time.perf_counter,
    on_progress: Progress | None = None,
) -> Ran:
    """Run a configuration and score its arms."""
    config = read_config(config_path)
    folder = Path(config_path).parent
    place = Path(out) if out is not None else folder / config.out
    policy = request
    if config.policy is not None and request.file is None:
        policy = msgspec.structs.replace(request, file=str(folder / config.policy))
    # Refuse a bad policy or folder before the model runs, not after.
    overhead_options(policy, workspace.clock())
    if place.exists() and not place.is_dir():
        raise UsageError(f"{place} is a file; give a folder with --out")
    target = build_target(config.target, config.options, config.seeds, folder)
    run = run_arms(target, config.seeds, clock=clock, on_progress=on_progress)
    written = write_run(run, place)
    paths = {role: str(place / name) for role, name in FILES.items()}
    started_at = workspace.clock()
    options = overhead_options(policy, started_at)
    files = ScoreRequest(files=list(paths.items()))
    scored = score_exam(workspace, "overhead", options, files, started_at=started_at)
    report = place / REPORT
    write_whole(report, [json_file(scored.summary)])
    return Ran(scored, place, (*written, report))


def read_config(path: str) -> RunConfig:
    """Read a configuration file."""
    value = read_settings(path, max_bytes=MAX_CONFIG_BYTES)
    try:
        return msgspec.convert(value, RunConfig)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error


def write_run(run: OverheadRun, folder: Path) -> tuple[Path, ...]:
    """Write the arm files and the costs; render all arms before the first is written."""
    bare = [found for found in run.passes if found.arm == "bare"]
    guarded = [found for found in run.passes if found.arm == "guarded"]
    rendered = {
        FILES["bare"]: b"".join(arm_lines(run, bare[0])),
        FILES["guarded"]: b"".join(arm_lines(run, guarded[0])),
        FILES["noise"]: b"".join(arm_lines(run, bare[-1])),
        FILES["repeat"]: b"".join(arm_lines(run, guarded[-1])),
    }
    for name, data in rendered.items():
        write_whole(folder / name, [data])
    costs = _costs(run, folder / FILES["bare"])
    write_whole(folder / FILES["costs"], [json_file(costs)])
    return tuple(folder / name for name in FILES.values())


def arm_lines(run: OverheadRun, found: PassRun) -> Iterator[bytes]:
    """Yield one pass as the lines of a ``gatemark.arm/1`` file; NaN and infinity become null."""
    meta = {
        "schema": "gatemark.arm/1",
        "record_type": "arm_meta",
        "arm": found.arm,
        "metric_kind": run.kind,
        "seeds": msgspec.to_builtins(run.seeds),
        "device": run.device,
        "snapshot_hash": run.snapshot_hash,
        "plan": {"seq_len": run.seq_len, "stride": run.stride, "windows": len(run.windows)},
        "guards": list(run.guards) if found.arm == "guarded" else [],
    }
    yield msgspec.json.encode(meta) + b"\n"
    for window, outcome in zip(run.windows, found.outcomes, strict=True):
        record = {
            "record_type": "window",
            "window_id": window.window_id,
            "content_hash": window.content_hash,
            **_values(outcome),
        }
        yield msgspec.json.encode(record) + b"\n"


def _values(outcome: Loss | AccuracyCounts) -> dict[str, float | int | None]:
    if isinstance(outcome, AccuracyCounts):
        return {"correct": outcome.correct, "total": outcome.total}
    loss = outcome.loss
    return {"tokens": outcome.tokens, "loss": loss if math.isfinite(loss) else None}


def _costs(run: OverheadRun, bare_file: Path) -> Costs:
    def arm_costs(arm: ArmName) -> ArmCosts:
        memory = run.memory[arm]
        return ArmCosts(
            latency_ms=tuple(found.latency_ms for found in run.passes if found.arm == arm),
            peak_memory_bytes=memory if isinstance(memory, int) else None,
            memory_reason=memory if isinstance(memory, str) else None,
            repeat_shift_max=largest_repeat_shift(run, arm),
        )

    arm = read_arm("bare", str(bare_file), ReadingChoices())
    return Costs(
        schedule_digest=schedule_digest(arm) or "",
        passes=tuple(
            Restored(found.arm, found.before, found.after, found.restored) for found in run.passes
        ),
        arms={"bare": arm_costs("bare"), "guarded": arm_costs("guarded")},
    )
