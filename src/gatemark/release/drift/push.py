"""``gatemark drift push``: check points against their series and store them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta

from gatemark.core.durations import words_of
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.progress import Progress
from gatemark.evidence.blocks import Block, read_blocks
from gatemark.evidence.input_problems import refuse_input
from gatemark.evidence.inputs import normalize_id
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source, find_sources
from gatemark.release.drift.judging.parts import SCALARS, FormName, Series
from gatemark.release.drift.ledger import open_push
from gatemark.release.drift.point import FORMS, MAX_PARTS, NAME, Point, Pushed
from gatemark.release.drift.signal import versioned_metric
from gatemark.release.drift.stores.points import Content, Pusher, pack_numbers
from gatemark.release.lifecycle.roles import MEASURING, refuse_other_roles
from gatemark.workspace import Workspace

CLOCK_TOLERANCE_S: Final = 60
"""Allowed clock difference of a sender, in seconds."""


class PushPoints(msgspec.Struct, frozen=True, kw_only=True):
    """Push points of watched metrics, one per window."""

    points: Annotated[
        tuple[dict[str, object], ...],
        Meta(min_length=1, max_length=10_000, description="Points of gatemark.point/1."),
    ]


def push_points(
    workspace: Workspace,
    paths: Sequence[str],
    choices: ReadingChoices,
    *,
    now: datetime,
    on_progress: Progress | None = None,
) -> Pushed:
    """Store the points of some files: all of them, or none if one is invalid."""
    refuse_other_roles(workspace, workspace.actor, MEASURING, "push points")
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        sources = find_sources(paths, choices.limits, Path(folder))
        with open_push(workspace, now) as pusher:
            ingest = PointIngest(pusher, now)
            for source in sources:
                _push_file(ingest, source, choices, on_progress)
            return pusher.finish()


def _push_file(
    ingest: PointIngest, source: Source, choices: ReadingChoices, on_progress: Progress | None
) -> None:
    reader = RecordReader(schemas().get(NAME).form("point"), choices)
    problems: list[str] = []
    wrong = 0
    for batch in reader.records(_read_blocks(source, choices, on_progress)):
        for line, point in zip(reader.batch_lines, batch, strict=True):
            try:
                ingest.add(point)
            except InvalidValueError as error:
                wrong += 1
                if len(problems) < choices.max_errors:
                    problems.append(f"{source.name}:{line}: {error}")
    refuse_input(reader.problems(source.name) + problems, choices, total=reader.rejected + wrong)
    if reader.received == 0:
        raise BadInputError(f"{source.name}: contains no points")


def _read_blocks(
    source: Source, choices: ReadingChoices, on_progress: Progress | None
) -> Iterator[Block]:
    shard = whole_file(source)
    done = 0
    for block in read_blocks(shard, choices.limits):
        yield block
        done += len(block.data)
        if on_progress is not None:
            on_progress(min(done, shard.size), shard.size)


class PointIngest:
    """Accepts points that fit their series (form, grid, bins) and whose window is over."""

    def __init__(self, pusher: Pusher, now: datetime) -> None:
        self._pusher = pusher
        self._latest_end_s = int(now.timestamp()) + CLOCK_TOLERANCE_S

    def add(self, point: Point) -> None:
        """Accept one point, or raise InvalidValueError with the reason."""
        start_s, end_s = int(point.start.timestamp()), int(point.end.timestamp())
        if end_s > self._latest_end_s:
            end = datetime.fromtimestamp(end_s, UTC)
            raise InvalidValueError(f"the window is not over: it ends {end:%Y-%m-%dT%H:%M:%SZ}")
        known = self._pusher.series.get((point.asset, _name_series(point)))
        if known is None:
            known = self._pusher.new_series(_make_series(point, start_s, end_s - start_s))
        else:
            _check_grid(known, start_s, end_s)
        source = "" if point.source is UNSET else normalize_id(point.source)
        self._pusher.add((known.id, start_s, source), self._make_content(known, point))

    def _make_content(self, series: Series, point: Any) -> Content:
        form = series.form
        held = getattr(point, form)
        if held is UNSET:
            raise InvalidValueError(
                f"{series.asset} {series.metric} is pushed as {form}, got {_find_form(point)}"
            )
        if form in SCALARS:
            return (point.n, float(held), point.sum_squares if form == "sum" else 0.0, b"")
        items, numbers = self._make_vector(series, point)
        return (items, 0.0, 0.0, pack_numbers(numbers))

    def _make_vector(self, series: Series, point: Point) -> tuple[int, list[float]]:
        if point.histogram is not UNSET:
            if _choose_edges(point) != series.layout:
                raise InvalidValueError(
                    f"{series.asset} {series.metric} has different bins; they are fixed by its "
                    "first point"
                )
            return sum(point.histogram), [float(count) for count in point.histogram]
        if point.calibration is not UNSET:
            bins = point.calibration
            if len(bins.items) != len(series.layout):
                raise InvalidValueError(
                    f"{series.asset} {series.metric} has {len(series.layout)} bins, "
                    f"got {len(bins.items)}"
                )
            return sum(bins.items), [*bins.items, *bins.confidence_sum, *bins.correct]
        counts = {} if point.categories is UNSET else point.categories
        unseen = [name for name in counts if name not in series.layout]
        if unseen:
            if len(series.layout) + len(unseen) > MAX_PARTS:
                raise InvalidValueError(
                    f"{series.asset} {series.metric} would have more than {MAX_PARTS} classes"
                )
            series = msgspec.structs.replace(series, layout=(*series.layout, *unseen))
            self._pusher.grow(series)
        return sum(counts.values()), [float(counts.get(str(name), 0)) for name in series.layout]


def _name_series(point: Point) -> str:
    """Return the name of the point's series; points that name a version have their own."""
    if point.version is UNSET:
        return point.metric
    return versioned_metric(point.metric, point.version)


def _find_form(point: Point) -> FormName:
    for form in FORMS:
        if getattr(point, form) is not UNSET:
            return form
    raise InvalidValueError("the point has no form")


def _choose_edges(point: Point) -> tuple[float, ...]:
    if point.edges is not UNSET:
        return tuple(point.edges)
    return _make_even_edges(0 if point.histogram is UNSET else len(point.histogram))


@cache
def _make_even_edges(bins: int) -> tuple[float, ...]:
    return tuple(edge / bins for edge in range(bins + 1))


def _make_series(point: Point, start_s: int, length_s: int) -> Series:
    form = _find_form(point)
    layout: tuple[float | str, ...] = ()
    if form == "histogram":
        layout = _choose_edges(point)
    elif point.calibration is not UNSET:
        layout = tuple(float(bin_) for bin_ in range(len(point.calibration.items)))
    elif point.categories is not UNSET:
        layout = tuple(point.categories)
    return Series(
        id=0,
        asset=point.asset,
        metric=_name_series(point),
        form=form,
        length_s=length_s,
        phase_s=start_s % length_s,
        layout=layout,
    )


def _check_grid(series: Series, start_s: int, end_s: int) -> None:
    """Check that windows of one series do not overlap: one length, one phase."""
    if end_s - start_s == series.length_s and start_s % series.length_s == series.phase_s:
        return
    first = datetime.fromtimestamp(series.phase_s, UTC)
    raise InvalidValueError(
        f"the window of {words_of(end_s - start_s)} overlaps others of {series.asset} "
        f"{series.metric}: they are {words_of(series.length_s)} long, one of them starting at "
        f"{first:%H:%M:%SZ}"
    )
