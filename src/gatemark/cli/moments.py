"""Moments on the command line: ISO 8601 with a time zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class MomentParam(click.ParamType[datetime]):
    """A moment in UTC, such as 2026-03-01T00:00:00Z."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no moment such as 2026-03-01T00:00:00Z.", param, ctx)
        if found.tzinfo is None:
            self.fail(f"{value!r} needs a time zone, such as Z for UTC.", param, ctx)
        return found.astimezone(UTC)


MOMENT: Final = MomentParam()


def now_option(function: F) -> F:
    """``--now``: another moment than the clock's."""
    return click.option(
        "--now",
        type=MOMENT,
        default=None,
        metavar="T",
        help="Act as if it were this moment (ISO 8601 with a zone); the clock's when left out.",
    )(function)
