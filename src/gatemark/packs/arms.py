"""Letting one arm of a pack answer every item, and scoring what it said."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.errors import UsageError
from gatemark.evidence.plugins import suites
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.packs.arm_sources import ArmSource
from gatemark.packs.data import OpenPack
from gatemark.packs.grading import JUDGE_SCORER, Graded, Graders, ItemKey
from gatemark.packs.pack import SuiteSpec
from gatemark.packs.sample_lines import sample_line, sample_of
from gatemark.packs.suites.suite import PackSuite
from gatemark.scorers.registry import scorers
from gatemark.scorers.scorer import Scorable, Score, ScoreFunction
from gatemark.targets.journal import Journal, Reuse
from gatemark.targets.limits import Spending
from gatemark.targets.port import Call
from gatemark.targets.runner import CallOutcome, RunProgress, run_calls

OnProgress = Callable[[str, RunProgress], None]


class ArmAnswers(msgspec.Struct, frozen=True):
    """What one arm said, and what judges said of it; calls made and money spent."""

    answers: dict[str, tuple[Answer, ...]]
    lines: dict[str, bytes]
    graded: dict[str, Graded]
    calls: int
    cost: float | None
    models: tuple[str, ...]
    cached_count: int = 0
    """Replies that an earlier run had paid for."""


def suite_plugin(spec: SuiteSpec) -> PackSuite:
    """The plugin behind a suite of a pack."""
    plugin = suites().get(spec.kind)
    if not isinstance(plugin, PackSuite):
        raise UsageError(f"suite {spec.id}: kind {spec.kind!r} does not look at answers")
    return plugin


def scorer_of(spec: SuiteSpec, folder: Path) -> tuple[ScoreFunction, dict[str, str]]:
    """The function that scores a suite's answers, and what identifies it."""
    if isinstance(spec.scorer, str) or spec.scorer is None:
        name, given = spec.scorer or suite_plugin(spec).scorer, {}
    else:
        name, given = spec.scorer.name, dict(spec.scorer.options)
    if name is None:
        raise UsageError(f"suite {spec.id} needs a scorer")
    if (name == JUDGE_SCORER) != (spec.judge is not None):
        raise UsageError(
            f"suite {spec.id}: the scorer {JUDGE_SCORER!r} and a judge of the pack come together, "
            f"as in scorer: {{name: {JUDGE_SCORER}, judge: NAME}}"
        )
    scorer = scorers().get(name)
    if "folder" in scorer.places:
        given = {**given, "folder": str(folder)}
    options = scorer.options_from(given)
    return scorer.ready(options), scorer.identity(options)


def scoring_of(opened: OpenPack) -> dict[str, dict[str, str]]:
    """What identifies the scoring of every suite whose items are answered."""
    answering = [suite for suite in opened.pack.suites if suite.dataset is not None]
    return {suite.id: scorer_of(suite, opened.folder)[1] for suite in answering}


