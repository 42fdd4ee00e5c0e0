"""A result as Markdown for a pull request comment: the verdict first, empty sections left out.

Text that comes from data is escaped: it cannot open a tag, break a table, start a block, make a
link or mention a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from gatemark.core.result import Result
from gatemark.report import outline, words

FIGURE_ROWS_MAX: Final = 20
LIST_ROWS_MAX: Final = 50
TEXT_MAX: Final = 400

_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", "|": "&#124;"}
_SPECIAL: Final = re.compile(r"[\\`*_\[\]~$&<|]")
_BLOCK_START: Final = re.compile(r"(?:>|[#+=-](?=[ #=-]|$)|\d+(?=[.)](?: |$)))")
_CALL: Final = re.compile(r"(?<=@)|(?<=#)(?=\d)")
_ADDRESS: Final = re.compile(r"(?=://)|(?<=www)(?=\.)", re.IGNORECASE)
_ZERO_WIDTH_SPACE: Final = "\u200b"
_PLAIN_CODE: Final = re.compile(r"[A-Za-z0-9_.:/+=,-]+(?: [A-Za-z0-9_.:/+=,-]+)*")


def render(result: Result) -> bytes:
    """Return the report, section by section."""
    sections = (
        _render_opening(result),
        format_list("Blockers", result.blockers),
        _render_findings(result),
        _render_numbers(result),
        *(_render_figures(result)),
        format_list("Caveats", words.caveats(result)),
        _render_waivers(result),
        _render_evidence(result),
        _render_section(
            "Seal",
            f"- result {format_code(result.id)}\n- policy {format_code(result.policy_digest)}",
        ),
    )
    return ("\n\n".join(section for section in sections if section) + "\n").encode()


def escape_text(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged."""
    line = words.shortened(words.one_line(text), TEXT_MAX)
    # GitHub and GitLab look for mentions and issues after rendering, so a backslash does not help.
    line = _CALL.sub(_ZERO_WIDTH_SPACE, line)
    start = _BLOCK_START.match(line)
    escaped = _SPECIAL.sub(lambda hit: _ENTITIES.get(hit[0], "\\" + hit[0]), line)
    escaped = _ADDRESS.sub(r"\\", escaped)
    if start is None:
        return escaped
    at = start.end() if start[0].isdigit() else 0
    return escaped[:at] + "\\" + escaped[at:]


def format_code(text: str) -> str:
    """Return a name as a code span, or escaped if it could end the span early."""
    line = words.one_line(text)
    if len(line) <= TEXT_MAX and _PLAIN_CODE.fullmatch(line):
        return f"`{line}`"
    return escape_text(text)


def _render_opening(result: Result) -> str:
    word = words.VERDICT_WORDS[result.verdict]
    facts = [
        f"{label} {escape_text(text)}{f' ({format_code(digest)})' if digest else ''}"
        for label, text, digest in outline.describe_subject(result)
    ]
    first = f"**{word}** {escape_text(result.title)} — {escape_text(words.headline(result))}"
    return first + "\n\n" + "  \n".join(facts)


def _render_findings(result: Result) -> str:
    lines = words.finding_lines(result)
    rows = [
        (
            f"**{line.word}**" if line.source.verdict != "pass" else line.word,
            format_code(line.source.rule),
            format_code(line.source.metric) + (f" ({line.direction})" if line.direction else ""),
            escape_text(line.observed) + (f" ({line.against})" if line.against else ""),
            escape_text(words.bound(line.source)),
            line.slack,
            f"{line.source.n:,}",
            escape_text(str(line.source.reason)),
        )
        for line in lines[:LIST_ROWS_MAX]
    ]
    columns = ("Verdict", "Rule", "Metric", "Observed", "Bound", "Slack", "n", "Reason")
    numeric = (False, False, False, True, True, True, True, False)
    return _render_section("Findings", format_table(columns, rows, numeric, len(lines) - len(rows)))


