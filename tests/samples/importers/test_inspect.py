from __future__ import annotations

import pytest
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    dumped,
    file_of,
    inspect_log,
    inspect_members,
    item,
    lost_and_gained,
    read,
    zipped,
)

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import ForeignLimits, LogExperiment, ReadOptions, importers


def packed(log, method):
    return zipped(inspect_members(log), method)


def test_a_pair_of_logs_shows_four_lost_and_three_gained():
    base, cand = read("inspect", inspect_log(BASELINE)), read("inspect", inspect_log(CANDIDATE))
    assert lost_and_gained(base, cand, "match") == (COUNT, 4, 3)


@pytest.mark.parametrize("method", [0, 8, 93])
def test_an_archive_gives_the_same_samples_as_the_json_log(method):
    log = inspect_log()
    archived = read("inspect", packed(log, method), name="log.eval")
    assert archived.samples == read("inspect", log).samples
    assert archived.headline == "match"


def test_the_claimed_accuracy_is_checked_and_agrees():
    imported = read("inspect", inspect_log())
    (check,) = [check for check in imported.checks if check.name == "match accuracy"]
    assert (check.claimed, check.found, check.agrees, check.why) == (0.8, 0.8, True, None)
    assert imported.notes == ()


def test_a_claimed_accuracy_that_the_rows_do_not_give_is_noted_with_both_numbers():
    log = inspect_log()
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 0.95
    (note,) = read("inspect", log).notes
    assert "the log says 0.95" in note
    assert "give 0.8 (n=20)" in note


def test_an_errored_sample_keeps_its_id_and_the_smaller_denominator_is_noted():
    log = inspect_log()
    log["samples"][3] |= {"error": {"message": "RuntimeError('boom')"}, "scores": {}}
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 15 / 19
    imported = read("inspect", log)
    errored = imported.samples[3]
    assert (errored.id, errored.scores) == (item(3), {})
    assert errored.error is not None
    assert (errored.error.kind, errored.error.message) == ("RuntimeError", "RuntimeError('boom')")
    assert (len(imported.samples), imported.errored_count) == (COUNT, 1)
    (note,) = imported.notes
    assert "0.789474" in note
    assert "0.75 over all 20" in note
    assert "not in its denominator" in note


def test_scores_given_to_an_errored_sample_are_set_aside():
    log = inspect_log()
    log["samples"][3]["error"] = {"message": "crashed"}
    imported = read("inspect", log)
    assert imported.samples[3].scores == {}
    assert "scores of errored or invalidated samples are ignored" in imported.notes


def test_an_invalidated_sample_is_an_error_with_its_author_and_reason():
    log = inspect_log()
    log["samples"][1]["invalidation"] = {"author": "ana", "reason": "leaked", "timestamp": "t"}
    error = read("inspect", log).samples[1].error
    assert error is not None
    assert (error.kind, error.message) == ("invalidated", "by ana: leaked")


def test_a_nan_score_becomes_an_error_and_never_a_number():
    log = inspect_log()
    log["samples"][2]["scores"]["match"]["value"] = float("nan")
    assert b"NaN" in dumped(log)
    sample = read("inspect", log).samples[2]
    assert sample.scores == {}
    assert sample.error is not None
    assert sample.error.kind == "unscored"


def test_a_nan_beside_a_real_score_is_null():
    log = inspect_log()
    log["samples"][2]["scores"]["style"] = {"value": float("nan")}
    sample = read("inspect", log).samples[2]
    assert (sample.scores, sample.error) == ({"match": 1.0, "style": None}, None)


def test_the_word_nan_inside_a_text_is_left_alone():
    log = inspect_log()
    log["samples"][2]["input"] = 'NaN and "NaN"'
    log["samples"][2]["scores"]["match"]["value"] = float("nan")
    assert read("inspect", log).samples[2].input == 'NaN and "NaN"'


