"""Get the answers of one arm to every item, and score them.

An arm is a target that is called, a recording (samples of Gatemark, or the log of any tool that
``import`` reads), or the evidence of an earlier result.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, IncomparableError, UsageError
from gatemark.core.result import AssetRef, Result
from gatemark.evidence.rows import Row, names_schema
from gatemark.evidence.source import Limits, inspect_source, read_blocks, split_sources
from gatemark.packs.answers import (
    Answer,
    ItemKey,
    RecordedScores,
    asked_rows,
    calls_of,
    is_rendering,
    origin_of,
    read_sample_lines,
    sample_line,
    sample_of,
    scored_answer,
    scores_of,
    unjudged_answer,
    with_recorded,
)
from gatemark.packs.embeddings import Embedded
from gatemark.packs.grading import Graded, Graders
from gatemark.packs.pack import Pack, SuiteSpec
from gatemark.packs.pack_file import BUILTIN, OpenPack
from gatemark.packs.policy import (
    CONTRADICTED,
    IN_PROCESS,
    ISOLATED,
    OTHER_INPUTS,
    UNASKED,
    UNRELATED_INPUTS,
    conditions_of,
    other_targets,
)
from gatemark.samples.importer import SAMPLE_SCHEMA, ReadOptions, as_record, import_files, log_file
from gatemark.samples.read_samples import AUTO
from gatemark.samples.records import SampleError
from gatemark.scorers.combined import NAME as COMBINED
from gatemark.scorers.judge.grading import NAME as JUDGE_SCORER
from gatemark.scorers.recorded import NAME as RECORDED_SCORER
from gatemark.scorers.scorer import Scorable, Score, ScoreFunction
from gatemark.targets.journal import Journal, RecordedTarget, Reuse, recording_from_samples
from gatemark.targets.port import CallError, Reply, Target
from gatemark.targets.python_worker import PythonWorkerTarget
from gatemark.targets.runner import CallOutcome, RunProgress, Spending, run_calls
from gatemark.targets.spec import (
    RunOptions,
    TargetSpec,
    build,
    changed_files,
    parse_spec,
    target_identity,
)
from gatemark.workspace import Workspace

ARM_MARK: Final = "#"
MOST_LISTED: Final = 5
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class _RecordedRow(msgspec.Struct, frozen=True):
    """The fields that a recorded sample needs for its answer to be used."""

    id: str
    epoch: int
    scores: dict[str, float | None] | None = None
    error: SampleError | None = None
    latency_ms: float | None = None
    confidence: float | None = None


def recorded_rows(
    path: Path, *, tool: str = AUTO, options: ReadOptions | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Return the samples of a recording and their digest.

    ``log.json#ARM`` names one of several experiments in a log. A log that contradicts its own
    aggregates is read too: its samples say so, and ``contradiction_of`` reports it.
    """
    file, arm = _named_arm(path)
    options = options or ReadOptions()
    arm = options.arm or arm
    asked = tool != AUTO or options.columns
    if asked or file.is_dir() or not _is_own(file):
        return _imported(file, tool, msgspec.structs.replace(options, arm=arm))
    if arm is not None:
        raise BadInputError(f"{file}: is gatemark.sample/1 and has no arm {arm!r}")
    data = _recorded_lines(file)
    rows = read_sample_lines(data, str(file))
    for number, row in enumerate(rows, start=1):
        try:
            msgspec.convert(row, _RecordedRow)
        except msgspec.ValidationError as error:
            raise BadInputError(f"{file}:{number}: {error}") from error
    return rows, digest_bytes(data)


def _is_own(file: Path) -> bool:
    return names_schema(inspect_source(str(file)), Limits(), SAMPLE_SCHEMA)


def _named_arm(path: Path) -> tuple[Path, str | None]:
    if path.exists() or ARM_MARK not in path.name:
        return path, None
    name, _, arm = path.name.rpartition(ARM_MARK)
    return path.with_name(name), arm or None


