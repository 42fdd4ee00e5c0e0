from __future__ import annotations

import msgspec
import pytest
from tests.exams.runlog.talks import trace, turn

from gatemark.core.errors import BadInputError
from gatemark.exams.runlog.records.names import hash_text
from gatemark.exams.runlog.records.run import RunLog
from gatemark.exams.runlog.replay.chunks import calibrate_chunks, refuse_mismatch

from .test_variants import log_of, run, words

BASE = log_of(trace(turn("bob", 0, words(65))), "V0", run(trace(turn("bob", 0, words(65))), "V0"))


def log(case_id: str, sizes: list[int], reason: str = "boundary_cue", **meta) -> RunLog:
    flushes = tuple(
        msgspec.structs.replace(
            BASE.flushes[0],
            case_id=case_id,
            flush_index=place,
            start_seq=place,
            accumulated_ctu=size,
            trigger_reason=reason,
        )
        for place, size in enumerate(sizes)
    )
    return RunLog(msgspec.structs.replace(BASE.meta, case_id=case_id, **meta), flushes, (), ())


def test_the_size_is_the_median_of_the_cases_medians_rounded_up() -> None:
    logs = [log("case-1", [100, 120, 500]), log("case-2", [131]), log("case-3", [1])]
    report = calibrate_chunks(["case-1", "case-2", "case-3"], logs, subset_count=2)
    assert (report.median_ctu, report.chunk_size_ctu, report.subset_count) == (125.5, 126, 2)
    assert [case.median_ctu for case in report.cases] == [120, 131]


def test_leftovers_do_not_count_and_a_flush_seen_twice_counts_once() -> None:
    logs = [log("case-1", [10, 20]), log("case-1", [10, 20]), log("case-1", [900], "end_of_trace")]
    (case,) = calibrate_chunks(["case-1"], logs).cases
    assert (case.flush_count, case.median_ctu) == (2, 15)


def test_a_case_without_a_log_or_a_flush_is_told() -> None:
    with pytest.raises(BadInputError, match=r"case 'case-2' has no V0 run log \(1 have none\)"):
        calibrate_chunks(["case-1", "case-2"], [log("case-1", [1])])
    with pytest.raises(BadInputError, match="no case has a flush that counts"):
        calibrate_chunks(["case-1"], [log("case-1", [])])


def test_logs_of_other_variants_or_traces_are_refused() -> None:
    with pytest.raises(BadInputError, match="is a log of V2, expected V0"):
        calibrate_chunks(["case-1"], [log("case-1", [1], variant_id="V2")])
    mixed = [log("case-1", [1]), log("case-2", [1], trace_dataset_hash=hash_text("other"))]
    with pytest.raises(BadInputError, match="different traces or token gates"):
        calibrate_chunks(["case-1", "case-2"], mixed)


@pytest.mark.parametrize("pin", ["trace_dataset_hash", "tokengate_config_hash", "code_commit"])
def test_a_report_of_something_else_is_refused(pin: str) -> None:
    report = calibrate_chunks(["case-1"], [log("case-1", [1])])
    pins = {
        "trace_dataset_hash": report.trace_dataset_hash,
        "tokengate_config_hash": report.tokengate_config_hash,
        "code_commit": "unknown",
    }
    refuse_mismatch(report, **pins)
    refuse_mismatch(report, **(pins | {"code_commit": None}))
    with pytest.raises(BadInputError, match=f"the V3 report's {pin} must be other, got"):
        refuse_mismatch(report, **(pins | {pin: "other"}))
