"""The conditions that a recording imposes on the verdict: whether it answers what the pack asks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gatemark.packs.conditions import (
    CONTRADICTED,
    OTHER_INPUTS,
    OTHER_TARGETS,
    UNASKED,
    UNRELATED_INPUTS,
)
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.recordings import find_contradiction
from gatemark.packs.similar_texts import is_rendering, is_same_target


def find_other_targets(
    rows: Sequence[Mapping[str, object]], targets: Mapping[str, Sequence[object]]
) -> dict[str, str]:
    """Return the condition that scores of the log were given for other targets than the data's."""
    compared = [r for r in rows if r.get("target") is not None and str(r["id"]) in targets]
    others = [r for r in compared if not is_same_target(r["target"], targets[str(r["id"])])]
    if not others:
        return {}
    return {
        OTHER_TARGETS: (
            f"{len(others)} of {len(compared)} recorded scores were given for another target than "
            f"the data has, such as {others[0]['id']!r}; use the log of these items, or remove "
            "target from the data if the log writes the same targets in another way"
        )
    }


def find_recording_conditions(
    opened: OpenPack, rows: Sequence[Mapping[str, object]]
) -> dict[str, str]:
    """Return the conditions that a recording imposes on the verdict."""
    found: dict[str, str] = {}
    if (why := find_contradiction(rows)) is not None:
        found[CONTRADICTED] = why
    tries: dict[str, int] = {}
    inputs: dict[str, set[str]] = {}
    asked: dict[str, list[object]] = {}
    targets: dict[str, list[object]] = {}
    for suite in opened.pack.suites:
        for row in opened.snapshots[suite.id].rows if suite.dataset is not None else ():
            tries[row.id] = max(tries.get(row.id, 0), suite.repeats)
            asked.setdefault(row.id, []).append(row.input)
            if suite.is_scored_by_log and row.target is not None:
                targets.setdefault(row.id, []).append(row.target)
            if suite.template is None and isinstance(row.input, str):
                inputs.setdefault(row.id, set()).add(row.input.strip())
    more = [row for row in rows if int(str(row["epoch"])) > tries.get(str(row["id"]), math.inf)]
    if more:
        found[UNASKED] = (
            f"the log has {len(more)} answers beyond what the pack asks for, such as epoch "
            f"{more[0]['epoch']} of {more[0]['id']!r}; set epochs in the suite to use them all, or "
            "remove them"
        )
    compared = [row for row in rows if row.get("input") and str(row["id"]) in asked]
    unrelated = [r for r in compared if not is_rendering(r["input"], asked[str(r["id"])])]
    if 2 * len(unrelated) > len(compared):
        found[UNRELATED_INPUTS] = (
            f"{len(unrelated)} of {len(compared)} recorded answers were given to inputs that do "
            f"not contain the data's input, such as {unrelated[0]['id']!r}; use the log of these "
            "items, or remove input from the samples if their ids stand for the same questions"
        )
    found |= find_other_targets(rows, targets)
    others = [row for row in rows if _is_other_input(row, inputs.get(str(row["id"])))]
    if others:
        found[OTHER_INPUTS] = (
            f"{len(others)} of {len(rows)} recorded answers were given to another input than the "
            f"data has, such as {others[0]['id']!r}"
        )
    return found


def _is_other_input(row: Mapping[str, object], asked: set[str] | None) -> bool:
    given = row.get("input")
    return asked is not None and isinstance(given, str) and given.strip() not in asked
