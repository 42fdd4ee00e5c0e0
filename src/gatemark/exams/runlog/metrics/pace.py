"""How a run went in time: flushes, throughput in virtual time, and where the latency went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from gatemark.core.errors import BadInputError
from gatemark.exams.runlog.records.run import TokengateFlush

UNKNOWN_REASON = "unknown"


def reason_counts(flushes: Sequence[TokengateFlush]) -> dict[str, int]:
    """How often each reason triggered a flush."""
    counts = Counter(
        flush.trigger_reason if isinstance(flush.trigger_reason, str) else UNKNOWN_REASON
        for flush in flushes
    )
    return dict(sorted(counts.items()))


def flush_intervals_ms(flushes: Sequence[TokengateFlush]) -> tuple[tuple[float, ...], int]:
    """Milliseconds between consecutive flushes, and how many of them were dropped.

    Agents take turns, so a flush may be stamped before the one it follows. Such an interval is
    dropped, and the next is measured from the last stamp that did not go back.
    """
    intervals: list[float] = []
    dropped = 0
    previous: datetime | None = None
    for flush in flushes:
        moment = _moment(flush)
        if previous is not None:
            interval = (moment - previous).total_seconds() * 1000
            if interval < 0:
                dropped += 1
                continue
            intervals.append(interval)
        previous = moment
    return tuple(intervals), dropped


def _moment(flush: TokengateFlush) -> datetime:
    try:
        moment = datetime.fromisoformat(flush.timestamp)
    except ValueError as error:
        raise BadInputError(
            f"tokengate_flush {flush.flush_index}: timestamp {flush.timestamp!r} is no time"
        ) from error
    if moment.tzinfo is None:
        raise BadInputError(
            f"tokengate_flush {flush.flush_index}: timestamp {flush.timestamp!r} has no time zone"
        )
    return moment


def per_second(units: int, duration_ms: float) -> float | None:
    """Text units per second of virtual time; None when no time passed."""
    return units / (duration_ms / 1000) if duration_ms > 0 else None


def share(part: float, whole: float) -> float | None:
    """A part of a whole; None when the whole is nothing."""
    return part / whole if whole > 0 else None
