"""Answers that were recorded before: a target that repeats them by id and epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, cast, get_args

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.targets.port import Call, CallError, CallPart, ErrorKind, Reply, TargetError

UNSCORED = "unscored"
"""The kind of error for an answer without a score."""
_OURS = frozenset(get_args(ErrorKind))

UtcMoment = Annotated[datetime, msgspec.Meta(tz=True)]
Recording = Mapping[tuple[str, int], Reply | CallError]


class RecordedTarget:
    """Replies by (id, epoch). ``digest`` is that of the recording's bytes."""

    reads: frozenset[CallPart] = frozenset()

    def __init__(self, recording: Recording, *, digest: str) -> None:
        self._recording = recording
        self._digest = digest
        first = next(iter(recording), None)
        self._example = (
            "the recording is empty"
            if first is None
            else f"ids in the recording look like {first[0]!r}"
        )

    async def call(self, call: Call) -> Reply:
        found = self._recording.get(call.key)
        if found is None:
            raise TargetError(
                "missing",
                f"nothing was recorded for id {call.id!r}, epoch {call.epoch}; {self._example}",
            )
        if isinstance(found, CallError):
            raise TargetError(found.kind, found.message)
        return found

    async def close(self) -> None:
        return None

    def identity(self) -> dict[str, Any]:
        return {"kind": "recorded", "digest": self._digest}


def build_recording(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], Any]:
    """Return replies from ``gatemark.sample/1`` rows; refuse duplicates.

    An errored row stays an error. A row that was answered but not scored is an answer: the current
    scorer may be able to score it. An unknown kind of error is kept in the message.
    """
    recording: dict[tuple[str, int], Reply | CallError] = {}
    for row in rows:
        key = (row["id"], row["epoch"])
        if key in recording:
            raise BadInputError(f"id {key[0]!r}, epoch {key[1]} was recorded twice")
        error = row.get("error")
        if error is None or error["kind"] == UNSCORED:
            recording[key] = Reply(
                output=row.get("output"),
                latency_ms=row.get("latency_ms"),
                confidence=row.get("confidence"),
                cost=row.get("cost"),
                usage=None if row.get("tokens") is None else {"total_tokens": row["tokens"]},
                answered_at=_read_answered_at(row),
            )
        else:
            recording[key] = _restore_error(error["kind"], error["message"])
    return recording


def _read_answered_at(row: Mapping[str, Any]) -> datetime | None:
    try:
        return msgspec.convert(row.get("answered_at"), UtcMoment | None)
    except msgspec.ValidationError as error:
        place = f"id {row['id']!r}, epoch {row['epoch']}"
        raise BadInputError(f"{place}: answered_at: {error}") from error


def _restore_error(kind: str, message: str) -> CallError:
    if kind in _OURS:
        return CallError(cast("ErrorKind", kind), message)
    return CallError("recorded", f"{kind}: {message}")
