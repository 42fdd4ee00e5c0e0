"""The journey of ``gatemark drift derive``: points from results, run logs and decisions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.governance import RESULT_SEALED
from gatemark.core.result import Result
from gatemark.flow.admitted import whole_file
from gatemark.flow.drift_push import PointDoor
from gatemark.flow.evidence import find_sources
from gatemark.flow.house import House
from gatemark.flow.reading import ReadingChoices, refuse
from gatemark.intake.lines import read_blocks
from gatemark.intake.source import Source
from gatemark.records.point import Point
from gatemark.watch.derived import (
    DecisionLine,
    RunLine,
    Tally,
    count_decision,
    count_run_line,
    window_of,
)
from gatemark.watch.durations import seconds_of
from gatemark.watch.stores.points import Pushed

DEFAULT_WINDOW: Final = "1d"
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
    """What came of it: points pushed, windows not over yet, and lines with nothing to count."""

    pushed: Pushed
    open_windows: int
    passed_over: int


def derive_points(
    house: House, request: DeriveRequest, choices: ReadingChoices, *, now: datetime
) -> Derived:
    """Count what is recorded into closed windows and push them; doing it again changes nothing."""
    window_s = seconds_of(request.window)
    points: list[dict[str, Any]] = []
    passed_over = 0
    if request.results:
        points.extend(_from_results(house, request.asset, window_s))
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        for paths, kind, count in (
            (request.run_logs, RunLine, count_run_line),
            (request.decisions, DecisionLine, count_decision),
        ):
            for source in find_sources(paths, choices.limits, Path(folder)):
                tally, idle = _count_file(source, kind, count, request, choices)
                passed_over += idle
                points.extend(tally.points(window_s, _source_name(source)))
    closed = [point for point in points if point["end"] <= now]
    with house.points.pushing(int(now.timestamp())) as pusher:
        door = PointDoor(pusher, now)
        for point in closed:
            door.add(msgspec.convert(point, Point))
        pushed = pusher.finish()
    return Derived(pushed, len(points) - len(closed), passed_over)


def _from_results(house: House, asset: str | None, window_s: int) -> Iterator[dict[str, Any]]:
    """One point per suite and occasion: a result reached again on another day is another point."""
    results = house.results
    known: dict[str, Result] = {}
    for event, payload in house.events.events(kind=RESULT_SEALED):
        if payload is None:
            continue
        name = str(payload["result_id"])
        if name not in known:
            known[name] = results.get(name)
        moment = datetime.fromisoformat(payload["occasion"]["finished_at"])
        source = f"result-{name[7:23]}-{event.seq}"
        tally = _result_tally(known[name], asset, window_of(moment, window_s))
        yield from tally.points(window_s, source)


def _result_tally(result: Result, asset: str | None, window: int) -> Tally:
    tally = Tally()
    if result.candidate is None:
        return tally
    name = result.candidate.id.partition("/")[0]
    if asset is not None and name != asset:
        return tally
    suites = {e.checks["suite"]: e.checks["kind"] for e in result.evidence if "suite" in e.checks}
    for suite, kind in suites.items():
        if kind not in _LANES:
            continue
        wanted, metric = _LANES[kind]
        for measurement in result.measurements:
            if measurement.key == (wanted, suite) and measurement.value is not None:
                tally.value(name, metric, window, measurement.value, measurement.n)
    return tally


def _count_file(
    source: Source,
    kind: type[Any],
    count: Callable[[Tally, Any, str | None, int], bool],
    request: DeriveRequest,
    choices: ReadingChoices,
) -> tuple[Tally, int]:
    tally, idle, number = Tally(), 0, 0
    window_s = seconds_of(request.window)
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
    problems: list[str] = []
    for block in read_blocks(whole_file(source), choices.limits):
        for line in block.data.removesuffix(b"\n").split(b"\n"):
            number += 1
            if not line.strip():
                continue
            try:
                idle += not count(tally, decode(line), request.asset, window_s)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                problems.append(f"{source.name}:{number}: {error}")
    refuse(problems, choices)
    if number == 0:
        raise BadInputError(f"{source.name}: holds no records")
    return tally, idle


def _source_name(source: Source) -> str:
    """A file that grew comes again under its name, and corrects what it said before."""
    return Path(source.name).name[:256]


def default_request(
    run_logs: Sequence[str], decisions: Sequence[str], **more: Any
) -> DeriveRequest:
    """What a user asked for; without any file, the sealed results."""
    is_bare = not run_logs and not decisions
    results = bool(more.pop("results", False)) or is_bare
    return DeriveRequest(
        results=results, run_logs=tuple(run_logs), decisions=tuple(decisions), **more
    )
