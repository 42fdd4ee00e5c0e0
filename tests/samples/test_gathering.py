from __future__ import annotations

import pytest

from gatemark.core.errors import BadInputError
from gatemark.samples.gathering import (
    MESSAGE_LENGTH,
    Gathering,
    check_count,
    check_mean,
    choose_arm,
    find_repeats,
    make_error,
    make_tags,
    read_id,
    score_number,
    shorten_value,
)
from gatemark.samples.importer import ForeignError, LogExperiment, ReadOptions, Refusal


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def gathering(**options) -> Gathering:
    return Gathering("tool", "log.json", ReadOptions(**options))


@pytest.mark.parametrize(
    ("value", "number"),
    [(True, 1.0), (False, 0.0), (3, 3.0), (0.5, 0.5), ("1", None), (None, None), ([1], None)],
)
def test_only_numbers_and_truth_values_are_scores(value, number):
    assert score_number(value) == number


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
def test_what_is_not_finite_is_no_score(value):
    assert score_number(value) is None


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "a\x00", "x" * 513, True, None, 1.5, [], {}])
def test_what_cannot_name_a_sample_is_no_id(value):
    assert read_id(value) is None


def test_ids_are_text_without_blanks_around():
    assert (read_id(7), read_id(" a b ")) == ("7", "a b")


def test_deeply_nested_values_are_never_opened_for_a_message():
    assert shorten_value(deep(5000)) == "a list"
    assert make_error(deep(5000), "odd") == ForeignError("odd", "a list")
    assert make_tags({"a": deep(5000), "b": 1.5, "c": True}) == {"b": "1.5", "c": "true"}
    taken = gathering()
    taken.add("row 1", item=deep(5000))
    taken.add("row 2", item="a", output=deep(5000))
    with pytest.raises(BadInputError) as refusal:
        taken.finish()
    assert refusal.value.lines() == (
        "log.json: no tool sample could be read",
        "row 1: has no usable id, got a list; name a field with --id",
        "row 2: nested deeper than 60 levels",
    )


def test_an_error_is_named_after_its_exception_and_cut_to_a_bearable_length():
    assert make_error("httpx.ReadTimeout: slow", "x").kind == "httpx.ReadTimeout"
    assert make_error("ValueError('no')", "x").kind == "ValueError"
    assert make_error("something broke", "x").kind == "x"
    assert make_error("", "x").message == "x"
    assert len(make_error("y" * 10_000, "x").message) == MESSAGE_LENGTH + 1


def test_an_errored_row_loses_its_scores_and_a_negative_latency_is_unknown():
    taken = gathering()
    taken.add("r", item="a", scores={"s": 0.0}, error=ForeignError("k", "m"), latency_ms=-1)
    (sample,) = taken.finish().samples
    assert (sample.scores, sample.latency_ms) == ({}, None)


def test_samples_come_out_in_the_order_of_ids_and_epochs():
    taken = gathering()
    for item, epoch in (("b", 1), ("a", 2), ("a", 1)):
        taken.add("r", item=item, epoch=epoch)
    assert [(s.id, s.epoch) for s in taken.finish().samples] == [("a", 1), ("a", 2), ("b", 1)]


def test_received_is_samples_plus_refusals():
    taken = gathering()
    taken.add("r", item="a")
    taken.add("s", item="b", epoch=0)
    taken.refuse(Refusal("t", "why"))
    imported = taken.finish()
    assert (len(imported.samples), len(imported.refused), imported.received_count) == (1, 2, 3)


@pytest.mark.parametrize(
    ("claimed", "agrees", "why"),
    [
        (0.75, True, "1 of 5 rows broke, not in its denominator"),
        (0.6, False, "1 of 5 rows broke, counted by the tool as 0"),
        (0.9, False, "the log does not say why"),
    ],
)
def test_a_claimed_mean_is_explained_where_it_can_be(claimed, agrees, why):
    check = check_mean("m", claimed, [1, 1, 1, 0], 5, "rows broke")
    assert (check.found, check.over_all, check.agrees, check.why) == (0.75, 0.6, agrees, why)


def test_a_mean_of_scores_outside_zero_and_one_has_no_rate_over_all():
    assert check_mean("m", 2.0, [1, 3], 3, "rows broke").over_all is None


def test_a_mean_over_nothing_agrees_with_nothing():
    check = check_mean("m", 0.0, [], 0, "rows broke")
    assert (check.found, check.agrees) == (None, False)
    assert check.line() == "m: the log says 0, its rows give nothing; the log does not say why"


def test_a_count_agrees_only_when_equal():
    assert check_count("c", 3, 3).agrees
    assert not check_count("c", 3, 4).agrees


def test_an_arm_is_named_or_the_only_one():
    arms = [LogExperiment("x", 1), LogExperiment("y", 1)]
    assert choose_arm(arms[:1], None, "f") == "x"
    assert choose_arm(arms, "y", "f") == "y"
    with pytest.raises(BadInputError, match="by name or number: 1: 'x', 2: 'y'"):
        choose_arm(arms, None, "f")
    with pytest.raises(BadInputError, match="has no arm 'z'"):
        choose_arm(arms, "z", "f")


@pytest.mark.parametrize(("wanted", "found"), [("1", "x"), ("3", "2"), ("2", "2"), ("01", "x")])
def test_an_arm_may_be_chosen_by_its_number_but_a_name_comes_first(wanted, found):
    arms = [LogExperiment("x", 1), LogExperiment("y", 1), LogExperiment("2", 1)]
    assert choose_arm(arms, wanted, "f") == found


@pytest.mark.parametrize("wanted", ["0", "4", "-1", "", "1.0", "\u0661", "9" * 5000])
def test_a_number_without_an_arm_is_refused(wanted):
    arms = [LogExperiment("x", 1), LogExperiment("y", 1), LogExperiment("2", 1)]
    with pytest.raises(BadInputError, match="has no arm"):
        choose_arm(arms, wanted, "f")


def test_a_partial_run_is_taken_and_says_so():
    taken = gathering()
    taken.add("row 1", item="a", scores={"s": 1})
    taken.partial("it was cut short")
    found = taken.finish()
    assert found.origin.partial == ("it was cut short",)
    assert "it was cut short; an incomplete run cannot pass" in found.notes


def test_an_unexplained_difference_is_a_contradiction_and_an_explained_one_a_note():
    taken = gathering()
    taken.add("row 1", item="a", scores={"s": 1})
    taken.check(check_mean("s", 0.5, [1.0], 2, "rows have no such score"))
    assert taken.finish().origin.contradictions == ()
    taken.check(check_mean("s", 0.7, [1.0], 2, "rows have no such score"))
    (reason,) = taken.finish().origin.contradictions
    assert "the log says 0.7" in reason


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", float("nan"), float("-inf")])
def test_a_score_that_is_not_finite_is_null_with_a_reason(value):
    taken = gathering()
    taken.add("row 1", item="a", scores={"s": value, "t": 1}, output=[float("nan")])
    (sample,) = taken.finish().samples
    assert sample.scores == {"s": None, "t": 1.0}
    assert sample.tags["missing.s"].startswith("tool wrote ")
    assert sample.output == [None]


def test_repeats_are_numbered_in_order_and_share_their_first():
    assert find_repeats({5: "a", 2: "b", 9: "a", 7: {"x": 1, "y": 2}, 8: {"y": 2, "x": 1}}) == {
        2: (2, 1),
        5: (5, 1),
        7: (7, 1),
        8: (7, 2),
        9: (5, 2),
    }
