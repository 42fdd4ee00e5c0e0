from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.plugins.runlog.worlds import small_world

from gatemark.plugins.runlog.metrics.errors import cut_excerpt
from gatemark.plugins.runlog.records import names
from gatemark.plugins.runlog.records.run import RunLog
from gatemark.plugins.runlog.traces.files import read_run_log, read_trace
from gatemark.plugins.runlog.traces.trace import Trace, TraceText
from gatemark.plugins.runlog.views import draw_timeline


@pytest.fixture
def case(tmp_path: Path) -> tuple[RunLog, Trace]:
    world = small_world(tmp_path / "world", cases=1)
    trace = read_trace(str(world.traces / names.name_trace_file("case-0"))).trace
    return read_run_log(str(world.log_path("case-0", "V0"))), trace


def test_a_timeline_shows_turns_flushes_decisions_and_windows(case: Any) -> None:
    log, trace = case
    found = draw_timeline(log, trace)
    assert found is not None
    assert found.title == "case-0 under V0"
    assert found.lanes == ("doctor0", "doctor1", "gate", "decisions", "summaries")
    by_lane = {lane: [span for span in found.spans if span.lane == lane] for lane in found.lanes}
    assert {lane: len(spans) for lane, spans in by_lane.items()} == dict.fromkeys(
        found.lanes, 2
    ) | {"doctor0": 1, "doctor1": 1}
    (turn,) = by_lane["doctor0"]
    assert (turn.kind, turn.start, turn.end) == ("turn", 0.0, 0.3)
    assert turn.label == "I see fever, plain."
    first, second = by_lane["summaries"]
    assert (first.start, first.end) == (0.0, 0.2)
    assert (second.start, second.end) == (0.3, 0.5)
    assert {span.kind for span in by_lane["gate"]} == {"flush: boundary_cue"}


def test_failed_summaries_and_windows_beyond_the_trace_are_drawn_too(case: Any) -> None:
    log, trace = case
    bad = msgspec.structs.replace(log.events[0], schema_ok=False, end_seq=99)
    found = draw_timeline(msgspec.structs.replace(log, events=(bad,)), trace)
    assert found is not None
    (window,) = (span for span in found.spans if span.lane == "summaries")
    assert window.kind == "failed summary"
    assert window.end == 0.6


def test_a_trace_without_records_has_no_timeline(case: Any) -> None:
    log, trace = case
    empty = msgspec.structs.replace(trace, parts=(), turns=())
    assert draw_timeline(log, empty) is None
    assert TraceText(empty).duration_ms == 0


@pytest.mark.parametrize(
    ("text", "limit", "expected"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcd", 1, "…")]
)
def test_an_excerpt_is_cut_to_its_limit(text: str, limit: int, expected: str) -> None:
    assert cut_excerpt(text, limit) == expected