def _render_numbers(result: Result) -> str:
    lines = outline.measurement_lines(result)
    rows = [
        (
            format_code(line.name) + (f" ({escape_text(line.scope)})" if line.scope else ""),
            escape_text(line.value) if line.value is not None else words.NOT_MEASURED,
            _format_interval(line),
            line.n,
            f"{line.arrow} {line.direction}",
            "; ".join(escape_text(note) for note in line.notes) or "none",
        )
        for line in lines[:LIST_ROWS_MAX]
    ]
    bench = [
        f"- {line.name}: {line.value or f'{words.NOT_MEASURED}, {escape_text(line.reason)}'}"
        + (f" (must be {line.bound})" if line.bound else "")
        for line in outline.bench_lines(result)
    ]
    columns = ("Measure", "Value", "Interval, or why there is no value", "n", "Direction", "Notes")
    numeric = (False, True, False, True, False, False)
    parts = [
        "\n".join(bench),
        format_table(columns, rows, numeric, len(lines) - len(rows)) if rows else "",
    ]
    return _render_section("Measurements", "\n\n".join(part for part in parts if part))


def _format_interval(line: outline.MeasurementLine) -> str:
    if line.reason is not None:
        return escape_text(line.reason)
    if line.interval is None or line.interval_source is None:
        return "no interval"
    return f"{line.interval} {escape_text(line.interval_source)}"


def _render_figures(result: Result) -> Iterable[str]:
    for figure in result.figures:
        grid = outline.figure_grid(figure, rows_max=FIGURE_ROWS_MAX)
        if grid.columns:
            yield _render_section(escape_text(grid.title) or "Figure", _render_grid(grid))


def _render_waivers(result: Result) -> str:
    rows = [
        (format_code(rule), escape_text(owner), escape_text(reason), until)
        for rule, owner, reason, until in outline.waiver_lines(result)
    ]
    if not rows:
        return ""
    return _render_section(
        "Waivers", format_table(("Rule", "Owner", "Reason", "Until"), rows, (False,) * 4, 0)
    )


def _render_evidence(result: Result) -> str:
    if not result.evidence:
        return ""
    files = outline.evidence_files(result.evidence)
    file_rows = [
        (position, escape_text(name), size, format_code(digest))
        for position, name, size, digest in files[:LIST_ROWS_MAX]
    ]
    parts = [_render_grid(outline.tabulate_account(result.evidence))]
    if file_rows:
        columns = ("Evidence", "File", "Bytes", "Digest")
        numeric = (False, False, True, False)
        parts.append(format_table(columns, file_rows, numeric, len(files) - len(file_rows)))
    checks = outline.evidence_checks(result.evidence)
    if checks:
        parts.append("\n".join(f"- {escape_text(check)}" for check in checks))
    return _render_section("Evidence", "\n\n".join(parts))


def format_list(title: str, items: Sequence[str]) -> str:
    """Return a section with a list, or an empty text if there are no items."""
    shown = [f"- {escape_text(item)}" for item in items[:LIST_ROWS_MAX]]
    if len(items) > len(shown):
        shown.append(f"- {len(items) - len(shown)} more")
    return _render_section(title, "\n".join(shown))


def _render_section(title: str, body: str) -> str:
    return f"### {title}\n\n{body}" if body else ""


def _render_grid(grid: outline.Grid) -> str:
    columns = tuple(escape_text(column) for column in grid.columns)
    rows = [tuple(escape_text(text) for text in row) for row in grid.rows]
    return format_table(columns, rows, grid.numeric, grid.more_rows)


def format_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], more: int
) -> str:
    """Return a table; ``more`` is the number of rows left out."""
    rule = ("---:" if is_number else "---" for is_number in numeric)
    lines = [f"| {' | '.join(row)} |" for row in (columns, tuple(rule), *rows)]
    if more > 0:
        lines += ["", words.more_rows(more)]
    return "\n".join(lines)
