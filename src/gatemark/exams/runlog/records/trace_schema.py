"""``exaid.trace``: what several agents said about one case, delta by delta."""

from __future__ import annotations

from typing import Final

from gatemark.core.record import BadExample, BadFile, Form, RecordSchema
from gatemark.exams.runlog.records.names import text_hash
from gatemark.exams.runlog.records.trace import StreamDelta, TraceMeta, TurnBoundary
from gatemark.exams.runlog.records.trace_rules import (
    TraceRules,
    boundary_problems,
    delta_problems,
    deltas_hold,
    meta_problems,
)

_T0: Final = 1_700_000_000_000

_META: Final[dict[str, object]] = {
    "record_type": "trace_meta",
    "schema_version": "2.0.0",
    "case_id": "case-synth-000",
    "mas_run_id": "mas_0a1b2c3d_synthetic1_0ad5f2b4_d22060bf",
    "mac_commit": "0a1b2c3d" * 5,
    "exaid_commit": "unknown",
    "model": "synthetic-1",
    "decoding": {"temperature": 1.0, "top_p": None, "max_tokens": 4096, "seed": None},
    "created_at": "2023-11-14T22:13:20.000Z",
    "t0_emitted_ms": _T0,
    "total_turns": 1,
    "total_deltas": 2,
}


def _at(rel_ms: int) -> dict[str, int]:
    return {"t_ms": _T0 + rel_ms, "t_rel_ms": rel_ms}


_START: Final[dict[str, object]] = {
    "record_type": "turn_boundary",
    "case_id": "case-synth-000",
    "turn_id": 1,
    "agent_id": "doctor0",
    "boundary": "start",
    "seq": 0,
    **_at(-50),
}
_FIRST: Final[dict[str, object]] = {
    "record_type": "stream_delta",
    "case_id": "case-synth-000",
    "seq": 1,
    "turn_id": 1,
    "agent_id": "doctor0",
    "delta_text": "Fever for three",
    "t_emitted_ms": _T0,
    "t_rel_ms": 0,
}
_SECOND: Final[dict[str, object]] = _FIRST | {
    "seq": 2,
    "delta_text": " days.",
    "t_emitted_ms": _T0 + 40,
    "t_rel_ms": 40,
}
_END: Final[dict[str, object]] = _START | {
    "boundary": "end",
    "seq": 3,
    "content_hash": text_hash("Fever for three days."),
    **_at(90),
}
_FILE: Final = (_META, _START, _FIRST, _SECOND, _END)


def _without(record: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in record.items() if name != key}