@pytest.mark.parametrize("token", [b"Infinity", b"-Infinity"])
def test_an_infinite_score_is_missing_and_never_a_number(token):
    data = dumped(inspect_log()).replace(b'"value": "C"', b'"value": ' + token, 1)
    imported = read("inspect", data)
    (sample,) = [sample for sample in imported.samples if sample.error]
    assert sample.scores == {}
    assert sample.tags["missing.match"] == f"inspect wrote {token.decode()}"


@pytest.mark.parametrize(
    ("value", "scores"),
    [
        ("C", {"match": 1.0}),
        ("P", {"match": 0.5}),
        ("N", {"match": 0.0}),
        (True, {"match": 1.0}),
        (0.25, {"match": 0.25}),
        ("0.75", {"match": 0.75}),
        ({"a": 1, "b": "I"}, {"match/a": 1.0, "match/b": 0.0}),
        ([1, 0.5], {"match/0": 1.0, "match/1": 0.5}),
    ],
)
def test_every_kind_of_score_value_becomes_numbers(value, scores):
    log = inspect_log()
    log["samples"][0]["scores"]["match"]["value"] = value
    assert read("inspect", log).samples[0].scores == scores


def test_a_label_that_is_no_number_becomes_a_tag_and_not_a_zero():
    log = inspect_log()
    log["samples"][0]["scores"]["tone"] = {"value": "polite"}
    sample = read("inspect", log).samples[0]
    assert sample.scores == {"match": 0.0, "tone": None}
    assert sample.tags["label.tone"] == "polite"


def test_an_edited_score_counts_as_edited_and_says_by_whom():
    log = inspect_log()
    edit = {"value": "C", "provenance": {"author": "ana", "reason": "typo", "timestamp": "t1"}}
    log["samples"][0]["scores"]["match"] = {"value": "C", "history": [{"value": "I"}, edit]}
    imported = read("inspect", log)
    assert imported.samples[0].scores == {"match": 1.0}
    assert imported.samples[0].tags == {
        "lane": "even",
        "edited.match.author": "ana",
        "edited.match.reason": "typo",
        "edited.match.timestamp": "t1",
        "edited.match.original": "I",
    }
    assert any("edited after the run" in note for note in imported.notes)


def test_epochs_are_kept_and_total_samples_counts_them_all():
    imported = read("inspect", inspect_log(epochs=2))
    assert len(imported.samples) == 2 * COUNT
    assert [(s.id, s.epoch) for s in imported.samples[:2]] == [(item(0), 1), (item(0), 2)]
    assert all(check.agrees for check in imported.checks)
    assert imported.claimed["total_samples"] == 2 * COUNT


def test_one_epoch_can_be_read_alone():
    log = inspect_log(epochs=2)
    arms = importers().get("inspect").arms([file_of(log)], ReadOptions())
    assert arms == (LogExperiment("epoch-1", COUNT), LogExperiment("epoch-2", COUNT))
    imported = read("inspect", log, arm="epoch-2")
    assert {sample.epoch for sample in imported.samples} == {2}
    with pytest.raises(BadInputError, match="has no arm 'epoch-3'"):
        read("inspect", log, arm="epoch-3")


def test_a_mean_over_epochs_is_checked_after_reduction():
    log = inspect_log(epochs=2)
    for sample in log["samples"]:
        if sample["epoch"] == 2:
            sample["scores"]["match"]["value"] = "I"
    log["results"]["scores"][0] |= {"reducer": "mean"}
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 0.4
    assert all(check.agrees for check in read("inspect", log).checks)


@pytest.mark.parametrize("status", ["started", "cancelled", "error"])
def test_a_run_that_did_not_succeed_is_partial(status):
    (reason,) = read("inspect", inspect_log() | {"status": status}).origin.partial
    assert reason == f"the run ended with status {status!r}, not 'success'"


@pytest.mark.parametrize("cut", [{"limit": 5}, {"limit": [0, 5]}, {"sample_id": ["add-000"]}])
def test_a_run_that_was_cut_short_is_partial(cut):
    log = inspect_log()
    log["eval"]["config"] |= cut
    log["samples"] = log["samples"][:5]
    log["eval"]["dataset"]["sample_ids"] = log["eval"]["dataset"]["sample_ids"][:5]
    (reason,) = read("inspect", log).origin.partial
    assert "the run was cut" in reason


