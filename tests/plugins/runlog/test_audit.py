from __future__ import annotations

import msgspec
import pytest
from tests.plugins.runlog.replay.test_variants import FILE, SET, TALK, log_of, run

from gatemark.plugins.runlog.audit_run import audit_run
from gatemark.plugins.runlog.records.names import hash_text

from .talks import trace

TRACE = trace(*TALK)
LOG = log_of(TRACE, "V0", run(TRACE, "V0"))


def rules(log) -> set[tuple[str, str]]:
    found = audit_run(log, TRACE, file_hash=FILE, dataset_hash=SET)
    return {(remark.rule, remark.path) for remark in found}


def with_first(kind: str, **changes):
    records = getattr(LOG, kind)
    first = msgspec.structs.replace(records[0], **changes)
    return msgspec.structs.replace(LOG, **{kind: (first, *records[1:])})


def test_a_log_fits_the_trace_it_was_made_from() -> None:
    assert rules(LOG) == set()


@pytest.mark.parametrize(
    "field", ["case_id", "mas_run_id", "trace_file_hash", "trace_dataset_hash"]
)
def test_a_log_of_another_trace_is_told(field: str) -> None:
    meta = msgspec.structs.replace(LOG.meta, **{field: "other"})
    assert rules(msgspec.structs.replace(LOG, meta=meta)) == {("same_trace", f"$.{field}")}


def test_windows_must_lie_inside_the_trace() -> None:
    found = rules(with_first("decisions", start_seq=-1))
    assert found == {("window_in_trace", "$.start_seq")}
    beyond = rules(with_first("events", end_seq=10_000))
    assert ("window_in_trace", "$.end_seq") in beyond


def test_timestamps_must_come_from_the_trace() -> None:
    found = rules(with_first("flushes", timestamp="2023-11-14T22:13:20.000Z"))
    assert found == {("timestamps_from_trace", "$.timestamp")}


def test_made_up_timestamps_must_be_counted() -> None:
    source = log_of(TRACE, "V1", run(TRACE, "V1", compat="source"), "source")
    assert rules(source) == set()
    derivation = msgspec.structs.replace(
        source.meta.timestamp_derivation, missing_t_emitted_ms_count=0
    )
    meta = msgspec.structs.replace(source.meta, timestamp_derivation=derivation)
    assert rules(msgspec.structs.replace(source, meta=meta)) == {
        ("timestamps_from_trace", "$.timestamp_derivation.missing_t_emitted_ms_count")
    }


def test_flushed_text_must_have_been_said_in_its_window() -> None:
    assert rules(with_first("flushes", text_hash=hash_text("x"))) == {
        ("text_from_trace", "$.text_hash")
    }
    assert rules(with_first("flushes", accumulated_ctu=1)) == {
        ("text_from_trace", "$.accumulated_ctu")
    }


@pytest.mark.parametrize("variant", ["V0", "V1", "V2", "V4"])
def test_a_log_whose_counts_were_fixed_after_a_cut_is_told_by_its_trace(variant: str) -> None:
    """Attack: the last records are removed, and every count in the log is made to fit."""
    log = log_of(TRACE, variant, run(TRACE, variant))
    assert rules(log) == set()
    if variant == "V1":
        cut = msgspec.structs.replace(log, events=log.events[:-1])
    else:
        cut = msgspec.structs.replace(log, flushes=log.flushes[:-1], events=log.events[:-1])
    assert ("covers_trace", "$") in rules(cut)
    empty = msgspec.structs.replace(log, flushes=(), events=())
    assert ("covers_trace", "$") in rules(empty)


def test_text_between_two_windows_is_lost_and_blanks_are_not() -> None:
    seqs = [seq for _, text, _, seq in TRACE.list_content() if text.strip()]
    assert TRACE.find_uncovered([(0, TRACE.last_seq)]) == []
    assert TRACE.find_uncovered([]) == seqs
    assert TRACE.find_uncovered([(seqs[2], seqs[-1]), (0, seqs[0])]) == [seqs[1]]
    assert TRACE.find_uncovered([(0, seqs[-1]), (seqs[1], seqs[2])]) == []