SCHEMA: Final = RecordSchema(
    name="exaid.trace",
    summary="What several agents said about one case, delta by delta, with the bounds of turns.",
    tag="record_type",
    across=TraceRules,
    forms=(
        Form(
            name="trace_meta",
            type=TraceMeta,
            marks=frozenset({"record_type"}),
            identity="case_id",
            good=(_META, _without(_META, "decoding") | {"stub_mode": True}),
            bad=(
                BadExample("another version", _META | {"schema_version": "1"}, "$.schema_version"),
                BadExample("a suffix", _META | {"case_id": "case-1.trace"}, "$.case_id"),
                BadExample("a commit too short", _META | {"mac_commit": "0a1b2c"}, "$.mac_commit"),
                BadExample("no start", _without(_META, "t0_emitted_ms"), "$"),
                BadExample("a start before 1970", _META | {"t0_emitted_ms": -1}, "$.t0_emitted_ms"),
                BadExample("a time in words", _META | {"created_at": "today"}, "$.created_at"),
                BadExample("derived units", _META | {"ctu": 9}, "$"),
            ),
            rules=(meta_problems,),
        ),
        Form(
            name="stream_delta",
            type=StreamDelta,
            marks=frozenset({"record_type"}),
            identity="agent_id",
            good=(_FIRST, _SECOND, _FIRST | {"delta_text": ""}),
            bad=(
                BadExample("a negative seq", _FIRST | {"seq": -1}, "$.seq"),
                BadExample("turn 0", _FIRST | {"turn_id": 0}, "$.turn_id"),
                BadExample("a negative time", _FIRST | {"t_emitted_ms": -4}, "$.t_emitted_ms"),
                BadExample("before the first delta", _FIRST | {"t_rel_ms": -4}, "$.t_rel_ms"),
                BadExample("no text", _without(_FIRST, "delta_text"), "$"),
                BadExample("a subtype", _FIRST | {"event_subtype": "message"}, "$"),
                BadExample("a suffix", _FIRST | {"case_id": "case-1.trace"}, "$.case_id"),
            ),
            rules=(delta_problems,),
            proof=deltas_hold,
        ),
        Form(
            name="turn_boundary",
            type=TurnBoundary,
            marks=frozenset({"record_type"}),
            identity="agent_id",
            good=(_START, _END, _without(_END, "content_hash")),
            bad=(
                BadExample("a boundary in the middle", _START | {"boundary": "mid"}, "$.boundary"),
                BadExample("a negative time", _START | {"t_ms": -1}, "$.t_ms"),
                BadExample(
                    "a hash cut short", _END | {"content_hash": "sha256:1"}, "$.content_hash"
                ),
                BadExample(
                    "a hash at the start",
                    _START | {"content_hash": text_hash("")},
                    "$.content_hash",
                ),
                BadExample("no agent", _without(_END, "agent_id"), "$"),
            ),
            rules=(boundary_problems,),
        ),
    ),
    good_files=(_FILE, (_META | {"total_turns": 0, "total_deltas": 0, "stub_mode": True},)),
    bad_files=(
        BadFile("no meta first", (_START, _META, _FIRST, _SECOND, _END), 1, "trace_meta_first"),
        BadFile("two metas", (_META, _META, _START, _FIRST, _SECOND, _END), 2, "one_trace_meta"),
        BadFile("no meta", (_START, _FIRST, _SECOND, _END), 1, "one_trace_meta"),
        BadFile(
            "a record of another case",
            (_META, _START, _FIRST | {"case_id": "case-2"}, _SECOND, _END),
            3,
            "same_case",
        ),
        BadFile("a gap in seq", (_META, _START, _FIRST, _END), 4, "seq"),
        BadFile("a seq twice", (_META, _START, _FIRST, _SECOND | {"seq": 1}, _END), 4, "seq"),
        BadFile(
            "time that goes back",
            (
                _META,
                _START,
                _FIRST | {"t_emitted_ms": _T0 + 60, "t_rel_ms": 60},
                _SECOND,
                _END,
            ),
            4,
            "time_order",
        ),
        BadFile(
            "relative time that is off",
            (_META, _START, _FIRST, _SECOND | {"t_rel_ms": 41}, _END),
            4,
            "t_rel",
        ),
        BadFile("a turn without an end", (_META, _START, _FIRST, _SECOND), 2, "turn_boundaries"),
        BadFile(
            "a turn without a start",
            (_META, _FIRST | {"seq": 0}, _SECOND | {"seq": 1}, _END | {"seq": 2}),
            2,
            "turn_boundaries",
        ),
        BadFile(
            "deltas without boundaries",
            (_META, _FIRST | {"seq": 0}, _SECOND | {"seq": 1}),
            2,
            "turn_boundaries",
        ),
        BadFile(
            "a turn that ends twice",
            (_META, _START, _FIRST, _SECOND, _END, _END | {"seq": 4}),
            6,
            "turn_boundaries",
        ),
        BadFile(
            "an end before the last delta",
            (_META, _START, _FIRST, _SECOND, _END | _at(37)),
            5,
            "turn_times",
        ),
        BadFile(
            "a start after the first delta",
            (_META, _START | _at(3), _FIRST, _SECOND, _END),
            2,
            "turn_times",
        ),
        BadFile(
            "the hash of another text",
            (_META, _START, _FIRST, _SECOND, _END | {"content_hash": text_hash("Fever.")}),
            5,
            "content_hash",
        ),
        BadFile(
            "no text at all",
            (_META, _START, _without(_END, "content_hash") | {"seq": 1}),
            3,
            "text",
        ),
    ),
)
