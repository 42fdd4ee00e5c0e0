"""The runner: makes every call, a few at a time, and returns an outcome for each.

Nothing is dropped silently: whatever stops a run, each call ends as an outcome with a reply or with
an error. Outcomes are sorted by (id, epoch). The limits of the target set how often it is called,
how long retries wait, and how much it may spend.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError
from gatemark.targets.foreign_code import ForeignCode
from gatemark.targets.journal import Journal
from gatemark.targets.journal_lines import VERSION, JournalEntry, compute_call_key
from gatemark.targets.outcomes import CallOutcome, RunProgress
from gatemark.targets.pacing import Random, RateLimit, Sleep, draw_backoff_s
from gatemark.targets.port import (
    OUTAGES,
    Call,
    CallError,
    Clock,
    ErrorKind,
    Reply,
    Target,
    TargetError,
)
from gatemark.targets.replies import check_reply
from gatemark.targets.run_options import RunOptions
from gatemark.targets.spending import Spending

logger = logging.getLogger(__name__)

# A target that never awaits would otherwise delay Ctrl-C.
_YIELD_EVERY_S = 0.02


async def run_calls(
    target: Target,
    calls: Sequence[Call],
    options: RunOptions,
    journal: Journal | None,
    *,
    clock: Clock,
    sleep: Sleep,
    rng: Random,
    on_progress: Callable[[RunProgress], None] | None = None,
    spent: Spending | None = None,
    passes: Callable[[CallOutcome], bool] | None = None,
    now: Callable[[], datetime] | None = None,
) -> tuple[CallOutcome, ...]:
    """Make every call and return every outcome, sorted by (id, epoch).

    Cancelling the task leaves the journal intact and raises. Calls that exceeded a budget or could
    not be made are not written to the journal. A cost budget can be exceeded by the calls in flight
    when it is reached. On resume, earlier calls and their cost count; so does ``spent`` from runs
    under the same budget, and this run adds to it. ``passes`` is called once for every reply, to
    report progress. ``now`` stamps replies with the time at which they were given; omit it for a
    target that repeats recorded ones.
    """
    run = _Run(
        target=target,
        calls=calls,
        options=options,
        journal=journal,
        clock=clock,
        sleep=sleep,
        rng=rng,
        on_progress=on_progress,
        spent=spent or Spending(),
        passes=passes,
        now=now,
    )
    return await run.finish()


@dataclass
class _Run:
    target: Target
    calls: Sequence[Call]
    options: RunOptions
    journal: Journal | None
    clock: Clock
    sleep: Sleep
    rng: Random
    on_progress: Callable[[RunProgress], None] | None
    spent: Spending
    passes: Callable[[CallOutcome], bool] | None
    now: Callable[[], datetime] | None

    def __post_init__(self) -> None:
        _refuse_repeated_calls(self.calls)
        options, clock = self.options, self.clock
        self._guard = ForeignCode("target")
        self._progress = RunProgress(len(self.calls), passed=None if self.passes is None else 0)
        self._rate = RateLimit(options.rate_per_s, options.burst, clock=clock, sleep=self.sleep)
        self._pins = digest(self.target.identity()) if self.journal is not None else ""
        self._outcomes: dict[tuple[str, int], CallOutcome] = {}
        self._halted: CallError | None = None
        self._started_at = self._yielded_at = clock()
        self._workers: list[asyncio.Task[None]] = []
        self._outages_in_a_row = 0
        self._first_is_over = asyncio.Event()

    async def finish(self) -> tuple[CallOutcome, ...]:
        if not self.calls:
            return ()
        loop = asyncio.get_running_loop()
        waiting = iter(self.calls)
        slots = self.options.concurrency * self.options.ahead
        if not self.options.is_remote:
            self._first_is_over.set()
        for slot in range(min(slots, len(self.calls))):
            self._workers.append(loop.create_task(self._work(waiting, leads=slot == 0)))
        wall_s = self.options.budget.wall_s
        alarm = None
        if wall_s is not None:
            left_s = max(0.0, wall_s - self.spent.wall_s)
            alarm = loop.call_later(left_s, self._halt_on_wall)
        try:
            done, _ = await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            if alarm is not None:
                alarm.cancel()
            await self._wind_up()
            self.spent.wall_s += self.clock() - self._started_at
        for worker in done:
            if not worker.cancelled() and (error := worker.exception()) is not None:
                raise error
        left = self._halted or CallError("cancelled", "the run ended before this call was made")
        for call in self.calls:
            if call.key not in self._outcomes:
                self._settle(call, left, attempts=0)
        made = self._progress
        counts = {"calls": made.total, "ok": made.ok, "errors": made.error, "retries": made.retry}
        logger.info("calls finished", extra={**counts, "cached": made.cached})
        return tuple(self._outcomes[key] for key in sorted(self._outcomes))

    async def _wind_up(self) -> None:
        for worker in self._workers:
            worker.cancel()
        try:
            await asyncio.gather(*self._workers, return_exceptions=True)
        finally:
            if self.journal is not None:
                self.journal.sync()

    async def _work(self, waiting: Iterator[Call], *, leads: bool) -> None:
        """Make calls until none is left. Only the leader makes the first call to a service.

        If that call fails because the service is down, the others would fail too.
        """
        if not leads:
            await self._first_is_over.wait()
        for call in waiting:
            if self._halted is not None:
                break
            key = self._compute_key(call)
            if not self._reuse(call, key):
                await self._ask(call, key)
                self._first_is_over.set()
            if (now := self.clock()) - self._yielded_at >= _YIELD_EVERY_S:
                self._yielded_at = now
                await asyncio.sleep(0)
        self._first_is_over.set()

    def _reuse(self, call: Call, key: str) -> bool:
        if self.journal is None or self.options.reuse == "nothing":
            return False
        entry = self.journal.find(key, call.id, self.options.reuse)
        if entry is None:
            return False
        attempts = 0
        if self.options.reuse == "resume":
            attempts = entry.attempts
            self.spent.calls += attempts
            if entry.reply is not None:
                self.spent.cost += entry.reply.cost or 0.0
        is_earlier = self.journal.is_earlier(key, call.id)
        result = entry.reply or entry.error
        self._settle(call, result, attempts=attempts, cached=True, is_earlier=is_earlier)
        return True

    async def _ask(self, call: Call, key: str) -> None:
        """Make one call with its retries; returns one outcome unless the run is cancelled."""
        attempts = 0
        last: TargetError | None = None
        try:
            while True:
                await self._rate.acquire()
                self._check_budget()
                if self._halted is not None:
                    self._settle(call, _add_last_error(self._halted, last), attempts=attempts)
                    return
                attempts += 1
                self.spent.calls += 1
                try:
                    reply = await self._attempt(call)
                except TargetError as error:
                    last = error
                    wait_s = self._choose_wait(error, attempts)
                    if wait_s is None:
                        logger.info("call failed", extra=_describe_failure(call, error, attempts))
                        if error.kind in OUTAGES:
                            self._note_outage(call, error, attempts)
                        else:
                            self._outages_in_a_row = 0
                            self._record(call, key, error.as_call_error(), attempts)
                        return
                    self._count_progress(retry=1)
                    waits = {"wait_s": round(wait_s, 3)}
                    logger.info(
                        "call retried", extra=_describe_failure(call, error, attempts) | waits
                    )
                    await self.sleep(wait_s)
                else:
                    self._outages_in_a_row = 0
                    self._charge(call, reply)
                    self._record(call, key, reply, attempts)
                    return
        except asyncio.CancelledError:
            if self._halted is None:
                raise
            self._settle(call, _add_last_error(self._halted, last), attempts=attempts)

    async def _attempt(self, call: Call) -> Reply:
        task = asyncio.current_task()
        timeout = asyncio.timeout(self.options.timeout_s)
        try:
            with self._guard:
                if self.options.timeout_s is None:
                    reply = await self.target.call(call)
                else:
                    async with timeout:
                        reply = await self.target.call(call)
        except asyncio.CancelledError:
            if task is not None and task.cancelling():
                raise
            raise TargetError("cancelled", "the target cancelled its own call") from None
        except TargetError as error:
            if self.options.timeout_s is not None and timeout.expired():
                kind: ErrorKind = "no_reply" if self.options.is_remote else "timeout"
                raise TargetError(
                    kind,
                    f"no reply within {self.options.timeout_s:g} s{self.options.timeout_hint}",
                    retryable=True,
                ) from error
            raise
        reply = check_reply(reply, max_bytes=self.options.max_reply_bytes)
        if self.now is not None:
            reply = msgspec.structs.replace(reply, answered_at=self.now())
        prices = self.options.prices
        if reply.cost is None and prices is not None:
            return msgspec.structs.replace(reply, cost=prices.cost_of(reply))
        return reply

    def _choose_wait(self, error: TargetError, attempts: int) -> float | None:
        """Return how long to wait before a retry, or None to give up."""
        retries = self.options.retries
        if self._outages_in_a_row and error.kind in ("unreachable", "no_reply"):
            retries = 0  # the call before this one has waited for it already
        if not error.retryable or attempts > retries:
            return None
        asked_s = error.retry_after_s or 0.0
        if asked_s > self.options.retry_after_max_s:
            return None
        if asked_s:
            self._rate.hold(asked_s)
        jitter_s = draw_backoff_s(
            attempts,
            base_s=self.options.backoff_base_s,
            max_s=self.options.backoff_max_s,
            rng=self.rng,
        )
        return asked_s + jitter_s

    def _note_outage(self, call: Call, error: TargetError, attempts: int) -> None:
        """Finish a call that could not be made; stop if the next ones cannot be made either.

        It is left out of the journal, so that a resumed run makes it again.
        """
        self._settle(call, error.as_call_error(), attempts=attempts)
        self._outages_in_a_row += 1
        is_first = not self._first_is_over.is_set()
        if is_first and error.kind != "unavailable":
            self._halt(error.kind, f"stopped at the first call: {error}")
        elif self._outages_in_a_row >= (self.options.stop_after or math.inf):
            count = self._outages_in_a_row
            self._halt(error.kind, f"stopped after {count} calls in a row: {error}")

    def _check_budget(self) -> None:
        budget = self.options.budget
        if budget.calls is not None and self.spent.calls >= budget.calls:
            self._halt("budget", f"the budget of {budget.calls} calls is spent")
        elif budget.cost is not None and self.spent.cost >= budget.cost:
            self._halt("budget", f"the cost budget of {budget.cost:g} is spent")
        elif budget.wall_s is not None and self._measure_wall_s() >= budget.wall_s:
            self._halt_on_wall(cut=False)

    def _measure_wall_s(self) -> float:
        return self.spent.wall_s + self.clock() - self._started_at

    def _charge(self, call: Call, reply: Reply) -> None:
        if reply.cost is not None:
            self.spent.cost += reply.cost
        elif self.options.budget.cost is not None:
            self._halt(
                "budget",
                f"a cost budget needs costs, and the reply to id {call.id!r} has none",
            )

    def _halt(self, kind: ErrorKind, message: str, *, cut: bool = False) -> None:
        """Start no more calls; with ``cut``, also end those in flight."""
        if self._halted is None:
            self._halted = CallError(kind, message)
            counts = {"calls": self.spent.calls, "done": self._progress.done}
            logger.info("calls halted", extra={"kind": kind, **counts})
        if cut:
            for worker in self._workers:
                worker.cancel()

    def _halt_on_wall(self, *, cut: bool = True) -> None:
        wall_s = self.options.budget.wall_s
        self._halt("budget", f"the time budget of {wall_s:g} s is spent", cut=cut)

    def _compute_key(self, call: Call) -> str:
        return "" if self.journal is None else compute_call_key(self._pins, call, self.target.reads)

    def _record(self, call: Call, key: str, result: Reply | CallError, attempts: int) -> None:
        """Write to the journal first: an outcome that was shown must not be lost."""
        if self.journal is not None:
            self.journal.append(
                JournalEntry(
                    v=VERSION,
                    key=key,
                    id=call.id,
                    epoch=call.epoch,
                    attempts=attempts,
                    reply=result if isinstance(result, Reply) else None,
                    error=result if isinstance(result, CallError) else None,
                )
            )
        self._settle(call, result, attempts=attempts)

    def _settle(
        self,
        call: Call,
        result: Reply | CallError | None,
        *,
        attempts: int,
        cached: bool = False,
        is_earlier: bool = False,
    ) -> None:
        reply = result if isinstance(result, Reply) else None
        error = result if isinstance(result, CallError) else None
        outcome = CallOutcome(call.id, call.epoch, reply, error, attempts, cached, is_earlier)
        self._outcomes[call.key] = outcome
        passed = reply is not None and self.passes is not None and self.passes(outcome)
        self._count_progress(
            ok=int(reply is not None),
            error=int(error is not None),
            cached=int(cached),
            passed=int(passed),
        )

    def _count_progress(
        self, *, ok: int = 0, error: int = 0, retry: int = 0, cached: int = 0, passed: int = 0
    ) -> None:
        before = self._progress
        self._progress = RunProgress(
            total=before.total,
            done=before.done + ok + error,
            ok=before.ok + ok,
            error=before.error + error,
            retry=before.retry + retry,
            cached=before.cached + cached,
            passed=None if before.passed is None else before.passed + passed,
        )
        if self.on_progress is not None:
            self.on_progress(self._progress)


def _refuse_repeated_calls(calls: Sequence[Call]) -> None:
    seen: set[tuple[str, int]] = set()
    for call in calls:
        if call.key in seen:
            raise BadInputError(f"id {call.id!r}, epoch {call.epoch} is asked for twice")
        seen.add(call.key)


def _describe_failure(call: Call, error: TargetError, attempts: int) -> dict[str, object]:
    return {"id": call.id, "kind": error.kind, "attempts": attempts}


def _add_last_error(halt: CallError, last: TargetError | None) -> CallError:
    if last is None:
        return halt
    return CallError(halt.kind, f"{halt.message}; the last attempt failed: {last.kind}: {last}")
