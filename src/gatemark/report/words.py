"""The wording that all reports share: numbers, rules, verdicts, caveats, times, clean text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from gatemark.core.measurement import Direction, Interval
from gatemark.core.policy import Finding, FindingVerdict
from gatemark.core.result import Cell, Cost, Result

VERDICT_WORDS: Final[dict[FindingVerdict, str]] = {
    "pass": "PASS",
    "fail": "FAIL",
    "inconclusive": "INCONCLUSIVE",
    "waived": "WAIVED",
    "soft_pass": "SOFT PASS",
}
DIRECTION_WORDS: Final[dict[Direction, str]] = {
    "higher_is_better": "higher is better",
    "lower_is_better": "lower is better",
    "neutral": "neither side is better",
}
DIRECTION_ARROWS: Final[dict[Direction, str]] = {
    "higher_is_better": "↑",
    "lower_is_better": "↓",
    "neutral": "↔",
}
NOT_MEASURED: Final = "not measured"
NO_ANSWERS: Final = "no answers"
_AGAINST_WORDS: Final = {
    "lower": "lower end of the interval",
    "upper": "upper end of the interval",
}
_CAVEAT_WORDS: Final = {
    "low_information": "low information, few items have any but the most used label",
    "zero_width_interval": "its interval has no width, because nothing varied among these items",
}
_OPERATOR_SIGNS: Final = {">=": "≥", "<=": "≤", ">": ">", "<": "<", "==": "="}

# Not allowed in XML, or able to hide or reorder what a reader sees (terminal escapes, bidi).
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(p << 16 | 0xFFFE)}{chr(p << 16 | 0xFFFF)}" for p in range(1, 17))
    + "]"
)
_BLANKS: Final = re.compile(r"\s+")


def clean(text: str) -> str:
    """Replace illegal, invisible and reordering characters with U+FFFD."""
    # None of these characters is printable, and most texts have none.
    return text if text.isprintable() else _UNPRINTABLE.sub("\ufffd", text)


def caveat(mark: str) -> str:
    """Return the meaning of a mark on a number."""
    return _CAVEAT_WORDS.get(mark, mark)


def caveats(result: Result) -> tuple[str, ...]:
    """Return each caveat once: those of the result, then those of single measurements."""
    of_numbers = (
        f"{item.name}{f' ({item.scope})' if item.scope else ''}: {caveat(mark)}"
        for item in result.measurements
        for mark in item.caveats
    )
    return tuple(dict.fromkeys((*result.caveats, *of_numbers)))


def one_line(text: str) -> str:
    """Clean a text and put it on one line."""
    return _BLANKS.sub(" ", clean(text)).strip()


def shortened(text: str, limit: int) -> str:
    """Cut a text to ``limit`` characters; an ellipsis marks the cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def first_few(texts: Sequence[str], most: int, joint: str = ", ") -> str:
    """Join the first texts; the others are only counted."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return joint.join(texts[:most]) + more


def number(value: float, unit: str = "ratio") -> str:
    """Format a number with four decimals, fewer if it is large; only zero reads as zero."""
    if unit == "count" and value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    if size != 0 and (size < 5e-5 or size >= 1e9):
        return f"{value:.3e}"
    # At a hundred and above, further decimals are noise.
    decimals = 4 if size < 100 else 2 if size < 1000 else 1
    return f"{value + 0.0:,.{decimals}f}"


def shortest(value: float) -> str:
    """Format a number with as few digits as identify it, as people write bounds."""
    text = repr(float(value))
    return text.removesuffix(".0")


def amount(value: float, unit: str) -> str:
    """Format a number with its unit; ratios and counts have none."""
    text = number(value, unit)
    return text if unit in ("ratio", "count", "") else f"{text} {unit}"


def observed(finding: Finding) -> str:
    """Return the number a rule judged, with all digits if rounding would hide its side."""
    if finding.observed is None:
        return NOT_MEASURED
    text = number(finding.observed)
    if finding.observed != finding.bound and text == number(finding.bound):
        return shortest(finding.observed)
    return text


def slack(finding: Finding) -> str:
    """Return the signed distance to the bound; positive on the good side."""
    if finding.slack is None:
        return "none"
    text = number(finding.slack)
    return text if text.startswith("-") else "+" + text


def bound(finding: Finding, *, sign: bool = False) -> str:
    """Return the bound with its operator, as in the policy or with a typographic sign."""
    operator = _OPERATOR_SIGNS.get(finding.op, finding.op) if sign else finding.op
    return f"{operator} {_with_tolerance(finding.bound)}"


def _with_tolerance(value: float) -> str:
    """Write a bound as a short number and a tiny tolerance, if it is made of the two."""
    short = float(f"{value:.9g}")
    beyond = value - short
    # A difference of a few units in the last place is float error, not a tolerance.
    if 1e-14 * abs(value) < beyond <= 1e-9 * abs(value):
        return f"{shortest(short)} + {beyond:.0e}"
    return shortest(value)


def against(finding: Finding) -> str | None:
    """Return which number was compared, or None if it was the value itself."""
    return _AGAINST_WORDS.get(finding.against)


class FindingLine(msgspec.Struct, frozen=True):
    """One rule and its outcome, as text."""

    source: Finding
    word: str
    observed: str
    against: str | None
    slack: str
    direction: str | None


def finding_lines(result: Result) -> tuple[FindingLine, ...]:
    """Return every rule of the result as text."""
    directions: dict[str, Direction] = {item.name: item.direction for item in result.measurements}
    return tuple(
        FindingLine(
            source=finding,
            word=VERDICT_WORDS[finding.verdict],
            observed=observed(finding),
            against=against(finding),
            slack=slack(finding),
            direction=(
                DIRECTION_WORDS[directions[finding.metric]]
                if finding.metric in directions
                else None
            ),
        )
        for finding in result.findings
    )


def interval(value: Interval, unit: str = "ratio") -> str:
    """Return both ends of an interval."""
    return f"[{number(value.low, unit)}, {number(value.high, unit)}]"


def interval_source(value: Interval) -> str:
    """Return the confidence level and the method of an interval."""
    return f"{shortest(round(value.level * 100, 6))} % {value.method}"


def cell(value: Cell) -> str:
    """Return one table cell as text; it is never blank."""
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    return value if value.strip() else "(empty)"


def moment(value: datetime) -> str:
    """Format a time in UTC, to the second."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(result: Result) -> str:
    """Return how long the run took."""
    seconds = (result.finished_at - result.started_at).total_seconds()
    return f"{seconds:,.1f} s"


def cost(value: Cost) -> str:
    """Return what the run used; unknown money is reported as such."""
    money = (
        "money not recorded"
        if value.money is None
        else f"{shortest(value.money)} {value.currency or '(currency not recorded)'}"
    )
    return f"{counted(value.calls, 'call')}, {money}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, singular or plural."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def more_rows(count: int) -> str:
    """Return the line under a table that was cut."""
    return counted(count, "more row")


def headline(result: Result) -> str:
    """Return the one-line reason for the verdict."""
    if result.blockers:
        return one_line(result.blockers[0])
    tally: dict[str, int] = dict.fromkeys(VERDICT_WORDS, 0)
    for finding in result.findings:
        tally[finding.verdict] += 1
    total = len(result.findings)
    if tally["pass"] == total:
        return "The only rule held." if total == 1 else f"All {total} rules held."
    parts = [f"{tally['pass']} of {counted(total, 'rule')} held"]
    for verdict, phrase in (
        ("waived", "waived"),
        ("soft_pass", "passed softly, unmeasured"),
        ("fail", "broken, only a warning"),
        ("inconclusive", "not judged, only a warning"),
    ):
        if tally[verdict]:
            parts.append(f"{tally[verdict]} {phrase}")
    return "; ".join(parts) + "."
