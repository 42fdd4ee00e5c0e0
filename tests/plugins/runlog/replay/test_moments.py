from __future__ import annotations

import msgspec
from tests.plugins.runlog.talks import T0, looked_at, records, trace, turn

from gatemark.plugins.runlog.records.fields import parse_moment_ms
from gatemark.plugins.runlog.replay.variants import CaptureMoments
from gatemark.plugins.runlog.traces.trace import build_trace


def test_every_record_has_its_own_time() -> None:
    made = trace(turn("a", 0, ["x", "y"]))
    moments = CaptureMoments(made)
    assert [parse_moment_ms(moments.at(seq)) - T0 for seq in range(4)] == [0, 5, 15, 20]
    told = moments.derivation()
    assert (told.derived_from_t_emitted, told.derived_from_fallback) == (4, 0)
    assert told.missing_t_emitted_ms_count == 0


def test_the_source_makes_up_times_of_boundaries_and_counts_them() -> None:
    moments = CaptureMoments(trace(turn("a", 0, ["x", "y"])), "source")
    assert parse_moment_ms(moments.at(2)) == T0 + 15
    assert parse_moment_ms(moments.at(3)) == T0 + 5 + 3000
    assert (moments.made_up, moments.derivation().derived_from_t_emitted) == (1, 1)


def test_a_seq_beyond_the_trace_is_made_up() -> None:
    moments = CaptureMoments(trace(turn("a", 0, ["x"])))
    assert parse_moment_ms(moments.at(99)) == T0 + 5 + 99_000
    assert moments.made_up == 1


def test_timestamps_are_utc_with_milliseconds() -> None:
    assert CaptureMoments(trace(turn("a", 0, ["x"]))).at(1) == "2023-11-14T22:13:20.005Z"


def test_records_beside_a_gap_keep_their_times_and_the_lost_one_has_none() -> None:
    found = records(turn("a", 0, ["x", "y", "z"]))
    del found[3]
    rules, _ = looked_at(found, "inspect")
    moments = CaptureMoments(build_trace(rules))
    assert [parse_moment_ms(moments.at(seq)) - T0 for seq in (0, 1, 3, 4)] == [0, 5, 25, 30]
    assert moments.made_up == 0
    assert parse_moment_ms(moments.at(2)) == T0 + 5 + 2000
    assert moments.made_up == 1


def test_of_two_records_with_one_seq_the_one_in_its_place_tells_the_time() -> None:
    found = records(turn("a", 0, ["x", "y", "z"]))
    found[2] = msgspec.structs.replace(found[2], seq=2)
    rules, remarks = looked_at(found, "inspect")
    assert any(remark.rule == "seq" for remark in remarks)
    assert parse_moment_ms(CaptureMoments(build_trace(rules)).at(2)) == T0 + 15
