from __future__ import annotations

from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from gatemark.core.errors import InvalidValueError
from gatemark.scorers.judge.qualification import judge_agreement
from gatemark.scorers.scorer import JudgeQualification

JUDGE = "sha256:" + "a" * 64


def labels(*counts: tuple[str | None, str, int]) -> tuple[dict[str, str | None], dict[str, str]]:
    """Labels of (judge, human, count) items."""
    judged: dict[str, str | None] = {}
    human: dict[str, str] = {}
    for said, meant, count in counts:
        for _ in range(count):
            item = f"q{len(human)}"
            judged[item], human[item] = said, meant
    return judged, human


def qualification(*counts: tuple[str | None, str, int], **options: Any) -> JudgeQualification:
    return judge_agreement(*labels(*counts), judge=JUDGE, **options)


GOOD = (("C", "C", 50), ("I", "I", 45), ("C", "I", 2), ("I", "C", 3))


def test_a_judge_that_agrees_with_people_is_licensed() -> None:
    given = qualification(*GOOD)
    assert (given.allowed, given.reason, given.n) == (True, None, 100)
    assert given.covers(JUDGE)
    judged, human = labels(*GOOD)
    assert given.kappa == pytest.approx(cohen_kappa_score(list(judged.values()), [*human.values()]))
    assert given.kappa_low is not None
    assert given.kappa_low < given.kappa


def test_the_lower_bound_decides_and_not_the_point() -> None:
    given = qualification(*GOOD, gate=0.85)
    assert given.kappa is not None
    assert given.kappa > 0.85
    assert not given.allowed
    assert "judge.kappa lower bound must be >= 0.85, got 0." in str(given.reason)


def test_few_items_license_nobody() -> None:
    given = qualification(("C", "C", 25), ("I", "I", 24))
    assert given.kappa == 1.0
    assert str(given.reason) == "judge.items must be >= 50, got 49 labelled by people"


@pytest.mark.parametrize(
    "counts",
    [
        [("C", "C", 100)],
        [("C", "C", 98), ("C", "I", 2)],
        [("C", "C", 96), ("I", "I", 4)],
    ],
)
def test_a_set_of_almost_one_label_licenses_nobody(counts: list[tuple[str, str, int]]) -> None:
    given = qualification(*counts)
    assert not given.allowed
    assert "second_label_uses must be >= 10" in str(given.reason)


def test_a_judge_that_always_says_the_same_is_never_licensed() -> None:
    given = qualification(("C", "C", 180), ("C", "I", 20))
    assert given.ac1 is not None
    assert given.ac1 > 0.8
    assert given.kappa == 0.0
    assert "judge.kappa lower bound" in str(given.reason)


def test_a_missing_grade_is_a_disagreement() -> None:
    whole = qualification(*GOOD)
    holes = qualification(
        ("C", "C", 30), ("I", "I", 45), ("C", "I", 2), ("I", "C", 3), (None, "C", 20)
    )
    assert holes.n == whole.n
    assert holes.kappa is not None
    assert whole.kappa is not None
    assert holes.kappa < whole.kappa
    judged, human = labels(*GOOD)
    left_out = {item: label for item, label in judged.items() if item not in {"q0", "q1"}}
    given = judge_agreement(left_out, human, judge=JUDGE)
    assert given.n == 100
    assert given.kappa is not None
    assert given.kappa < whole.kappa


def test_items_that_no_person_labelled_do_not_count() -> None:
    judged, human = labels(*GOOD)
    more = {**judged, **{f"extra{number}": "C" for number in range(500)}}
    assert judge_agreement(more, human, judge=JUDGE) == qualification(*GOOD)


def test_no_labels_at_all_are_a_reason() -> None:
    given = judge_agreement({}, {}, judge=JUDGE)
    assert (given.n, given.kappa, given.allowed) == (0, None, False)


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        ({"gate": 0.0}, r"gate must be in \(0, 1\], got 0.0"),
        ({"gate": 1.1}, "gate must be in"),
        ({"judge": "my judge"}, "judge must be the digest of its identity"),
    ],
)
def test_senseless_gates_are_refused(options: dict[str, Any], finding: str) -> None:
    judged, human = labels(*GOOD)
    with pytest.raises(InvalidValueError, match=finding):
        judge_agreement(judged, human, **{"judge": JUDGE, **options})


def test_the_mark_of_a_missing_grade_is_not_a_label() -> None:
    with pytest.raises(InvalidValueError, match="not a label that a person may give"):
        qualification(("C", "(no grade)", 60))
