from __future__ import annotations

import pytest

from gatemark.checks.agreement.measure import AGREEMENT, MAX_LABELS
from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Measurement
from gatemark.statistics.contingency import build_confusion
from gatemark.statistics.proportion import wilson_interval


def pairs(*cells: tuple[str, str, int]) -> list[tuple[str, str]]:
    return [(first, second) for first, second, count in cells for _ in range(count)]


def measurements(*cells: tuple[str, str, int]) -> dict[str, Measurement]:
    return {found.name: found for found in AGREEMENT.measure(pairs(*cells))}


BALANCED = (("A", "A", 20), ("A", "B", 5), ("B", "A", 10), ("B", "B", 15))


def test_each_number_carries_its_size_direction_and_interval() -> None:
    found = measurements(*BALANCED)
    assert {m.n for m in found.values()} == {50}
    assert {m.direction for m in found.values()} == {"higher_is_better"}
    share, kappa, ac1 = found["percent_agreement"], found["kappa"], found["ac1"]
    assert share.interval is not None
    assert (share.interval.low, share.interval.high) == wilson_interval(35, 50)
    assert kappa.interval is not None
    assert kappa.interval.method == "analytic"
    assert [interval.method for interval in kappa.other_intervals] == ["multinomial_bootstrap"]
    assert ac1.interval is not None
    assert ac1.interval.method == "multinomial_bootstrap"
    assert all(m.caveats == () for m in found.values())


@pytest.mark.parametrize(("uses", "is_low"), [(9, True), (10, False)])
def test_low_information_begins_below_ten_uses_of_the_second_label(uses: int, is_low: bool) -> None:
    kappa = measurements(("A", "A", 500), ("B", "A", uses - 6), ("B", "B", 3))["kappa"]
    assert ("low_information" in kappa.caveats) is is_low


def test_one_shared_label_leaves_kappa_with_a_reason_and_its_size() -> None:
    found = measurements(("VALID", "VALID", 50))
    kappa = found["kappa"]
    assert (kappa.value, kappa.n) == (None, 50)
    assert kappa.reason is not None
    assert "chance agreement is 1" in str(kappa.reason)
    assert kappa.caveats == ("low_information",)
    assert found["ac1"].value == 1.0
    assert found["percent_agreement"].value == 1.0


def test_full_agreement_says_that_its_interval_has_no_width() -> None:
    found = measurements(("A", "A", 30), ("B", "B", 30))
    assert found["kappa"].value == 1.0
    assert found["kappa"].caveats == ("zero_width_interval",)
    assert found["ac1"].caveats == ("zero_width_interval",)
    assert found["percent_agreement"].interval is not None
    assert found["percent_agreement"].interval.low < 0.95


def test_undefined_draws_are_told() -> None:
    few = measurements(("A", "A", 17), ("B", "B", 3))["kappa"]
    assert few.other_intervals
    assert any("bootstrap draws were undefined" in caveat for caveat in few.caveats)
    many = measurements(("A", "A", 1), ("B", "B", 1))["kappa"]
    assert many.other_intervals == ()
    assert any(caveat.startswith("no bootstrap interval") for caveat in many.caveats)


def test_the_state_holds_the_confusion_table() -> None:
    state = AGREEMENT.step(AGREEMENT.zero(), pairs(*BALANCED))
    assert state.cells == {"A": {"A": 20, "B": 5}, "B": {"A": 10, "B": 15}}
    labels, counts = build_confusion(state.cells)
    assert labels == ("A", "B")
    assert counts.tolist() == [[20, 5], [10, 15]]


def test_swapping_the_raters_keeps_every_number() -> None:
    swapped = measurements(*((second, first, count) for first, second, count in BALANCED))
    for name, found in measurements(*BALANCED).items():
        assert swapped[name].value == found.value


def test_free_text_in_place_of_labels_is_refused_in_step_and_in_merge() -> None:
    texts = [(f"text {i}", f"text {i}") for i in range(MAX_LABELS + 1)]
    with pytest.raises(BadInputError, match="at most 256 labels, got 257"):
        AGREEMENT.step(AGREEMENT.zero(), texts)
    left = AGREEMENT.step(AGREEMENT.zero(), texts[:200])
    right = AGREEMENT.step(AGREEMENT.zero(), texts[200:])
    with pytest.raises(BadInputError, match="at most 256 labels, got 257"):
        AGREEMENT.merge(left, right)
