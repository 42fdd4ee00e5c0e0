from __future__ import annotations

import msgspec
import pytest
from tests.plugins.runlog.talks import T0, looked_at, records, trace, turn

from gatemark.core.errors import BadInputError
from gatemark.plugins.runlog.records.names import hash_text
from gatemark.plugins.runlog.records.trace_file_rules import TraceRules
from gatemark.plugins.runlog.traces.trace import (
    LABEL_LIKE,
    TraceText,
    build_trace,
    classify,
    join_canonical_text,
    replay,
)

LABELS = frozenset({"doctor0", "supervisor"})


@pytest.mark.parametrize(
    ("text", "plane", "reason", "flag"),
    [
        ("Doctor0", "control_plane", "exact_label_match:doctor0", None),
        ("  doctor0\n", "control_plane", "exact_label_match:doctor0", None),
        ("terminate", "control_plane", "terminate_sentinel", None),
        (" \n", "control_plane", "empty_turn", None),
        ("ask doctor0", "content_plane", "default_content", None),
        ("Doctor5", "content_plane", "default_content", LABEL_LIKE),
        ("42", "content_plane", "default_content", None),
        ("no.", "content_plane", "default_content", None),
        ("TERMINATE now", "content_plane", "default_content", None),
    ],
)
def test_turns_are_told_apart_by_what_they_say(text, plane, reason, flag) -> None:
    assert classify(text, LABELS) == (plane, reason, flag)


def test_only_boundaries_tell_who_can_be_called() -> None:
    first = turn("Supervisor", 0, ["doctor9"])
    found = records(first, turn("unknown", 100, ["unknown"]))
    found = [
        msgspec.structs.replace(r, agent_id="doctor9") if hasattr(r, "delta_text") else r
        for r in found
    ]
    made = build_trace(looked_at(found)[0])
    assert made.labels == {"supervisor"}
    assert [one.plane for one in made.turns] == ["content_plane", "content_plane"]


def test_a_boundary_may_lie_before_the_first_delta() -> None:
    made = trace(turn("a", 0, ["x"], lag=7))
    assert [event.virtual_time_ms for event in replay(made)] == [-7, 0, 7]
    assert [event.virtual_time_ms for event in replay(made, shift_to_zero=True)] == [0, 7, 14]


def test_the_content_plane_keeps_its_gaps() -> None:
    made = trace(
        turn("chair", 0, ["Bob"]), turn("bob", 1000, ["hello"]), turn("chair", 3000, ["TERMINATE"])
    )
    events = list(replay(made, "content_plane"))
    assert [event.kind for event in events] == ["turn_start", "delta", "turn_end"]
    assert events[0].virtual_time_ms == 995
    shifted = list(replay(made, "content_plane", shift_to_zero=True))
    assert shifted[0].virtual_time_ms == 1000
    assert events[-1].content_hash == hash_text("hello")
    assert len(list(replay(made))) == 9


def test_text_is_joined_within_turns_and_split_between_them() -> None:
    made = trace(
        turn("chair", 0, ["Bob"]),
        turn("bob", 100, ["differ", "ential", " ", "found"]),
        turn("amy", 500, ["yes"]),
    )
    assert join_canonical_text(made) == "differential found\nyes"
    assert join_canonical_text(made, "source") == "Bob differ ential found yes"


def test_a_window_holds_what_lies_between_its_ends() -> None:
    made = trace(turn("bob", 0, ["a", "b", "c"]), turn("amy", 500, ["d"]))
    text = TraceText(made)
    assert [text.window(2, 3), text.window(3, 6), text.window(0, 0), text.window(3, 2)] == [
        "bc",
        "c\nd",
        "",
        "",
    ]
    assert TraceText(made, "source").window(1, 6) == "a b c d"


def test_turns_that_overlap_keep_their_own_words_together() -> None:
    made = trace(
        turn("bob", 0, ["one ", "two"], step=100), turn("amy", 50, ["three ", "four"], step=100)
    )
    assert join_canonical_text(made) == "one two\nthree four"


@pytest.mark.parametrize("agent", ["system", "_system", "orchestrator", "meta"])
def test_some_agents_are_no_part_of_what_was_said(agent: str) -> None:
    made = trace(turn(agent, 0, ["route to bob please"]), turn("bob", 200, ["hello"]))
    assert join_canonical_text(made) == "hello"
    assert join_canonical_text(made, "source") == "hello"


def test_two_milliseconds_on_the_wrong_side_are_a_warning() -> None:
    found = records(turn("a", 0, ["x", "y"]))
    for late, grades in ((0, []), (1, ["warning"]), (2, ["warning"]), (3, ["error"])):
        end = msgspec.structs.replace(found[-1], t_ms=T0 + 15 - late, t_rel_ms=10 - late)
        remarks = looked_at([*found[:-1], end])[1]
        assert [(r.rule, r.grade) for r in remarks] == [("turn_times", grade) for grade in grades]


def test_inspection_warns_where_strictness_refuses() -> None:
    found = records(turn("a", 0, ["x", "y"]))
    broken = [
        *found[:2],
        msgspec.structs.replace(found[2], seq=5, t_rel_ms=3),
        msgspec.structs.replace(found[3], t_emitted_ms=T0 - 5, t_rel_ms=0),
    ]
    for mode, grade in (("strict", "error"), ("inspect", "warning")):
        remarks = looked_at(broken, mode)[1]
        assert {remark.rule for remark in remarks} == {
            "seq",
            "t_rel",
            "time_order",
            "turn_boundaries",
        }
        assert {r.grade for r in remarks} == {grade}


def test_inspection_does_not_forgive_a_missing_meta() -> None:
    remarks = looked_at(records(turn("a", 0, ["x"]))[1:], "inspect")[1]
    assert {(r.rule, r.grade) for r in remarks} >= {("trace_meta_first", "error")}


def test_lines_that_were_refused_excuse_the_gaps_they_leave() -> None:
    found = records(turn("a", 0, ["x", "y", "z"]))
    rules = TraceRules()
    rules.lost()
    kept = [found[0], found[1], found[3]]
    assert not [*rules.see([1, 2, 4], kept), *rules.end()]


def test_records_out_of_order_are_put_in_order_after_inspection() -> None:
    found = records(turn("a", 0, ["x", "y"]))
    rules, _ = looked_at([found[0], found[3], found[2], found[1], found[4]], "inspect")
    assert [record.seq for record in build_trace(rules).records] == [0, 1, 2, 3]


def test_a_trace_without_meta_cannot_be_made() -> None:
    with pytest.raises(BadInputError, match="trace_meta"):
        build_trace(TraceRules())


def test_a_stub_may_be_without_text() -> None:
    assert not looked_at(records(turn("a", 0, []), stub=True))[1]
    assert [r.rule for r in looked_at(records(turn("a", 0, [])))[1]] == ["text"]


def test_totals_that_do_not_fit_are_a_warning() -> None:
    found = records(turn("a", 0, ["x"]))
    meta = msgspec.structs.replace(found[0], total_deltas=7)
    assert [(r.rule, r.grade, r.path) for r in looked_at([meta, *found[1:]])[1]] == [
        ("totals", "warning", "$.total_deltas")
    ]
