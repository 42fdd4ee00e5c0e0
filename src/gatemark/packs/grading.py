"""Asking a pack's judges: prompts out, replies back, and both kept for later.

A judge is a target like any other, so its calls are limited, retried and journaled alike. What it
replied is evidence: it is kept with the result, and judging again reads it from there.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import msgspec

from gatemark.core.canonical import canonical_bytes, digest, digest_bytes
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.result import Result
from gatemark.ledger.port import BlobStore
from gatemark.packs.pack import JudgeSpec, Pack, ScorerSpec, SuiteSpec
from gatemark.scorers.judge.grading import JudgeOptions
from gatemark.scorers.judge.prompt import JudgeReply
from gatemark.scorers.scorer import Scorable, scorers
from gatemark.targets.identity import target_identity
from gatemark.targets.journal import Journals, Reuse
from gatemark.targets.limits import Spending
from gatemark.targets.port import OUTAGES, Call, CallError, ErrorKind, Reply, Target
from gatemark.targets.runner import CallOutcome, RunProgress, run_calls
from gatemark.targets.spec import TargetSpec, build, parse_spec

JUDGE_SCORER = "judge"
LICENCE = "licence"
UNASKED = "could not be asked: "
"""Begins what is kept of a judge's reply when the judge could not be asked; the kind follows."""

ItemKey = tuple[str, int]
Items = Mapping[ItemKey, Scorable]
Replies = dict[ItemKey, tuple[JudgeReply, ...]]


class Graded(msgspec.Struct, frozen=True):
    """What a judge replied about some items, and the digest of who it was."""

    judge: str
    replies: Replies

    def outages(self) -> dict[ItemKey, CallError]:
        """The items that the judge could not be asked about, and why."""
        found = {}
        for key, replies in self.replies.items():
            errors = [reply.error for reply in replies if reply.error is not None]
            unasked = [error for error in errors if error.startswith(UNASKED)]
            if unasked:
                kind, _, message = unasked[0].removeprefix(UNASKED).partition(": ")
                found[key] = CallError(cast("ErrorKind", kind), message)
        return found

    def lines(self) -> bytes:
        """The replies as they are kept: who replied, then a line per item."""
        told = [
            {"id": name, "epoch": epoch, "replies": msgspec.to_builtins(self.replies[name, epoch])}
            for name, epoch in sorted(self.replies)
        ]
        return b"".join(canonical_bytes(line) + b"\n" for line in ({"judge": self.judge}, *told))


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    judge: str


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    epoch: int
    replies: tuple[JudgeReply, ...]


def read_graded(data: bytes, place: str) -> Graded:
    """Replies that were kept; anything else is an error with its line."""
    replies: Replies = {}
    judge = ""
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            if number == 1:
                judge = msgspec.json.decode(line, type=_Header).judge
                continue
            found = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadInputError(f"{place}:{number}: {error}") from error
        replies[found.id, found.epoch] = found.replies
    return Graded(judge, replies)


def replies_name(suite: str, place: str) -> str:
    """What a judge's replies are called in a result; ``place`` is an arm or the licence."""
    return f"{suite}/{place}.judge"


def judge_options(suite: SuiteSpec) -> JudgeOptions:
    """The rubric, template and votes that a suite asks its judge for."""
    if not isinstance(suite.scorer, ScorerSpec) or suite.scorer.name != JUDGE_SCORER:
        raise UsageError(f"suite {suite.id} asks a judge, so its scorer must be {JUDGE_SCORER!r}")
    options = scorers().get(JUDGE_SCORER).options_from(suite.scorer.options)
    return cast("JudgeOptions", options)


class Graders(Protocol):
    """Whoever can tell what a suite's judge said about some items."""

    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        """The judge's replies about the items of an arm, or about those that people labelled."""

    def spent(self) -> tuple[int, float | None]:
        """Calls made and money spent; None when some call did not tell its cost."""

    async def close(self) -> None:
        """Let go of what was opened."""


