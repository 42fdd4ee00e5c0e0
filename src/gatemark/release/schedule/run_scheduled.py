"""Run the command of a schedule in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from gatemark.core.durations import seconds_of
from gatemark.core.errors import ExitCode
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.release.schedule.cadence import (
    Occasion,
    Schedule,
)
from gatemark.release.schedule.stores import RunState
from gatemark.workspace import Workspace

PROBE_ALERTS: Final = "GATEMARK_DRIFT_PROBE_ALERTS"
"""The environment variable equivalent to ``--alerts`` of a drift probe."""
TAIL: Final = 500
_ENDED_WELL: Final[dict[ExitCode, RunState]] = {
    ExitCode.PASS: "done",
    ExitCode.FAIL: "gate_failed",
    ExitCode.INCONCLUSIVE: "unjudged",
}


Runner = Callable[[Schedule, Occasion, datetime], tuple[RunState, str]]


def make_runner(workspace: Workspace, alerts_file: str | None) -> Runner:
    """Return the runner of a store; its drift probes alert the sinks of ``alerts_file``."""
    settings = {"GATEMARK_STORE": workspace.store_setting}
    if alerts_file is not None and PROBE_ALERTS not in os.environ:
        settings[PROBE_ALERTS] = str(Path(alerts_file).resolve())

    def run(schedule: Schedule, occasion: Occasion, now: datetime) -> tuple[RunState, str]:
        pack = None if occasion.asset is None else read_state(workspace, occasion.asset).asset
        return run_scheduled(
            schedule, occasion, now, settings, None if pack is None else pack.required_pack_file
        )

    return run


def run_scheduled(
    schedule: Schedule,
    occasion: Occasion,
    now: datetime,
    settings: Mapping[str, str],
    pack: str | None = None,
) -> tuple[RunState, str]:
    """Run a schedule's command in its own process, and stop it at the time limit.

    ``settings`` are environment variables for the command; ``pack`` is the file of the required
    pack of its asset.
    """
    if schedule.needs_pack and (pack is None or not Path(pack).is_file()):
        return "failed", _explain_missing_pack(occasion.asset, pack)
    values = {
        "asset": occasion.asset or "",
        "now": _format_moment(now),
        "due": _format_moment(occasion.due_at),
    }
    arguments = [
        _fill_in(argument, {**values, "pack": pack or ""}) for argument in schedule.command
    ]
    environment = {**os.environ, **settings}
    try:
        process = subprocess.Popen(  # noqa: S603 - the owner of the schedule names it
            [sys.executable, "-m", "gatemark", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return "failed", f"cannot be started: {error.strerror or error}"
    try:
        _, complaint = process.communicate(timeout=seconds_of(schedule.time_limit))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timed_out", f"stopped after {schedule.time_limit}"
    said = complaint.decode(errors="replace").strip()[-TAIL:]
    code = process.returncode
    if code in _ENDED_WELL:
        # A drift probe that finds drift has already acted on it.
        state: RunState = "done" if schedule.kind == "drift" else _ENDED_WELL[ExitCode(code)]
        return state, f"exit {code}"
    ending = f"exit {code}" if code >= 0 else f"stopped by signal {-code}"
    return "failed", f"{ending}: {said}" if said else ending


def _explain_missing_pack(asset: str | None, pack: str | None) -> str:
    if asset is None:
        return "no asset to run the required pack of: name one with asset: or fire it with --asset"
    if pack is None:
        return f"{asset} has no pack file; set it: gatemark asset pack {asset} FILE"
    return f"{pack}, the required pack of {asset}, was not found; run the tick in its folder"


def _fill_in(argument: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        argument = argument.replace(f"{{{name}}}", value)
    return argument


def _format_moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
