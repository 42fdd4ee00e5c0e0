"""Judges and embedding models that are called.

A judge is a target like any other, so its calls are limited, retried and journaled the same way.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.packs.answers import ItemKey
from gatemark.packs.embeddings import (
    Embedded,
    keep_vector,
    make_embedding_calls,
    make_embedding_spec,
    parse_embedding_options,
)
from gatemark.packs.graders import Graders, find_judge_task
from gatemark.packs.judge_replies import UNASKED, Graded, Items
from gatemark.packs.pack import Pack
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.scorers.judge.prompt import JudgeReply, JudgeTask
from gatemark.scorers.scorer import Scorable
from gatemark.targets.build import make_target
from gatemark.targets.identity import describe_target, find_changed_files
from gatemark.targets.journal import Reuse
from gatemark.targets.journals import Journals
from gatemark.targets.outcomes import CallOutcome, RunProgress
from gatemark.targets.port import OUTAGES, Call, CallError, Reply, Target
from gatemark.targets.runner import run_calls
from gatemark.targets.spec import TargetSpec, parse_spec
from gatemark.targets.spending import Spending


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
                target = make_target(
                    spec,
                    folder,
                    clock=time.monotonic,
                    environ=os.environ,
                    concurrency=jobs,
                    open_recording=open_recording,
                )
                identity = describe_target(spec, target, folder)
                self._judges[name] = _Judge(spec, target, identity, Spending())
        except GatemarkError:
            asyncio.run(self.close())
            raise

    @property
    def identities(self) -> dict[str, dict[str, object]]:
        """What identifies each judge."""
        return {name: judge.identity for name, judge in self._judges.items()}

    async def grade(self, suite: SuiteSpec, place: str, items: Items) -> Graded:
        task = find_judge_task(suite)
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
        spec = make_embedding_spec(parse_embedding_options(suite))
        target = make_target(spec, Path(), clock=time.monotonic, environ=os.environ)
        identity = describe_target(spec, target, Path())
        asked = _Judge(spec, target, identity, Spending())
        try:
            done = await self._run(
                asked, make_embedding_calls(items.values()), f"{suite.id} {place}"
            )
        finally:
            await target.close()
        self._note(suite, place, done)
        return Embedded(digest(identity), {outcome.id: keep_vector(outcome) for outcome in done})

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
        chosen = [outcome for _, outcome in self._list_calls(places)]
        costs = [outcome.reply.cost for outcome in chosen if outcome.reply and outcome.attempts]
        money = None if None in costs else float(sum(cost or 0.0 for cost in costs))
        return sum(outcome.attempts for outcome in chosen), money

    def reuse(self) -> tuple[Reuse, bool]:
        return self.journals.reuse, self.journals.is_authenticated

    def reused_counts(self, *places: str) -> dict[str, int]:
        return Counter(
            "embedding models" if suite in self._embedded else "judges"
            for suite, outcome in self._list_calls(places)
            if outcome.is_earlier
        )

    def _list_calls(self, places: tuple[str, ...]) -> list[tuple[str, CallOutcome]]:
        """Return the calls made for these places, or for all, each with its suite."""
        return [
            (suite, outcome)
            for place in places or self._outcomes
            for (suite, _), outcome in self._outcomes.get(place, {}).items()
        ]

    def changed_files(self) -> dict[str, tuple[str, ...]]:
        return {
            name: find_changed_files(judge.spec, judge.target, self._folder, judge.identity)
            for name, judge in self._judges.items()
        }

    async def close(self) -> None:
        for judge in self._judges.values():
            await judge.target.close()


class _Votes:
    """The calls for all votes about one item."""

    def __init__(self, task: JudgeTask, item: Scorable, key: ItemKey) -> None:
        self._nonces = [make_nonce(task, item, key, vote) for vote in range(task.vote_count)]
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
            _make_reply(nonce, prompt, outcomes[call.key])
            for nonce, prompt, call in zip(self._nonces, self._prompts, self.calls, strict=True)
        )


def _make_reply(nonce: str, prompt: str, outcome: CallOutcome) -> JudgeReply:
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


def make_nonce(task: JudgeTask, item: Scorable, key: ItemKey, vote: int) -> str:
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
