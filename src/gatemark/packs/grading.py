"""The judges of a pack: call them, store their replies, and decide whether they may gate.

A judge is a target like any other, so its calls are limited, retried and journaled the same way.
Its replies are evidence: they are stored with the result, and judging again reads them. A judge may
gate once it graded answers that people also graded, and agrees with them.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.core.result import Result, Table
from gatemark.evidence.exam import suites
from gatemark.evidence.rows import Snapshot, read_dataset
from gatemark.ledger.port import BlobStore
from gatemark.packs.embeddings import (
    Embedded,
    embedding_calls,
    embedding_options,
    embedding_spec,
    kept_vector,
    read_embedded,
    read_lines,
    vectors_name,
    written_lines,
)
from gatemark.packs.pack import JudgeSpec, Pack, ScorerSpec, SuiteSpec
from gatemark.packs.suites.suite import PREFERRED, ArmsReport, PackSuite
from gatemark.scorers.judge.grading import NAME as JUDGE_SCORER
from gatemark.scorers.judge.grading import JudgeOptions
from gatemark.scorers.judge.prompt import JudgeReply, JudgeTask
from gatemark.scorers.scorer import JudgeQualification, Scorable, scorers
from gatemark.targets.journal import Journals, Reuse
from gatemark.targets.port import OUTAGES, Call, CallError, ErrorKind, Reply, Target
from gatemark.targets.runner import CallOutcome, RunProgress, Spending, run_calls
from gatemark.targets.spec import TargetSpec, build, changed_files, parse_spec, target_identity

LICENCE = "licence"
UNASKED = "could not be asked: "
"""Prefix of a stored reply if the judge could not be called; the kind of error follows."""

ItemKey = tuple[str, int]
Items = Mapping[ItemKey, Scorable]
Replies = dict[ItemKey, tuple[JudgeReply, ...]]


class Graded(msgspec.Struct, frozen=True):
    """A judge's replies about some items, and the digest of its identity."""

    judge: str
    replies: Replies

    def outages(self) -> dict[ItemKey, CallError]:
        """Return the items for which the judge could not be called, and why."""
        found = {}
        for key, replies in self.replies.items():
            errors = [reply.error for reply in replies if reply.error is not None]
            unasked = [error for error in errors if error.startswith(UNASKED)]
            if unasked:
                kind, _, message = unasked[0].removeprefix(UNASKED).partition(": ")
                found[key] = CallError(cast("ErrorKind", kind), message)
        return found

    def lines(self) -> bytes:
        """Return the replies as stored: a header, then a line per item."""
        rows = [
            {"id": name, "epoch": epoch, "replies": msgspec.to_builtins(self.replies[name, epoch])}
            for name, epoch in sorted(self.replies)
        ]
        return written_lines({"judge": self.judge}, *rows)


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    judge: str


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    epoch: int
    replies: tuple[JudgeReply, ...]


def read_graded(data: bytes, place: str) -> Graded:
    """Read stored replies; any other line raises an error with its number."""
    header, lines = read_lines(data, place, _Header, _Line)
    judge = "" if header is None else header.judge
    return Graded(judge, {(line.id, line.epoch): line.replies for line in lines})


def replies_name(suite: str, place: str) -> str:
    """Return the name of a judge's replies in a result; ``place`` is an arm or the licence."""
    return f"{suite}/{place}.judge"


def judge_task(suite: SuiteSpec) -> JudgeTask:
    """Return what a suite asks its judge: by its kind, or by its scorer."""
    plugin = suites().get(suite.kind)
    if isinstance(plugin, PackSuite) and plugin.judge_task is not None:
        return plugin.judge_task(suite)
    if not isinstance(suite.scorer, ScorerSpec) or suite.scorer.name != JUDGE_SCORER:
        raise UsageError(f"suite {suite.id} asks a judge, so its scorer must be {JUDGE_SCORER!r}")
    return cast("JudgeOptions", scorers().get(JUDGE_SCORER).options_from(suite.scorer.options))