class _Judge(NamedTuple):
    """A judge that is asked."""

    spec: TargetSpec
    target: Target
    identity: dict[str, object]
    spent: Spending


class LiveGraders:
    """Judges that are really asked."""

    def __init__(
        self,
        pack: Pack,
        folder: Path,
        *,
        jobs: int,
        journals: Journals | None,
        open_recording: Callable[[Path], tuple[Mapping[tuple[str, int], Reply | CallError], str]],
        on_progress: Callable[[str, RunProgress], None] | None = None,
    ) -> None:
        self._jobs = jobs
        self._journals = journals
        self._on_progress = on_progress
        self._judges: dict[str, _Judge] = {}
        self._outcomes: dict[tuple[str, ItemKey], CallOutcome] = {}
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
            self._judges[name] = _Judge(
                spec, target, target_identity(spec, target, folder), Spending()
            )

    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        options = judge_options(suite)
        asked_judge = self._judges[str(suite.judge)]
        scorer = scorers().get(JUDGE_SCORER)
        judge = digest({"scorer": scorer.identity(options), "target": asked_judge.identity})
        asked = {key: _Votes(options, item, key) for key, item in items.items()}
        calls = [call for votes in asked.values() for call in votes.calls]
        done = await self._run(asked_judge, calls, f"{suite.id} {place}")
        by_call = {outcome.key: outcome for outcome in done}
        replies = {key: votes.replies(by_call) for key, votes in asked.items()}
        return Graded(judge, replies)

    async def _run(self, judge: _Judge, calls: list[Call], name: str) -> tuple[CallOutcome, ...]:
        on_progress, journal = self._on_progress, None
        reuse: Reuse = "resume"
        if self._journals is not None:
            journal = self._journals.open(f"judge-{name.replace(' ', '-')}", judge.identity)
            reuse = self._journals.reuse
        try:
            done = await run_calls(
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
        finally:
            if journal is not None:
                journal.close()
        # A later round tells again of the calls that an earlier one made.
        self._outcomes.update({(name, outcome.key): outcome for outcome in done})
        return done

    def spent(self) -> tuple[int, float | None]:
        done = self._outcomes.values()
        costs = [outcome.reply.cost for outcome in done if outcome.reply and outcome.attempts]
        money = None if None in costs else float(sum(cost or 0.0 for cost in costs))
        return sum(outcome.attempts for outcome in done), money

    async def close(self) -> None:
        for judge in self._judges.values():
            await judge.target.close()


class _Votes:
    """The calls that ask for every vote about one item."""

    def __init__(self, options: JudgeOptions, item: Scorable, key: ItemKey) -> None:
        self._nonces = [nonce_for(options, item, key, vote) for vote in range(options.votes)]
        self.calls: list[Call] = []
        self._prompts: list[str] = []
        self._refused: str | None = None
        try:
            self._prompts = [options.prompt(item, nonce) for nonce in self._nonces]
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


def nonce_for(options: JudgeOptions, item: Scorable, key: ItemKey, vote: int) -> str:
    """The mark of one prompt. It hashes what it marks, so no text can hold its own mark.

    A drawn nonce would serve too, but no two runs over the same answers would be the same.
    """
    material = {
        "prompt": options.prompt_digest,
        "item": list(key),
        "vote": vote,
        "judged": digest_bytes(
            msgspec.json.encode([item.input, item.target, item.output], order="sorted")
        ),
    }
    return digest(material).rpartition(":")[2][:32]


class RecordedGraders:
    """What judges replied when a result was made."""

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

    def spent(self) -> tuple[int, float | None]:
        return 0, 0.0

    async def close(self) -> None:
        """Nothing is open."""


def judge_spec(pack: Pack, suite: SuiteSpec) -> JudgeSpec:
    """The judge that a suite asks."""
    return pack.judges[str(suite.judge)]
