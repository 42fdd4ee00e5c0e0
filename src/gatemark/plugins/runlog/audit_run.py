"""Compare a run log with its trace."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.core.record import Remark
from gatemark.plugins.runlog.records.fields import parse_moment_ms
from gatemark.plugins.runlog.records.names import count_ctu, hash_text
from gatemark.plugins.runlog.records.run import FALLBACK_STEP_MS, RunLog, VersionedRecord
from gatemark.plugins.runlog.records.trace import StreamDelta
from gatemark.plugins.runlog.traces.trace import Trace, find_lost_text, get_moment_ms


def audit_run(log: RunLog, trace: Trace, *, file_hash: str, dataset_hash: str) -> Iterator[Remark]:
    """Yield every mismatch of a log and its trace; lines count the records of the log.

    Hashes name this trace and this data set, windows lie inside the trace, timestamps come from
    it, and flushed text is what one agent said in the window.
    """
    meta: VersionedRecord = log.meta
    for name, stated, expected in (
        ("case_id", meta.case_id, trace.meta.case_id),
        ("mas_run_id", meta.mas_run_id, trace.meta.mas_run_id),
        ("trace_file_hash", meta.trace_file_hash, file_hash),
        ("trace_dataset_hash", meta.trace_dataset_hash, dataset_hash),
    ):
        if isinstance(stated, str) and stated != expected:
            message = f"must be {expected}, which the trace has, got {stated}"
            yield Remark(1, "same_trace", f"$.{name}", message)
    times = _Times(trace)
    made_up = 0
    for line, record in enumerate(log.records()[1:], start=2):
        yield from _check_windows(line, record, trace.last_seq)
        remark, is_fallback = times.check(line, record)
        made_up += is_fallback
        if remark is not None:
            yield remark
    stated_count = getattr(meta.timestamp_derivation, "missing_t_emitted_ms_count", made_up)
    if stated_count != made_up:
        message = f"says {stated_count}, the log has {made_up} made-up timestamps"
        path = "$.timestamp_derivation.missing_t_emitted_ms_count"
        yield Remark(1, "timestamps_from_trace", path, message)
    yield from _check_flushes(log, trace)
    if (words := find_lost_text(log, trace)) is not None:
        yield Remark(1, "covers_trace", "$", words)


def _check_windows(line: int, record: VersionedRecord, last_seq: int) -> Iterator[Remark]:
    for field in ("start_seq", "end_seq"):
        seq = getattr(record, field)
        if isinstance(seq, int) and not 0 <= seq <= last_seq:
            message = f"must lie inside the trace, which ends with seq {last_seq}, got {seq}"
            yield Remark(line, "window_in_trace", f"$.{field}", message)


class _Times:
    """The time of each ``seq`` of a trace, and the fallback time of a ``seq`` without one."""

    def __init__(self, trace: Trace) -> None:
        self._known = {record.seq: get_moment_ms(record) for record in trace.records}
        first = next((one for one in trace.records if isinstance(one, StreamDelta)), None)
        self._start_ms = trace.meta.t0_emitted_ms if first is None else first.t_emitted_ms

    def check(self, line: int, record: VersionedRecord) -> tuple[Remark | None, bool]:
        """Return the problem of a timestamp, and whether it is the fallback time."""
        seq, stated = record.end_seq, record.timestamp
        if not isinstance(seq, int) or not isinstance(stated, str):
            return None, False
        stated_ms = parse_moment_ms(stated)
        if stated_ms == self._known.get(seq):
            return None, False
        if stated_ms == self._start_ms + seq * FALLBACK_STEP_MS:
            return None, True
        message = f"{stated} is not when seq {seq} was captured"
        return Remark(line, "timestamps_from_trace", "$.timestamp", message), False


def _check_flushes(log: RunLog, trace: Trace) -> Iterator[Remark]:
    """Check that flushed text is what one agent said in the window."""
    content = trace.content_turns
    said: dict[str, list[StreamDelta]] = {}
    for delta in trace.deltas:
        if delta.turn_id in content and delta.delta_text:
            said.setdefault(delta.agent_id, []).append(delta)
    for line, flush in enumerate(log.flushes, start=2):
        if not isinstance(flush.text_hash, str):
            continue
        texts = [
            "".join(d.delta_text for d in deltas if flush.start_seq <= d.seq <= flush.end_seq)
            for deltas in said.values()
        ]
        fitting = [text for text in texts if hash_text(text) == flush.text_hash]
        if not fitting:
            message = "no agent said this text in the window"
            yield Remark(line, "text_from_trace", "$.text_hash", message)
        elif count_ctu(fitting[0]) != flush.accumulated_ctu:
            message = f"must be {count_ctu(fitting[0])}, got {flush.accumulated_ctu}"
            yield Remark(line, "text_from_trace", "$.accumulated_ctu", message)