class Graders(ABC):
    """Returns the judge's replies about the items of a suite; nothing is asked by default."""

    @abstractmethod
    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        """Return the judge's replies about the items of an arm, or about labelled items."""

    @abstractmethod
    async def embed(self, suite: SuiteSpec, place: str, items: Items) -> Embedded:
        """Return the vectors of the items' texts, for a suite that scores with embeddings."""

    def spent(self, *_places: str) -> tuple[int, float | None]:
        """Calls made and money spent, on these places or on all; None for an unknown cost."""
        return 0, 0.0

    def reuse(self) -> tuple[Reuse, bool]:
        """What may be reused from journals, and whether a key authenticates it."""
        return "nothing", False

    def reused_counts(self, *_places: str) -> dict[str, int]:
        """Return how many replies of judges and embedding models came from an earlier run."""
        return {}

    def changed_files(self) -> dict[str, tuple[str, ...]]:
        """Return the files of each judge that changed since it was opened."""
        return {}

    @abstractmethod
    async def close(self) -> None:
        """Close what was opened."""


class _Judge(NamedTuple):
    spec: TargetSpec
    target: Target
    identity: dict[str, object]
    spent: Spending


class LiveGraders(Graders):
    """Judges that are called.

    They are opened before the arms, because code of an arm could change them.
    """

    def __init__(
        self,
        pack: Pack,
        folder: Path,
        *,
        jobs: int,
        open_recording: Callable[[Path], tuple[Mapping[tuple[str, int], Reply | CallError], str]],
        journals: Journals,
        on_progress: Callable[[str, RunProgress], None] | None = None,
    ) -> None:
        self.journals = journals
        self._folder = folder
        self._jobs = jobs
        self._on_progress = on_progress
        self._judges: dict[str, _Judge] = {}
        self._embedded = {suite.id for suite in pack.suites if suite.is_embedded}
        self._outcomes: dict[str, dict[tuple[str, ItemKey], CallOutcome]] = {}
        try:
            for name, judge in pack.judges.items():
                spec = parse_spec(judge.target, f"{pack.name}: judges.{name}.target")
                target = build(
                    spec,
                    folder,
                    clock=time.monotonic,
                    environ=os.environ,
                    concurrency=jobs,
                    open_recording=open_recording,
                )
                identity = target_identity(spec, target, folder)
                self._judges[name] = _Judge(spec, target, identity, Spending())
        except GatemarkError:
            asyncio.run(self.close())
            raise

    @property
    def identities(self) -> dict[str, dict[str, object]]:
        """What identifies each judge."""
        return {name: judge.identity for name, judge in self._judges.items()}

    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        task = judge_task(suite)
        asked_judge = self._judges[str(suite.judge)]
        judge = digest({"scorer": task.identity(), "target": asked_judge.identity})
        asked = {key: _Votes(task, item, key) for key, item in items.items()}
        calls = [call for votes in asked.values() for call in votes.calls]
        done = await self._run(asked_judge, calls, f"{suite.id} {place}")
        self._note(suite, place, done)
        by_call = {outcome.key: outcome for outcome in done}
        replies = {key: votes.replies(by_call) for key, votes in asked.items()}
        return Graded(judge, replies)

    async def embed(self, suite: SuiteSpec, place: str, items: Items) -> Embedded:
        spec = embedding_spec(embedding_options(suite))
        target = build(spec, Path(), clock=time.monotonic, environ=os.environ)
        identity = target_identity(spec, target, Path())
        asked = _Judge(spec, target, identity, Spending())
        try:
            done = await self._run(asked, embedding_calls(items.values()), f"{suite.id} {place}")
        finally:
            await target.close()
        self._note(suite, place, done)
        return Embedded(digest(identity), {outcome.id: kept_vector(outcome) for outcome in done})

    def _note(self, suite: SuiteSpec, place: str, done: tuple[CallOutcome, ...]) -> None:
        """Record calls; a later round reports calls of an earlier one again."""
        noted = self._outcomes.setdefault(place, {})
        noted.update({(suite.id, outcome.key): outcome for outcome in done})

    async def _run(self, judge: _Judge, calls: list[Call], name: str) -> tuple[CallOutcome, ...]:
        on_progress, journals = self._on_progress, self.journals
        reuse: Reuse = journals.reuse if judge.spec.recorded is None else "nothing"
        with journals.open(f"judge-{name}", judge.identity) as journal:
            return await run_calls(
                judge.target,
                calls,
                judge.spec.options(concurrency=self._jobs, reuse=reuse),
                journal,
                clock=time.monotonic,
                sleep=asyncio.sleep,
                rng=random.Random(0),  # noqa: S311 - spreads retries, guards nothing
                on_progress=None
                if on_progress is None
                else lambda progress: on_progress(f"judge {name}", progress),
                spent=judge.spent,
            )

    def spent(self, *places: str) -> tuple[int, float | None]:
        chosen = [outcome for _, outcome in self._made(places)]
        costs = [outcome.reply.cost for outcome in chosen if outcome.reply and outcome.attempts]
        money = None if None in costs else float(sum(cost or 0.0 for cost in costs))
        return sum(outcome.attempts for outcome in chosen), money

    def reuse(self) -> tuple[Reuse, bool]:
        return self.journals.reuse, self.journals.is_authenticated

    def reused_counts(self, *places: str) -> dict[str, int]:
        return Counter(
            "embedding models" if suite in self._embedded else "judges"
            for suite, outcome in self._made(places)
            if outcome.is_earlier
        )

    def _made(self, places: tuple[str, ...]) -> list[tuple[str, CallOutcome]]:
        """Return the calls made for these places, or for all, each with its suite."""
        return [
            (suite, outcome)
            for place in places or self._outcomes
            for (suite, _), outcome in self._outcomes.get(place, {}).items()
        ]

    def changed_files(self) -> dict[str, tuple[str, ...]]:
        return {
            name: changed_files(judge.spec, judge.target, self._folder, judge.identity)
            for name, judge in self._judges.items()
        }

    async def close(self) -> None:
        for judge in self._judges.values():
            await judge.target.close()


