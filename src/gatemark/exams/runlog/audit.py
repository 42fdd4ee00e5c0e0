"""A run log held against the trace that it says it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gatemark.core.record import Remark
from gatemark.exams.runlog.records.fields import moment_ms
from gatemark.exams.runlog.records.names import ctu, text_hash
from gatemark.exams.runlog.records.run import SEMANTIC_FIELDS, RunLog
from gatemark.exams.runlog.records.trace import StreamDelta
from gatemark.exams.runlog.replay.moments import FALLBACK_STEP_MS
from gatemark.exams.runlog.traces.trace import Trace, moment_of


def audit_run(log: RunLog, trace: Trace, *, file_hash: str, dataset_hash: str) -> Iterator[Remark]:
    """Every way in which a log does not fit its trace; lines count the records of the log.

    Hashes name this trace and this data set, windows lie inside the trace, timestamps come from
    it, flushed text is what one agent said in the window, and summaries are as large as they say.
    """
    meta: Any = log.meta
    for name, told, expected in (
        ("case_id", meta.case_id, trace.meta.case_id),
        ("mas_run_id", meta.mas_run_id, trace.meta.mas_run_id),
        ("trace_file_hash", meta.trace_file_hash, file_hash),
        ("trace_dataset_hash", meta.trace_dataset_hash, dataset_hash),
    ):
        if isinstance(told, str) and told != expected:
            message = f"must be {expected}, which the trace has, got {told}"
            yield Remark(1, "same_trace", f"$.{name}", message)
    times = _Times(trace)
    made_up = 0
    for line, record in enumerate(log.records()[1:], start=2):
        yield from _window_remarks(line, record, trace.last_seq)
        remark, is_fallback = times.check(line, record)
        made_up += is_fallback
        if remark is not None:
            yield remark
    told_count = getattr(meta.timestamp_derivation, "missing_t_emitted_ms_count", made_up)
    if told_count != made_up:
        message = f"says {told_count}, the log has {made_up} made-up timestamps"
        path = "$.timestamp_derivation.missing_t_emitted_ms_count"
        yield Remark(1, "timestamps_from_trace", path, message)
    yield from _flush_remarks(log, trace)
    yield from _summary_remarks(log)


def _window_remarks(line: int, record: Any, last_seq: int) -> Iterator[Remark]:
    for field in ("start_seq", "end_seq"):
        seq = getattr(record, field)
        if isinstance(seq, int) and not 0 <= seq <= last_seq:
            message = f"must lie inside the trace, which ends with seq {last_seq}, got {seq}"
            yield Remark(line, "window_in_trace", f"$.{field}", message)


class _Times:
    """When each ``seq`` of a trace was captured, and what a made-up time would be."""

    def __init__(self, trace: Trace) -> None:
        self._known = {record.seq: moment_of(record) for record in trace.records}
        first = next((one for one in trace.records if isinstance(one, StreamDelta)), None)
        self._start_ms = trace.meta.t0_emitted_ms if first is None else first.t_emitted_ms

    def check(self, line: int, record: Any) -> tuple[Remark | None, bool]:
        """What is wrong with a timestamp, and whether it is the made-up one."""
        seq, told = record.end_seq, record.timestamp
        if not isinstance(seq, int) or not isinstance(told, str):
            return None, False
        told_ms = moment_ms(told)
        if told_ms == self._known.get(seq):
            return None, False
        if told_ms == self._start_ms + seq * FALLBACK_STEP_MS:
            return None, True
        message = f"{told} is not when seq {seq} was captured"
        return Remark(line, "timestamps_from_trace", "$.timestamp", message), False


def _flush_remarks(log: RunLog, trace: Trace) -> Iterator[Remark]:
    """Flushed text must be what one agent said between the ends of the window."""
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
        fitting = [text for text in texts if text_hash(text) == flush.text_hash]
        if not fitting:
            message = "no agent said this text in the window"
            yield Remark(line, "text_from_trace", "$.text_hash", message)
        elif ctu(fitting[0]) != flush.accumulated_ctu:
            message = f"must be {ctu(fitting[0])}, got {flush.accumulated_ctu}"
            yield Remark(line, "text_from_trace", "$.accumulated_ctu", message)


def _summary_remarks(log: RunLog) -> Iterator[Remark]:
    """A summary's size is that of its semantics text, and that text is made of its fields."""
    first_line = len(log.records()) - len(log.events) + 1
    for line, event in enumerate(log.events, start=first_line):
        text: str = event.summary_semantics_text
        told: object = event.summary_ctu
        if isinstance(told, int) and told != ctu(text):
            message = f"must be {ctu(text)}, the size of summary_semantics_text, got {told}"
            yield Remark(line, "summary_size", "$.summary_ctu", message)
        fields = [getattr(event.summary_content, name, None) for name in SEMANTIC_FIELDS]
        if all(isinstance(field, str) for field in fields) and text.strip() != (
            " ".join(map(str, fields)).strip()
        ):
            message = f"must be the first {len(fields)} fields of summary_content, joined by spaces"
            yield Remark(line, "semantics_text", "$.summary_semantics_text", message)