def _imported(file: Path, tool: str, options: ReadOptions) -> tuple[list[dict[str, Any]], str]:
    try:
        (log,) = import_files([log_file(file)], tool=tool, options=options)
    except BadInputError as error:
        named = f"{file.name}{ARM_MARK}ARM"
        raise BadInputError(
            tuple(problem.replace("--arm", named) for problem in error.problems),
            unlisted_count=error.unlisted_count,
        ) from error
    if log.refused:
        raise BadInputError(
            tuple(f"{one.place}: {one.reason}" for one in log.refused[:MOST_LISTED]),
            unlisted_count=max(0, len(log.refused) - MOST_LISTED),
        )
    rows = [as_record(msgspec.structs.replace(one, origin=log.origin)) for one in log.samples]
    # Two arms of one file are two candidates, so the digest covers what was read.
    return rows, digest_bytes(b"\n".join(map(_ENCODER.encode, rows)))


def contradiction_of(rows: Iterable[Mapping[str, object]]) -> str | None:
    """Return how the log behind some samples contradicts itself, or None."""
    for row in rows:
        origin = origin_of(row)
        if origin is not None and origin.contradictions:
            listed = "; ".join(origin.contradictions[:MOST_LISTED])
            return f"the log of {origin.name} contradicts itself: {listed}"
    return None