class _Votes:
    """The calls for all votes about one item."""

    def __init__(self, task: JudgeTask, item: Scorable, key: ItemKey) -> None:
        self._nonces = [nonce_for(task, item, key, vote) for vote in range(task.vote_count)]
        self.calls: list[Call] = []
        self._prompts: list[str] = []
        self._refused: str | None = None
        try:
            self._prompts = [
                task.prompt(item, nonce, vote) for vote, nonce in enumerate(self._nonces)
            ]
        except BadInputError as error:
            self._refused = str(error)
            return
        self.calls = [
            Call(id=f"{key[0]}#{key[1]}", epoch=vote, input=prompt)
            for vote, prompt in enumerate(self._prompts, start=1)
        ]

    def replies(self, outcomes: Mapping[tuple[str, int], CallOutcome]) -> tuple[JudgeReply, ...]:
        if self._refused is not None:
            nowhere = digest_bytes(b"")
            return tuple(
                JudgeReply(nonce=nonce, prompt=nowhere, text=None, error=self._refused)
                for nonce in self._nonces
            )
        return tuple(
            _reply(nonce, prompt, outcomes[call.key])
            for nonce, prompt, call in zip(self._nonces, self._prompts, self.calls, strict=True)
        )


def _reply(nonce: str, prompt: str, outcome: CallOutcome) -> JudgeReply:
    sent = digest_bytes(prompt.encode(errors="surrogatepass"))
    if outcome.reply is None:
        error = outcome.error or CallError("missing", "no reply")
        unasked = f"{UNASKED}{error.kind}: " if error.kind in OUTAGES else ""
        why = unasked + error.message
        return JudgeReply(nonce=nonce, prompt=sent, text=None, error=why)
    text = outcome.reply.output
    if not isinstance(text, str):
        return JudgeReply(nonce=nonce, prompt=sent, text=None, error="the reply is not text")
    return JudgeReply(nonce=nonce, prompt=sent, text=text)


