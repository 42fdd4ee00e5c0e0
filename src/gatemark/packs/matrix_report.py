"""A matrix of candidates as one table: for a terminal, Markdown, HTML, JSON and CI viewers."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from xml.etree import ElementTree as ET

import msgspec

from gatemark import __version__
from gatemark.core.canonical import json_file
from gatemark.core.measurement import Interval
from gatemark.core.policy import Outcome
from gatemark.core.result import AssetRef, Cost, Result
from gatemark.packs.matrix import CellResult, MatrixRun, Need
from gatemark.packs.pooled_drop import POOLED
from gatemark.packs.stored_pack import make_title
from gatemark.report import words
from gatemark.report.markdown import escape_text, format_code, format_table

_JUNIT_MARKS = {"fail": "failure", "inconclusive": "error"}


class CellLine(msgspec.Struct, frozen=True):
    """One candidate: its verdict and the numbers behind it."""

    name: str
    values: dict[str, str]
    verdict: Outcome
    bench: float | None
    drop: float | None
    drop_interval: Interval | None
    level: float
    """The significance level of this candidate's tests."""
    scores: dict[str, float | None]
    latency_p50_ms: float | None
    cost: Cost
    blockers: tuple[str, ...]
    result: str


class MatrixReport(msgspec.Struct, frozen=True, tag_field="schema", tag="gatemark.matrix/1"):
    """A matrix of candidates: the verdict over all, and a line for each."""

    title: str
    verdict: Outcome
    need: Need
    alpha: float
    candidates: int
    """How many candidates the tests allow for."""
    baseline: AssetRef | None
    baseline_bench: float | None
    cells: tuple[CellLine, ...]
    shared_cost: Cost


def make_matrix_report(run: MatrixRun) -> MatrixReport:
    """Return the document of a matrix."""
    first = run.cells[0].result
    return MatrixReport(
        title=make_title(run.pack),
        verdict=run.outcome,
        need=run.need,
        alpha=run.pack.alpha,
        candidates=run.pack.tried,
        baseline=first.baseline,
        baseline_bench=_find_value(first, "bench_baseline"),
        cells=tuple(_make_line(run, each) for each in run.cells),
        shared_cost=run.shared_cost,
    )


def _make_line(run: MatrixRun, each: CellResult) -> CellLine:
    result = each.result
    drops = [n for n in result.measurements if n.name == POOLED] or [
        n for n in result.measurements if n.name == "regression"
    ]
    interval = drops[0].interval if len(drops) == 1 else None
    level = result.policy.settings.get("alpha")
    return CellLine(
        name=each.cell.name,
        values=each.cell.values,
        verdict=result.verdict,
        bench=None if result.bench is None else result.bench.value,
        drop=None if result.regression is None else result.regression.value,
        drop_interval=interval,
        level=level if isinstance(level, float) else run.pack.level,
        scores={suite.id: _find_value(result, "score", suite.id) for suite in run.pack.suites},
        latency_p50_ms=_find_value(result, "latency_p50"),
        cost=result.cost,
        blockers=result.blockers,
        result=result.id,
    )


def _find_value(result: Result, name: str, scope: str | None = None) -> float | None:
    found = [number for number in result.measurements if number.key == (name, scope)]
    return found[0].value if found else None


def summarize_matrix(report: MatrixReport) -> str:
    """Return the verdict over all candidates in one sentence."""
    tally = [each.verdict for each in report.cells]
    counts = ", ".join(
        f"{tally.count(verdict)} {word}"
        for verdict, word in (("pass", "pass"), ("fail", "fail"), ("inconclusive", "inconclusive"))
        if verdict in tally
    )
    needed = "all must pass" if report.need == "all" else "one is enough"
    return f"{words.counted(len(tally), 'candidate')}: {counts}; {needed}."


def describe_correction(report: MatrixReport) -> str | None:
    """Say how the tests allow for several candidates."""
    if report.candidates == 1:
        return None
    return (
        f"Tests allow for {report.candidates} candidates (Holm): the chance that any of them "
        f"passes although it drops by more than the margin is at most {report.alpha:g}. Scores "
        "are not corrected: the best of several looks better than it is."
    )


def list_columns(report: MatrixReport) -> tuple[str, ...]:
    """Return the heads of the table."""
    return (
        *report.cells[0].values,
        "verdict",
        "bench",
        "drop",
        *report.cells[0].scores,
        "p50 ms",
        "cost",
        "result",
    )


