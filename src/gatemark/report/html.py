"""A result as one self-contained HTML page: no scripts, no network, printable, with a dark mode."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Final, TypeVar

import msgspec
from altair.utils.schemapi import debug_mode

from gatemark import __version__
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Finding
from gatemark.core.result import (
    Curves,
    Figure,
    Forest,
    Matrix,
    Reliability,
    Result,
    Shifts,
    Stacks,
    Timeline,
)
from gatemark.report import outline, plane_charts, series_charts, words
from gatemark.report.charts import Theme
from gatemark.report.pages import page_environment

BAR_WIDTH: Final = 240.0
BAR_MARGIN: Final = 8.0
_AIR: Final = 0.1
_POWER_MAX: Final = 12


class Bar(msgspec.Struct, frozen=True):
    """A measurement drawn as a bar; every position is in pixels from its left edge.

    ``allowed`` is the range that satisfies every bound, or None if there is none.
    """

    value: float
    low: float | None
    high: float | None
    bounds: tuple[float, ...]
    allowed: tuple[float, float] | None
    start: str
    end: str
    description: str


def make_interval_bar(item: Measurement, findings: Sequence[Finding]) -> Bar | None:
    """Return the bar of one measurement, or None if it would show a single point."""
    judged = [finding for finding in findings if finding.op in (">=", ">", "<=", "<", "==")]
    bounds = sorted({finding.bound for finding in judged})
    if item.value is None or (item.interval is None and set(bounds) <= {item.value}):
        return None
    ends = [] if item.interval is None else [item.interval.low, item.interval.high]
    start, end = _choose_scale(item, [item.value, *ends, *bounds])

    def place(number: float) -> float:
        share = (number - start) / (end - start)
        return round(BAR_MARGIN + share * (BAR_WIDTH - 2 * BAR_MARGIN), 2)

    allowed = _find_allowed(judged, start, end)
    return Bar(
        value=place(item.value),
        low=place(ends[0]) if ends else None,
        high=place(ends[1]) if ends else None,
        bounds=tuple(place(bound) for bound in bounds),
        allowed=None if allowed is None else (place(allowed[0]), place(allowed[1])),
        start=words.shortest(start) if abs(start) < 1e9 else words.number(start),
        end=words.shortest(end) if abs(end) < 1e9 else words.number(end),
        description=_describe_measurement(item, judged),
    )


def _choose_scale(item: Measurement, points: Sequence[float]) -> tuple[float, float]:
    """Return round ends with room around the points; a ratio stays inside [0, 1]."""
    low, high = min(points), max(points)
    if low == high == 0:
        # If every point is zero, use a scale of 0 to 1.
        return 0.0, 1.0
    # Keep the ends apart when the points coincide or nearly do.
    air = max((high - low) * _AIR, max(abs(low), abs(high)) * 1e-3, 1e-12)
    start, end = _round_outward(low - air, high + air)
    if item.unit == "ratio" and low >= 0 and high <= 1:
        start, end = max(start, 0.0), min(end, 1.0)
    return start, end


def _round_outward(start: float, end: float) -> tuple[float, float]:
    power = math.floor(math.log10(end - start))
    if abs(power) > _POWER_MAX:
        return start, end
    step = 10.0**power if end - start >= 2.5 * 10.0**power else 2 * 10.0 ** (power - 1)
    low, high = math.floor(start / step) * step, math.ceil(end / step) * step
    return round(low, 1 - power), round(high, 1 - power)


def _find_allowed(
    findings: Sequence[Finding], start: float, end: float
) -> tuple[float, float] | None:
    low, high = start, end
    for finding in findings:
        if finding.op in (">=", ">", "=="):
            low = max(low, finding.bound)
        if finding.op in ("<=", "<", "=="):
            high = min(high, finding.bound)
    return (low, high) if findings and low < high else None


def _describe_measurement(item: Measurement, findings: Sequence[Finding]) -> str:
    parts = ["" if item.value is None else f"value {words.amount(item.value, item.unit)}"]
    if item.interval is not None:
        parts.append(f"interval {words.interval(item.interval, item.unit)}")
    parts += [f"must be {words.bound(finding, sign=True)}" for finding in findings]
    return ", ".join(dict.fromkeys(parts))


F = TypeVar("F", bound=Figure)

ROWS_MAX: Final = 200
NUMBERS_SHOWN: Final = 24


class Picture(msgspec.Struct, frozen=True):
    """One chart in both themes, as data URLs, with its description."""

    light: str
    dark: str
    description: str
    table_name: str
    legend: str | None = None


class FigureBlock(msgspec.Struct, frozen=True):
    """The table of a figure and, if it can be drawn, its chart."""

    grid: outline.Grid
    picture: Picture | None


class NumberRow(msgspec.Struct, frozen=True):
    """A measurement and its interval bar."""

    line: outline.MeasurementLine
    bar: Bar | None


def render(result: Result) -> bytes:
    """Return the page."""
    template = page_environment().get_template("report.html")
    return template.render(result_context(result)).encode()


def _replace_minus(text: str) -> str:
    """Replace a leading hyphen with a minus sign."""
    return "−" + text[1:] if text.startswith("-") else text


def result_context(result: Result) -> dict[str, object]:
    """Return the template variables for the sections of a result."""
    first, further = _split_measurements(result)
    files = outline.evidence_files(result.evidence)
    return {
        "result": result,
        "word": words.VERDICT_WORDS[result.verdict],
        "headline": words.headline(result),
        "title": words.cell(result.title),
        "subject": outline.describe_subject(result),
        "bench": outline.bench_lines(result),
        "numbers": first,
        "further_numbers": further,
        "more_numbers": len(result.measurements) - ROWS_MAX,
        "findings": words.finding_lines(result)[:ROWS_MAX],
        "more_findings": len(result.findings) - ROWS_MAX,
        "figures": [
            FigureBlock(outline.figure_grid(figure, rows_max=ROWS_MAX), _draw_picture(figure))
            for figure in result.figures
        ],
        "caveats": words.caveats(result),
        "waivers": outline.waiver_lines(result),
        "account": outline.tabulate_account(result.evidence),
        "files": files[:ROWS_MAX],
        "more_files": len(files) - ROWS_MAX,
        "checks": outline.evidence_checks(result.evidence),
        "bar_width": BAR_WIDTH,
        "bar_margin": BAR_MARGIN,
        "bound": words.bound,
        "minus": _replace_minus,
        "more_rows": words.more_rows,
        "moment": words.moment,
        "version": __version__,
    }


def _split_measurements(result: Result) -> tuple[list[NumberRow], list[NumberRow]]:
    """Split the measurements into those shown first and those folded away."""
    lines = outline.measurement_lines(result)
    first, further = list(lines), []
    if len(lines) > NUMBERS_SHOWN:
        judged = [bool(outline.findings_about(result, line.source)) for line in lines]
        if any(judged):
            first = [line for line, is_judged in zip(lines, judged, strict=True) if is_judged]
            further = [line for line, is_judged in zip(lines, judged, strict=True) if not is_judged]
        else:
            first, further = list(lines[:NUMBERS_SHOWN]), list(lines[NUMBERS_SHOWN:])
    first = first[:ROWS_MAX]
    further = further[: ROWS_MAX - len(first)]
    return [_make_row(result, line) for line in first], [
        _make_row(result, line) for line in further
    ]


def _make_row(result: Result, line: outline.MeasurementLine) -> NumberRow:
    return NumberRow(
        line, make_interval_bar(line.source, outline.findings_about(result, line.source))
    )


@singledispatch
def _draw_picture(_figure: Figure) -> Picture | None:
    """Draw a figure, if there is a chart for its kind and it is not too large for one."""
    return None


def _draw_both_themes(
    draw: Callable[[F, Theme], str],
    figure: F,
    *,
    description: str,
    table_name: str,
    legend: str | None = None,
) -> Picture:
    # Our specifications are valid; checking each part of them takes a third of the time.
    with debug_mode(arg=False):
        light, dark = (
            _encode_data_address(draw(figure, "light")),
            _encode_data_address(draw(figure, "dark")),
        )
    return Picture(light, dark, description, table_name, legend)


@_draw_picture.register
def _draw_matrix(matrix: Matrix) -> Picture | None:
    if not 0 < len(matrix.labels) <= plane_charts.CHART_LABELS_MAX:
        return None
    total = sum(sum(row) for row in matrix.counts)
    diagonal = sum(matrix.counts[at][at] for at in range(len(matrix.labels)))
    return _draw_both_themes(
        plane_charts.draw_matrix,
        matrix,
        description=(
            f"Heat map of {matrix.row_axis} (rows) by {matrix.column_axis} (columns): "
            f"{total:,} in all, {diagonal:,} on the diagonal. The counts are in the table below."
        ),
        table_name="Counts as a table",
    )


@_draw_picture.register
def _draw_reliability(figure: Reliability) -> Picture | None:
    total = sum(bin_.n for bin_ in figure.bins)
    if total == 0 or len(figure.bins) > plane_charts.CHART_BINS_MAX:
        return None
    gaps = [
        bin_.accuracy - bin_.confidence
        for bin_ in figure.bins
        if bin_.accuracy is not None and bin_.confidence is not None
    ]
    over, under = sum(gap < 0 for gap in gaps), sum(gap > 0 for gap in gaps)
    return _draw_both_themes(
        plane_charts.draw_reliability,
        figure,
        description=(
            f"Reliability diagram of {words.counted(total, 'answer')}: accuracy by stated "
            f"confidence. Of {words.counted(len(gaps), 'bin')} with answers, {over} were right "
            f"less often than stated and {under} more often; the widest gap is "
            f"{words.number(max(abs(gap) for gap in gaps))}. "
            "The numbers are in the table below."
        ),
        table_name="Bins as a table",
        legend=(
            "Dot: the answers of one bin, larger where there are more. Line through it: interval "
            "of accuracy. Dashed line: accuracy equal to stated confidence; a dot below it was "
            "too sure. Bars: answers per bin."
        ),
    )


@_draw_picture.register
def _draw_curves(figure: Curves) -> Picture | None:
    if len(figure.lines) > series_charts.LINES_MAX:
        return None
    ends = ", ".join(f"{line.name} {words.number(line.points[-1][1])}" for line in figure.lines)
    return _draw_both_themes(
        series_charts.draw_curves,
        figure,
        description=(
            f"Lines of {figure.y_axis} over {figure.x_axis}, ending at: {ends}. "
            "The numbers are in the table below."
        ),
        table_name="Points as a table",
    )


@_draw_picture.register
def _draw_stacks(figure: Stacks) -> Picture | None:
    fits = len(figure.bars) <= series_charts.BARS_MAX
    if not fits or len(figure.parts) > series_charts.LINES_MAX:
        return None
    totals = ", ".join(f"{bar.name} {words.number(sum(bar.amounts))}" for bar in figure.bars)
    return _draw_both_themes(
        series_charts.draw_stacks,
        figure,
        description=(
            f"Bars of {figure.axis}, cut into {', '.join(figure.parts)}. In all: {totals}. "
            "The numbers are in the table below."
        ),
        table_name="Parts as a table",
    )


@_draw_picture.register
def _draw_forest(figure: Forest) -> Picture | None:
    count = sum(len(group.rows) for group in figure.groups)
    if count > series_charts.ROWS_MAX:
        return None
    return _draw_both_themes(
        series_charts.draw_forest,
        figure,
        description=(
            f"{words.counted(count, 'value')} with intervals in "
            f"{words.counted(len(figure.groups), 'group')}: "
            f"{', '.join(group.name for group in figure.groups)}. "
            "The numbers are in the table below."
        ),
        table_name="Values as a table",
        legend="Dot: value. Line through it: interval.",
    )


@_draw_picture.register
def _draw_timeline(figure: Timeline) -> Picture | None:
    fits = len(figure.lanes) <= series_charts.LANES_MAX
    if not fits or len(figure.spans) > series_charts.SPANS_MAX:
        return None
    return _draw_both_themes(
        series_charts.draw_timeline,
        figure,
        description=(
            f"Timeline of {len(figure.spans):,} entries in "
            f"{words.counted(len(figure.lanes), 'lane')}: {', '.join(figure.lanes)}. "
            "The entries are in the table below."
        ),
        table_name="Entries as a table",
        legend="Bar: something that lasted. Tick: a moment.",
    )


@_draw_picture.register
def _draw_shift_picture(figure: Shifts) -> Picture | None:
    low, high = plane_charts.find_shift_span(figure)
    if len(figure.bins) > plane_charts.SHIFT_BINS_MAX or not math.isfinite(high - low):
        return None
    windows = figure.bins[-1].last
    highest = max(bin_.high for bin_ in figure.bins)
    bound = "" if figure.bound is None else f", the budget {words.number(figure.bound)}"
    grouped = len(figure.bins) < windows
    return _draw_both_themes(
        plane_charts.draw_shift,
        figure,
        description=(
            f"Shift of {words.counted(windows, 'window')} in order ({figure.axis}): the mean is "
            f"{words.number(figure.mean)}{bound}, the highest {words.number(highest)}. "
            "The numbers are in the table below."
        ),
        table_name="Shifts as a table",
        legend=(
            "Dot: the middle of neighbouring windows. Line through it: their range. "
            if grouped
            else "Dot: one window. "
        )
        + "Above zero the guards made it worse. Solid line: mean. Dashed line: budget.",
    )


def _encode_data_address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")
