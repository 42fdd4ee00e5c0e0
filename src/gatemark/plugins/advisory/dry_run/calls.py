"""Ask services: time every call, read the busy counter before and after it, write one record."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from gatemark.plugins.advisory.dry_run.envelope import PROTOCOL, RequestEnvelope
from gatemark.plugins.advisory.dry_run.question import (
    BusyReading,
    CallObservation,
    CallQuestion,
    read_counter,
)
from gatemark.plugins.advisory.dry_run.reply import Advice, NoAdvice, read_health, read_reply
from gatemark.plugins.advisory.dry_run.write_record import make_record
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.targets.outcomes import CallOutcome, RunProgress
from gatemark.targets.port import Call, CallPart, Reply, Target
from gatemark.targets.run_options import RunOptions
from gatemark.targets.runner import run_calls

REASON_OF_ERROR: Final = {
    "timeout": "timeout",
    "crash": "service_crashed",
    "bad_reply": "reply_unreadable",
    "http_status": "http_status",
    "unavailable": "http_status",
    "unauthorized": "http_status",
    "unreachable": "service_unreachable",
    "refused": "service_refused",
}
NOT_READ: Final = BusyReading(None, "counter_not_read")


class ObservedTarget:
    """Calls a service, and measures the time and the busy counter."""

    reads: frozenset[CallPart] = frozenset()

    def __init__(
        self,
        target: Target,
        questions: Mapping[str, CallQuestion],
        *,
        counter: Path,
        alone: bool,
        now: Callable[[], datetime],
    ) -> None:
        self._target = target
        self._questions = questions
        self._counter = counter
        self._alone = alone
        self._now = now
        self.seen: dict[str, tuple[datetime, CallObservation]] = {}

    async def call(self, call: Call) -> Reply:
        question = self._questions[call.id]
        envelope = msgspec.to_builtins(_make_envelope(question))
        at = self._now()
        before = read_counter(self._counter)
        started = time.perf_counter()
        try:
            return await self._target.call(Call(id=call.id, epoch=call.epoch, input=envelope))
        finally:
            total_ms = (time.perf_counter() - started) * 1000
            after = read_counter(self._counter)
            self.seen[call.id] = (at, CallObservation(total_ms, before, after, self._alone))

    async def close(self) -> None:
        await self._target.close()

    def identity(self) -> dict[str, object]:
        return self._target.identity()


def _make_envelope(question: CallQuestion) -> RequestEnvelope:
    """Return the request with the record's id; a fixture's name would reveal the case."""
    return RequestEnvelope(
        protocol=PROTOCOL,
        operation="advise" if question.fixture is not None else "health",
        request_id=question.decision_id,
        input_class=question.input_class,
        mode=question.setting.mode,
        payload=question.payload,
    )


async def ask_service(
    target: Target,
    questions: Sequence[CallQuestion],
    options: RunOptions,
    *,
    counter: Path,
    now: Callable[[], datetime],
    on_progress: Callable[[RunProgress], None] | None = None,
) -> list[AdvisoryDecision]:
    """Ask every question once; return every answer, or the reason for none, in order."""
    by_id = {question.decision_id: question for question in questions}
    observed = ObservedTarget(
        target, by_id, counter=counter, alone=options.concurrency == 1, now=now
    )
    outcomes = await run_calls(
        observed,
        [Call(id=name, epoch=0, input=None) for name in by_id],
        options,
        None,
        clock=time.monotonic,
        sleep=asyncio.sleep,
        rng=random.Random(0),  # noqa: S311 - nothing is asked twice, so nothing is drawn
        on_progress=on_progress,
    )
    outcome_by_id = {outcome.id: outcome for outcome in outcomes}
    unseen = (now(), CallObservation(None, NOT_READ, NOT_READ, alone=False))
    records = []
    for name, question in by_id.items():
        at, seen = observed.seen.get(name, unseen)
        answer = _read_answer(question, outcome_by_id[name])
        records.append(make_record(question, answer, at, seen))
    return records


def _read_answer(question: CallQuestion, outcome: CallOutcome) -> Advice | NoAdvice:
    """Return an answer without unsafe text; an error message may contain the payload."""
    if outcome.reply is None:
        kind = outcome.error.kind if outcome.error is not None else "missing"
        return NoAdvice(REASON_OF_ERROR.get(kind, kind), timeout=kind == "timeout")
    if question.fixture is None:
        return read_health(outcome.reply.output)
    return read_reply(outcome.reply.output, question.payload, question.setting.taxonomy)
