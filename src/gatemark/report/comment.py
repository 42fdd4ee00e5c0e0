"""A result as one comment on a pull request: the verdict, the blockers, one table of rules.

The first line is an invisible marker, so that a later run finds its own comment and replaces it.
The full report (``report.md``) has every number; this is what fits on a screen.
"""

from __future__ import annotations

import re
from typing import Final

from gatemark.core.errors import UsageError
from gatemark.core.policy import Finding
from gatemark.core.result import Result
from gatemark.report import outline, words
from gatemark.report.markdown import code, listed, prose, table

MAX_BYTES: Final = 60_000
"""Services refuse a comment above 65,536 characters."""

_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SIGNS: Final = {"pass": "✅", "fail": "❌", "inconclusive": "⚠️"}
_ORDER: Final = ("fail", "inconclusive", "waived", "soft_pass", "pass")
_COLUMNS: Final = ("", "Rule", "Observed", "Bound", "n", "Why")
_NUMERIC: Final = (False, False, True, True, True, False)


def marker(key: str) -> str:
    """Return the invisible line that tells this comment from all others."""
    if not _KEY.fullmatch(key):
        raise UsageError(
            f"comment key {key!r} must be 1 to 64 letters, digits, dots, dashes or underscores"
        )
    return f"<!-- gatemark:{key} -->"


def render_comment(result: Result, key: str) -> str:
    """Return the comment as Markdown, with as many rows as fit."""
    rows = _rows(result)
    for shown in (len(rows), 100, 50, 20, 10):
        text = _comment(result, key, rows, min(shown, len(rows)))
        if len(text.encode()) <= MAX_BYTES:
            return text
    return _comment(result, key, rows, 0)


def _comment(result: Result, key: str, rows: list[tuple[str, ...]], shown: int) -> str:
    word = words.VERDICT_WORDS[result.verdict]
    parts = [
        marker(key),
        f"## {_SIGNS[result.verdict]} Gatemark: {word}",
        f"{prose(result.title)} — {prose(words.headline(result))}",
        listed("Blockers", result.blockers),
        table(_COLUMNS, rows[:shown], _NUMERIC, len(rows) - shown) if rows else "",
        listed("Caveats", outline.caveats(result)),
        f"<sub>result {code(result.id)}, policy {code(result.policy_digest)}</sub>",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rows(result: Result) -> list[tuple[str, ...]]:
    """Return one row per rule, the worst first, otherwise in the order of the policy."""
    lines = sorted(
        outline.finding_lines(result), key=lambda line: _ORDER.index(line.source.verdict)
    )
    return [
        (
            f"{_sign(line.source)} {line.word}".strip(),
            code(line.source.rule),
            prose(line.observed),
            prose(words.bound(line.source)),
            f"{line.source.n:,}",
            prose(line.source.reason),
        )
        for line in lines
    ]


def _sign(finding: Finding) -> str:
    return _SIGNS.get(finding.verdict, "") if finding.severity != "warn" else ""
