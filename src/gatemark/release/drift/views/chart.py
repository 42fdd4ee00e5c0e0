"""Geometry of a drift chart: values, baseline mean, and two bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from gatemark.release.drift.signal import ALARMS, Episode
from gatemark.release.drift.views.views import SeriesView, WindowView
from gatemark.report import words

WIDTH: Final = 860.0
HEIGHT: Final = 220.0
LEFT: Final = 62.0
RIGHT: Final = 12.0
TOP: Final = 10.0
BOTTOM: Final = 26.0
TICKS: Final = 4
MARKS: Final = 6
_ROOM: Final = 0.06
_GLANCE: Final = 8.0
"""Values beyond this many band widths are drawn at the edge."""


class Dot(msgspec.Struct, frozen=True):
    """One window; ``title`` describes it in words."""

    x: float
    y: float
    style: str
    title: str
    is_cut: bool


class EpisodeSpan(msgspec.Struct, frozen=True):
    """The windows that an episode spans."""

    x: float
    width: float
    style: str
    title: str


class ScaleTick(msgspec.Struct, frozen=True):
    """A labelled position on an axis."""

    place: float
    text: str
    anchor: str = "middle"


class DriftChart(msgspec.Struct, frozen=True):
    """The chart of a series; paths are SVG, ``description`` is the text alternative."""

    width: float
    height: float
    plot_left: float
    plot_right: float
    plot_top: float
    plot_bottom: float
    wide_band: str
    narrow_band: str
    mean_line: str
    value_line: str
    dots: tuple[Dot, ...]
    spans: tuple[EpisodeSpan, ...]
    values: tuple[ScaleTick, ...]
    moments: tuple[ScaleTick, ...]
    description: str


class _Row(msgspec.Struct, frozen=True):
    window: WindowView
    value: float | None
    mu: float | None
    sd: float | None


def draw_drift_chart(series: SeriesView, episodes: Sequence[Episode]) -> DriftChart | None:
    """Return the chart of a series and its episodes, or None if no window has a value."""
    rows = _list_rows(series)
    if not any(row.value is not None for row in rows):
        return None
    low, high = _find_range(rows, series)
    begin, end = series.windows[0].start, series.windows[-1].end

    def place_across(moment: datetime) -> float:
        share = (moment - begin) / (end - begin)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def place_up(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)

    def find_middle(row: _Row) -> float:
        return place_across(row.window.start + (row.window.end - row.window.start) / 2)

    return DriftChart(
        width=WIDTH,
        height=HEIGHT,
        plot_left=LEFT,
        plot_right=WIDTH - RIGHT,
        plot_top=TOP,
        plot_bottom=HEIGHT - BOTTOM,
        wide_band=_draw_band(rows, series.breach, find_middle, place_up),
        narrow_band=_draw_band(rows, series.warn, find_middle, place_up),
        mean_line=_draw_line(rows, lambda row: row.mu, find_middle, place_up),
        value_line=_draw_line(rows, lambda row: row.value, find_middle, place_up),
        dots=tuple(_draw_dots(rows, find_middle, place_up, (low, high))),
        spans=tuple(_draw_spans(series, episodes, place_across)),
        values=tuple(
            ScaleTick(place_up(value), words.number(value), "end")
            for value in (low + (high - low) * at / TICKS for at in range(TICKS + 1))
        ),
        moments=tuple(_draw_moments(begin, end, place_across)),
        description=_describe_series(series, rows),
    )


def _list_rows(series: SeriesView) -> list[_Row]:
    """Return the windows to draw: values with their bands, or scores with fixed bands."""
    if not _is_scored(series):
        return [_Row(window, window.value, window.mu, window.sd) for window in series.windows]
    return [
        _Row(window, window.z, None if window.z is None else 0.0, 1.0) for window in series.windows
    ]


def _is_scored(series: SeriesView) -> bool:
    """Return whether the detector has only a score and no mean."""
    has_mean = any(window.mu is not None for window in series.windows)
    return not has_mean and any(window.z is not None for window in series.windows)


def _find_range(rows: Sequence[_Row], series: SeriesView) -> tuple[float, float]:
    edges = [
        row.mu + sign * series.breach * row.sd
        for row in rows
        if row.mu is not None and row.sd is not None
        for sign in (-1, 1)
    ]
    values = [row.value for row in rows if row.value is not None]
    if edges:
        centre, reach = (min(edges) + max(edges)) / 2, (max(edges) - min(edges)) / 2
        reach = max(reach, 1e-9 * max(1.0, abs(centre)))
        near = [value for value in values if abs(value - centre) <= _GLANCE * reach]
        values = [*edges, *near]
    low, high = min(values), max(values)
    room = (high - low) * _ROOM or max(abs(high), 1.0) * _ROOM
    return low - room, high + room


def _draw_band(
    rows: Sequence[_Row],
    width: float,
    across: Callable[[_Row], float],
    up: Callable[[float], float],
) -> str:
    pieces = []
    for run in _split_runs(rows, lambda row: row.mu is not None and row.sd is not None):
        upper = [(across(r), up((r.mu or 0) + width * (r.sd or 0))) for r in run]
        lower = [(across(r), up((r.mu or 0) - width * (r.sd or 0))) for r in reversed(run)]
        pieces.append("M" + "L".join(f"{x} {y}" for x, y in (*upper, *lower)) + "Z")
    return "".join(pieces)


def _draw_line(
    rows: Sequence[_Row],
    pick: Callable[[_Row], float | None],
    across: Callable[[_Row], float],
    up: Callable[[float], float],
) -> str:
    pieces = []
    for run in _split_runs(rows, lambda row: pick(row) is not None):
        points = [(across(row), up(value)) for row in run if (value := pick(row)) is not None]
        pieces.append("M" + "L".join(f"{x} {y}" for x, y in points))
    return "".join(pieces)


def _split_runs(rows: Sequence[_Row], has: Callable[[_Row], bool]) -> Iterator[list[_Row]]:
    """Yield runs of consecutive windows that satisfy ``has``."""
    run: list[_Row] = []
    for row in rows:
        if has(row):
            run.append(row)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _draw_dots(
    rows: Sequence[_Row],
    across: Callable[[_Row], float],
    up: Callable[[float], float],
    limits: tuple[float, float],
) -> Iterator[Dot]:
    for row in rows:
        if row.value is None:
            continue
        level = row.window.level
        style = "breach" if level == "BREACH" else "warn" if level in ALARMS else "plain"
        score = "" if row.window.z is None else f", z {row.window.z:+.2f}"
        title = (
            f"{words.moment(row.window.start)}: {words.number(row.value)} (n={row.window.n}{score})"
            f"{'' if level is None else ', ' + level}"
        )
        is_cut = not limits[0] <= row.value <= limits[1]
        yield Dot(across(row), up(row.value), style, title, is_cut)


def _draw_spans(
    series: SeriesView, episodes: Sequence[Episode], across: Callable[[datetime], float]
) -> Iterator[EpisodeSpan]:
    begin, end = series.windows[0].start, series.windows[-1].end
    for episode in episodes:
        start, stop = max(episode.opened.start, begin), min(episode.closed_at or end, end)
        if start >= stop:
            continue
        left, right = across(start), across(stop)
        state = "open" if episode.is_open else f"closed: {episode.closed_because}"
        style = "breach" if episode.level == "BREACH" else "warn"
        since = words.moment(episode.opened.start)
        title = f"{episode.level} by {episode.detector} since {since}, {state}"
        yield EpisodeSpan(left, round(right - left, 1), style, title)


def _draw_moments(
    begin: datetime, end: datetime, across: Callable[[datetime], float]
) -> Iterator[ScaleTick]:
    pattern = "%Y-%m-%d" if (end - begin).days >= MARKS else "%m-%d %H:%MZ"
    anchors = ["start", *["middle"] * (MARKS - 2), "end"]
    for at, anchor in enumerate(anchors):
        moment = begin + (end - begin) * at / (MARKS - 1)
        yield ScaleTick(across(moment), moment.strftime(pattern), anchor)


def _describe_series(series: SeriesView, rows: Sequence[_Row]) -> str:
    values = [row.value for row in rows if row.value is not None]
    alarms = sum(row.window.level in ALARMS for row in rows if row.window.level is not None)
    missing = sum(row.value is None for row in rows)
    latest = values[-1]
    spread = f"between {words.number(min(values))} and {words.number(max(values))}"
    if math.isclose(min(values), max(values)):
        spread = f"always {words.number(latest)}"
    drawn = f"{series.metric} (score z)" if _is_scored(series) else series.metric
    return (
        f"{drawn} over {words.counted(len(rows), 'window')}: {spread}, latest "
        f"{words.number(latest)}; {alarms} beyond a threshold, {missing} missing. "
        "The numbers are in the table below."
    )
