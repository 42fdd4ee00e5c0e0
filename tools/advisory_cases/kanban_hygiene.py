"""Cards of a task board: which ones are fine, which only look bad, which need somebody."""

from __future__ import annotations

from typing import Any

from advisory_cases.case import Draw, FixtureCase

TITLES = (
    *("Paint the fence", "Label the seed boxes", "Repair the gate", "Plan the open day"),
    *("Sort the donations", "Draw the site map", "Mend the nets", "Count the chairs"),
    *("Renew the signs", "Clean the gutters", "Write the visitor guide", "Test the pump"),
)
HEALTHY = (
    "moving along, next step is known",
    "owner is on it, first half is done",
    "on schedule, review planned for this week",
    "progress as planned, next step this week",
    "owner reports steady progress",
    "half done and on schedule",
)
STALE = (
    "no news for a long time, last comment is old",
    "nobody has commented since last season",
    "quiet for weeks, state is not known to the board",
    "last comment is very old, no progress noted",
    "quiet since last season, nobody has moved it",
    "no comment for weeks, card has not moved",
)
WAITING = (
    "blocked on purpose until the delivery in spring, agreed with everyone",
    "waits by design for the dry season, nothing is wrong",
    "parked as agreed until the delivery arrives",
    "blocked label is part of the plan, waiting was agreed",
    "on hold by design, everyone knows and agreed",
    "parked on purpose, nothing is wrong with it",
)
URGENT = (
    "release depends on this and nobody owns it, other cards are stuck",
    "safety problem reported, no owner, must be assigned today",
    "other cards are stuck behind this one and the date is tomorrow",
    "must be assigned today, the opening depends on it",
    "safety problem blocks the opening and nobody owns it",
    "date is tomorrow, no owner, others are stuck",
)
UNCLEAR = (
    "title and comment speak of different things",
    "maybe done, maybe not, two comments disagree",
    "comment mentions another card, meaning unclear",
    "two comments disagree about what is meant",
    "unclear whether this was split or dropped",
    "different things under one title, maybe dropped",
)


def _card(draw: Draw, column: str, comment: str, *, days: int, owner: bool) -> dict[str, Any]:
    return {
        "title": draw.pick(TITLES),
        "column": column,
        "days_in_column": days,
        "has_owner": owner,
        "comment": comment,
    }


def _healthy(draw: Draw) -> dict[str, Any]:
    column = draw.pick(("doing", "review"))
    return _card(draw, column, draw.phrase(HEALTHY), days=draw.number(1, 6), owner=True)


def _stale(draw: Draw) -> dict[str, Any]:
    column = draw.pick(("doing", "todo"))
    return _card(draw, column, draw.phrase(STALE), days=draw.number(40, 200), owner=True)


def _waiting(draw: Draw) -> dict[str, Any]:
    return _card(draw, "blocked", draw.phrase(WAITING), days=draw.number(20, 90), owner=True)


def _urgent(draw: Draw) -> dict[str, Any]:
    column = draw.pick(("blocked", "todo"))
    return _card(draw, column, draw.phrase(URGENT), days=draw.number(1, 30), owner=False)


def _unclear(draw: Draw) -> dict[str, Any]:
    column = draw.pick(("doing", "blocked", "todo"))
    owner = draw.pick((True, False))
    return _card(draw, column, draw.phrase(UNCLEAR), days=draw.number(5, 50), owner=owner)


CASES = (
    FixtureCase("healthy_card", "normal", "no_action", "none", 13, _healthy),
    FixtureCase("stale_card", "normal", "summarize", "low", 9, _stale),
    FixtureCase("waiting_by_design", "false_alarm", "suppress", "info", 10, _waiting),
    FixtureCase("action_needed_card", "action_needed", "escalate", "high", 11, _urgent),
    FixtureCase("unclear_card", "low_confidence", "needs_human", "low", 5, _unclear),
)
