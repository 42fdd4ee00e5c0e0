"""Get the answers of one arm to every item, and score them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer, ItemKey, make_scored_answer, make_unjudged_answer
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.arms import ArmSource
from gatemark.packs.asked_arms import AskedArm
from gatemark.packs.embeddings import Embedded
from gatemark.packs.graders import Graders
from gatemark.packs.judge_replies import Graded
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.questions import make_asked_rows, make_calls, make_sample
from gatemark.packs.recorded_scores import RecordedScores, add_recorded_scores
from gatemark.packs.sample_lines import write_sample_line
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.scorers.combined import NAME as COMBINED
from gatemark.scorers.judge.grading import NAME as JUDGE_SCORER
from gatemark.scorers.recorded import NAME as RECORDED_SCORER
from gatemark.scorers.scorer import Scorable, Score, ScoreFunction
from gatemark.targets.journal import Journal, Reuse
from gatemark.targets.outcomes import CallOutcome, RunProgress
from gatemark.targets.port import CallError
from gatemark.targets.run_options import RunOptions
from gatemark.targets.runner import run_calls
from gatemark.targets.spending import Spending

OnProgress = Callable[[str, RunProgress], None]


class _Asking(NamedTuple):
    """How one arm is asked, in any suite."""

    source: ArmSource
    journal: Journal | None
    options: RunOptions
    clock: Callable[[], float]
    now: Callable[[], datetime] | None
    on_progress: OnProgress | None
    spent: Spending


class _AskedSuite(msgspec.Struct):
    """The outcomes of one suite's items, and the scores as they arrive."""

    rows: Mapping[str, Row]
    score: ScoreFunction
    scorer: str
    recorded: Mapping[ItemKey, RecordedScores]
    outcomes: tuple[CallOutcome, ...] = ()
    found: dict[ItemKey, Score] = {}
    unasked: dict[ItemKey, CallError] = {}
    """Answers whose judge or embedding model could not be called, and why."""

    @property
    def items(self) -> dict[ItemKey, Scorable]:
        """The answered items, for a judge or an embedding model."""
        return {
            outcome.key: _make_scorable(self.rows[outcome.id], outcome.reply.output)
            for outcome in self.outcomes
            if outcome.reply is not None
        }

    def passes(self, outcome: CallOutcome) -> bool:
        """Score a reply as it arrives and store the score; return whether it is a full score."""
        if outcome.reply is None:
            return False
        item = _make_scorable(self.rows[outcome.id], outcome.reply.output)
        scored = self.score(add_recorded_scores(item, self.recorded.get(outcome.key)))
        self.found[outcome.key] = scored
        return scored.value == 1.0

    def score_by_vectors(self, vectors: Embedded) -> None:
        for key, item in self.items.items():
            if (lost := vectors.outage(item)) is not None:
                self.unasked[key] = lost
            else:
                self.found[key] = self.score(vectors.recorded(item))

    def score_by_replies(self, graded: Graded) -> None:
        self.unasked = graded.outages()
        for key, item in self.items.items():
            if key not in self.unasked:
                self.found[key] = self.score(add_replies(item, graded, key))

    def answers(self) -> tuple[Answer, ...]:
        """Return every outcome with its score, or with the reason why there is none."""
        return tuple(map(self._answer, self.outcomes))

    def _answer(self, outcome: CallOutcome) -> Answer:
        row = self.rows[outcome.id]
        if outcome.key in self.unasked:
            return make_unjudged_answer(row, outcome, self.unasked[outcome.key])
        kept = self.recorded.get(outcome.key)
        return make_scored_answer(
            row,
            outcome,
            self.found.get(outcome.key),
            scored_by=None if kept is None else kept.scored_by,
            has_parts=self.scorer == COMBINED,
        )

    def line(self, answer: Answer) -> bytes:
        """Return an answer as it is stored with the result."""
        kept = self.recorded.get((answer.id, answer.epoch))
        row = self.rows[answer.id]
        if kept is None:
            return write_sample_line(row, answer, self.scorer)
        origin = None if kept.origin is None else msgspec.to_builtins(kept.origin)
        return write_sample_line(row, answer, self.scorer, kept.scores, origin)


