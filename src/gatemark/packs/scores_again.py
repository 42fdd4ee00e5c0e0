"""Score stored answers again, by the scorers that Gatemark brings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gatemark.evidence.rows import Row
from gatemark.packs.answering import add_replies
from gatemark.packs.answers import Answer, ItemKey
from gatemark.packs.embeddings import Embedded
from gatemark.packs.judge_replies import Graded
from gatemark.packs.questions import make_sample
from gatemark.packs.recorded_scores import RecordedScores, add_recorded_scores
from gatemark.packs.suite_plugins import build_scorer, find_suite_plugin
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.scorers.scorer import Scorable, scorers


def score_again(
    suite: SuiteSpec,
    answers: tuple[Answer, ...],
    rows: Mapping[str, Row],
    graded: Graded | Embedded | None,
    recorded: Mapping[ItemKey, RecordedScores],
) -> tuple[list[str], list[str]]:
    """Return scores that differ when computed again, and what could not be scored again."""
    spec = suite.scorer or find_suite_plugin(suite).scorer
    name = spec.name if isinstance(spec, ScorerSpec) else str(spec)
    if scorers().get(name).places:
        return [], [f"scorer {name} lives in the pack's folder and was not run again"]
    function, identity = build_scorer(suite, Path())
    differences, unknown = [], 0
    for answer in answers:
        if answer.error is not None:
            continue
        row = rows[answer.id]
        item = Scorable(row.id, row.input, row.target, answer.output, make_sample(row))
        if isinstance(graded, Embedded):
            item = graded.recorded(item)
        elif graded is not None:
            item = add_replies(item, graded, (answer.id, answer.epoch))
        found = function(add_recorded_scores(item, recorded.get((answer.id, answer.epoch))))
        if found.value == answer.score:
            continue
        if _has_number(answer.output):
            # Canonical bytes do not distinguish 1.0 from 1, but a scorer may.
            unknown += 1
            continue
        differences.append(
            f"{answer.id!r} has the score {answer.score}, {identity['scorer']} gives {found.value}"
        )
    notes = [f"{unknown} scores rest on how a number was written"] if unknown else []
    return differences, notes


def _has_number(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_number, value.values()))
    if isinstance(value, list):
        return any(map(_has_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)
