"""A result as a verdict table for a terminal, or as plain text."""

from __future__ import annotations

import io
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gatemark.core.policy import FindingVerdict
from gatemark.core.result import Result
from gatemark.core.result import Table as TableFigure
from gatemark.report import words

_STYLES: Final[dict[FindingVerdict, str]] = {
    "pass": "bold green",
    "fail": "bold red",
    "inconclusive": "bold yellow",
    "waived": "bold magenta",
    "soft_pass": "bold magenta",
}
_WIDTH: Final = 80
_RULE_WIDTH: Final = 24
_UNBOUNDED: Final = 10_000


def verdict_table(result: Result, *, color: bool) -> str:
    """Return the verdict, one row per rule, the blockers, and the result id last."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=_WIDTH,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(_render_opening(result))
    console.print()
    table = _render_table(result)
    wanted = console.measure(table, options=console.options.update(width=_UNBOUNDED)).maximum
    table.collapse_padding = wanted > _WIDTH
    console.print(table)
    console.print()
    for title, items in (("Blockers", result.blockers), ("Caveats", words.caveats(result))):
        if items:
            console.print(Text(title, style="bold"))
            for item in items:
                console.print(_render_bullet(item))
            console.print()
    text = stream.getvalue() if color else _trim_lines(stream.getvalue())
    return text + result.id + "\n"


def _render_opening(result: Result) -> Text:
    word = words.VERDICT_WORDS[result.verdict]
    return Text.assemble(
        (word, _STYLES[result.verdict]),
        f"  {words.one_line(result.title)}\n",
        words.headline(result),
    )


def _render_table(result: Result) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    lines = words.finding_lines(result)
    # A name of usual length stays on one line; the numbers alongside it wrap between words.
    longest = max((len(words.one_line(line.source.rule)) for line in lines), default=0)
    table.add_column("rule", overflow="fold", min_width=min(longest, _RULE_WIDTH))
    for name in ("observed", "bound", "slack", "n"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for line in lines:
        finding = line.source
        table.add_row(
            Text(words.one_line(finding.rule)),
            Text(line.observed),
            Text(words.one_line(words.bound(finding))),
            Text(line.slack),
            Text(f"{finding.n:,}"),
            Text(_format_word(line), style=_STYLES[finding.verdict]),
        )
    return table


def _format_word(line: words.FindingLine) -> str:
    finding = line.source
    plain = finding.severity == "block" or finding.verdict not in ("fail", "inconclusive")
    return line.word if plain else f"{line.word} ({words.one_line(finding.severity)})"


def _render_bullet(item: str) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(Text(" -"), Text(words.one_line(item)))
    return row


def _trim_lines(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def first_table(result: Result) -> str:
    """Return the first table among a result's figures, without intervals."""
    table = next((each for each in result.figures if isinstance(each, TableFigure)), None)
    if table is None:
        return ""
    cells = [
        [words.one_line(words.cell(cell)).partition(" [")[0] for cell in row]
        for row in (table.columns, *table.rows)
    ]
    widths = [max(len(row[place]) for row in cells) for place in range(len(table.columns))]
    lines = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines) + "\n"
