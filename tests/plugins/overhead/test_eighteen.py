"""The eighteen weaknesses of the known implementation, each with the tests that rule it out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent

RULED_OUT: dict[str, tuple[str, ...]] = {
    "1 could not measure becomes a pass": (
        "test_a_missing_arm_is_inconclusive",
        "test_what_could_not_be_measured_is_rendered_first",
        "test_a_soft_pass_is_a_flag_and_never_a_pass",
        "test_a_measured_cost_never_passes_softly",
    ),
    "2 accuracy is judged without its direction": (
        "test_an_accuracy_that_halves_fails",
        "test_an_accuracy_that_rises_passes",
    ),
    "3 the verifier trusts what is stored": (
        "test_an_edited_report_is_caught_under_a_stable_name",
        "test_a_failed_report_that_claims_to_pass_is_caught",
        "test_no_value_of_a_report_can_be_changed_or_left_out_unnoticed",
    ),
    "4 the budget is in no digest and judges itself": (
        "test_every_setting_and_every_word_of_an_override_is_in_the_digest",
        "test_the_verifier_may_bring_its_own_policy",
        "test_a_budget_edited_together_with_every_digest_is_caught",
    ),
    "5 digests are short, loose and never verified": (
        "test_the_report_has_every_field_of_the_source",
        "test_two_budgets_share_a_digest_only_when_they_are_equal",
        "test_no_value_of_a_report_can_be_changed_or_left_out_unnoticed",
    ),
    "6 the bare arm leaves no evidence": (
        "test_every_check_can_fail",
        "test_no_change_of_a_window_goes_unnoticed",
    ),
    "7 window ids are counters": (
        "test_names_of_windows_follow_content_place_and_plan",
        "test_the_schedule_names_content_weights_and_plan",
    ),
    "8 bad windows are dropped": (
        "test_a_window_without_a_usable_loss_is_inconclusive_and_named",
        "test_counts_and_missing_values_are_written_as_strict_json",
        "test_no_arm_that_breaks_off_ever_passes",
        "test_a_loss_without_a_perplexity_is_an_error_with_a_name",
    ),
    "9 a point decides without an interval": (
        "test_an_interval_within_the_budget_passes",
        "test_an_interval_beyond_the_budget_fails",
        "test_a_budget_inside_the_interval_is_left_open_or_told",
        "test_what_the_plan_can_see_shrinks_with_more_windows",
    ),
    "10 the mean hides the tail": ("test_the_tail_is_shown_and_can_be_gated",),
    "11 binary numbers at the exact budget": (
        "test_an_exact_percent_is_within_a_budget_of_one_percent",
        "test_no_decimal_exact_percent_is_lost_to_binary_numbers",
    ),
    "12 unexplained improvements pass": (
        "test_a_suspicious_improvement_does_not_pass",
        "test_arms_without_any_difference_hold_unless_guards_only_observe",
    ),
    "13 time and memory are called overhead but not gated": (
        "test_each_axis_has_a_budget_of_its_own",
        "test_costs_that_do_not_fit_leave_the_axis_open",
    ),
    "14 fixed order, one run, restore not verified": (
        "test_the_order_is_bare_guarded_guarded_bare",
        "test_a_restore_that_does_not_restore_is_noticed",
        "test_noise_above_the_budget_holds_the_verdict",
    ),
    "15 unlogged escapes": (
        "test_a_looser_setting_needs_reason_owner_and_evidence",
        "test_overrides_are_refused_unless_accepted",
        "test_overrides_end",
        "test_a_loosened_budget_stands_in_the_first_line",
    ),
    "16 failed checks are not in the JSON, codes hang on words, NaN": (
        "test_every_name_of_a_check_can_fail",
        "test_a_true_report_ends_as_its_recomputed_verdict",
        "test_the_report_is_strict_json_and_of_a_closed_schema",
    ),
    "17 the schema accepts nearly anything": (
        "test_the_schema_of_the_report_is_published_and_refuses_other_keys",
    ),
    "18 needs the whole package": (
        "test_a_report_is_verified_without_models_and_without_a_store",
        "test_a_hostile_line_never_passes",
    ),
}


def names_of_tests() -> set[str]:
    files = HERE.rglob("test_*.py")
    return {
        node.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("weakness", RULED_OUT)
def test_every_weakness_is_ruled_out_by_tests_that_exist(weakness: str) -> None:
    assert RULED_OUT[weakness]
    assert set(RULED_OUT[weakness]) <= names_of_tests()


def test_there_are_eighteen() -> None:
    assert [int(name.split()[0]) for name in RULED_OUT] == list(range(1, 19))