@pytest.mark.parametrize("limit", [COUNT, COUNT + 5, [0, COUNT], [1, 1000]])
def test_a_limit_at_or_above_the_data_set_leaves_the_run_whole(limit):
    log = inspect_log()
    log["eval"]["config"]["limit"] = limit
    assert read("inspect", log).origin.partial == ()


@pytest.mark.parametrize("limit", [COUNT, COUNT + 5])
def test_a_limit_above_the_data_set_does_not_excuse_rows_that_are_gone(limit):
    log = inspect_log()
    log["eval"]["config"]["limit"] = limit
    del log["samples"][4]
    assert read("inspect", log).origin.partial


def test_a_limit_without_a_known_size_is_partial():
    log = inspect_log()
    log["eval"]["config"]["limit"] = 1000
    del log["eval"]["dataset"]["samples"]
    assert read("inspect", log).origin.partial


def test_an_archive_without_a_header_is_an_unfinished_run():
    members = inspect_members(inspect_log())
    del members["header.json"]
    assert "status 'started'" in read("inspect", zipped(members, 93)).origin.partial[0]


def test_a_sample_that_the_dataset_lists_and_the_log_lacks_is_an_error():
    log = inspect_log()
    del log["samples"][7]
    imported = read("inspect", log)
    error = imported.samples[7].error
    assert (imported.samples[7].id, error and error.kind) == (item(7), "missing")
    assert imported.errored_count == 1


def test_numeric_ids_and_old_outputs_are_read():
    log = inspect_log()
    log["eval"]["dataset"] = {}
    for number, sample in enumerate(log["samples"]):
        sample["id"] = number
        sample["output"] = {"choices": [{"message": {"content": "old"}}]}
    sample = read("inspect", log).samples[0]
    assert (sample.id, sample.output) == ("0", "old")


def test_ids_that_collide_as_text_are_refused():
    log = inspect_log()
    log["eval"]["dataset"] = {}
    log["samples"][0]["id"], log["samples"][1]["id"] = 1, "1"
    with pytest.raises(BadInputError, match="repeat an id"):
        read("inspect", log)


def test_an_id_can_be_taken_from_a_named_path():
    log = inspect_log()
    for sample in log["samples"]:
        sample["metadata"]["case"] = "case-" + sample["id"]
    for content in (log, packed(log, 93)):
        assert read("inspect", content, id_path="metadata.case").samples[0].id == "case-add-000"


def test_a_row_that_cannot_be_read_is_refused_and_counted():
    log = inspect_log()
    log["samples"][4]["epoch"] = "first"
    imported = read("inspect", log)
    (refusal,) = imported.refused
    assert refusal.place == "log.json: samples[4]"
    assert "$.epoch" in refusal.reason


def test_latency_is_in_milliseconds_and_choices_travel_with_the_input():
    log = inspect_log()
    log["samples"][0]["choices"] = ["0", "1"]
    sample = read("inspect", log).samples[0]
    assert sample.latency_ms == 250.0
    assert sample.input == {"input": "What is 0 + 0?", "choices": ["0", "1"]}


def test_a_log_without_samples_is_refused():
    log = inspect_log()
    del log["samples"]
    with pytest.raises(BadInputError, match="log_samples was off"):
        read("inspect", log)


def test_a_log_that_nobody_scored_has_no_invented_errors():
    log = inspect_log()
    log["results"] = None
    for sample in log["samples"]:
        sample["scores"] = None
    imported = read("inspect", log)
    assert imported.errored_count == 0
    assert imported.notes == ("the log contains no scores",)


def test_the_limits_of_an_archive_hold():
    data = packed(inspect_log(), 93)
    for limits, word in (
        (ForeignLimits(member_count=5), "more than 5 members"),
        (ForeignLimits(member_bytes=100), "at most 100 bytes"),
        (ForeignLimits(expanded_bytes=2000), "unpack to at most 2000 bytes"),
    ):
        with pytest.raises(BadInputError, match=word):
            read("inspect", data, limits=limits)
