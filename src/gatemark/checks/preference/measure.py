"""Blind votes between candidate and baseline: items are ``(item_id, reviewer, choice, first)``.

Votes on one item are not independent, so each item counts once, by majority. A reviewer counts once
per item too: repeated votes that differ count as a tie, and are reported. The state has 42 bytes
per vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Direction, Interval, Measurement, measured, unmeasured
from gatemark.core.reason import ReasonKind
from gatemark.evidence.inputs import normalize_id
from gatemark.statistics.multiset import (
    Runs,
    add_rows,
    hash_name,
    merge_runs,
    row_type,
    union_rows,
)
from gatemark.statistics.preference import (
    Choice,
    PositionBias,
    choose_majority,
    judge_preference,
    position_bias,
)

DEFAULT_ALPHA = 0.05
NO_DECISIVE_VOTES: Final = ReasonKind("no_decisive_votes", "no decisive votes")
NO_PAIRS_TO_DECIDE: Final = ReasonKind("no_pairs_to_decide", "no pairs to decide by")
_GIVES = (
    "win_rate",
    "half_tie_win_rate",
    "win_p_value",
    "log_e_value",
    "wins",
    "losses",
    "ties",
    "first_win_rate",
    "position_p_value",
)
_UNITS = {"wins": "count", "losses": "count", "ties": "count", "log_e_value": "nats"}
_POSITION = ("first_win_rate", "position_p_value")
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


class Orders(NamedTuple):
    """Wins of the candidate and decisive items, by the order in which most of their votes saw them.

    Items that were shown as often one way as the other are ``both_ways``.
    """

    candidate_first: tuple[int, int]
    baseline_first: tuple[int, int]
    both_ways: tuple[int, int]


class Ballot(NamedTuple):
    """The counted votes: one choice per item, and what was noticed while counting."""

    wins: int
    losses: int
    ties: int
    votes: int
    repeated_votes: int
    position: PositionBias
    orders: Orders


def step(state: PreferenceState, batch: Batch) -> PreferenceState:
    """Count a batch of votes into the state."""
    rows = [
        (
            *hash_name(normalize_id(item)),
            *hash_name(normalize_id(reviewer)),
            _encode_choice(choice),
            _encode_first(first),
            count,
        )
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
    orders: Counter[tuple[int, Choice]] = Counter()
    repeated = first_wins = positioned = 0
    for _, of_item in groupby(rows.tolist(), key=lambda row: row[:2]):
        choices: list[Choice] = []
        lean = 0
        for _, of_reviewer in groupby(of_item, key=lambda row: row[2:4]):
            cast = list(of_reviewer)
            repeated += sum(row[6] for row in cast) - 1
            codes = {row[4] for row in cast}
            choices.append(_CHOICES[codes.pop()] if len(codes) == 1 else "tie")
            shown = {row[5] for row in cast}
            lean += (0 in shown) - (1 in shown)
            if choices[-1] != "tie" and len(shown) == 1 and _FIRST_UNKNOWN not in shown:
                positioned += 1
                first_wins += _CHOICES[shown.pop()] == choices[-1]
        choice = choose_majority(choices)
        items[choice] += 1
        orders[(lean > 0) - (lean < 0), choice] += 1
    return Ballot(
        wins=items["candidate"],
        losses=items["baseline"],
        ties=items["tie"],
        votes=int(rows["count"].sum()),
        repeated_votes=repeated,
        position=position_bias(first_wins, positioned),
        orders=Orders(*(_count_decided(orders, lean) for lean in (1, -1, 0))),
    )


def _count_decided(orders: Mapping[tuple[int, Choice], int], lean: int) -> tuple[int, int]:
    wins = orders[lean, "candidate"]
    return wins, wins + orders[lean, "baseline"]


def _encode_choice(choice: str) -> int:
    if choice not in _CHOICES:
        raise InvalidValueError(f"choice must be candidate, baseline or tie, got {choice!r}")
    return _CHOICES.index(choice)


def _encode_first(first: str | None) -> int:
    if first is None:
        return _FIRST_UNKNOWN
    if first not in _CHOICES[:2]:
        raise InvalidValueError(f"first must be candidate or baseline, got {first!r}")
    return _CHOICES.index(first)


def finish(state: PreferenceState) -> tuple[Measurement, ...]:
    """Return the measurements at the default alpha."""
    ballot = count_votes(state)
    found = judge_preference(ballot.wins, ballot.losses, ballot.ties, alpha=DEFAULT_ALPHA)
    decisive = ballot.wins + ballot.losses
    pairs = decisive + ballot.ties
    interval = None
    if found.interval is not None:
        interval = Interval(*found.interval, 1 - DEFAULT_ALPHA, "wilson")
    excluded = {"repeated_votes": ballot.repeated_votes} if ballot.repeated_votes else {}
    position = ballot.position
    caveats: tuple[str, ...] = ()
    if position.is_biased:
        caveats = (f"position bias: the answer shown first won {position.first_win_rate:.3f}",)
    values: tuple[tuple[float | None, int, Direction], ...] = (
        (found.win_rate, decisive, "higher_is_better"),
        (found.half_tie_win_rate, pairs, "higher_is_better"),
        (found.p_value, decisive, "lower_is_better"),
        (found.log_e_value if decisive else None, decisive, "higher_is_better"),
        (ballot.wins if pairs else None, pairs, "higher_is_better"),
        (ballot.losses if pairs else None, pairs, "lower_is_better"),
        (ballot.ties if pairs else None, pairs, "neutral"),
        (position.first_win_rate, position.decisive, "neutral"),
        (position.p_value, position.decisive, "neutral"),
    )
    numbers = []
    for name, (value, n, direction) in zip(_GIVES, values, strict=True):
        if value is None:
            reason = NO_DECISIVE_VOTES() if name in _POSITION else NO_PAIRS_TO_DECIDE()
            number = unmeasured(
                name, reason, direction=direction, excluded=excluded, caveats=caveats
            )
        else:
            number = measured(
                name,
                value,
                n=n,
                direction=direction,
                unit=_UNITS.get(name, "ratio"),
                interval=interval if name == "win_rate" else None,
                excluded=excluded,
                caveats=caveats,
            )
        numbers.append(number)
    return tuple(numbers)


MEASURE = Measure(
    name="preference",
    summary="How often blind reviewers preferred the candidate.",
    state=PreferenceState,
    zero=PreferenceState,
    step=step,
    merge=merge,
    finish=finish,
    known=(
        KnownAnswer(
            title="three wins, one loss, one tie by majority",
            batch=[
                ("a", "r1", "candidate", "candidate"),
                ("a", "r2", "candidate", "baseline"),
                ("a", "r3", "baseline", "baseline"),
                ("b", "r1", "candidate", "baseline"),
                ("c", "r1", "candidate", "candidate"),
                ("d", "r1", "baseline", "candidate"),
                ("e", "r1", "candidate", "candidate"),
                ("e", "r2", "baseline", "candidate"),
            ],
            expected={
                "win_rate": 0.75,
                "half_tie_win_rate": 0.7,
                "win_p_value": 5 / 16,
                "log_e_value": -0.22314355131420976,
                "wins": 3.0,
                "losses": 1.0,
                "ties": 1.0,
                "first_win_rate": 0.5,
                "position_p_value": 1.0,
            },
        ),
        KnownAnswer(
            title="only ties decide nothing",
            batch=[("a", "r1", "tie", "candidate")],
            expected={
                "win_rate": None,
                "half_tie_win_rate": 0.5,
                "win_p_value": None,
                "log_e_value": None,
                "wins": 0.0,
                "first_win_rate": None,
            },
        ),
    ),
    gives=_GIVES,
    counted=True,
)
