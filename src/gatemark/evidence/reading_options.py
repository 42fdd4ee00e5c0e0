"""Limits on input, how strictly to read it, and the messages about lines that are not clean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.record import KEY_SEPARATOR, Form, Problem


class Limits(msgspec.Struct, frozen=True):
    """Bounds on one input; crossing one is an error with a place, never a truncation."""

    line_bytes: int = 4 * 1024 * 1024
    total_bytes: int = 16 * 1024**3
    depth: int = 64

    def __post_init__(self) -> None:
        if min(self.line_bytes, self.total_bytes, self.depth) < 1:
            raise InvalidValueError("limits must be at least 1")


OnBadLine = Literal["error", "exclude"]
OnDuplicate = Literal["error", "first", "last"]
OnUnpaired = Literal["error", "exclude"]


class ReadingChoices(msgspec.Struct, frozen=True):
    """The strict defaults, and the switches that turn a refusal into a counted exclusion."""

    on_bad_line: OnBadLine = "error"
    on_duplicate: OnDuplicate = "error"
    on_unpaired: OnUnpaired = "error"
    check_duplicate_keys: bool = True
    max_errors: int = 20
    limits: Limits = Limits()

    def checks(self) -> dict[str, str]:
        """Return how strictly evidence was read, for its account."""
        return {
            "duplicate_keys": "checked" if self.check_duplicate_keys else "not checked",
            "on_bad_line": self.on_bad_line,
            "on_duplicate": self.on_duplicate,
            "on_unpaired": self.on_unpaired,
        }


def place(name: str, line: int, problem: Problem) -> str:
    """Return one problem as one line of text."""
    where = "" if problem.path == "$" else f" at {problem.path}"
    return f"{name}:{line}: {problem.message}{where}"


def refuse(problems: Sequence[str], choices: ReadingChoices, total: int | None = None) -> None:
    """Stop with these problems; more than ``max_errors`` are counted, not listed."""
    if not problems:
        return
    shown = tuple(problems[: choices.max_errors])
    count = max(len(problems), total or 0)
    raise BadInputError(shown, unlisted_count=count - len(shown))


def repeated_lines(places: Iterable[tuple[str, list[tuple[str, int]]]], form: Form) -> list[str]:
    """One message per extra occurrence of a name."""
    messages: list[str] = []
    for name, found in places:
        first_file, first_line = found[0]
        messages.extend(
            f"{file}:{line}: {_shown(name, form)} was seen before at {first_file}:{first_line}"
            for file, line in found[1:]
        )
    return messages


def _shown(name: str, form: Form) -> str:
    return form.key_words((name,) if form.unique is None else tuple(name.split(KEY_SEPARATOR)))


def reading_choices(flags: Mapping[str, Any]) -> ReadingChoices:
    """Return the choices of a command's reading options."""
    return ReadingChoices(
        on_bad_line=flags["on_bad_line"],
        on_duplicate=flags["on_duplicate"],
        on_unpaired=flags.get("on_unpaired", "error"),
        check_duplicate_keys=flags["duplicate_key_check"],
        max_errors=flags["max_errors"],
        limits=Limits(line_bytes=flags["max_line_bytes"]),
    )
