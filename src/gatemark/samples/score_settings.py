"""Whether two logs made a score in the same way: scorer, options, threshold, judge, aggregation.

A score under one name that was made with other settings is another score: its change says nothing
about the candidate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gatemark.core.reason import Reason, ReasonKind
from gatemark.samples.records import SampleOrigin

OTHER_SETTING: Final = ReasonKind(
    "other_score_setting",
    "{score} was made with another {setting}: {base} in the base, {cand} in the candidate; "
    "score both with the same settings",
)
SETTINGS_OF_ONE_SIDE: Final = ReasonKind(
    "score_settings_of_one_side",
    "only the {side} says how {score} was made: {settings}",
)
NOT_STATED: Final = "not stated"


def find_other_settings(
    score: str, base: Iterable[SampleOrigin], cand: Iterable[SampleOrigin]
) -> tuple[Reason, ...]:
    """Return one reason for each setting in which two logs of one tool differ.

    A setting that only one of them states differs too: leaving a setting out of a log must not
    make the logs alike. Two tools name their settings differently, so only those that both state
    are compared.
    """
    sides = _collect(score, base), _collect(score, cand)
    same_tool = bool(sides[0][0] & sides[1][0])
    before, after = sides[0][1], sides[1][1]
    if same_tool and bool(before) != bool(after):
        known, side = (before, "base") if before else (after, "candidate")
        listed = ", ".join(f"{name} {' and '.join(sorted(known[name]))}" for name in sorted(known))
        return (SETTINGS_OF_ONE_SIDE(side=side, score=score, settings=listed),)
    names = before.keys() | after.keys() if same_tool else before.keys() & after.keys()
    return tuple(
        OTHER_SETTING(score=score, setting=name, base=_say(before, name), cand=_say(after, name))
        for name in sorted(names)
        if before.get(name) != after.get(name)
    )


def _collect(score: str, origins: Iterable[SampleOrigin]) -> tuple[set[str], dict[str, set[str]]]:
    """Return the tools of one side, and every value of each setting."""
    tools: set[str] = set()
    values: dict[str, set[str]] = {}
    for origin in origins:
        tools.add(origin.tool)
        for name, value in origin.settings_of(score).items():
            values.setdefault(name, set()).add(value)
    return tools, values


def _say(values: dict[str, set[str]], name: str) -> str:
    return " and ".join(sorted(values[name])) if name in values else NOT_STATED
