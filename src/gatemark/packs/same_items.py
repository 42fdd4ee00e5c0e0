"""Refuse a stored result that answers other items than a pack asks."""

from __future__ import annotations

from typing import Final

from gatemark.core.errors import IncomparableError
from gatemark.core.result import Result
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.pack_file import OpenPack

MAX_LISTED: Final = 20


def refuse_other_items(earlier: Result, opened: OpenPack) -> None:
    """Refuse a result that was made on other data than the pack names."""
    now = set(opened.references)
    before = set(earlier.snapshots)
    if now == before:
        return
    only_now = [f"only in the pack: {name}" for name in sorted(now - before)]
    only_before = [f"only in the result: {name}" for name in sorted(before - now)]
    raise IncomparableError(
        f"result {earlier.id} was made on other data than the pack names",
        tuple((only_now + only_before)[:MAX_LISTED]),
    )


def refuse_cut_short(earlier: Result, limit: int | None) -> None:
    """Refuse a limited result as baseline: a baseline must have answered all items."""
    answered = read_limit(earlier)
    if answered is not None and (limit is None or limit > answered):
        raise IncomparableError(
            f"result {earlier.id} was limited to {answered} items per suite; use an unlimited one",
            ("run it again without --limit",),
        )
