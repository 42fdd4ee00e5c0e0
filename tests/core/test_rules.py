from __future__ import annotations

from typing import Any

import pytest
from tests.ledger.samples import result
from tests.ledger.tamper import GONE, reseal

from gatemark.core.errors import ExitCode, IntegrityError, OtherRulesError
from gatemark.core.result import read_result
from gatemark.core.rules import RulesVersions

THIRD = RulesVersions("agreement", current=4, released=frozenset({1, 2, 4}))


def test_the_current_version_is_decided_again() -> None:
    THIRD.check(4)
    THIRD.check(4, is_own_build=True)


@pytest.mark.parametrize("version", [1, 2, 5, 4000])
def test_another_version_is_recorded_and_not_decided_again(version: int) -> None:
    with pytest.raises(
        OtherRulesError, match=f"recorded under agreement rules {version}, not decided again"
    ) as raised:
        THIRD.check(version)
    assert raised.value.exit_code == ExitCode.INCONCLUSIVE


@pytest.mark.parametrize("version", [3, 0, -1, 1.0, "4", None, True])
def test_a_version_that_was_never_released_is_a_forgery(version: object) -> None:
    with pytest.raises(IntegrityError) as raised:
        THIRD.check(version)
    assert raised.value.exit_code == ExitCode.INTEGRITY


@pytest.mark.parametrize("version", [1, 5])
def test_this_build_cannot_have_used_other_rules(version: int) -> None:
    with pytest.raises(IntegrityError, match="not the rules of the build that it names"):
        THIRD.check(version, is_own_build=True)


@pytest.mark.parametrize(
    "rules", [GONE, {}, None, [], 1, {"pack": 0}, {"pack": -1}, {"pack": True}, {"pack": "1"}]
)
def test_a_result_cannot_be_read_without_versions_of_its_rules(rules: Any) -> None:
    made = reseal(result(), rules=rules)
    with pytest.raises(IntegrityError, match="cannot be read"):
        read_result(made.id, made.document)


def test_the_rules_belong_to_what_the_id_names() -> None:
    made = reseal(result(), rules={"pack": 2})
    assert made.id != result().id
    assert read_result(made.id, made.document).rules == {"pack": 2}