def list_rows(report: MatrixReport) -> list[tuple[str, ...]]:
    """Return a row of texts for every candidate, and one for the baseline's bench score."""
    found = [
        (
            *each.values.values(),
            words.VERDICT_WORDS[each.verdict],
            _format_number(each.bench),
            _format_drop(each),
            *map(_format_number, each.scores.values()),
            "" if each.latency_p50_ms is None else f"{each.latency_p50_ms:,.0f}",
            "" if each.cost.money is None else f"{each.cost.money:.4g}",
            each.result[7:19],
        )
        for each in report.cells
    ]
    if report.baseline is not None:
        others = len(list_columns(report)) - len(report.cells[0].values) - 2
        names = ("baseline", *[""] * (len(report.cells[0].values) - 1))
        found.append((*names, "", _format_number(report.baseline_bench), *[""] * others))
    return found


def _format_number(value: float | None) -> str:
    return words.NOT_MEASURED if value is None else words.number(value)


def _format_drop(each: CellLine) -> str:
    if each.drop is None:
        return ""
    text = words.number(each.drop)
    return text if each.drop_interval is None else f"{text} {words.interval(each.drop_interval)}"


def list_open_points(report: MatrixReport) -> list[tuple[str, str]]:
    """Return what keeps each candidate from passing, by its name."""
    return [(each.name, blocker) for each in report.cells for blocker in each.blockers]


def render_text(report: MatrixReport) -> str:
    """Return the table for a terminal."""
    cells = [list_columns(report), *list_rows(report)]
    cells = [tuple(words.one_line(text) for text in row) for row in cells]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    lines = [f"{words.VERDICT_WORDS[report.verdict]}  {words.one_line(report.title)}"]
    lines += [summarize_matrix(report), ""]
    lines += [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    if points := list_open_points(report):
        lines += ["", "Blockers"]
        lines += [f" - {name}: {words.one_line(text)}" for name, text in points]
    if corrected := describe_correction(report):
        lines += ["", corrected]
    return "\n".join(lines) + "\n"


def render_markdown(report: MatrixReport) -> bytes:
    """Return the table for a pull request comment."""
    heads = list_columns(report)
    numeric = [
        head in ("bench", "drop", "p50 ms", "cost", *report.cells[0].scores) for head in heads
    ]
    body = [
        tuple(
            format_code(text) if head == "result" and text else escape_text(text)
            for head, text in zip(heads, row, strict=True)
        )
        for row in list_rows(report)
    ]
    word = words.VERDICT_WORDS[report.verdict]
    parts = [
        f"**{word}** {escape_text(report.title)} — {escape_text(summarize_matrix(report))}",
        format_table(tuple(escape_text(head) for head in heads), body, numeric, 0),
    ]
    if points := list_open_points(report):
        parts.append(
            "\n".join(f"- {escape_text(name)}: {escape_text(text)}" for name, text in points)
        )
    if corrected := describe_correction(report):
        parts.append(escape_text(corrected))
    return ("\n\n".join(parts) + "\n").encode()


def render_html(report: MatrixReport) -> bytes:
    """Return the table as a self-contained page."""
    # Only this format needs a library of its own.
    from gatemark.report.pages import page_environment  # noqa: PLC0415

    template = page_environment().get_template("matrix.html")
    return template.render(
        report=report,
        word=words.VERDICT_WORDS[report.verdict],
        summary=summarize_matrix(report),
        correction=describe_correction(report),
        columns=list_columns(report),
        rows=list_rows(report),
        points=list_open_points(report),
        version=__version__,
    ).encode()


def render_json(report: MatrixReport) -> bytes:
    """Return the document itself."""
    return json_file(report)


def render_jsonl(report: MatrixReport) -> bytes:
    """Return a line for every candidate."""
    return b"".join(msgspec.json.encode(each) + b"\n" for each in report.cells)


def render_junit(report: MatrixReport) -> bytes:
    """Return a test case for every candidate."""
    verdicts = [each.verdict for each in report.cells]
    counts = {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count("fail")),
        "errors": str(verdicts.count("inconclusive")),
    }
    root = ET.Element("testsuites", {"name": "gatemark", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": words.clean(report.title), **counts})
    for each in report.cells:
        case = ET.SubElement(
            suite, "testcase", {"classname": "matrix", "name": words.clean(each.name)}
        )
        if each.verdict in _JUNIT_MARKS:
            blockers = [words.one_line(blocker) for blocker in each.blockers]
            mark = ET.SubElement(case, _JUNIT_MARKS[each.verdict], {"message": blockers[0]})
            mark.text = "\n".join(blockers)
    ET.indent(root)
    stream = io.BytesIO()
    ET.ElementTree(root).write(stream, encoding="utf-8", xml_declaration=True)
    return stream.getvalue() + b"\n"


def list_renderers(report: MatrixReport) -> Mapping[str, Callable[[], bytes]]:
    """Return how to write each format, by the extension of the file."""
    return {
        ".junit.xml": lambda: render_junit(report),
        ".jsonl": lambda: render_jsonl(report),
        ".json": lambda: render_json(report),
        ".html": lambda: render_html(report),
        ".md": lambda: render_markdown(report),
    }
