"""Reasons: why a number is missing, and why a rule came out as it did.

A reason is sealed as a code with its values. The sentence beside them is for people: it may be
worded better in a later build, and nothing that checks a store compares it.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard

import msgspec

from gatemark.core.errors import InvalidValueError

ReasonValue = str | int | float | bool | None


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reason: its code, the values that it depends on, and the sentence that says it."""

    code: str
    text: str
    values: dict[str, ReasonValue] = {}
    because: Reason | None = None

    def __post_init__(self) -> None:
        if not self.code.strip() or not self.text.strip():
            raise InvalidValueError("a reason needs a code and a sentence")

    def __str__(self) -> str:
        return self.text

    def is_same(self, other: Reason, tolerance: float = 0.0) -> bool:
        """Whether two reasons say the same, however they are worded.

        Numbers may differ by the tolerance.
        """
        if self.code != other.code or self.values.keys() != other.values.keys():
            return False
        if (self.because is None) != (other.because is None):
            return False
        if self.because is not None and other.because is not None:
            inner = self.because.is_same(other.because, tolerance)
        else:
            inner = True
        return inner and all(
            _is_close(value, other.values[name], tolerance) for name, value in self.values.items()
        )


class ValueOrReason(Protocol):
    """Something that has a value, or the reason why it has none."""

    @property
    def reason(self) -> Reason | None:
        """The reason why there is no value."""


def find_reason(*found: ValueOrReason) -> Reason:
    """Return the reason of the first that has no value."""
    return next(one.reason for one in found if one.reason is not None)


class ReasonKind(msgspec.Struct, frozen=True):
    """A reason as it is declared, once: its code, and its sentence with places for the values.

    A place named ``because`` stands for another reason.
    """

    code: str
    sentence: str

    def __call__(self, *, because: Reason | None = None, **values: ReasonValue) -> Reason:
        text = self.sentence.format(**values, because=because)
        return Reason(self.code, text, values, because)

    def word(self, text: str, /, *, because: Reason | None = None, **values: ReasonValue) -> Reason:
        """Return the reason in words that fit the case better than the declared sentence.

        Every place of the sentence still needs its value: the words alone prove nothing.
        """
        return msgspec.structs.replace(self(because=because, **values), text=text)


def _is_close(one: ReasonValue, other: ReasonValue, tolerance: float) -> bool:
    if _is_number(one) and _is_number(other):
        return abs(one - other) <= tolerance
    return type(one) is type(other) and one == other


def _is_number(value: ReasonValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
