"""Names of scores: what each says about which scores are better."""

from __future__ import annotations

import pytest

from gatemark.samples.score_direction import DirectionClues, find_direction


@pytest.mark.parametrize(
    "name",
    [
        *(
            "is_toxic",
            "has_hallucination",
            "hallucination_detected",
            "contains_pii",
            "unsafe_output",
        ),
        *("prompt_injection", "policy_violation", "secret_leak", "jailbroken", "asr", "is_wrong"),
        *(
            "is_incorrect",
            "error_flag",
            "fails",
            "exact_match_error",
            "toxic_flag",
            "harmful_content",
        ),
    ],
)
def test_a_name_that_speaks_of_harm_says_nothing_about_which_of_0_and_1_is_right(name: str) -> None:
    assert find_direction(name, DirectionClues()).better != "higher"


@pytest.mark.parametrize(
    "name",
    ["safety/jailbreak_probability", "quality/toxicity_level", "quality/tokens_used"],
)
def test_a_part_that_may_mean_the_opposite_is_not_left_out(name: str) -> None:
    clues = DirectionClues()
    clues.add_score(0.5)
    assert find_direction(name, clues).better is None


@pytest.mark.parametrize("name", ["is_correct", "exact", "squad/f1", "exact_match/strict", "q7"])
def test_honest_names_of_0_and_1_just_work(name: str) -> None:
    assert find_direction(name, DirectionClues()).better == "higher"
