"""The wording every report shares: numbers, verdicts, directions, moments, and clean text."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

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
    "may_be_chance_among_suites": "the drop may be chance, given how many suites were compared",
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
    """The text with every character that is illegal or invisible trickery shown as U+FFFD."""
    # Nothing of the kind is printable, and most texts are.
    return text if text.isprintable() else _UNPRINTABLE.sub("\ufffd", text)


def caveat(mark: str) -> str:
    """What a mark on a number means to a reader."""
    return _CAVEAT_WORDS.get(mark, mark)


def one_line(text: str) -> str:
    """Clean text on a single line."""
    return _BLANKS.sub(" ", clean(text)).strip()


def shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters, the last one an ellipsis when something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def number(value: float, unit: str = "ratio") -> str:
    """Four decimals, fewer when large; what is not zero never reads as zero."""
    if unit == "count" and value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    if size != 0 and (size < 5e-5 or size >= 1e9):
        return f"{value:.3e}"
    # From a hundred up the later decimals are noise.
    decimals = 4 if size < 100 else 2 if size < 1000 else 1
    return f"{value + 0.0:,.{decimals}f}"


def shortest(value: float) -> str:
    """A number with exactly the digits it needs, as a person writes a bound."""
    text = repr(float(value))
    return text.removesuffix(".0")


def amount(value: float, unit: str) -> str:
    """A number with its unit; a ratio or a count needs none."""
    text = number(value, unit)
    return text if unit in ("ratio", "count", "") else f"{text} {unit}"


def observed(finding: Finding) -> str:
    """What a rule looked at; all digits when rounding would hide which side of the bound it is."""
    if finding.observed is None:
        return NOT_MEASURED
    text = number(finding.observed)
    if finding.observed != finding.bound and text == number(finding.bound):
        return shortest(finding.observed)
    return text


def slack(finding: Finding) -> str:
    """The distance to the bound with its sign, positive on the good side."""
    if finding.slack is None:
        return "none"
    text = number(finding.slack)
    return text if text.startswith("-") else "+" + text


def bound(finding: Finding, *, sign: bool = False) -> str:
    """The bound with its operator, as written in the policy or with a typographic sign."""
    operator = _OPERATOR_SIGNS.get(finding.op, finding.op) if sign else finding.op
    return f"{operator} {_with_tolerance(finding.bound)}"


def _with_tolerance(value: float) -> str:
    """A bound that is a short number and a tiny tolerance, as those two."""
    short = float(f"{value:.9g}")
    beyond = value - short
    # What lies below a few units of the last place is no tolerance but how floats are.
    if 1e-14 * abs(value) < beyond <= 1e-9 * abs(value):
        return f"{shortest(short)} + {beyond:.0e}"
    return shortest(value)


def against(finding: Finding) -> str | None:
    """Which number was compared, when it is not the value itself."""
    return _AGAINST_WORDS.get(finding.against)


def interval(value: Interval, unit: str = "ratio") -> str:
    """Both ends of an interval."""
    return f"[{number(value.low, unit)}, {number(value.high, unit)}]"


def interval_source(value: Interval) -> str:
    """How sure an interval is and how it was found."""
    return f"{shortest(round(value.level * 100, 6))} % {value.method}"


def cell(value: Cell) -> str:
    """One cell of a table in words; nothing is ever left blank."""
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
    """A moment in UTC, to the second."""
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(result: Result) -> str:
    """How long the run took."""
    seconds = (result.finished_at - result.started_at).total_seconds()
    return f"{seconds:,.1f} s"


def cost(value: Cost) -> str:
    """What the run used up; unknown money is said to be unknown."""
    money = (
        "money not recorded"
        if value.money is None
        else f"{shortest(value.money)} {value.currency or '(currency not recorded)'}"
    )
    return f"{counted(value.calls, 'call')}, {money}"


def counted(count: int, noun: str) -> str:
    """A count with its noun in the right number."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def more_rows(count: int) -> str:
    """The line under a table that was cut."""
    return counted(count, "more row")


def headline(result: Result) -> str:
    """The one-line reason for the verdict."""
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
