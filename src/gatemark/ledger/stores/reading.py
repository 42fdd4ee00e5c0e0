"""What every store does the same way when results are looked up."""

from __future__ import annotations

import re
from typing import Final

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import UsageError
from gatemark.core.result import Result
from gatemark.ledger.port import ResultLine

SHORTEST_PREFIX: Final = 8
_PREFIX: Final = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}\Z")


def wanted_prefix(reference: str) -> str:
    """The beginning that the wanted id has; refuses what cannot be an id."""
    wanted = reference.removeprefix(DIGEST_PREFIX)
    if not _PREFIX.match(wanted):
        raise UsageError(
            f"{reference!r} is no result id (sha256:… or {SHORTEST_PREFIX} or more hex digits)"
        )
    return DIGEST_PREFIX + wanted


def line_of(seq: int, result: Result) -> ResultLine:
    """A result as a list shows it."""
    return ResultLine(
        seq=seq,
        id=result.id,
        title=result.title,
        verdict=result.verdict,
        finished_at=result.finished_at,
    )