async def _ask_suite(
    asking: _Asking, opened: OpenPack, suite: SuiteSpec, pinned: Sequence[Row]
) -> _AskedSuite:
    """Ask a target the items of a suite; score the replies unless a judge grades them."""
    score, identity = opened.scorer(suite)
    source, on_progress = asking.source, asking.on_progress
    is_recorded = identity["scorer"] == RECORDED_SCORER
    asked = _AskedSuite(
        rows={row.id: row for row in make_asked_rows(suite.kind, pinned)},
        score=score,
        scorer=identity["scorer"],
        recorded=source.scores_for(suite.id) if is_recorded else {},
    )
    asked.outcomes = await run_calls(
        source.target_for(suite.id),
        # Production's answer is the reference of a replay, so the target must not see it.
        make_calls(suite, pinned),
        asking.options,
        asking.journal,
        clock=asking.clock,
        sleep=asyncio.sleep,
        rng=random.Random(0),  # noqa: S311 - spreads retries, guards nothing
        on_progress=None if on_progress is None else partial(on_progress, suite.id),
        spent=asking.spent,
        passes=None if suite.is_graded else asked.passes,
        now=asking.now,
    )
    return asked


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
    due: Mapping[str, frozenset[str]] | None = None,
    on_progress: OnProgress | None = None,
    reuse: Reuse = "resume",
    now: Callable[[], datetime],
) -> AskedArm:
    """Ask the items of every suite; errors become answers without a score.

    ``due`` names the items of each suite to ask, if not all.
    """
    asking = _Asking(
        source=source,
        journal=journal,
        options=source.spec.options(concurrency=jobs, reuse=reuse),
        clock=clock,
        now=now if source.spec.recorded is None else None,
        on_progress=on_progress,
        spent=Spending(),
    )
    graded: dict[str, Graded] = {}
    embedded: dict[str, Embedded] = {}
    answers: dict[str, tuple[Answer, ...]] = {}
    lines: dict[str, bytes] = {}
    outcomes: list[CallOutcome] = []
    for suite in opened.pack.suites:
        if suite.dataset is None:
            continue
        pinned = opened.snapshots[suite.id].rows[:limit]
        if due is not None:
            pinned = tuple(row for row in pinned if row.id in due[suite.id])
        asked = await _ask_suite(asking, opened, suite, pinned)
        outcomes.extend(asked.outcomes)
        if suite.is_embedded:
            embedded[suite.id] = await graders.embed(suite, arm, asked.items)
            asked.score_by_vectors(embedded[suite.id])
        elif suite.judge is not None:
            graded[suite.id] = await graders.grade(suite, arm, asked.items)
            asked.score_by_replies(graded[suite.id])
        answers[suite.id] = given = asked.answers()
        lines[suite.id] = b"".join(map(asked.line, given))
    for suite in opened.pack.suites:
        if suite.source is not None:
            answers[suite.id] = answers[suite.source]
    paid = [outcome.reply for outcome in outcomes if outcome.reply and outcome.attempts]
    # The cost of a recorded answer was paid when it was recorded.
    costs = [reply.cost if source.spec.recorded is None else None for reply in paid]
    return AskedArm(
        source=source,
        answers=ArmAnswers(answers=answers, lines=lines, graded=graded, embedded=embedded),
        call_count=sum(outcome.attempts for outcome in outcomes),
        cost=_sum_costs(costs, any_reply=any(outcome.reply for outcome in outcomes)),
        answered_at=find_oldest([o.reply.answered_at for o in outcomes if o.reply]),
        reused_count=sum(o.is_earlier for o in outcomes),
        models=tuple(sorted({o.reply.model for o in outcomes if o.reply and o.reply.model})),
    )


def find_oldest(moments: Sequence[datetime | None]) -> datetime | None:
    """Return the oldest time, or None if one is unknown and could be older."""
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def _sum_costs(costs: list[float | None], *, any_reply: bool) -> float | None:
    """Return what was paid now, or None if a call did not say or nothing was answered."""
    if not costs:
        return 0.0 if any_reply else None
    return None if None in costs else float(sum(cost or 0.0 for cost in costs))


def _make_scorable(row: Row, output: object) -> Scorable:
    return Scorable(row.id, row.input, row.target, output, make_sample(row))


def add_replies(item: Scorable, graded: Graded, key: ItemKey) -> Scorable:
    """Return an item with its judge's replies, as the judge's scorer reads them."""
    recorded = {"replies": msgspec.to_builtins(graded.replies[key])}
    return msgspec.structs.replace(item, sample={**item.sample, JUDGE_SCORER: recorded})
