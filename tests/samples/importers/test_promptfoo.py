from __future__ import annotations

import random

import msgspec
import pytest
from tests.samples.importers.peer_shapes import (
    COUNT,
    dumped,
    file_of,
    item,
    lost_and_gained,
    promptfoo_log,
    read,
)

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import LogExperiment, ReadOptions, importers, to_record


def pair(log):
    return [read("promptfoo", log, arm=arm) for arm in ("baseline", "candidate")]


def as_lines(log):
    return b"".join(dumped(row) + b"\n" for row in log["results"]["results"])


def test_the_two_columns_show_four_lost_and_three_gained():
    base, cand = pair(promptfoo_log())
    assert lost_and_gained(base, cand, "success") == (COUNT - 1, 4, 3)
    assert lost_and_gained(base, cand, "correct") == (COUNT - 1, 4, 3)


def test_a_file_with_two_columns_is_ambiguous_and_lists_them():
    log = promptfoo_log()
    arms = importers().get("promptfoo").arms([file_of(log)], ReadOptions())
    assert arms == (LogExperiment("baseline", COUNT), LogExperiment("candidate", COUNT))
    with pytest.raises(BadInputError, match="1: 'baseline', 2: 'candidate'"):
        read("promptfoo", log)


def test_columns_of_one_provider_are_told_apart_by_their_prompt():
    log = promptfoo_log()
    for row in log["results"]["results"]:
        row["provider"]["label"] = "same"
        row["prompt"]["label"] = f"v{row['promptIdx']}"
    arms = importers().get("promptfoo").arms([file_of(log)], ReadOptions())
    assert [arm.name for arm in arms] == ["same / v0", "same / v1"]
    for row in log["results"]["results"]:
        row["prompt"]["label"] = "v"
    arms = importers().get("promptfoo").arms([file_of(log)], ReadOptions())
    assert [arm.name for arm in arms] == ["same / v #0", "same / v #1"]


def test_an_error_row_is_an_error_whatever_score_it_carries():
    base, _ = pair(promptfoo_log())
    sample = base.samples[7]
    assert (sample.id, sample.scores) == (item(7), {})
    assert sample.error is not None
    assert sample.error.message == "HTTP 500"
    assert base.errored_count == 1


def test_a_failed_assertion_is_a_zero_and_not_an_error():
    base, _ = pair(promptfoo_log())
    assert base.samples[5].error is None
    assert base.samples[5].scores == {"success": 0.0, "score": 0.0, "correct": 0.0}


def test_old_rows_without_a_failure_reason_are_errors_when_nothing_was_graded():
    log = promptfoo_log()
    for row in log["results"]["results"]:
        del row["failureReason"]
    base, _ = pair(log)
    assert [sample.id for sample in base.samples if sample.error] == [item(7)]


def test_what_the_tool_shows_is_noted_beside_the_rate_over_all_rows():
    base, _ = pair(promptfoo_log())
    assert any("0.789474 over 19" in note and "over all it is 0.75" in note for note in base.notes)


def test_completion_order_does_not_matter():
    log = promptfoo_log()
    expected = pair(log)[0].samples
    random.Random(3).shuffle(log["results"]["results"])
    assert pair(log)[0].samples == expected


def test_named_scores_are_checked_as_weighted_means():
    log = promptfoo_log(crashed=frozenset())
    for row in log["results"]["results"]:
        row["gradingResult"]["namedScoreWeights"]["correct"] = 4 if row["testIdx"] == 1 else 1
    metrics = log["results"]["prompts"][0]["metrics"]
    metrics["namedScores"]["correct"] = 16 + 3
    metrics["namedScoreWeights"]["correct"] = 20 + 3
    base, _ = pair(log)
    (check,) = [check for check in base.checks if check.name == "correct mean"]
    assert check.agrees
    assert check.claimed == pytest.approx(19 / 23)
    metrics["namedScores"]["correct"] = 16
    assert any("correct mean: the log says" in note for note in pair(log)[0].notes)


def test_claimed_counts_that_do_not_add_up_are_noted():
    log = promptfoo_log()
    log["results"]["stats"]["errors"] = 0
    assert any(
        "stats errors: the log says 0, its rows give 2" in note for note in pair(log)[0].notes
    )


def test_lines_give_the_same_samples_as_the_whole_file():
    log = promptfoo_log()
    lines = read("promptfoo", as_lines(log), name="log.jsonl", arm="candidate")
    assert lines.samples == pair(log)[1].samples
    assert any("without aggregates" in note for note in lines.notes)


def test_a_broken_line_is_refused_and_the_others_stay():
    lines = as_lines(promptfoo_log()).replace(b'"testIdx": 4,', b'"testIdx": "four",')
    imported = read("promptfoo", lines, name="log.jsonl", arm="baseline")
    assert len(imported.refused) == 2
    assert "$.testIdx" in imported.refused[0].reason


def test_a_cached_answer_has_no_latency():
    log = promptfoo_log()
    for row in log["results"]["results"]:
        row["response"]["cached"] = row["testIdx"] == 2
    base, _ = pair(log)
    assert (base.samples[2].latency_ms, base.samples[1].latency_ms) == (None, 3.0)
    assert base.samples[2].tags["cached"] == "true"


def test_repeats_become_epochs():
    log = promptfoo_log(crashed=frozenset())
    log["runtimeOptions"]["repeat"] = 2
    rows = log["results"]["results"]
    rows += [row | {"testIdx": row["testIdx"] + COUNT} for row in rows]
    base, _ = pair(log)
    assert [(s.id, s.epoch) for s in base.samples[:3]] == [(item(0), 1), (item(0), 2), (item(1), 1)]


def test_cases_without_a_unique_id_are_named_by_their_position():
    log = promptfoo_log()
    for row in log["results"]["results"]:
        row["testCase"] |= {"description": "same", "metadata": {}}
    base, _ = pair(log)
    assert {sample.id for sample in base.samples} == {str(number) for number in range(COUNT)}
    assert any("testIdx" in note for note in base.notes)
    named = read("promptfoo", log, arm="baseline", id_path="vars.question")
    assert named.samples[0].id == "0+0"


def test_a_filtered_run_is_partial():
    log = promptfoo_log()
    log["results"]["results"] = [r for r in log["results"]["results"] if r["testIdx"] < 5]
    origin = read("promptfoo", log, arm="baseline").origin
    assert "5 of the 20 tests" in origin.partial[0]
    assert any("stats successes" in reason for reason in origin.contradictions)


def test_a_row_missing_from_one_column_is_noted():
    log = promptfoo_log()
    log["results"]["results"] = [
        row for row in log["results"]["results"] if (row["testIdx"], row["promptIdx"]) != (3, 1)
    ]
    assert any("no row for 1 tests" in reason for reason in pair(log)[1].origin.partial)


def test_secrets_in_the_config_do_not_travel():
    log = promptfoo_log()
    log["config"]["env"] = {"API_KEY": "hunter2"}
    log["config"]["providers"] = [{"config": {"apiKey": "hunter2"}}]
    for imported in pair(log):
        assert b"hunter2" not in msgspec.json.encode([to_record(s) for s in imported.samples])
        assert b"hunter2" not in msgspec.json.encode(imported)


def test_a_metric_called_success_does_not_hide_the_verdict():
    log = promptfoo_log()
    for row in log["results"]["results"]:
        row["namedScores"] = {} if row["failureReason"] == 2 else {"success": 0.5}
    base, _ = pair(log)
    assert base.samples[1].scores == {"success": 1.0, "score": 1.0, "named/success": 0.5}