def nonce_for(task: JudgeTask, item: Scorable, key: ItemKey, vote: int) -> str:
    """Return the marker of one prompt: a hash of its content, so no text can contain its own.

    A random nonce would work too, but then no two runs over the same answers would be the same.
    """
    material = {
        "prompt": task.prompt_digest,
        "item": list(key),
        "vote": vote,
        "judged": digest_bytes(
            msgspec.json.encode([item.input, item.target, item.output], order="sorted")
        ),
    }
    return digest(material).rpartition(":")[2][:32]


class RecordedGraders(Graders):
    """The replies of judges that are stored with a result."""

    def __init__(self, result: Result, blobs: BlobStore) -> None:
        self._id = result.id
        self._digests = {blob.name: blob.digest for blob in result.blobs}
        self._blobs = blobs

    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        name = replies_name(suite.id, place)
        if name not in self._digests:
            raise UsageError(f"result {self._id} holds no replies of a judge to {suite.id!r}")
        kept = read_graded(self._blobs.get(self._digests[name]), name)
        return Graded(kept.judge, {key: kept.replies.get(key, ()) for key in items})

    async def embed(self, suite: SuiteSpec, place: str, items: Items) -> Embedded:
        name = vectors_name(suite.id, place)
        if name not in self._digests:
            raise UsageError(f"result {self._id} holds no vectors of the answers to {suite.id!r}")
        kept = read_embedded(self._blobs.get(self._digests[name]), name)
        asked = {call.id for call in embedding_calls(items.values())}
        return Embedded(kept.model, {key: kept.vectors[key] for key in asked & set(kept.vectors)})

    async def close(self) -> None:
        """Do nothing: no connection is open."""


def judge_spec(pack: Pack, suite: SuiteSpec) -> JudgeSpec:
    """Return the judge of a suite."""
    return pack.judges[str(suite.judge)]


METRIC = "judge_licence"
ONCE = 1
GATING = frozenset({"score", "baseline_score", "regression", "newly_broken_count", PREFERRED})
"""Numbers that are withheld while a judge is not qualified."""


class LabelledSet(msgspec.Struct, frozen=True):
    """Answers that people graded: what the judge sees, and the people's labels."""

    reference: str
    items: dict[tuple[str, int], Scorable]
    labels: dict[str, str]


class SuiteQualification(msgspec.Struct, frozen=True):
    """A judge's qualification in one suite, with the replies behind it."""

    suite: str
    labels: str
    qualification: JudgeQualification
    graded: Graded


Labels = Callable[[str], Snapshot]
"""Returns what people labelled, by the name of the judge."""


def read_labels(path: Path, name: str, task: JudgeTask) -> LabelledSet:
    """Read the labelled answers of a file."""
    return labelled_set(read_dataset(str(path), name), task)


def labelled_set(snapshot: Snapshot, task: JudgeTask) -> LabelledSet:
    """Return rows as labelled answers: each with an ``output`` and a ``label`` of the task."""
    name = snapshot.name
    items = {
        row.id: Scorable(row.id, row.input, row.target, row.extra.get("output"))
        for row in snapshot.rows
    }
    labels = {row.id: row.extra.get("label") for row in snapshot.rows}
    problems = [
        f"{row.id!r} {problem}"
        for row in snapshot.rows
        if (problem := task.problem(items[row.id]) or _label_problem(labels[row.id], task))
    ]
    if problems:
        raise BadInputError(tuple(f"{name}: item {problem}" for problem in problems[:20]))
    return LabelledSet(
        reference=snapshot.reference,
        items={(row_id, ONCE): item for row_id, item in items.items()},
        labels={row_id: str(label) for row_id, label in labels.items()},
    )


def _label_problem(label: object, task: JudgeTask) -> str | None:
    known = sorted(task.labels)
    return None if label in known else f"has label {label!r}, the rubric has {', '.join(known)}"


