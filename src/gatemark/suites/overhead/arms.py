"""The two arms as they were read, and what is wrong with them in words that stay."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Role = Literal["bare", "guarded", "noise"]
SHOWN_IDS: Final = 20


class Hole(msgspec.Struct, frozen=True):
    """A line that is no usable window; ``window_id`` is null where it cannot be read."""

    line: int
    window_id: str | None
    problem: str


class Arm(msgspec.Struct, frozen=True, kw_only=True):
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
    """One reason why two arms do not pair. ``check`` is stable; long lists of ids are cut."""

    check: str
    message: str
    window_ids: tuple[str, ...] = ()
    count: int = 1


def defect(check: str, message: str, ids: list[str] | None = None) -> Defect:
    """A defect over some windows; only the first ids are kept, the count is of all."""
    if ids is None:
        return Defect(check, message)
    shown = tuple(ids[:SHOWN_IDS])
    more = f" and {len(ids) - len(shown)} more" if len(ids) > len(shown) else ""
    return Defect(check, f"{message}: {', '.join(shown)}{more}", shown, len(ids))
