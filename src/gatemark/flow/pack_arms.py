"""Letting one arm of a pack answer every item, and scoring what it said."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.answers import Answer
from gatemark.core.canonical import canonical_bytes
from gatemark.core.dataset import Row
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.exam import PackSuite
from gatemark.core.pack import SuiteSpec
from gatemark.core.scoring import Scorable, ScoreFunction
from gatemark.flow.pack_data import OpenPack
from gatemark.flow.plugins import scorers, suites
from gatemark.targets.journal import Journal
from gatemark.targets.port import Call, Target
from gatemark.targets.runner import Outcome, Progress, run_calls
from gatemark.targets.spec import TargetSpec

FIRST_EPOCH = 1
UNSCORED = "unscored"

OnProgress = Callable[[str, Progress], None]


class ArmAnswers(msgspec.Struct, frozen=True):
    """What one arm said: answers and sample lines by suite, calls made and money spent."""

    answers: dict[str, tuple[Answer, ...]]
    lines: dict[str, bytes]
    calls: int
    cost: float | None
    models: tuple[str, ...]


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
    scorer = scorers().get(name)
    if "folder" in scorer.places:
        given = {**given, "folder": str(folder)}
    options = scorer.options_from(given)
    return scorer.ready(options), scorer.identity(options)


async def answer_all(
    opened: OpenPack,
    target_for: Callable[[str], Target],
    spec: TargetSpec,
    journal: Journal | None,
    *,
    jobs: int,
    clock: Callable[[], float],
    limit: int | None,
    on_progress: OnProgress | None = None,
) -> ArmAnswers:
    """Every suite's items through its target; errors stay as answers without a score."""
    answers: dict[str, tuple[Answer, ...]] = {}
    lines: dict[str, bytes] = {}
    outcomes: list[Outcome] = []
    for suite in opened.pack.suites:
        if suite.source is not None:
            continue
        rows = opened.snapshots[suite.id].rows[:limit]
        calls = [
            Call(id=row.id, epoch=epoch, input=row.input, sample=sample_of(row))
            for row in rows
            for epoch in range(1, suite.repeats + 1)
        ]
        done = await run_calls(
            target_for(suite.id),
            calls,
            spec.options(concurrency=jobs),
            journal,
            clock=clock,
            sleep=asyncio.sleep,
            rng=random.Random(0),  # noqa: S311 - spreads retries, guards nothing
            on_progress=None if on_progress is None else _named(on_progress, suite.id),
        )
        outcomes.extend(done)
        score, identity = scorer_of(suite, opened.folder)
        by_id = {row.id: row for row in rows}
        told = [_scored(by_id[outcome.id], outcome, score) for outcome in done]
        answers[suite.id] = tuple(told)
        lines[suite.id] = b"".join(
            sample_line(by_id[answer.id], answer, identity["scorer"]) for answer in told
        )
    for suite in opened.pack.suites:
        if suite.source is not None:
            answers[suite.id] = answers[suite.source]
    costs = [outcome.reply.cost for outcome in outcomes if outcome.reply is not None]
    return ArmAnswers(
        answers=answers,
        lines=lines,
        calls=sum(outcome.attempts for outcome in outcomes),
        cost=None if not costs or None in costs else float(sum(cost or 0.0 for cost in costs)),
        models=tuple(sorted({o.reply.model for o in outcomes if o.reply and o.reply.model})),
    )


def _named(on_progress: OnProgress, suite_id: str) -> Callable[[Progress], None]:
    return lambda progress: on_progress(suite_id, progress)


def sample_of(row: Row) -> dict[str, Any]:
    """The row as it was written, for targets and scorers that look beyond its input."""
    sample: dict[str, Any] = {**row.extra, "id": row.id, "input": row.input, "tags": row.tags}
    for name in ("target", "cluster", "confidence"):
        if (value := getattr(row, name)) is not None:
            sample[name] = value
    return sample


def _scored(row: Row, outcome: Outcome, score: ScoreFunction) -> Answer:
    if outcome.reply is None:
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
    found = score(Scorable(row.id, row.input, row.target, reply.output, sample_of(row)))
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


def sample_line(row: Row, answer: Answer, scorer_name: str) -> bytes:
    """An answer as one ``gatemark.sample/1`` line, the same bytes every time."""
    failed = answer.error is not None or answer.score is None
    kind = answer.error or UNSCORED
    return (
        canonical_bytes(
            {
                "schema": "gatemark.sample/1",
                "id": row.id,
                "epoch": answer.epoch,
                "input": row.input,
                "target": row.target,
                "output": answer.output,
                "scores": {} if failed else {scorer_name: answer.score},
                "confidence": answer.confidence,
                "error": {"kind": kind, "message": answer.reason or kind} if failed else None,
                "latency_ms": answer.latency_ms,
                "cluster": row.cluster,
                "tags": row.tags,
            }
        )
        + b"\n"
    )


def read_sample_lines(data: bytes, place: str) -> list[dict[str, Any]]:
    """The samples of a stored file; anything else in it is an error with its line."""
    samples = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            sample = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise BadInputError(f"{place}:{number}: {error}") from error
        if not isinstance(sample, dict) or sample.get("schema") != "gatemark.sample/1":
            raise BadInputError(f"{place}:{number}: is not a gatemark.sample/1 record")
        sample.setdefault("epoch", FIRST_EPOCH)
        samples.append(sample)
    return samples
