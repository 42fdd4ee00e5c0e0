"""A result as one self-contained page: no script, no network, readable on paper and in the dark."""

from __future__ import annotations

import base64
import math
from typing import Any, Final

import msgspec

from gatemark import __version__
from gatemark.core.figure import (
    Curves,
    Figure,
    Forest,
    Matrix,
    Reliability,
    Shifts,
    Stacks,
    Timeline,
)
from gatemark.core.result import Result
from gatemark.report import (
    bars,
    charts,
    forest_chart,
    outline,
    reliability_chart,
    series_charts,
    shift_chart,
    timeline_chart,
    words,
)
from gatemark.report.pages import page_environment

ROWS_MAX: Final = 200
NUMBERS_SHOWN: Final = 24


class Picture(msgspec.Struct, frozen=True):
    """One chart in both themes, as data addresses, and what it shows in words."""

    light: str
    dark: str
    description: str
    table_name: str
    legend: str | None = None


class ExhibitBlock(msgspec.Struct, frozen=True):
    """An exhibit's table and, where it can be drawn, its picture."""

    grid: outline.Grid
    picture: Picture | None


class NumberRow(msgspec.Struct, frozen=True):
    """A measurement and its interval bar."""

    line: outline.MeasurementLine
    bar: bars.Bar | None


def render(result: Result) -> bytes:
    """The page."""
    template = page_environment().get_template("report.html")
    return template.render(result_context(result)).encode()


def _minus(text: str) -> str:
    """The text with a true minus where it opens with a hyphen."""
    return "−" + text[1:] if text.startswith("-") else text


def result_context(result: Result) -> dict[str, Any]:
    """What the sections of a result are filled with."""
    first, further = _numbers(result)
    files = outline.evidence_files(result.evidence)
    return {
        "result": result,
        "word": words.VERDICT_WORDS[result.verdict],
        "headline": words.headline(result),
        "title": words.cell(result.title),
        "subject": outline.subject(result),
        "bench": outline.bench_lines(result),
        "numbers": first,
        "further_numbers": further,
        "more_numbers": len(result.measurements) - ROWS_MAX,
        "findings": outline.finding_lines(result)[:ROWS_MAX],
        "more_findings": len(result.findings) - ROWS_MAX,
        "exhibits": [_exhibit(exhibit) for exhibit in result.exhibits],
        "caveats": outline.caveats(result),
        "waivers": outline.waiver_lines(result),
        "account": outline.account(result.evidence),
        "files": files[:ROWS_MAX],
        "more_files": len(files) - ROWS_MAX,
        "checks": outline.evidence_checks(result.evidence),
        "bar_width": bars.WIDTH,
        "bar_margin": bars.MARGIN,
        "bound": words.bound,
        "minus": _minus,
        "more_rows": words.more_rows,
        "moment": words.moment,
        "version": __version__,
    }


def _numbers(result: Result) -> tuple[list[NumberRow], list[NumberRow]]:
    """What a reader needs first, and what is folded away because there are too many numbers."""
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
    return [_row(result, line) for line in first], [_row(result, line) for line in further]


def _row(result: Result, line: outline.MeasurementLine) -> NumberRow:
    return NumberRow(
        line, bars.interval_bar(line.source, outline.findings_about(result, line.source))
    )


def _exhibit(exhibit: Figure) -> ExhibitBlock:
    return ExhibitBlock(outline.exhibit_grid(exhibit, rows_max=ROWS_MAX), _picture(exhibit))


def _picture(exhibit: Figure) -> Picture | None:
    if isinstance(exhibit, Matrix):
        return _matrix_picture(exhibit)
    if isinstance(exhibit, Reliability):
        return _reliability_picture(exhibit)
    if isinstance(exhibit, Curves):
        return _curves_picture(exhibit)
    if isinstance(exhibit, Stacks):
        return _stacks_picture(exhibit)
    if isinstance(exhibit, Forest):
        return _forest_picture(exhibit)
    if isinstance(exhibit, Timeline):
        return _timeline_picture(exhibit)
    if isinstance(exhibit, Shifts):
        return _shift_picture(exhibit)
    return None


def _matrix_picture(matrix: Matrix) -> Picture | None:
    if not 0 < len(matrix.labels) <= charts.CHART_LABELS_MAX:
        return None
    total = sum(sum(row) for row in matrix.counts)
    diagonal = sum(matrix.counts[at][at] for at in range(len(matrix.labels)))
    return Picture(
        light=_data_address(charts.matrix_svg(matrix, "light")),
        dark=_data_address(charts.matrix_svg(matrix, "dark")),
        description=(
            f"Heat map of {matrix.row_axis} (rows) by {matrix.column_axis} (columns): "
            f"{total:,} in all, {diagonal:,} on the diagonal. The counts are in the table below."
        ),
        table_name="Counts as a table",
    )


