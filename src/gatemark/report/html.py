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
    """A figure's table and, where it can be drawn, its picture."""

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
        "figures": [_figure(figure) for figure in result.figures],
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


def _figure(figure: Figure) -> ExhibitBlock:
    return ExhibitBlock(outline.figure_grid(figure, rows_max=ROWS_MAX), _picture(figure))


def _picture(figure: Figure) -> Picture | None:
    if isinstance(figure, Matrix):
        return _matrix_picture(figure)
    if isinstance(figure, Reliability):
        return _reliability_picture(figure)
    if isinstance(figure, Curves):
        return _curves_picture(figure)
    if isinstance(figure, Stacks):
        return _stacks_picture(figure)
    if isinstance(figure, Forest):
        return _forest_picture(figure)
    if isinstance(figure, Timeline):
        return _timeline_picture(figure)
    if isinstance(figure, Shifts):
        return _shift_picture(figure)
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


def _reliability_picture(figure: Reliability) -> Picture | None:
    total = sum(bin_.n for bin_ in figure.bins)
    if total == 0 or len(figure.bins) > reliability_chart.CHART_BINS_MAX:
        return None
    gaps = [
        bin_.accuracy - bin_.confidence
        for bin_ in figure.bins
        if bin_.accuracy is not None and bin_.confidence is not None
    ]
    over, under = sum(gap < 0 for gap in gaps), sum(gap > 0 for gap in gaps)
    return Picture(
        light=_data_address(reliability_chart.reliability_svg(figure, "light")),
        dark=_data_address(reliability_chart.reliability_svg(figure, "dark")),
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


def _curves_picture(figure: Curves) -> Picture | None:
    if len(figure.lines) > series_charts.LINES_MAX:
        return None
    ends = ", ".join(f"{line.name} {words.number(line.points[-1][1])}" for line in figure.lines)
    return Picture(
        light=_data_address(series_charts.curves_svg(figure, "light")),
        dark=_data_address(series_charts.curves_svg(figure, "dark")),
        description=(
            f"Lines of {figure.y_axis} over {figure.x_axis}, ending at: {ends}. "
            "The numbers are in the table below."
        ),
        table_name="Points as a table",
    )


def _stacks_picture(figure: Stacks) -> Picture | None:
    fits = len(figure.bars) <= series_charts.BARS_MAX
    if not fits or len(figure.parts) > series_charts.LINES_MAX:
        return None
    totals = ", ".join(f"{bar.name} {words.number(sum(bar.amounts))}" for bar in figure.bars)
    return Picture(
        light=_data_address(series_charts.stacks_svg(figure, "light")),
        dark=_data_address(series_charts.stacks_svg(figure, "dark")),
        description=(
            f"Bars of {figure.axis}, cut into {', '.join(figure.parts)}. In all: {totals}. "
            "The numbers are in the table below."
        ),
        table_name="Parts as a table",
    )


def _forest_picture(figure: Forest) -> Picture | None:
    count = sum(len(group.rows) for group in figure.groups)
    if count > forest_chart.ROWS_MAX:
        return None
    return Picture(
        light=_data_address(forest_chart.forest_svg(figure, "light")),
        dark=_data_address(forest_chart.forest_svg(figure, "dark")),
        description=(
            f"{words.counted(count, 'value')} with intervals in "
            f"{words.counted(len(figure.groups), 'group')}: "
            f"{', '.join(group.name for group in figure.groups)}. "
            "The numbers are in the table below."
        ),
        table_name="Values as a table",
        legend="Dot: value. Line through it: interval.",
    )


def _timeline_picture(figure: Timeline) -> Picture | None:
    fits = len(figure.lanes) <= timeline_chart.LANES_MAX
    if not fits or len(figure.spans) > timeline_chart.SPANS_MAX:
        return None
    return Picture(
        light=_data_address(timeline_chart.timeline_svg(figure, "light")),
        dark=_data_address(timeline_chart.timeline_svg(figure, "dark")),
        description=(
            f"Timeline of {len(figure.spans):,} entries in "
            f"{words.counted(len(figure.lanes), 'lane')}: {', '.join(figure.lanes)}. "
            "The entries are in the table below."
        ),
        table_name="Entries as a table",
        legend="Bar: something that lasted. Tick: a moment.",
    )


def _shift_picture(figure: Shifts) -> Picture | None:
    low, high = shift_chart.span(figure)
    if len(figure.bins) > shift_chart.CHART_BINS_MAX or not math.isfinite(high - low):
        return None
    windows = figure.bins[-1].last
    highest = max(bin_.high for bin_ in figure.bins)
    bound = "" if figure.bound is None else f", the budget {words.number(figure.bound)}"
    grouped = len(figure.bins) < windows
    return Picture(
        light=_data_address(shift_chart.shift_svg(figure, "light")),
        dark=_data_address(shift_chart.shift_svg(figure, "dark")),
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


def _data_address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")
