"""The options of an exam: how they are described, and how they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Meta

from gatemark.core.errors import UsageError

S = TypeVar("S", bound=msgspec.Struct)


def file_option(description: str, *, metavar: str = "FILE") -> Meta:
    """Describe an option that is the path of a file or folder."""
    return Meta(description=description, extra={"metavar": metavar})


def option(
    description: str,
    *flags: str,
    metavar: str | None = None,
    low: float | None = None,
    high: float | None = None,
    is_open: bool = False,
    hint: str = "",
) -> Meta:
    """Describe an option of an exam; ``flags`` are its names, if not ``--`` and that of the field.

    The command line checks the bounds; with ``is_open``, the bounds themselves are refused.
    ``hint`` ends the error message.
    """
    bounds = {"low": low, "high": high, "is_open": is_open, "hint": hint}
    return Meta(description=description, extra={"flags": flags, "metavar": metavar, **bounds})


def checked_options(kind: str, given: Mapping[str, object], model: type[S]) -> S:
    """Return the options of an exam as their type; refuse wrong ones."""
    try:
        return msgspec.convert(given, model)
    except msgspec.ValidationError as error:
        raise UsageError(f"{kind}: {error}") from error
