from __future__ import annotations

from typing import Any

import pytest

from gatemark.core.errors import BadInputError
from gatemark.scorers import assertions, combined
from gatemark.scorers.scorer import Scorable


def ready(**options: Any) -> Any:
    return combined.SCORER.ready(combined.SCORER.options_from(options))


@pytest.mark.parametrize("name", ["combined", "assertions", "judge", "python", "nothing"])
def test_some_scorers_cannot_be_parts(name: str) -> None:
    with pytest.raises(BadInputError, match=name):
        ready(scorers=[{"scorer": name}])


def test_options_of_a_part_are_checked_before_any_item() -> None:
    with pytest.raises(BadInputError, match=r"scorer regex: unknown key 'patern'; did you mean"):
        ready(scorers=[{"scorer": "regex", "options": {"patern": "x"}}])


def test_the_detail_tells_the_score_of_each_part() -> None:
    score = ready(scorers=[{"scorer": "exact"}, {"scorer": "token_f1", "weight": 3}])
    found = score(Scorable(id="1", input=None, target="red house roof", output="red house"))
    assert found.value == pytest.approx(0.6)
    assert found.detail["1 exact"] == "0"
    assert found.detail["2 token_f1"].startswith("0.8")


def test_a_part_with_other_options_is_another_scorer() -> None:
    def identity(options: dict[str, Any]) -> dict[str, str]:
        parts = {"scorers": [{"scorer": "exact", "options": options}]}
        return combined.SCORER.identity(combined.SCORER.options_from(parts))

    assert identity({}) == identity({})
    assert identity({}) != identity({"strip": False})


def test_every_scorer_that_an_item_may_name_exists_and_needs_only_the_item() -> None:
    for name in assertions.ALLOWED:
        combined.prepare_part(combined.ScorerPart(name))
