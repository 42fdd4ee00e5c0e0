from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.scorers.scorer import (
    MAX_TEXT_LENGTH,
    JudgeQualification,
    KnownScore,
    Scorable,
    Score,
    Scorer,
    scored,
    text_of,
    truncate,
    unscored,
)

DIGEST = "sha256:" + "0" * 64


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    strict: bool = False
    folder: str = "."


ECHO = Scorer(
    name="echo",
    summary="The output itself.",
    options=Options,
    build=lambda options: lambda item: scored(item.output),
    known=(KnownScore(title="one", target=1, output=1.0, expected=1.0),),
    places=("folder",),
)


@pytest.mark.parametrize(
    ("value", "reason", "finding"),
    [
        (None, None, "a value or a reason, and not both"),
        (1.0, "x", "a value or a reason, and not both"),
        (1.1, None, r"must be in \[0, 1\], got 1.1"),
        (-0.1, None, r"must be in \[0, 1\]"),
        (math.nan, None, r"must be in \[0, 1\], got nan"),
        (None, " ", "empty reason"),
    ],
)
def test_a_score_is_a_value_or_a_reason(
    value: float | None, reason: str | None, finding: str
) -> None:
    with pytest.raises(InvalidValueError, match=finding):
        Score(value=value, reason=reason)


def test_details_are_kept() -> None:
    assert scored(1, why="equal") == Score(1.0, None, {"why": "equal"})
    assert unscored("no target", id="7") == Score(None, "no target", {"id": "7"})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"output": None}, "the sample has no output"),
        ({"target": None}, "scorer echo needs a target, and the sample has none"),
        ({"sample": {"error": {"kind": "timeout"}}}, "the sample ended in an error: timeout"),
        ({"sample": {"error": "boom"}}, "the sample ended in an error: boom"),
    ],
)
def test_what_a_sample_lacks_is_a_reason(changes: dict[str, Any], reason: str) -> None:
    item = msgspec.structs.replace(ECHO.known[0].scorable(), **changes)
    assert ECHO.ready(Options())(item) == unscored(reason)


def test_bad_input_met_while_scoring_is_a_reason() -> None:
    def refuse(item: Scorable) -> Score:
        raise BadInputError("target must be a list")

    scorer = msgspec.structs.replace(ECHO, build=lambda options: refuse)
    item = ECHO.known[0].scorable()
    assert scorer.ready(Options())(item) == unscored("target must be a list")


def test_identity_depends_on_what_and_not_on_where() -> None:
    here = ECHO.identity(Options(folder="/here"))
    assert here == ECHO.identity(Options(folder="/there"))
    assert here != ECHO.identity(Options(strict=True))
    assert here != msgspec.structs.replace(ECHO, version=2).identity(Options())
    pinned = msgspec.structs.replace(ECHO, pins=lambda options: {"source": DIGEST})
    assert pinned.identity(Options())["source"] == DIGEST


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is ", "as it is "),
        (4, "4"),
        (True, "true"),
        ({"b": 1, "a": ["ü"]}, '{"a":["ü"],"b":1}'),
    ],
)
def test_what_is_not_text_is_shown_by_its_json(value: Any, text: str) -> None:
    assert text_of(value, "output") == text


@pytest.mark.parametrize(
    ("value", "finding"),
    [
        (math.nan, "output must be JSON, got nan"),
        ([math.inf], "output must be JSON"),
        (b"x", "output must be JSON: .*bytes"),
        ("x" * (MAX_TEXT_LENGTH + 1), "at most 1000000 characters, got 1000001"),
    ],
)
def test_what_has_no_bounded_text_is_refused(value: Any, finding: str) -> None:
    with pytest.raises(BadInputError, match=finding):
        text_of(value, "output")


def test_a_value_nested_without_end_is_refused() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(BadInputError, match="nested too deeply"):
        text_of(value, "output")
    assert truncate(value) == "a list"


def test_shown_values_are_cut() -> None:
    assert truncate("short") == "short"
    assert truncate("x" * 300) == "x" * 199 + "…"
    assert truncate(10**6_000) == "a int"


def qualification(**changes: Any) -> JudgeQualification:
    fields: dict[str, Any] = {
        "judge": DIGEST,
        "n": 80,
        "kappa": 0.8,
        "kappa_low": 0.7,
        "ac1": 0.85,
        "ac1_low": 0.75,
        "gate": 0.6,
        "allowed": True,
        "reason": None,
    }
    return JudgeQualification(**{**fields, **changes})


def test_a_qualification_covers_its_own_judge_only() -> None:
    assert qualification().covers(DIGEST)
    assert not qualification().covers("sha256:" + "1" * 64)
    assert not qualification(allowed=False, reason="too few").covers(DIGEST)


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "why"},
        {"allowed": False},
        {"kappa_low": 0.59},
        {"ac1_low": None},
    ],
)
def test_a_qualification_cannot_be_written_by_hand_below_its_gate(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="judge qualification"):
        qualification(**changes)
