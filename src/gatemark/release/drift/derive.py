"""``gatemark drift derive``: make points from results and from files of exams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.durations import seconds_of
from gatemark.core.errors import GatemarkError
from gatemark.core.result import Result
from gatemark.evidence.observations import ConfidenceValue, Hit, Observation, point_sources
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.ledger.event_kinds import RESULT_SEALED, sealed_moment
from gatemark.release.drift.assets import Served
from gatemark.release.drift.ledger import open_push
from gatemark.release.drift.point import Point, Pushed
from gatemark.release.drift.push import PointIngest
from gatemark.release.drift.sealed_scores import list_suite_scores
from gatemark.workspace import Workspace

DEFAULT_WINDOW: Final = "1d"
CONFIDENCE_BINS: Final = 10
CALIBRATION_BINS: Final = 15
_EDGE: Final = 1e-9


class DeriveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of points: sealed results, and files, each with the name of its point source."""

    results: bool = False
    files: tuple[tuple[str, str], ...] = ()
    asset: str | None = None
    window: str = DEFAULT_WINDOW


class Derived(msgspec.Struct, frozen=True):
    """The points pushed, the windows that are still open, and the results left out.

    ``not_served`` counts results about versions that were not serving at that time: they say
    nothing about what was live. ``uncitable`` says which results nothing may rest on, and why.
    """

    pushed: Pushed
    open_windows: int
    not_served: int
    uncitable: tuple[str, ...] = ()


def derive_points(
    workspace: Workspace, request: DeriveRequest, choices: ReadingChoices, *, now: datetime
) -> Derived:
    """Push closed windows of the recorded observations; repeating it changes nothing."""
    window_s = seconds_of(request.window)
    points: list[Point] = []
    not_served, uncitable = 0, dict[str, str]()
    if request.results:
        found, not_served, uncitable = _read_results(workspace, request.asset, window_s)
        points.extend(found)
    for kind in dict.fromkeys(kind for kind, _ in request.files):
        paths = [path for name, path in request.files if name == kind]
        points.extend(_read_files(kind, paths, request, choices))
    closed = [point for point in points if point.end <= now]
    with open_push(workspace, now) as pusher:
        ingest = PointIngest(pusher, now)
        for point in closed:
            ingest.add(point)
        pushed = pusher.finish()
    return Derived(pushed, len(points) - len(closed), not_served, tuple(uncitable.values()))


def _read_results(
    workspace: Workspace, asset: str | None, window_s: int
) -> tuple[list[Point], int, dict[str, str]]:
    """Return one point for each suite and run, and which results were left out.

    Results about a version that did not serve are counted; those that nothing may rest on are told.
    A result that is computed again on another day is another point.
    """
    served = Served(workspace)
    uncitable: dict[str, str] = {}
    known: dict[str, Result] = {}
    points: list[Point] = []
    not_served = 0
    for event, payload in workspace.events.events(kind=RESULT_SEALED):
        if payload is None:
            continue
        name = str(payload.get("result_id"))
        try:
            moment = sealed_moment(payload)
            if name not in known and name not in uncitable:
                known[name] = workspace.citable_result(name)
        except (GatemarkError, msgspec.ValidationError) as error:
            # One result that somebody forged must not stop the points of all others.
            uncitable[name] = f"event {event.seq}: {error}"
        if name not in known:
            continue
        source = f"result-{name[7:23]}-{event.seq}"
        candidate = known[name].candidate
        about = "" if candidate is None else candidate.id.partition("/")[0]
        if candidate is None or (asset is not None and about != asset):
            continue
        if not served.is_about(about, candidate.digest, moment):
            not_served += 1
            continue
        tally = _tally_result(known[name], about, window_of(moment, window_s))
        points.extend(tally.points(window_s, source))
    return points, not_served, uncitable


def _tally_result(result: Result, name: str, window: int) -> WindowTally:
    tally = WindowTally()
    for score in list_suite_scores(result):
        tally.value(name, score.metric, window, score.value, score.items)
    return tally


def _read_files(
    kind: str, paths: Sequence[str], request: DeriveRequest, choices: ReadingChoices
) -> Iterator[Point]:
    window_s = seconds_of(request.window)
    for name, observations in point_sources().get(kind).read(paths, choices):
        tally = WindowTally()
        for observed in observations:
            tally.count(observed, request.asset, window_s)
        # A source is named after its file, so that a longer file corrects its earlier points.
        yield from tally.points(window_s, Path(name).name[:256])