def _reliability_picture(exhibit: Reliability) -> Picture | None:
    total = sum(bin_.n for bin_ in exhibit.bins)
    if total == 0 or len(exhibit.bins) > reliability_chart.CHART_BINS_MAX:
        return None
    gaps = [
        bin_.accuracy - bin_.confidence
        for bin_ in exhibit.bins
        if bin_.accuracy is not None and bin_.confidence is not None
    ]
    over, under = sum(gap < 0 for gap in gaps), sum(gap > 0 for gap in gaps)
    return Picture(
        light=_data_address(reliability_chart.reliability_svg(exhibit, "light")),
        dark=_data_address(reliability_chart.reliability_svg(exhibit, "dark")),
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


def _curves_picture(exhibit: Curves) -> Picture | None:
    if len(exhibit.lines) > series_charts.LINES_MAX:
        return None
    ends = ", ".join(f"{line.name} {words.number(line.points[-1][1])}" for line in exhibit.lines)
    return Picture(
        light=_data_address(series_charts.curves_svg(exhibit, "light")),
        dark=_data_address(series_charts.curves_svg(exhibit, "dark")),
        description=(
            f"Lines of {exhibit.y_axis} over {exhibit.x_axis}, ending at: {ends}. "
            "The numbers are in the table below."
        ),
        table_name="Points as a table",
    )


def _stacks_picture(exhibit: Stacks) -> Picture | None:
    fits = len(exhibit.bars) <= series_charts.BARS_MAX
    if not fits or len(exhibit.parts) > series_charts.LINES_MAX:
        return None
    totals = ", ".join(f"{bar.name} {words.number(sum(bar.amounts))}" for bar in exhibit.bars)
    return Picture(
        light=_data_address(series_charts.stacks_svg(exhibit, "light")),
        dark=_data_address(series_charts.stacks_svg(exhibit, "dark")),
        description=(
            f"Bars of {exhibit.axis}, cut into {', '.join(exhibit.parts)}. In all: {totals}. "
            "The numbers are in the table below."
        ),
        table_name="Parts as a table",
    )


def _forest_picture(exhibit: Forest) -> Picture | None:
    count = sum(len(group.rows) for group in exhibit.groups)
    if count > forest_chart.ROWS_MAX:
        return None
    return Picture(
        light=_data_address(forest_chart.forest_svg(exhibit, "light")),
        dark=_data_address(forest_chart.forest_svg(exhibit, "dark")),
        description=(
            f"{words.counted(count, 'value')} with intervals in "
            f"{words.counted(len(exhibit.groups), 'group')}: "
            f"{', '.join(group.name for group in exhibit.groups)}. "
            "The numbers are in the table below."
        ),
        table_name="Values as a table",
        legend="Dot: value. Line through it: interval.",
    )


def _timeline_picture(exhibit: Timeline) -> Picture | None:
    fits = len(exhibit.lanes) <= timeline_chart.LANES_MAX
    if not fits or len(exhibit.spans) > timeline_chart.SPANS_MAX:
        return None
    return Picture(
        light=_data_address(timeline_chart.timeline_svg(exhibit, "light")),
        dark=_data_address(timeline_chart.timeline_svg(exhibit, "dark")),
        description=(
            f"Timeline of {len(exhibit.spans):,} entries in "
            f"{words.counted(len(exhibit.lanes), 'lane')}: {', '.join(exhibit.lanes)}. "
            "The entries are in the table below."
        ),
        table_name="Entries as a table",
        legend="Bar: something that lasted. Tick: a moment.",
    )


def _shift_picture(exhibit: Shifts) -> Picture | None:
    low, high = shift_chart.span(exhibit)
    if len(exhibit.bins) > shift_chart.CHART_BINS_MAX or not math.isfinite(high - low):
        return None
    windows = exhibit.bins[-1].last
    highest = max(bin_.high for bin_ in exhibit.bins)
    bound = "" if exhibit.bound is None else f", the budget {words.number(exhibit.bound)}"
    grouped = len(exhibit.bins) < windows
    return Picture(
        light=_data_address(shift_chart.shift_svg(exhibit, "light")),
        dark=_data_address(shift_chart.shift_svg(exhibit, "dark")),
        description=(
            f"Shift of {words.counted(windows, 'window')} in order ({exhibit.axis}): the mean is "
            f"{words.number(exhibit.mean)}{bound}, the highest {words.number(highest)}. "
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


def _data_address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")
