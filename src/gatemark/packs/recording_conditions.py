"""The conditions that a recording imposes on the verdict: whether it answers what the pack asks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gatemark.packs.answers import ItemKey
from gatemark.packs.conditions import (
    CONTRADICTED,
    DIRECTION,
    OTHER_INPUTS,
    OTHER_TARGETS,
    UNASKED,
    UNRELATED_INPUTS,
)
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.recorded_scores import (
    RecordedScores,
    choose_recorded_score,
    read_recorded_scores,
)
from gatemark.packs.recordings import find_contradiction
from gatemark.packs.similar_texts import is_rendering, is_same_target
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.samples.read_samples import LABEL, VERDICTS
from gatemark.samples.score_direction import DirectionClues, find_direction


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
    found |= _find_unclear_direction(opened.pack.suites, rows)
    others = [row for row in rows if _is_other_input(row, inputs.get(str(row["id"])))]
    if others:
        found[OTHER_INPUTS] = (
            f"{len(others)} of {len(rows)} recorded answers were given to another input than the "
            f"data has, such as {others[0]['id']!r}"
        )
    return found


def _find_unclear_direction(
    suites: Iterable[SuiteSpec], rows: Sequence[Mapping[str, object]]
) -> dict[str, str]:
    """Return the condition that a suite takes a score that may be better when lower."""
    chosen = [suite for suite in suites if suite.is_scored_by_log]
    if not chosen:
        return {}
    scores = read_recorded_scores(rows)
    for suite in chosen:
        spec = suite.scorer
        stated = spec.options.get("direction") if isinstance(spec, ScorerSpec) else None
        name = choose_recorded_score(suite, (n for one in scores.values() for n in one.scores))
        if name is None or stated is not None:
            continue
        remedy = f"state direction: higher or lower in the options of the scorer of {suite.id}"
        direction = find_direction(name, _gather_clues(name, rows, scores))
        unknown = direction.explain_unknown(name, remedy)
        if unknown is not None:
            return {DIRECTION: str(unknown)}
        if direction.is_lower:
            return {DIRECTION: f"{name} is better when lower ({direction.source}); {remedy}"}
    return {}


def _gather_clues(
    name: str,
    rows: Sequence[Mapping[str, object]],
    scores: Mapping[ItemKey, RecordedScores],
) -> DirectionClues:
    clues = DirectionClues()
    clues.ask_tools(name, {one.origin for one in scores.values() if one.origin is not None})
    for row in rows:
        tags = row.get("tags")
        value = scores[str(row["id"]), int(str(row["epoch"]))].scores.get(name)
        label = tags.get(f"{LABEL}{name}") if isinstance(tags, Mapping) else None
        if value is not None:
            clues.add_score(value, VERDICTS.get(label) if isinstance(label, str) else None)
    return clues


def _is_other_input(row: Mapping[str, object], asked: set[str] | None) -> bool:
    given = row.get("input")
    return asked is not None and isinstance(given, str) and given.strip() not in asked
