"""The clock of run-log files: a moment that was given, or one that the traces tell."""

from __future__ import annotations

from gatemark.core.errors import UsageError
from gatemark.exams.runlog.records.fields import is_moment


def refuse_no_moment(given: str | None, option: str) -> None:
    """Stop when a user gave a time that no calendar has."""
    if given is not None and not is_moment(given):
        raise UsageError(f"{option} must be a date and time with an offset, got {given!r}")