async def answer_all(
    opened: OpenPack,
    source: ArmSource,
    journal: Journal | None,
    graders: Graders,
    *,
    arm: str,
    jobs: int,
    clock: Callable[[], float],
    limit: int | None,
    on_progress: OnProgress | None = None,
    reuse: Reuse = "resume",
) -> ArmAnswers:
    """Every suite's items through its target; errors stay as answers without a score."""
    graded: dict[str, Graded] = {}
    answers: dict[str, tuple[Answer, ...]] = {}
    lines: dict[str, bytes] = {}
    outcomes: list[CallOutcome] = []
    spent = Spending()
    for suite in opened.pack.suites:
        if suite.dataset is None:
            continue
        rows = opened.snapshots[suite.id].rows[:limit]
        by_id = {row.id: row for row in rows}
        score, identity = scorer_of(suite, opened.folder)
        found: dict[ItemKey, Score] = {}
        calls = [
            Call(id=row.id, epoch=epoch, input=row.input, sample=sample_of(row))
            for row in rows
            for epoch in range(1, suite.repeats + 1)
        ]
        done = await run_calls(
            source.target_for(suite.id),
            calls,
            source.spec.options(concurrency=jobs, reuse=reuse),
            journal,
            clock=clock,
            sleep=asyncio.sleep,
            rng=random.Random(0),  # noqa: S311 - spreads retries, guards nothing
            on_progress=None if on_progress is None else _named(on_progress, suite.id),
            spent=spent,
            passes=None if suite.judge is not None else _keeping(found, score, by_id),
        )
        outcomes.extend(done)
        if suite.judge is not None:
            items = {
                outcome.key: _scorable(by_id[outcome.id], outcome.reply.output)
                for outcome in done
                if outcome.reply is not None
            }
            graded[suite.id] = await graders.grade(suite, arm, items)
            for key, item in items.items():
                found[key] = score(with_replies(item, graded[suite.id], key))
        told = [_scored(by_id[outcome.id], outcome, found.get(outcome.key)) for outcome in done]
        answers[suite.id] = tuple(told)
        lines[suite.id] = b"".join(
            sample_line(by_id[answer.id], answer, identity["scorer"]) for answer in told
        )
    for suite in opened.pack.suites:
        if suite.source is not None:
            answers[suite.id] = answers[suite.source]
    paid = [outcome.reply for outcome in outcomes if outcome.reply and outcome.attempts]
    costs = [reply.cost for reply in paid]
    return ArmAnswers(
        answers=answers,
        lines=lines,
        graded=graded,
        calls=sum(outcome.attempts for outcome in outcomes),
        cost=_money(costs, any_reply=any(outcome.reply for outcome in outcomes)),
        cached_count=sum(o.cached for o in outcomes) if reuse == "cache" else 0,
        models=tuple(sorted({o.reply.model for o in outcomes if o.reply and o.reply.model})),
    )


def _money(costs: list[float | None], *, any_reply: bool) -> float | None:
    """What was paid now; None when some call did not tell, or nothing was answered at all."""
    if not costs:
        return 0.0 if any_reply else None
    return None if None in costs else float(sum(cost or 0.0 for cost in costs))


def _keeping(
    found: dict[ItemKey, Score], score: ScoreFunction, rows: Mapping[str, Row]
) -> Callable[[CallOutcome], bool]:
    """Scores each reply as it comes in and keeps the score; tells whether it is a full one."""

    def passes(outcome: CallOutcome) -> bool:
        if outcome.reply is None:
            return False
        found[outcome.key] = score(_scorable(rows[outcome.id], outcome.reply.output))
        return found[outcome.key].value == 1.0

    return passes


def _named(on_progress: OnProgress, suite_id: str) -> Callable[[RunProgress], None]:
    return lambda progress: on_progress(suite_id, progress)


def _scorable(row: Row, output: Any) -> Scorable:
    return Scorable(row.id, row.input, row.target, output, sample_of(row))


def with_replies(item: Scorable, graded: Graded, key: ItemKey) -> Scorable:
    """An item with what its judge replied, as the judge's scorer reads it."""
    recorded = {"replies": msgspec.to_builtins(graded.replies[key])}
    return msgspec.structs.replace(item, sample={**item.sample, JUDGE_SCORER: recorded})


def _scored(row: Row, outcome: CallOutcome, found: Score | None) -> Answer:
    if outcome.reply is None or found is None:
        error = outcome.error
        kind, message = (error.kind, error.message) if error else ("missing", "no reply")
        return Answer(
            id=row.id,
            epoch=outcome.epoch,
            output=None,
            score=None,
            reason=message,
            error=kind,
            cluster=row.cluster,
            tags=row.tags,
        )
    reply = outcome.reply
    return Answer(
        id=row.id,
        epoch=outcome.epoch,
        output=reply.output,
        score=found.value,
        reason=found.reason,
        confidence=reply.confidence if reply.confidence is not None else row.confidence,
        latency_ms=reply.latency_ms,
        cluster=row.cluster,
        tags=row.tags,
    )
