"""The journey of ``gatemark drift derive``: points from results, run logs and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.durations import seconds_of
from gatemark.core.result import Result
from gatemark.drift.assets import Served
from gatemark.drift.derived import WindowTally, window_of
from gatemark.drift.ledger import open_push
from gatemark.drift.point import Point, Pushed
from gatemark.drift.push import PointIngest
from gatemark.evidence.observations import point_sources
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.ledger.event_kinds import RESULT_SEALED
from gatemark.ledger.payloads import sealed_moment
from gatemark.workspace import Workspace

DEFAULT_WINDOW: Final = "1d"
RUN_LOGS: Final = "runlog"
DECISIONS: Final = "advisory"
_LANES: Final = {"golden": ("score", "golden_accuracy"), "calibration": ("ece", "calibration_ece")}
"""The measurement of each kind of suite that is watched, and the metric it becomes."""


class DeriveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look: the store's sealed results, and files of run logs and advisory decisions."""

    results: bool = False
    run_logs: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    asset: str | None = None
    window: str = DEFAULT_WINDOW


class Derived(msgspec.Struct, frozen=True):
    """What came of it: points pushed, windows that are not over yet, and results left out.

    ``not_served`` are results about versions that did not serve when they were reached: what a
    candidate can do says nothing about what is live.
    """

    pushed: Pushed
    open_windows: int
    not_served: int


def derive_points(
    workspace: Workspace, request: DeriveRequest, choices: ReadingChoices, *, now: datetime
) -> Derived:
    """Count what is recorded into closed windows and push them; doing it again changes nothing."""
    window_s = seconds_of(request.window)
    points: list[dict[str, Any]] = []
    not_served = 0
    if request.results:
        found, not_served = _from_results(workspace, request.asset, window_s)
        points.extend(found)
    for kind, paths in ((RUN_LOGS, request.run_logs), (DECISIONS, request.decisions)):
        if paths:
            points.extend(_from_files(kind, paths, request, choices))
    closed = [point for point in points if point["end"] <= now]
    with open_push(workspace, now) as pusher:
        door = PointIngest(pusher, now)
        for point in closed:
            door.add(msgspec.convert(point, Point))
        pushed = pusher.finish()
    return Derived(pushed, len(points) - len(closed), not_served)


def _from_results(
    workspace: Workspace, asset: str | None, window_s: int
) -> tuple[list[dict[str, Any]], int]:
    """One point per suite and occasion: a result reached again on another day is another point.

    Says also how many results were left out, because they are about something that did not serve.
    """
    results, served = workspace.results, Served(workspace)
    known: dict[str, Result] = {}
    points: list[dict[str, Any]] = []
    not_served = 0
    for event, payload in workspace.events.events(kind=RESULT_SEALED):
        if payload is None:
            continue
        name = str(payload["result_id"])
        if name not in known:
            known[name] = results.get(name)
        moment = sealed_moment(payload)
        source = f"result-{name[7:23]}-{event.seq}"
        candidate = known[name].candidate
        about = "" if candidate is None else candidate.id.partition("/")[0]
        if candidate is None or (asset is not None and about != asset):
            continue
        if not served.is_about(about, candidate.digest, moment):
            not_served += 1
            continue
        tally = _result_tally(known[name], about, window_of(moment, window_s))
        points.extend(tally.points(window_s, source))
    return points, not_served


def _result_tally(result: Result, name: str, window: int) -> WindowTally:
    tally = WindowTally()
    suites = {e.checks["suite"]: e.checks["kind"] for e in result.evidence if "suite" in e.checks}
    for suite, kind in suites.items():
        if kind not in _LANES:
            continue
        wanted, metric = _LANES[kind]
        for measurement in result.measurements:
            if measurement.key == (wanted, suite) and measurement.value is not None:
                tally.value(name, metric, window, measurement.value, measurement.n)
    return tally


def _from_files(
    kind: str, paths: Sequence[str], request: DeriveRequest, choices: ReadingChoices
) -> Iterator[dict[str, Any]]:
    window_s = seconds_of(request.window)
    for name, observations in point_sources().get(kind).read(paths, choices):
        tally = WindowTally()
        for observed in observations:
            tally.count(observed, request.asset, window_s)
        yield from tally.points(window_s, _source_name(name))


def _source_name(path: str) -> str:
    """A file that grew comes again under its name, and corrects what it said before."""
    return Path(path).name[:256]


def default_request(
    run_logs: Sequence[str], decisions: Sequence[str], **more: Any
) -> DeriveRequest:
    """What a user asked for; without any file, the sealed results."""
    is_bare = not run_logs and not decisions
    results = bool(more.pop("results", False)) or is_bare
    return DeriveRequest(
        results=results, run_logs=tuple(run_logs), decisions=tuple(decisions), **more
    )
