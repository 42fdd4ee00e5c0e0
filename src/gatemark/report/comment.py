"""A result as one comment on a pull request: the verdict, the blockers, the rules that failed.

Passed rules are folded, and so are caveats when there are many. The first line is an invisible
marker, so that a later run finds its own comment and replaces it. The full report (``report.md``)
has every number.
"""

from __future__ import annotations

import re
from typing import Final

from gatemark.core.errors import UsageError
from gatemark.core.policy import Finding
from gatemark.core.result import Result
from gatemark.report import words
from gatemark.report.markdown import escape_text, format_code, format_list, format_table

MAX_BYTES: Final = 60_000
"""Services refuse a comment above 65,536 characters."""

_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SIGNS: Final = {"pass": "✅", "fail": "❌", "inconclusive": "⚠️"}
_ORDER: Final = ("fail", "inconclusive", "waived", "soft_pass", "pass")
_COLUMNS: Final = ("", "Rule", "Observed", "Bound", "n", "Why")
_NUMERIC: Final = (False, False, True, True, True, False)
_HOLDS: Final = "pass"
_FEW: Final = 3
"""How many caveats are shown without folding them."""


def make_marker(key: str) -> str:
    """Return the invisible line that identifies this comment."""
    if not _KEY.fullmatch(key):
        raise UsageError(
            f"comment key {key!r} must be 1 to 64 letters, digits, dots, dashes or underscores"
        )
    return f"<!-- gatemark:{key} -->"


def render_comment(result: Result, key: str) -> str:
    """Return the comment as Markdown, with as many rows as fit."""
    for shown in (len(result.findings), 100, 50, 20, 10):
        text = _render_comment(result, key, shown)
        if len(text.encode()) <= MAX_BYTES:
            return text
    return _render_comment(result, key, 0)


def _render_comment(result: Result, key: str, shown: int) -> str:
    held = [finding for finding in result.findings if finding.verdict == _HOLDS]
    open_count = len(result.findings) - len(held)
    caveats = words.caveats(result)
    section = format_list("Caveats", caveats)
    if len(caveats) > _FEW:
        section = _fold_section(f"{len(caveats)} caveats", section)
    word = words.VERDICT_WORDS[result.verdict]
    parts = [
        make_marker(key),
        f"## {_SIGNS[result.verdict]} Gatemark: {word}",
        f"{escape_text(result.title)} — {escape_text(words.headline(result))}",
        format_list("Blockers", result.blockers),
        _render_table(result, shown, holds=False) if open_count else "",
        _fold_section(
            f"{_format_count(len(held))} hold",
            _render_table(result, shown - open_count, holds=True),
        )
        if held
        else "",
        section,
        f"<sub>result {format_code(result.id)}, policy {format_code(result.policy_digest)}</sub>",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_count(count: int) -> str:
    return "1 rule" if count == 1 else f"{count} rules"


def _fold_section(summary: str, body: str) -> str:
    # The blank lines make services read the inside as Markdown.
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _render_table(result: Result, shown: int, *, holds: bool) -> str:
    """Return the rules as a table: the worst first, otherwise in the policy's order."""
    lines = sorted(
        (one for one in words.finding_lines(result) if (one.source.verdict == _HOLDS) == holds),
        key=lambda line: _ORDER.index(line.source.verdict),
    )
    rows = [
        (
            f"{_sign(line.source)} {line.word}".strip(),
            format_code(line.source.rule),
            escape_text(line.observed),
            escape_text(words.bound(line.source)),
            f"{line.source.n:,}",
            # Blockers are listed above already.
            ""
            if str(line.source.reason) in result.blockers
            else escape_text(str(line.source.reason)),
        )
        for line in lines[: max(0, shown)]
    ]
    width = len(_COLUMNS) if any(row[-1] for row in rows) else len(_COLUMNS) - 1
    cut = [row[:width] for row in rows]
    return format_table(_COLUMNS[:width], cut, _NUMERIC[:width], len(lines) - len(rows))


def _sign(finding: Finding) -> str:
    is_mere_warning = finding.severity == "warn" and finding.verdict != _HOLDS
    return "" if is_mere_warning else _SIGNS.get(finding.verdict, "")
