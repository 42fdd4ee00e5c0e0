"""Blind votes between candidate and baseline: items are ``(item_id, reviewer, choice, first)``.

Votes on one item are not independent, so each item counts once, by majority. A reviewer counts once
per item too: repeated votes that differ count as a tie, and are reported.
"""

from __future__ import annotations

from gatemark.core.fold import KnownAnswer, Measure
from gatemark.core.measurement import Direction, Interval, Measurement, measured, unmeasured
from gatemark.exams.preference.ballot import (
    DEFAULT_ALPHA,
    PreferenceState,
    count_votes,
    merge,
    step,
)
from gatemark.statistics.preference import judge_preference

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
            reason = "no decisive votes" if name in _POSITION else "no pairs to decide by"
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
