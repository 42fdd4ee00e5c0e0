"""``gatemark overhead run``: run both arms of a target, write arm files, judge them.

The same seeds give the same bytes in the arm files. Time and memory differ from run to run and are
written to a separate file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from gatemark.checks.score import ScoreRequest, score_exam
from gatemark.core.atomic import write_whole
from gatemark.core.canonical import json_file
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.progress import Progress
from gatemark.evidence.judge_exam import Scored
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.settings_file import read_settings
from gatemark.plugins.overhead.arms import read_arm
from gatemark.plugins.overhead.costs import ArmCosts, Costs, Restored, Timing, digest_schedule
from gatemark.plugins.overhead.parameters import OverheadParameters, build_overhead_options
from gatemark.plugins.overhead.targets.loading import build_target
from gatemark.plugins.overhead.targets.passes import OverheadRun, PassRun, find_largest_repeat_shift
from gatemark.plugins.overhead.targets.port import AccuracyCounts, ArmName, Loss, PassSeeds
from gatemark.plugins.overhead.targets.runner import run_arms
from gatemark.plugins.overhead.targets.state_reset import Reloading
from gatemark.plugins.overhead.targets.timing import TimedGroup
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

    ``target`` is ``{python: "module:function"}``, looked up in the folder of the configuration.
    ``policy`` names a file alongside it. With ``reload`` the target is built again for each pass
    instead of restored from a snapshot. ``batch_size`` windows are evaluated together.
    """

    gatemark_overhead: Literal[1]
    target: dict[str, str]
    options: dict[str, object] = {}
    seeds: PassSeeds = PassSeeds()
    out: str = "overhead"
    policy: str | None = None
    reload: bool = False
    batch_size: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1


class JudgedRun(msgspec.Struct, frozen=True):
    """A judged run, and the files it wrote."""

    scored: Scored
    folder: Path
    files: tuple[Path, ...]


def run_overhead(
    workspace: Workspace,
    config_path: str,
    request: OverheadParameters,
    *,
    out: str | None = None,
    clock: Callable[[], float] = time.perf_counter,
    on_progress: Progress | None = None,
) -> JudgedRun:
    """Run a configuration and score its arms."""
    config = read_config(config_path)
    folder = Path(config_path).parent
    place = Path(out) if out is not None else folder / config.out
    policy = request
    if config.policy is not None and request.policy is None:
        policy = msgspec.structs.replace(request, policy=str(folder / config.policy))
    # Refuse a bad policy or folder before the model runs, not after.
    build_overhead_options(policy, workspace.clock())
    if place.exists() and not place.is_dir():
        raise UsageError(f"{place} is a file; give a folder with --out")
    build = partial(
        build_target,
        config.target,
        config.options,
        config.seeds,
        folder,
        needs_restore=not config.reload,
    )
    run = run_arms(
        Reloading(build) if config.reload else build(),
        config.seeds,
        clock=clock,
        batch_size=config.batch_size,
        on_progress=on_progress,
    )
    written = write_run(run, place)
    paths = {role: str(place / name) for role, name in FILES.items()}
    started_at = workspace.clock()
    options = build_overhead_options(policy, started_at)
    files = ScoreRequest(files=list(paths.items()))
    scored = score_exam(workspace, "overhead", options, files, started_at=started_at)
    report = place / REPORT
    write_whole(report, [json_file(scored.summary)])
    return JudgedRun(scored, place, (*written, report))


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
    passes = {"bare": bare[0], "guarded": guarded[0], "noise": bare[-1], "repeat": guarded[-1]}
    rendered = {role: b"".join(render_arm(run, found)) for role, found in passes.items()}
    for role, data in rendered.items():
        write_whole(folder / FILES[role], [data])
    costs = _build_costs(run, folder / FILES["bare"])
    write_whole(folder / FILES["costs"], [json_file(costs)])
    return tuple(folder / name for name in FILES.values())


def render_arm(run: OverheadRun, found: PassRun) -> Iterator[bytes]:
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
            **_describe_outcome(outcome),
        }
        yield msgspec.json.encode(record) + b"\n"


def _describe_outcome(outcome: Loss | AccuracyCounts) -> dict[str, float | int | None]:
    if isinstance(outcome, AccuracyCounts):
        return {"correct": outcome.correct, "total": outcome.total}
    loss = outcome.loss
    return {"tokens": outcome.tokens, "loss": loss if math.isfinite(loss) else None}


def _build_costs(run: OverheadRun, bare_file: Path) -> Costs:
    arm = read_arm("bare", str(bare_file), ReadingChoices())
    return Costs(
        schedule_digest=digest_schedule(arm) or "",
        passes=tuple(
            Restored(found.arm, found.before, found.after, found.restored) for found in run.passes
        ),
        arms={"bare": _build_arm_costs(run, "bare"), "guarded": _build_arm_costs(run, "guarded")},
        timing=_build_timing(run.timing),
        install_ms=run.installs_ms,
        guards=run.guard_runs,
    )


def _build_arm_costs(run: OverheadRun, arm: ArmName) -> ArmCosts:
    memory = run.memory[arm]
    peak, rss = memory.peak, memory.rss
    return ArmCosts(
        latency_ms=tuple(found.latency_ms for found in run.passes if found.arm == arm),
        peak_memory_bytes=peak if isinstance(peak, int) else None,
        memory_reason=peak if isinstance(peak, str) else None,
        repeat_shift_max=find_largest_repeat_shift(run, arm),
        memory_source=memory.source,
        peak_rss_bytes=rss if isinstance(rss, int) else None,
        rss_reason=rss if isinstance(rss, str) else None,
    )


def _build_timing(found: tuple[TimedGroup, ...] | str) -> Timing:
    if isinstance(found, str):
        return Timing(reason=found)
    return Timing(
        windows=tuple(group.windows for group in found),
        bare_ms=tuple(group.times_ms["bare"] for group in found),
        guarded_ms=tuple(group.times_ms["guarded"] for group in found),
    )
