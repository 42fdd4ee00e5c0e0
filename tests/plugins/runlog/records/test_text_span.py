from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.record import by_kind
from gatemark.plugins.runlog.records.trace import StreamDelta, join_span, split_spans

T0 = 1_700_000_000_000


def delta(seq: int, *, rel: int = 0, t0: int = T0, case_id: str = "case-1") -> StreamDelta:
    return StreamDelta(case_id, seq, 1, "A", f"word{seq}", t0 + rel, rel)


DELTAS = st.lists(
    st.builds(
        StreamDelta,
        case_id=st.sampled_from(["case-1", "case-1", "case-1", "case-2"]),
        seq=st.integers(0, 4),
        turn_id=st.integers(1, 2),
        agent_id=st.sampled_from("AB"),
        delta_text=st.sampled_from(["", "a", " b"]),
        t_emitted_ms=st.sampled_from([T0, T0 + 1]),
        t_rel_ms=st.integers(0, 1),
    ),
    max_size=12,
)


@given(DELTAS, st.booleans())
@settings(deadline=None, max_examples=200)
def test_stretches_hold_every_delta_once_and_in_order(found, counted) -> None:
    if counted:
        found = [
            StreamDelta(
                one.case_id, place, one.turn_id, one.agent_id, one.delta_text, T0 + place, place
            )
            for place, one in enumerate(found)
        ]
    cut = list(split_spans(found))
    assert [one for stretch in cut for one in stretch.deltas()] == found
    for stretch in cut:
        assert stretch.last_seq - stretch.first_seq + 1 == len(stretch.texts)
        assert join_span(list(stretch.deltas())) == stretch
    for before, after in pairwise(cut):
        assert join_span([*before.deltas(), *after.deltas()]) is None, "cut only where needed"


def test_a_stretch_ends_where_seq_the_case_or_the_start_of_time_changes() -> None:
    assert join_span([delta(3), delta(4, rel=9)]) is not None
    assert join_span([delta(3), delta(5)]) is None
    assert join_span([delta(3), delta(3)]) is None
    assert join_span([delta(3), delta(4, case_id="case-2")]) is None
    assert join_span([delta(3), delta(4, t0=T0 + 1)]) is None


def test_pieces_say_who_said_what_when_and_where() -> None:
    stretch = join_span([delta(3), delta(4, rel=9)])
    assert stretch is not None
    assert list(stretch.pieces()) == [("A", "word3", 0, 3), ("A", "word4", 9, 4)]


@given(st.lists(st.sampled_from([1, 2, "a", "b", 0.5, None]), max_size=20))
def test_records_by_kind_are_all_there_in_order(found) -> None:
    kinds = by_kind(found)
    assert set(kinds) == set(map(type, found))
    for kind, records in kinds.items():
        assert list(records) == [one for one in found if type(one) is kind]
