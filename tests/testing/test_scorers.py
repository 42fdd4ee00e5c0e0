from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from gatemark.scorers.scorer import KnownScore, Scorable, Score, Scorer, scored, unscored
from gatemark.testing.scorers import check_scorer


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    word: str = "yes"


class Loose(msgspec.Struct, frozen=True):
    word: str = "yes"


class Thawed(msgspec.Struct, forbid_unknown_fields=True):
    word: str = "yes"


class Growing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    word: str = "yes"

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "word", self.word + "!")


def known(expected: float | None = 1.0, **more: Any) -> tuple[KnownScore, ...]:
    fields = {"title": "a yes", "target": "t", "output": "yes", "expected": expected}
    return (KnownScore(**{**fields, **more}),)


def build(options: Any) -> Any:
    return lambda item: scored(item.output == options.word)


GOOD = Scorer(name="word", summary="One word.", options=Options, build=build, known=known())


def numbering(options: Any) -> Any:
    numbers = count()
    return lambda item: scored(1.0, number=str(next(numbers)))


def changing(options: Any) -> Any:
    def score(item: Scorable) -> Score:
        item.sample["seen"] = True
        return scored(1.0)

    return score


def test_a_sound_scorer_passes_with_its_own_and_with_given_outputs() -> None:
    check_scorer(GOOD)
    check_scorer(GOOD, ["yes", "no", {"deep": [1]}])


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"name": "two words"}, "its name must be an identifier"),
        ({"summary": " "}, "has no summary"),
        ({"known": ()}, "has no known answers"),
        ({"known": known() * 2}, "two known answers have the same title"),
        ({"known": known(0.5)}, "a yes: must be 0.5, got 1.0"),
        ({"known": known(None)}, "a yes: must give a reason and no value, got 1.0"),
        (
            {"build": lambda options: lambda item: unscored("never")},
            "a yes: must be 1.0, got none: never",
        ),
        ({"options": Loose}, "an unknown option must be refused"),
        ({"options": Thawed}, "its options must be frozen"),
        ({"options": Growing, "known": known(output="yes!")}, "options change"),
        ({"build": lambda options: lambda item: 1.0}, "must give a Score, got float"),
        (
            {"build": lambda options: lambda item: scored(1.0, why="x" * 5_000)},
            "detail why must be a text of bounded length",
        ),
        (
            {"build": lambda options: lambda item: Score(1.0, None, {"n": 3})},  # type: ignore[dict-item]
            "detail n must be a text",
        ),
        ({"build": numbering}, "gave two scores for one item"),
        ({"build": changing}, "changed the item it scored"),
    ],
)
def test_a_broken_scorer_is_told_what_it_broke(changes: dict[str, Any], finding: str) -> None:
    with pytest.raises(AssertionError, match=finding):
        check_scorer(msgspec.structs.replace(GOOD, **changes))


def test_a_scorer_that_raises_shows_itself() -> None:
    upper = msgspec.structs.replace(
        GOOD, build=lambda options: lambda item: scored(item.output.upper() == "YES")
    )
    with pytest.raises(AttributeError):
        check_scorer(upper)


def test_two_identities_for_equal_options_are_found() -> None:
    numbers = count()
    drifting = msgspec.structs.replace(GOOD, pins=lambda options: {"at": str(next(numbers))})
    with pytest.raises(AssertionError, match="equal options have two identities"):
        check_scorer(drifting)


def test_a_scorer_that_scores_without_what_it_needs_is_found() -> None:
    class Lax(Scorer, frozen=True):
        def ready(self, options: Any) -> Any:
            return self.build(options)

    lax = Lax(
        name="lax",
        summary="Scores anything.",
        options=Options,
        build=lambda options: lambda item: scored(1.0),
        known=known(),
    )
    with pytest.raises(AssertionError, match=r"an errored sample must give a reason, got 1\.0"):
        check_scorer(lax)
