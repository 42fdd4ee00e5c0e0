from __future__ import annotations

import pytest
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    deepeval_log,
    item,
    lost_and_gained,
    read,
)

from gatemark.core.errors import BadInputError


def test_a_pair_of_runs_shows_four_lost_and_three_gained():
    base, cand = read("deepeval", deepeval_log(BASELINE)), read("deepeval", deepeval_log(CANDIDATE))
    assert lost_and_gained(base, cand, "Exact") == (COUNT, 4, 3)
    assert lost_and_gained(base, cand, "success") == (COUNT, 4, 3)


def test_incomplete_lineage_is_said_and_the_counts_agree():
    imported = read("deepeval", deepeval_log())
    assert imported.notes == (
        "the file has neither a time nor a DeepEval version: lineage is incomplete",
    )
    assert imported.checks
    assert all(check.agrees for check in imported.checks)
    assert imported.lineage == {"identifier": "run-1", "model": "scripted"}


def test_a_wrong_claim_is_noted():
    log = deepeval_log()
    log["testPassed"] = 20
    assert any(
        "testPassed: the log says 20, its rows give 16" in n for n in read("deepeval", log).notes
    )


def test_a_crashed_metric_leaves_the_verdict_unknown_and_not_failed():
    log = deepeval_log()
    case = log["testCases"][1]
    case["metricsData"].append({"name": "Judge", "success": False, "error": "TimeoutError: slow"})
    case["success"] = False
    sample = read("deepeval", log).samples[1]
    assert sample.scores == {"success": None, "Exact": 1.0, "Judge": None}
    assert sample.error is None
    assert sample.tags["error.Judge"] == "TimeoutError: slow"


def test_a_real_failure_beside_a_crashed_metric_stays_a_failure():
    log = deepeval_log()
    log["testCases"][0]["metricsData"].append({"name": "Judge", "success": False, "error": "boom"})
    assert read("deepeval", log).samples[0].scores["success"] == 0.0


def test_a_case_whose_every_metric_crashed_is_an_error():
    log = deepeval_log()
    log["testCases"][1] |= {
        "success": False,
        "metricsData": [{"name": "Exact", "success": False, "error": "ValueError: no judge"}],
    }
    sample = read("deepeval", log).samples[1]
    assert (sample.id, sample.scores) == (item(1), {})
    assert sample.error is not None
    assert sample.error.kind == "ValueError"


def test_a_flaky_metric_does_not_decide():
    log = deepeval_log()
    log["testCases"][1]["metricsData"].append(
        {"name": "Tone", "score": 0.0, "success": False, "flaky": True}
    )
    imported = read("deepeval", log)
    assert imported.samples[1].scores == {"success": 1.0, "Exact": 1.0, "Tone": 0.0}
    assert imported.samples[1].tags["flaky.Tone"] == "true"
    assert not any("verdict does not match" in note for note in imported.notes)


def test_a_verdict_that_its_metrics_do_not_give_is_noted():
    log = deepeval_log()
    log["testCases"][0]["success"] = True
    assert any("verdict does not match" in note for note in read("deepeval", log).notes)


def test_dropped_fields_are_read_as_absent():
    log = deepeval_log()
    log["testCases"][1] = {"name": "bare", "success": True, "metricsData": []}
    sample = next(s for s in read("deepeval", log).samples if s.id == "bare")
    assert (sample.target, sample.latency_ms, sample.scores) == (None, None, {"success": 1.0})


def test_names_that_repeat_are_told_apart_by_order():
    log = deepeval_log()
    log["testCases"][1]["name"] = item(0)
    imported = read("deepeval", log)
    assert {"add-000#0", "add-000#1"} <= {sample.id for sample in imported.samples}
    assert any("share a name" in note for note in imported.notes)


def test_conversations_are_samples_too():
    log = deepeval_log()
    log["conversationalTestCases"] = [
        {
            "name": "chat-1",
            "scenario": "a refund",
            "expectedOutcome": "granted",
            "turns": [{"role": "user", "content": "hello"}],
            "success": True,
            "metricsData": [{"name": "Role", "score": 0.9, "success": True}],
        }
    ]
    sample = next(s for s in read("deepeval", log).samples if s.id == "chat-1")
    assert (sample.input, sample.target) == ("a refund", "granted")
    assert sample.output == [{"role": "user", "content": "hello"}]


def test_a_case_without_a_name_is_refused_and_counted():
    log = deepeval_log()
    del log["testCases"][2]["name"]
    imported = read("deepeval", log)
    assert [refusal.place for refusal in imported.refused] == ["log.json: testCases[2]"]
    assert imported.received_count == COUNT


def test_an_arm_that_is_not_there_is_refused():
    with pytest.raises(BadInputError, match="has no arm 'other'"):
        read("deepeval", deepeval_log(), arm="other")