class WindowTally:
    """Sums for each asset, metric and window, in the form of the metric."""

    def __init__(self) -> None:
        self.hits: dict[tuple[str, str, int], list[int]] = {}
        self.bins: dict[tuple[str, str, int], list[int]] = {}
        self.calibration: dict[tuple[str, str, int], list[list[float]]] = {}
        self.classes: dict[tuple[str, str, int], dict[str, int]] = {}
        self.values: dict[tuple[str, str, int], tuple[float, int]] = {}

    def value(self, asset: str, metric: str, window: int, number: float, n: int) -> None:
        """Add a number over n items; several in a window are averaged by their items."""
        before, items = self.values.get((asset, metric, window), (0.0, 0))
        mean = (before * items + number * n) / (items + n)
        self.values[asset, metric, window] = (mean, items + n)

    def count(self, observed: Observation, asset: str | None, window_s: int) -> None:
        """Add an observation about the named asset, or else about the asset in the record."""
        name, metric, value = asset or observed.subject, observed.metric, observed.value
        window = window_of(observed.at, window_s)
        if isinstance(value, Hit):
            self.rate(name, metric, window, is_hit=value.is_hit)
        elif not isinstance(value, ConfidenceValue):
            self.category(name, metric, window, value.name)
        elif value.is_correct is None:
            self.confidence(name, metric, window, value.score)
        else:
            self.promise(name, metric, window, value.score, is_correct=value.is_correct)

    def rate(self, asset: str, metric: str, window: int, *, is_hit: bool) -> None:
        """Add one item of a rate."""
        counts = self.hits.setdefault((asset, metric, window), [0, 0])
        counts[0] += is_hit
        counts[1] += 1

    def confidence(self, asset: str, metric: str, window: int, score: float) -> None:
        """Add one stated confidence."""
        counts = self.bins.setdefault((asset, metric, window), [0] * CONFIDENCE_BINS)
        counts[bin_of(score, CONFIDENCE_BINS)] += 1

    def promise(
        self, asset: str, metric: str, window: int, score: float, *, is_correct: bool
    ) -> None:
        """Add one stated confidence and whether the answer was correct."""
        key = (asset, metric, window)
        bins = self.calibration.setdefault(key, [[0.0] * CALIBRATION_BINS for _ in range(3)])
        place = bin_of(score, CALIBRATION_BINS)
        bins[0][place] += 1
        bins[1][place] += score
        bins[2][place] += is_correct

    def category(self, asset: str, metric: str, window: int, name: str) -> None:
        """Add one occurrence of a class."""
        counts = self.classes.setdefault((asset, metric, window), {})
        counts[name] = counts.get(name, 0) + 1

    def points(self, window_s: int, source: str) -> Iterator[Point]:
        """Yield all sums as points, in order."""
        for key, (number, items) in sorted(self.values.items()):
            yield _make_point(key, window_s, source, {"value": number, "n": items})
        for key, (hits, n) in sorted(self.hits.items()):
            yield _make_point(key, window_s, source, {"k": hits, "n": n})
        for key, counts in sorted(self.bins.items()):
            yield _make_point(key, window_s, source, {"histogram": counts})
        for key, (totals, promised, correct) in sorted(self.calibration.items()):
            bins = {
                "items": [int(n) for n in totals],
                # Rounding can push the sum slightly above its count.
                "confidence_sum": [min(p, n) for p, n in zip(promised, totals, strict=True)],
                "correct": [int(n) for n in correct],
            }
            yield _make_point(key, window_s, source, {"calibration": bins})
        for key, classes in sorted(self.classes.items()):
            yield _make_point(key, window_s, source, {"categories": classes})


def bin_of(score: float, bins: int) -> int:
    """Return the equal-width, right-closed bin of a confidence; zero goes to the first."""
    return min(max(int(-(-(score * bins - _EDGE) // 1)) - 1, 0), bins - 1)


def window_of(moment: datetime, window_s: int) -> int:
    """Return the number of the window of a moment, counted from 1970 in UTC."""
    return int(moment.timestamp()) // window_s


def _make_point(
    key: tuple[str, str, int], window_s: int, source: str, form: dict[str, object]
) -> Point:
    asset, metric, window = key
    start = datetime.fromtimestamp(window * window_s, UTC)
    end = start + timedelta(seconds=window_s)
    place = {"asset": asset, "metric": metric, "start": start, "end": end, "source": source}
    return msgspec.convert(place | form, Point)
