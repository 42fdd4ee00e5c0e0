"""A number in the output that must be near the target's number.

An output without a readable number is a wrong answer, not a missing score; a target without one
is a broken item and gets a reason.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    text_of,
    truncate,
)

_MINUS_SIGNS: Final = str.maketrans(dict.fromkeys("−‒–﹣－", "-"))


class NumericOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer.

    An answer is right within the larger of ``abs_tolerance`` and ``rel_tolerance`` times the
    target. ``percent: scale`` reads ``12%`` as 0.12, on both sides; ``ignore`` reads it as 12.
    """

    which: Annotated[Literal["first", "last"], about("Which number of the output counts.")] = "last"
    abs_tolerance: Annotated[float, about("Absolute tolerance.")] = 0.0
    rel_tolerance: Annotated[float, about("Relative tolerance.")] = 1e-9
    percent: Annotated[Literal["scale", "ignore"], about("Whether `12%` is 0.12 or 12.")] = "scale"
    thousands: Annotated[Literal[",", ".", " ", "'", "_", ""], about("Separator of thousands.")] = (
        ","
    )
    decimal: Annotated[Literal[".", ","], about("Decimal mark.")] = "."

    def __post_init__(self) -> None:
        for name in ("abs_tolerance", "rel_tolerance"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InvalidValueError(f"{name} must be finite and >= 0, got {value}")
        if self.thousands == self.decimal:
            raise InvalidValueError(f"thousands and decimal must differ, both are {self.decimal!r}")


class _Found(NamedTuple):
    text: str
    value: float


class _Reader:
    """Finds and reads numbers in the notation that the options describe."""

    def __init__(self, options: NumericOptions) -> None:
        self._options = options
        decimal, whole = re.escape(options.decimal), "[0-9]+"
        self._separator = ""
        if options.thousands:
            # A no-break space groups digits like a plain one.
            group = "[ \u00a0\u202f]" if options.thousands == " " else f"[{options.thousands}]"
            whole = rf"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+(?![0-9])|[0-9]+)"
            self._separator = group
        # Not inside a word (x2), nor the tail of a longer dotted number (1.2.3).
        start = rf"(?<!\w)(?<![0-9]{decimal})"
        self._pattern = re.compile(
            rf"{start}[-+]?(?:{whole}(?:{decimal}[0-9]+)?|(?<!{decimal}){decimal}[0-9]+)"
            r"(?:[eE][-+]?[0-9]{1,4}(?!\w))?[ ]?%?"
        )

    def number_in(self, value: object, subject: str) -> _Found | None:
        """Return the number that a value is or contains, or None."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = _convert_float(value)
            return _Found(repr(number), number)
        matches = self._pattern.findall(text_of(value, subject).translate(_MINUS_SIGNS))
        if not matches:
            return None
        return self._read(matches[0 if self._options.which == "first" else -1])

    def target_number(self, value: object) -> float:
        """Return the number of a target; raise if it has none."""
        found = self.number_in(value, "target")
        if found is None or not math.isfinite(found.value):
            raise BadInputError(f"target must hold a finite number, got {truncate(value)}")
        return found.value

    def _read(self, matched: str) -> _Found:
        digits = re.sub(self._separator, "", matched) if self._separator else matched
        value = float(digits.rstrip("% ").replace(self._options.decimal, "."))
        if matched.endswith("%") and self._options.percent == "scale":
            value /= 100
        return _Found(matched.strip(), value)


def _build(options: NumericOptions) -> ScoreFunction:
    reader = _Reader(options)

    def is_near(value: float, target: float) -> bool:
        room = max(options.abs_tolerance, options.rel_tolerance * abs(target))
        return value == target or abs(value - target) <= room

    def score(item: Scorable) -> Score:
        accepted = item.target if isinstance(item.target, (list, tuple)) else [item.target]
        if not accepted:
            raise BadInputError("target must name at least one number, got an empty list")
        targets = [reader.target_number(target) for target in accepted]
        found = reader.number_in(item.output, "output")
        if found is None:
            return scored(0.0, why="the output holds no number")
        if not math.isfinite(found.value):
            return scored(0.0, why=f"the output's number is not finite: {truncate(found.text)}")
        is_right = any(is_near(found.value, target) for target in targets)
        return scored(is_right, read=truncate(found.text))

    return score


def _convert_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


SCORER = Scorer(
    name="numeric",
    summary="1 when the first or last number in the output is within tolerance of the target's.",
    options=NumericOptions,
    build=_build,
    known=(
        KnownScore("last number", 1.0, 12, "3 times 4 is 12."),
        KnownScore("first number", 1.0, 3, "3 times 4 is 12", options={"which": "first"}),
        KnownScore("thousands", 1.0, "1,234.5", "about $1,234.50"),
        KnownScore("a list is not a number", 1.0, 4, "3, 4"),
        KnownScore("percent", 1.0, 0.12, "12%"),
        KnownScore("percent sign ignored", 1.0, 12, "12 %", options={"percent": "ignore"}),
        KnownScore("a true minus sign", 1.0, -3, "it is −3"),
        KnownScore("a hyphen is not a sign", 1.0, 3, "pages 2-3"),
        KnownScore("exponent", 1.0, 6.02e23, "6.02e23"),
        KnownScore(
            "3.1 is 1.3 % off pi: within 2 %", 1.0, math.pi, "3.1", options={"rel_tolerance": 0.02}
        ),
        KnownScore("and outside 1 %", 0.0, math.pi, "3.1", options={"rel_tolerance": 0.01}),
        KnownScore(
            "decimal comma", 1.0, 1234.5, "1.234,5", options={"thousands": ".", "decimal": ","}
        ),
        KnownScore("no number is a wrong answer", 0.0, 1, "one"),
        KnownScore("so is NaN", 0.0, 1, "NaN"),
        KnownScore("a target without a number", None, "one", "1"),
        KnownScore("a NaN target", None, math.nan, "1"),
    ),
)