def recording_conditions(opened: OpenPack, rows: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Return the conditions that a recording imposes on the verdict."""
    found: dict[str, str] = {}
    if (why := contradiction_of(rows)) is not None:
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
    found |= other_targets(rows, targets)
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


def _recorded_lines(file: Path) -> bytes:
    source = inspect_source(str(file))
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    blocks = []
    for block in read_blocks(shard, Limits()):
        if block.overlong:
            raise BadInputError(f"{file}: has a line that is too long")
        blocks.append(block.data)
    return b"".join(blocks)


RECORDED = TargetSpec(recorded="a stored result")


class ArmSource(msgspec.Struct, frozen=True):
    """One arm: how to open its target for a suite, its limits, and its identity.

    ``reference`` is set if an earlier result already identified the arm.
    """

    target_for: Callable[[str], Target]
    targets: tuple[Target, ...]
    spec: TargetSpec
    identity: Mapping[str, object]
    reference: AssetRef | None = None
    conditions: dict[str, str] = {}
    scores_for: Callable[[str], Mapping[ItemKey, RecordedScores]] = lambda _suite: {}
    """Scores from other tools, by suite; a live target has none."""
    changed_files: Callable[[], tuple[str, ...]] = tuple
    """Identity files that changed since the arm was opened."""

    def packages(self) -> dict[str, str]:
        """Return the versions of the packages that the arm's own processes loaded."""
        workers = [target for target in self.targets if isinstance(target, PythonWorkerTarget)]
        return {name: found for worker in workers for name, found in worker.packages.items()}

    async def close(self) -> None:
        """Close processes, connections and modules."""
        for target in self.targets:
            await target.close()


def open_arm(
    opened: OpenPack,
    arm: str,
    raw: Mapping[str, object],
    *,
    jobs: int,
    private: Sequence[Path],
    other: object = None,
) -> ArmSource:
    """Open an arm of a pack; an isolated one cannot read the data or what is ``private``.

    ``other`` is the arm it is compared with, if the pack does not name it.
    """
    pack, folder = opened.pack, opened.folder
    spec = parse_spec(raw, f"{pack.name}: targets.{arm}")
    scores: dict[ItemKey, RecordedScores] = {}

    conditions: dict[str, str] = {}

    def open_scored(path: Path) -> tuple[dict[tuple[str, int], Reply | CallError], str]:
        rows, name = recorded_rows(path)
        scores.update(scores_of(rows))
        found = recording_conditions(opened, rows)
        conditions.update({condition: f"{arm}: {why}" for condition, why in found.items()})
        return recording_from_samples(rows), name

    target = build(
        spec,
        folder,
        clock=time.monotonic,
        environ=os.environ,
        concurrency=jobs,
        open_recording=open_scored,
        hidden=hidden_paths(pack, folder, private, other),
    )
    identity = target_identity(spec, target, folder)
    return ArmSource(
        target_for=lambda _suite: target,
        targets=(target,),
        spec=spec,
        identity=identity,
        conditions={**conditions, **_conditions(arm, spec, target)},
        scores_for=lambda _suite: scores,
        changed_files=lambda: changed_files(spec, target, folder, identity),
    )


def hidden_paths(
    pack: Pack, folder: Path, private: Sequence[Path], other: object = None
) -> tuple[Path, ...]:
    """Return what an isolated target must not read: data, the files' history, the private."""
    named = [suite.dataset for suite in pack.suites if suite.dataset is not None]
    named += [judge.labels for judge in pack.judges.values()]
    arms = () if pack.targets is None else (pack.targets.candidate, pack.targets.baseline)
    judges = (judge.target for judge in pack.judges.values())
    for target in (*arms, *judges, *(cell.target for cell in pack.cells()), other):
        # A recording of the other arm contains its answers, and often the expected ones.
        recorded = target.get("recorded") if isinstance(target, Mapping) else None
        named += [recorded.partition(ARM_MARK)[0]] if isinstance(recorded, str) else []
    for suite in pack.suites:
        for files in (suite.evidence, suite.baseline_evidence):
            named += files.values() if isinstance(files, dict) else ()
    data = [folder / name for name in named if not name.startswith(BUILTIN)]
    history = [place / ".git" for place in (folder, *folder.parents) if (place / ".git").exists()]
    return (*private, *data, *history)


def _conditions(arm: str, spec: TargetSpec, target: Target) -> dict[str, str]:
    """Return the conditions that follow from how the arm is called."""
    if spec.in_process:
        return {
            IN_PROCESS: f"the {arm} ran inside Gatemark (in_process: true), where it can reach "
            "labels and results; leave in_process out to let it pass"
        }
    if isinstance(target, PythonWorkerTarget) and spec.isolate and not target.is_isolated:
        return {
            ISOLATED: f"the {arm} asked for isolate: true and this system has no Landlock, "
            "so it ran in a process of its own without further limits"
        }
    return {}


def reopen_arm(result: Result, arm: str, workspace: Workspace) -> ArmSource:
    """Return an arm of a stored result that answers from its evidence; raise if it has none."""
    reference = result.candidate if arm == "candidate" else result.baseline
    stored = {blob.name: blob for blob in result.blobs if blob.name.endswith(f".{arm}.jsonl")}
    if not stored or reference is None:
        raise UsageError(f"result {result.id} holds no answers of a {arm}")
    targets, scores = {}, {}
    for name, blob in stored.items():
        rows = read_sample_lines(workspace.blobs.get(blob.digest), name)
        suite_id = name.removesuffix(f".{arm}.jsonl")
        targets[suite_id] = RecordedTarget(recording_from_samples(rows), digest=blob.digest)
        scores[suite_id] = scores_of(rows, sealed=True)

    def target_for(suite: str) -> Target:
        if suite not in targets:
            raise UsageError(f"result {result.id} holds no answers to suite {suite!r}")
        return targets[suite]

    identity = {name: blob.digest for name, blob in stored.items()}
    return ArmSource(
        target_for=target_for,
        targets=tuple(targets.values()),
        spec=RECORDED,
        identity=identity,
        reference=reference,
        conditions=conditions_of(result),
        scores_for=lambda suite: scores.get(suite, {}),
    )


def open_recording(path: Path) -> tuple[dict[tuple[str, int], Reply | CallError], str]:
    """Return the recorded samples of a file or another tool's log; refuse a contradictory log.

    Used for judges: no condition on the verdict follows from their replies, so it is refused.
    """
    rows, name = recorded_rows(path)
    if (why := contradiction_of(rows)) is not None:
        raise IncomparableError(f"{path}: {why}")
    return recording_from_samples(rows), name


OnProgress = Callable[[str, RunProgress], None]


class ArmAnswers(msgspec.Struct, frozen=True):
    """The answers of one arm and the replies of its judges, with calls made and money spent."""

    answers: dict[str, tuple[Answer, ...]]
    lines: dict[str, bytes]
    graded: dict[str, Graded]
    calls: int
    cost: float | None
    models: tuple[str, ...]
    answered_at: datetime | None = None
    """When the oldest answer was given, or None if an answer does not say."""
    reused_count: int = 0
    """Number of replies reused from an earlier run."""
    embedded: dict[str, Embedded] = {}


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
            outcome.key: _scorable(self.rows[outcome.id], outcome.reply.output)
            for outcome in self.outcomes
            if outcome.reply is not None
        }

    def passes(self, outcome: CallOutcome) -> bool:
        """Score a reply as it arrives and store the score; return whether it is a full score."""
        if outcome.reply is None:
            return False
        item = _scorable(self.rows[outcome.id], outcome.reply.output)
        scored = self.score(with_recorded(item, self.recorded.get(outcome.key)))
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
                self.found[key] = self.score(with_replies(item, graded, key))

    def answers(self) -> tuple[Answer, ...]:
        """Return every outcome with its score, or with the reason why there is none."""
        return tuple(map(self._answer, self.outcomes))

    def _answer(self, outcome: CallOutcome) -> Answer:
        row = self.rows[outcome.id]
        if outcome.key in self.unasked:
            return unjudged_answer(row, outcome, self.unasked[outcome.key])
        kept = self.recorded.get(outcome.key)
        return scored_answer(
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
            return sample_line(row, answer, self.scorer)
        origin = None if kept.origin is None else msgspec.to_builtins(kept.origin)
        return sample_line(row, answer, self.scorer, kept.scores, origin)


async def _ask_suite(
    asking: _Asking, opened: OpenPack, suite: SuiteSpec, pinned: Sequence[Row]
) -> _AskedSuite:
    """Ask a target the items of a suite; score the replies unless a judge grades them."""
    score, identity = opened.scorer(suite)
    source, on_progress = asking.source, asking.on_progress
    is_recorded = identity["scorer"] == RECORDED_SCORER
    asked = _AskedSuite(
        rows={row.id: row for row in asked_rows(suite.kind, pinned)},
        score=score,
        scorer=identity["scorer"],
        recorded=source.scores_for(suite.id) if is_recorded else {},
    )
    asked.outcomes = await run_calls(
        source.target_for(suite.id),
        # Production's answer is the reference of a replay, so the target must not see it.
        calls_of(suite, pinned),
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
) -> ArmAnswers:
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
    return ArmAnswers(
        answers=answers,
        lines=lines,
        graded=graded,
        embedded=embedded,
        calls=sum(outcome.attempts for outcome in outcomes),
        cost=_money(costs, any_reply=any(outcome.reply for outcome in outcomes)),
        answered_at=oldest([o.reply.answered_at for o in outcomes if o.reply]),
        reused_count=sum(o.is_earlier for o in outcomes),
        models=tuple(sorted({o.reply.model for o in outcomes if o.reply and o.reply.model})),
    )


def oldest(moments: Sequence[datetime | None]) -> datetime | None:
    """Return the oldest time, or None if one is unknown and could be older."""
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def _money(costs: list[float | None], *, any_reply: bool) -> float | None:
    """Return what was paid now, or None if a call did not say or nothing was answered."""
    if not costs:
        return 0.0 if any_reply else None
    return None if None in costs else float(sum(cost or 0.0 for cost in costs))


def _scorable(row: Row, output: object) -> Scorable:
    return Scorable(row.id, row.input, row.target, output, sample_of(row))


def with_replies(item: Scorable, graded: Graded, key: ItemKey) -> Scorable:
    """Return an item with its judge's replies, as the judge's scorer reads them."""
    recorded = {"replies": msgspec.to_builtins(graded.replies[key])}
    return msgspec.structs.replace(item, sample={**item.sample, JUDGE_SCORER: recorded})
