"""The drift demo: an enabled asset gets worse day by day and is demoted automatically.

Everything is real: a pack is run and sealed, people promote on it, points are pushed, probes act.
Only the clock is simulated.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.errors import RefusedError
from gatemark.core.result import Result
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.packs.init import write_starter
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_pack import run_pack
from gatemark.release.demo.lifecycle import ADA, ROLES
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.probe import ProbeReport, probe
from gatemark.release.drift.push import push_points
from gatemark.release.drift.signal import DriftSignal
from gatemark.release.drift.view import drift_view
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.assets import NewVersion, RequirePack, add_version, require_pack
from gatemark.release.lifecycle.commands import Approve, GrantRoles, Promote
from gatemark.release.lifecycle.model.nouns import PRODUCTION, Role, Stage
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

ASSET: Final = "parcel-desk"
VERSION: Final = "1.0.0"
METRIC: Final = "golden_accuracy"
POLICY: Final = DriftPolicy(on_breach="stop")
"""Demote even without an earlier version to fall back to."""
HEALTHY_DAYS: Final = 20
ITEMS: Final = 240
RATE: Final = 0.98
FALL: Final = 0.015
SEED: Final = 11
MOST_DAYS: Final = 12
PEOPLE: Final[dict[str, tuple[Role, ...]]] = {
    **ROLES,
    "eve": ("evaluator",),
    "pam": ("pack_owner",),
    "olu": ("operator",),
}


class DriftStep(msgspec.Struct, frozen=True):
    """One step of the demo: the planned outcome, the actual one, and a line about it."""

    name: str
    planned: str
    found: str
    line: str

    @property
    def is_astray(self) -> bool:
        """Whether the outcome differs from the plan."""
        return self.planned != self.found


class _Clock:
    """A clock that moves only when it is set."""

    def __init__(self, start: datetime) -> None:
        self.start = self.now = start

    def __call__(self) -> datetime:
        return self.now

    def move_to_day(self, day: int) -> None:
        """Move to the start of a day, which is the end of the previous one."""
        self.now = max(self.now, self.start + timedelta(days=day))

    def on(self) -> None:
        """Move on by a minute."""
        self.now += timedelta(minutes=1)


def play_drift(folder: Path, store: str, start: datetime) -> Iterator[DriftStep]:
    """Play the drift demo: enable, drift, warn, breach, demote, refuse, run again, re-enable.

    Its clock begins at ``start``, the start of a day.
    """
    clock = _Clock(start)
    workspace = Workspace(store=store, actor="demo", clock=clock)
    pack = folder / "drift-pack" / "pack.yaml"
    shutil.rmtree(pack.parent, ignore_errors=True)
    write_starter(pack.parent)
    first = _enable(workspace, clock, pack)
    yield _make_step(
        workspace, "enabled", "enabled", f"{ASSET}@{VERSION} is enabled on {first.id[:19]}"
    )
    healthy = _play_quiet_days(workspace, clock, folder, 0, HEALTHY_DAYS)
    yield DriftStep("healthy", "OK", healthy.level, f"{HEALTHY_DAYS} days go by: {healthy.reason}")
    yield from _play_decline(workspace, clock, folder)
    write_whole(folder / "drift.html", [_render_page(workspace, clock.now)])
    yield from _return(workspace, clock, pack, first)


def _enable(workspace: Workspace, clock: _Clock, pack: Path) -> Result:
    """Run the pack on the first version, register it, approve it and enable it."""
    for person, roles in PEOPLE.items():
        act(workspace, GrantRoles(actor=ADA, person=person, roles=roles))
    result = run_pack(workspace, str(pack), RunChoices())
    new = NewVersion(asset=ASSET, version=VERSION, kind="prompt", result=result.id)
    add_version(workspace, new, actor="ann")
    require_pack(workspace, RequirePack(asset=ASSET, pack=str(pack)), actor="pam")
    _promote(workspace, clock, "evaluating", "ann")
    _promote(workspace, clock, "eligible", "eve", result.id)
    _promote(workspace, clock, "shadow", "olu")
    _vote_and_enable(workspace, clock)
    return result


def _vote_and_enable(workspace: Workspace, clock: _Clock) -> None:
    clock.on()
    act(
        workspace,
        Approve(
            actor="bob", asset=ASSET, version=VERSION, stage="enabled", note="read the results"
        ),
    )
    _promote(workspace, clock, "enabled", "olu")


def _promote(workspace: Workspace, clock: _Clock, to: Stage, actor: str, *cites: str) -> None:
    clock.on()
    command = Promote(actor=actor, asset=ASSET, version=VERSION, to=to, result_ids=cites)
    act(workspace, command)


def _play_quiet_days(
    workspace: Workspace, clock: _Clock, folder: Path, first: int, count: int
) -> DriftSignal:
    """Play uneventful days and return the last signal."""
    for day in range(first, first + count):
        found = _play_day(workspace, clock, folder, day, RATE)
    return _get_signal(found)


def _play_day(
    workspace: Workspace, clock: _Clock, folder: Path, day: int, rate: float
) -> ProbeReport:
    """Push one day of golden items when it is over, and probe."""
    clock.move_to_day(day + 1)
    draw = random.Random(SEED * 1000 + day)  # noqa: S311 - a demo, not a secret
    point = {
        "asset": ASSET,
        "metric": METRIC,
        "start": clock.start + timedelta(days=day),
        "end": clock.start + timedelta(days=day + 1),
        "k": sum(draw.random() < rate for _ in range(ITEMS)),
        "n": ITEMS,
    }
    path = folder / "drift-points.jsonl"
    write_whole(path, [msgspec.json.encode(point) + b"\n"])
    push_points(workspace, [str(path)], ReadingChoices(), now=clock.now)
    return probe(workspace, POLICY, now=clock.now)


def _play_decline(workspace: Workspace, clock: _Clock, folder: Path) -> Iterator[DriftStep]:
    """Let quality fall day by day: first a warning, then a breach."""
    waiting = [("warning", "WARN", "enabled"), ("breach", "BREACH", "demoted")]
    for late in range(MOST_DAYS):
        found = _play_day(workspace, clock, folder, HEALTHY_DAYS + late, RATE - FALL * (late + 1))
        signal = _get_signal(found)
        while waiting and signal.level == waiting[0][1]:
            name, level, stage = waiting.pop(0)
            yield DriftStep(name, level, signal.level, f"{METRIC}: {signal.reason}")
            outcome = next(
                (done.outcome for done in found.actions if done.act != "tell"), "nothing"
            )
            yield _make_step(workspace, f"after the {name}", stage, outcome)
        if not waiting:
            return
    for name, level, _ in waiting:
        yield DriftStep(name, level, "never", f"no {level} within {MOST_DAYS} days")


def _return(workspace: Workspace, clock: _Clock, pack: Path, first: Result) -> Iterator[DriftStep]:
    """Enable again: the old result is refused, a new run is accepted."""
    _promote(workspace, clock, "evaluating", "ann")
    try:
        _promote(workspace, clock, "eligible", "eve", first.id)
        yield DriftStep("old result", "refused", "accepted", "the old result was enough")
    except RefusedError as error:
        yield DriftStep("old result", "refused", "refused", error.lines()[-1])
    clock.now += timedelta(hours=1)
    fresh = run_pack(workspace, str(pack), RunChoices())
    yield DriftStep(
        "fresh result", "pass", fresh.verdict, f"the pack is run again: {fresh.id[:19]}"
    )
    _promote(workspace, clock, "eligible", "eve", fresh.id)
    _promote(workspace, clock, "shadow", "olu")
    clock.on()
    closed = probe(workspace, POLICY, now=clock.now).closed
    because = closed[0].closed_because if closed else "the episode is still open"
    yield DriftStep("episode", "closed", "closed" if closed else "open", str(because))
    _vote_and_enable(workspace, clock)
    yield _make_step(workspace, "return", "enabled", f"{ASSET}@{VERSION} serves again")


def _make_step(workspace: Workspace, name: str, planned: str, line: str) -> DriftStep:
    stage = read_state(workspace, ASSET).asset.track(PRODUCTION, VERSION).stage
    return DriftStep(name, planned, stage, line)


def _get_signal(found: ProbeReport) -> DriftSignal:
    return next(s for s in found.signals if (s.asset, s.metric) == (ASSET, METRIC))


def _render_page(workspace: Workspace, now: datetime) -> bytes:
    from gatemark.release.drift.views.page import render_drift  # noqa: PLC0415 - an extra

    return render_drift(drift_view(workspace, DriftPolicy(), ASSET, now))
