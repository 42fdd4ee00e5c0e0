"""Count blind votes: a foldable state of 42 bytes per vote, and one choice per item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.multiset import (
    Runs,
    add_rows,
    merge_runs,
    row_type,
    text_key,
    union_rows,
)
from gatemark.statistics.preference import Choice, PositionBias, majority, position_bias

DEFAULT_ALPHA = 0.05
_CHOICES: tuple[Choice, ...] = ("candidate", "baseline", "tie")
_FIRST_UNKNOWN = 2
_ROW = row_type(
    ("item_a", "<u8"),
    ("item_b", "<u8"),
    ("reviewer_a", "<u8"),
    ("reviewer_b", "<u8"),
    ("choice", "u1"),
    ("first", "u1"),
)


class PreferenceState(msgspec.Struct, frozen=True):
    """Counted votes."""

    runs: Runs = ()


class Ballot(NamedTuple):
    """The counted votes: one choice per item, and what was noticed while counting."""

    wins: int
    losses: int
    ties: int
    votes: int
    repeated_votes: int
    position: PositionBias


def step(state: PreferenceState, batch: Iterable[Any] | Mapping[Any, int]) -> PreferenceState:
    """Count a batch of votes into the state."""
    rows = [
        (*text_key(item), *text_key(reviewer), _choice_code(choice), _first_code(first), count)
        for (item, reviewer, choice, first), count in Counter(batch).items()
    ]
    return PreferenceState(add_rows(state.runs, rows, _ROW))


def merge(left: PreferenceState, right: PreferenceState) -> PreferenceState:
    """Merge two states."""
    return PreferenceState(merge_runs(left.runs, right.runs, _ROW))


def count_votes(state: PreferenceState) -> Ballot:
    """Reduce votes to one choice per item; the position test uses single votes."""
    rows = union_rows(state.runs, _ROW)
    items: Counter[Choice] = Counter()
    repeated = first_wins = positioned = 0
    for _, of_item in groupby(rows.tolist(), key=lambda row: row[:2]):
        choices: list[Choice] = []
        for _, of_reviewer in groupby(of_item, key=lambda row: row[2:4]):
            cast = list(of_reviewer)
            repeated += sum(row[6] for row in cast) - 1
            choices.append(_one_choice({row[4] for row in cast}))
            shown = {row[5] for row in cast}
            if choices[-1] != "tie" and len(shown) == 1 and _FIRST_UNKNOWN not in shown:
                positioned += 1
                first_wins += _CHOICES[shown.pop()] == choices[-1]
        items[majority(choices)] += 1
    return Ballot(
        wins=items["candidate"],
        losses=items["baseline"],
        ties=items["tie"],
        votes=int(rows["count"].sum()),
        repeated_votes=repeated,
        position=position_bias(first_wins, positioned),
    )


def _one_choice(codes: set[int]) -> Choice:
    return _CHOICES[codes.pop()] if len(codes) == 1 else "tie"


def _choice_code(choice: str) -> int:
    if choice not in _CHOICES:
        raise InvalidValueError(f"choice must be candidate, baseline or tie, got {choice!r}")
    return _CHOICES.index(choice)


def _first_code(first: str | None) -> int:
    if first is None:
        return _FIRST_UNKNOWN
    if first not in _CHOICES[:2]:
        raise InvalidValueError(f"first must be candidate or baseline, got {first!r}")
    return _CHOICES.index(first)
