"""What every store does the same way when results are looked up."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import IntegrityError, UsageError
from gatemark.core.result import Result, verify_seal
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


def verified_result(identity: str, document: bytes) -> Result:
    """The result in some stored bytes; refuses one that its seal does not name."""
    try:
        result = msgspec.json.decode(document, type=Result)
    except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
        raise IntegrityError(f"result {identity} cannot be read: {error}") from error
    if result.id != identity:
        raise IntegrityError(f"result {identity} is stored under another id than its own")
    verify_seal(result)
    return result


def line_of(seq: int, result: Result) -> ResultLine:
    """A result as a list shows it."""
    return ResultLine(
        seq=seq,
        id=result.id,
        title=result.title,
        verdict=result.verdict,
        finished_at=result.finished_at,
    )
