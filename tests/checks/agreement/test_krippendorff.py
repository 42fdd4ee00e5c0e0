from __future__ import annotations

import random
from typing import Any

import evalica
import pandas as pd
import pytest

from gatemark.checks.agreement.measure import KRIPPENDORFF, MAX_LABELS
from gatemark.core.errors import BadInputError

LABELS = ("VALID", "REJECT", "NOT_IN_CONTEXT")


def noisy_items(count: int) -> list[tuple[str | None, ...]]:
    rng = random.Random(5)
    items = []
    for _ in range(count):
        truth = rng.choice(LABELS)
        items.append(
            tuple(
                None if rng.random() < 0.2 else truth if rng.random() < 0.8 else rng.choice(LABELS)
                for _ in range(3)
            )
        )
    return items


def test_alpha_equals_evalica_and_lies_inside_its_interval() -> None:
    items = noisy_items(300)
    (found,) = KRIPPENDORFF.measure(items)
    codes: Any = pd.DataFrame([[label and LABELS.index(label) for label in i] for i in items])
    expected = evalica.alpha(codes.T.astype(float), distance="nominal").alpha
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.interval is not None
    assert found.interval.low < expected < found.interval.high
    assert found.interval.high - found.interval.low == pytest.approx(0.15, abs=0.05)


def test_the_interval_equals_one_from_resampling_items() -> None:
    items = noisy_items(120)
    (found,) = KRIPPENDORFF.measure(items)
    codes: Any = pd.DataFrame([[label and LABELS.index(label) for label in i] for i in items])
    rng = random.Random(6)
    values = sorted(
        evalica.alpha(
            codes.iloc[rng.choices(range(120), k=120)].T.astype(float), distance="nominal"
        ).alpha
        for _ in range(600)
    )
    assert found.interval is not None
    # 600 draws: an end point has an error near .008.
    assert found.interval.low == pytest.approx(values[15], abs=0.03)
    assert found.interval.high == pytest.approx(values[585], abs=0.03)


def test_items_without_a_pair_are_excluded_and_counted() -> None:
    (found,) = KRIPPENDORFF.measure(
        [("A", "A", None), ("B", None, None), ("A", "B", "B"), (None, None, None)] * 50
    )
    assert found.n == 100
    assert found.excluded == {"fewer_than_two_ratings": 100}
    assert found.value is not None


def test_the_state_keeps_one_entry_per_pattern_whoever_gave_the_ratings() -> None:
    state = KRIPPENDORFF.step(
        KRIPPENDORFF.zero(), [("A", "B", None), ("B", None, "A"), ("A", "A", "B")]
    )
    assert state.patterns == {(("A", 1), ("B", 1)): 2, (("A", 2), ("B", 1)): 1}


def test_raters_may_swap_places_within_an_item() -> None:
    items = noisy_items(60)
    assert KRIPPENDORFF.measure([item[::-1] for item in items]) == KRIPPENDORFF.measure(items)


def test_free_text_in_place_of_labels_is_refused_in_step_and_in_merge() -> None:
    texts = [(f"text {i}", "A") for i in range(MAX_LABELS)]
    with pytest.raises(BadInputError, match="at most 256 labels, got 257"):
        KRIPPENDORFF.step(KRIPPENDORFF.zero(), texts)
    left = KRIPPENDORFF.step(KRIPPENDORFF.zero(), texts[:100])
    right = KRIPPENDORFF.step(KRIPPENDORFF.zero(), texts[100:])
    with pytest.raises(BadInputError, match="at most 256 labels, got 257"):
        KRIPPENDORFF.merge(left, right)


def test_too_many_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatemark.checks.agreement.measure.MAX_PATTERNS", 3)
    items = [("A",) * k for k in range(2, 6)]
    assert len(KRIPPENDORFF.step(KRIPPENDORFF.zero(), items[:3]).patterns) == 3
    with pytest.raises(BadInputError, match="at most 3 rating patterns, got 4"):
        KRIPPENDORFF.step(KRIPPENDORFF.zero(), items)
