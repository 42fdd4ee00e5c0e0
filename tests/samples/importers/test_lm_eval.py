from __future__ import annotations

import pytest
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    dumped,
    file_of,
    item,
    lm_eval_lines,
    lm_eval_results,
    lm_eval_rows,
    lost_and_gained,
    read,
)

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import LogExperiment, ReadOptions, import_files, importers


def both(rows=None, results=None, **options):
    samples = lm_eval_lines(lm_eval_rows() if rows is None else rows)
    return read("lm-eval", samples, results or lm_eval_results(), **options)


def test_a_pair_of_runs_shows_four_lost_and_three_gained():
    base = both(lm_eval_rows(BASELINE))
    cand = both(lm_eval_rows(CANDIDATE), lm_eval_results(CANDIDATE))
    assert lost_and_gained(base, cand, "exact_match/strict") == (COUNT, 4, 3)


def test_one_row_per_filter_becomes_one_sample_with_a_score_per_filter():
    imported = both()
    assert len(imported.samples) == COUNT
    assert imported.samples[1].scores == {"exact_match/strict": 1.0, "exact_match/loose": 0.0}
    assert imported.headline is None
    assert both(lm_eval_rows(filters=("strict",))).headline == "exact_match/strict"


def test_the_claimed_metrics_are_checked_and_a_wrong_one_is_noted():
    assert both().notes == ()
    results = lm_eval_results()
    results["results"]["tiny_gen"]["exact_match,strict"] = 0.5
    (note,) = both(results=results).notes
    assert note.startswith("exact_match/strict: the log says 0.5, its rows give 0.8")


def test_a_metric_that_is_no_mean_is_claimed_but_not_recomputed():
    results = lm_eval_results()
    results["configs"]["tiny_gen"]["metric_list"][0]["aggregation"] = "perplexity"
    imported = both(results=results)
    assert "exact_match/strict" in imported.claimed
    assert [check.name for check in imported.checks] == ["tiny_gen sample_len"]


def test_a_limited_run_is_partial_unless_the_limit_covers_the_task():
    results = lm_eval_results()
    results["n-samples"]["tiny_gen"]["original"] = 1000
    assert "ran 20 of 1000 documents" in both(results=results).origin.partial[0]
    results = lm_eval_results()
    results["config"]["limit"] = 20.0
    assert both(results=results).origin.partial == ()
    del results["n-samples"]
    assert "--limit 20" in both(results=results).origin.partial[0]


def test_without_a_results_file_the_missing_check_is_said():
    (note,) = read("lm-eval", lm_eval_lines(lm_eval_rows())).notes
    assert "neither --limit nor the aggregates" in note


def test_a_results_file_alone_is_refused():
    with pytest.raises(BadInputError, match="contains aggregates only"):
        read("lm-eval", lm_eval_results())


def test_the_results_file_beside_the_samples_is_found(tmp_path):
    time = "2026-11-15T18-19-29.123456"
    rows = b"".join(dumped(row) + b"\n" for row in lm_eval_rows())
    samples = tmp_path / f"samples_tiny_gen_{time}.jsonl"
    samples.write_bytes(rows)
    (tmp_path / f"results_{time}.json").write_bytes(dumped(lm_eval_results()))
    (imported,) = import_files([samples])
    assert imported.arm == "tiny_gen"
    assert imported.lineage["task_hash"] == "ab" * 32
    assert imported.samples[0].tags["task_hash"] == "ab" * 32


def test_documents_without_an_id_are_named_by_their_position():
    rows = lm_eval_rows()
    for row in rows:
        del row["doc"]["id"]
    imported = both(rows)
    assert {sample.id for sample in imported.samples} == {str(number) for number in range(COUNT)}
    assert any("doc_id" in note for note in imported.notes)
    assert both(rows, id_path="doc.question").samples[0].id == "0+0"


def test_numbers_logged_as_text_become_numbers_for_likelihoods_only():
    rows = lm_eval_rows(filters=("none",))
    rows[0]["arguments"] = {"gen_args_0": {"arg_0": "Q", "arg_1": " 0"}}
    rows[0]["resps"] = [[["-0.10", "False"]], [["-5.0", "True"]]]
    rows[1]["resps"] = [["False"]]
    imported = both(rows)
    assert imported.samples[0].output == [[-0.1, False], [-5.0, True]]
    assert imported.samples[1].output == "False"


def test_a_metric_that_is_no_number_is_null():
    rows = lm_eval_rows()
    rows[0]["exact_match"] = [-3.5, 7]
    assert both(rows).samples[0].scores["exact_match/strict"] is None


def test_two_rows_for_the_same_document_and_filter_are_refused():
    rows = lm_eval_rows()
    with pytest.raises(BadInputError, match="second row for filter 'strict'"):
        both([*rows, rows[0]])


def test_a_broken_line_is_refused_with_its_number_and_the_count_no_longer_adds_up():
    lines = lm_eval_lines(lm_eval_rows(filters=("strict",))).data.splitlines()
    lines[2] = lines[2][:50]
    imported = read(
        "lm-eval", file_of(b"\n".join(lines), "samples_tiny_gen.jsonl"), lm_eval_results()
    )
    assert [refusal.place for refusal in imported.refused] == ["samples_tiny_gen.jsonl:3"]
    assert any("sample_len: the log says 20, its rows give 19" in note for note in imported.notes)


def test_several_tasks_are_arms_and_one_must_be_named():
    first = lm_eval_lines(lm_eval_rows())
    second = file_of(first.data, "samples_tiny_mc.jsonl")
    arms = importers().get("lm-eval").arms([first, second], ReadOptions())
    assert arms == (LogExperiment("tiny_gen", 40), LogExperiment("tiny_mc", 40))
    with pytest.raises(BadInputError, match="1: 'tiny_gen', 2: 'tiny_mc'"):
        read("lm-eval", first, second)
    assert read("lm-eval", first, second, arm="tiny_mc").samples[0].id == item(0)


def test_nan_is_missing_and_named():
    rows = lm_eval_rows(filters=("strict",))
    rows[3]["exact_match"] = float("nan")
    (sample,) = [
        sample for sample in both(rows).samples if sample.scores["exact_match/strict"] is None
    ]
    assert sample.tags["missing.exact_match/strict"] == "lm-eval wrote NaN"
