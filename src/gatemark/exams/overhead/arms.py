"""The two arms as they were read, and what is wrong with them in words that stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

Role = Literal["bare", "guarded", "noise"]
SHOWN_IDS: Final = 20
TOLD_IDS: Final = 3
"""A message names a few windows; the list beside it has more."""


class Hole(msgspec.Struct, frozen=True):
    """A line that is no usable window; ``window_id`` is null where it cannot be read."""

    line: int
    window_id: str | None
    problem: str


class ArmFile(msgspec.Struct, frozen=True, kw_only=True):
    """One arm file: what its first line says, and its windows column by column.

    ``meta`` is null when there is no arm, and ``absent`` then says why. ``weights`` are tokens or
    answers, ``values`` losses or correct answers; ``token_counts`` are told beside answers, where
    they are told at all. ``damage`` says that the file broke off.
    """

    role: Role
    name: str
    digest: str | None = None
    byte_count: int = 0
    meta: dict[str, Any] | None = None
    absent: str | None = None
    damage: str | None = None
    ids: list[str] = []
    contents: list[str] = []
    weights: list[int] = []
    values: list[float] = []
    token_counts: list[int | None] = []
    holes: list[Hole] = []
    hole_count: int = 0

    @property
    def label(self) -> str:
        """The file without its folder, so that a report reads the same wherever it was made."""
        return self.name.replace("\\", "/").rpartition("/")[2]

    @property
    def expected(self) -> int:
        """How many windows the plan promises; 0 when nothing is known."""
        return 0 if self.meta is None else int(self.meta["plan"]["windows"])


class Defect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reason why two arms do not pair. ``check`` is stable; ``window_ids`` are the first."""

    check: str
    message: str
    window_ids: tuple[str, ...] = ()
    count: int = 1


def defect(check: str, message: str, ids: list[str] | None = None) -> Defect:
    """A defect over some windows; only the first ids are kept, the count is of all."""
    if ids is None:
        return Defect(check, message)
    told = told_first(ids[:TOLD_IDS], ", ", len(ids))
    return Defect(check, f"{message}: {told}", tuple(ids[:SHOWN_IDS]), len(ids))


def headline(defects: Sequence[Defect], *, is_brief: bool = False) -> str:
    """The first of some defects, and how many there are besides; in brief without any window."""
    first = defects[0]
    message = first.message
    if is_brief and (first.window_ids or first.count > 1):
        noun = "window" if first.count == 1 else "windows"
        message = f"{message.partition(': ')[0]} ({first.count} {noun})"
    more = len(defects) - 1
    rest = "" if not more else f"; {more} more {'check fails' if more == 1 else 'checks fail'}"
    return f"{first.check}: {message}{rest}"


def told_first(first: Sequence[str], joint: str, count: int) -> str:
    """The first of many, and how many more there are."""
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return joint.join(first) + more