async def qualify_judges(
    pack: Pack, graders: Graders, labels: Labels
) -> dict[str, SuiteQualification]:
    """Return the qualification of every suite's judge."""
    found = {}
    for suite in pack.suites:
        if suite.judge is not None:
            found[suite.id] = await _license(judge_spec(pack, suite), suite, graders, labels)
    return found


async def _license(
    judge: JudgeSpec, suite: SuiteSpec, graders: Graders, labels: Labels
) -> SuiteQualification:
    # Needs numpy, which only packs with a judge should load.
    from gatemark.scorers.judge.qualification import judge_agreement  # noqa: PLC0415

    task = judge_task(suite)
    labelled = labelled_set(labels(str(suite.judge)), task)
    graded = await graders.grade(suite, LICENCE, labelled.items)
    qualification = judge_agreement(
        {key[0]: task.label(item, graded.replies[key]) for key, item in labelled.items.items()},
        labelled.labels,
        judge=graded.judge,
        gate=judge.licence_min,
        min_items=judge.min_items,
    )
    return SuiteQualification(suite.id, labelled.reference, qualification, graded)


def qualification_rule(suite: SuiteSpec, judge: JudgeSpec) -> Rule:
    """Return the rule that makes a verdict inconclusive while a judge is not qualified."""
    least = judge.licence_min
    return suite.rule("judge", METRIC, ">=", least, severity="hold", min_n=judge.min_items)


def with_qualification(
    report: ArmsReport, suite: str, found: SuiteQualification, graded: Graded
) -> ArmsReport:
    """Return a judge's report, without numbers if the judge is not qualified.

    A suite over another's answers depends on the other's judge, whose qualification is shown there.
    """
    unasked = found.graded.outages()
    if unasked:
        objection = f"the judge could not be asked about {len(unasked)} labelled answers"
    elif found.qualification.covers(graded.judge):
        objection = None
    elif found.qualification.judge != graded.judge:
        objection = "another judge graded than the one that was compared with people"
    else:
        objection = f"the judge may not gate: {found.qualification.reason}"
    own = suite == found.suite
    numbers = (*report.measurements, *((_measurement(found, objection),) if own else ()))
    return msgspec.structs.replace(
        report,
        score=_held(report.score, objection),
        baseline_score=_held(report.baseline_score, objection),
        measurements=tuple(
            _held(number, objection) if number.name in GATING else number for number in numbers
        ),
        figures=(*report.figures, *((_table(found),) if own else ())),
        delta_error=None if objection else report.delta_error,
    )


def _held(number: Measurement, objection: str | None) -> Measurement:
    if objection is None:
        return number
    return unmeasured(
        number.name, objection, direction=number.direction, n=number.n, lane=number.lane
    )


def _measurement(found: SuiteQualification, objection: str | None) -> Measurement:
    qualification = found.qualification
    lows = [low for low in (qualification.kappa_low, qualification.ac1_low) if low is not None]
    reached = len(lows) == 2 and min(lows) >= qualification.gate
    if len(lows) < 2 or found.graded.outages() or (objection is not None and reached):
        reason = objection or f"no lower bound of the judge's agreement (n={qualification.n})"
        return unmeasured(
            METRIC, reason, direction="higher_is_better", n=qualification.n, lane=found.suite
        )
    return measured(
        METRIC, min(lows), n=qualification.n, direction="higher_is_better", lane=found.suite
    )


def _table(found: SuiteQualification) -> Table:
    qualification = found.qualification
    rows = (
        ("may gate", "yes" if qualification.allowed else f"no: {qualification.reason}"),
        ("answers graded by people", qualification.n),
        ("kappa", _rounded(qualification.kappa)),
        ("kappa, lower bound", _rounded(qualification.kappa_low)),
        ("AC1", _rounded(qualification.ac1)),
        ("AC1, lower bound", _rounded(qualification.ac1_low)),
        ("needed", qualification.gate),
        ("judge", qualification.judge),
        ("labels", found.labels),
    )
    return Table(f"{found.suite}: the judge and people", ("fact", "value"), rows, len(rows))


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
