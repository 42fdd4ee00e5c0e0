from __future__ import annotations

import asyncio
import math
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError
from gatemark.targets.journal import Journal
from gatemark.targets.outcomes import CallOutcome, RunProgress
from gatemark.targets.port import Call, Reply, TargetError
from gatemark.targets.python_callable import PythonTarget
from gatemark.targets.run_options import RunOptions
from gatemark.targets.runner import run_calls
from gatemark.targets.spending import Budget, Prices, Spending

from .rigs import Answers, Time, questions, run


def _kinds(outcomes: tuple[CallOutcome, ...]) -> list[str]:
    return [o.error.kind if o.error else "ok" for o in outcomes]


def _journal(path: Path) -> Journal:
    return Journal(path, clock=time.monotonic)


@given(st.permutations(range(8)), st.integers(1, 8))
@settings(deadline=None, max_examples=25)
def test_outcomes_are_ordered_by_id_and_epoch_whatever_finishes_first(
    order: list[int], concurrency: int
) -> None:
    async def answer(call: Call) -> int:
        for _ in range(order[call.input]):
            await asyncio.sleep(0)
        return order[call.input]

    calls = [Call(id=f"q{n % 3}", epoch=n // 3, input=n) for n in order]
    outcomes = run(Answers(answer), calls, RunOptions(concurrency=concurrency))
    assert [o.key for o in outcomes] == sorted(call.key for call in calls)
    assert {o.key: o.reply.output for o in outcomes if o.reply} == {
        call.key: order[call.input] for call in calls
    }


def test_no_more_calls_are_in_flight_than_allowed() -> None:
    flying = [0, 0]

    async def answer(_: Call) -> str:
        flying[0] += 1
        flying[1] = max(flying)
        await asyncio.sleep(0.002)
        flying[0] -= 1
        return "ok"

    run(Answers(answer), questions(40), RunOptions(concurrency=7))
    assert flying == [0, 7]


def test_a_thousand_slow_calls_complete_at_concurrency_100(tmp_path: Path) -> None:
    (tmp_path / "slow_app.py").write_text(
        "import time\ndef answer(q):\n    time.sleep(0.05)\n    return q\n"
    )
    target = PythonTarget("slow_app:answer", tmp_path, clock=time.perf_counter)
    with _journal(tmp_path / "j") as journal:
        outcomes = run(target, questions(1000), RunOptions(concurrency=100), journal)
        assert len(journal) == 1000
    assert [o.reply.output for o in outcomes if o.reply] == [c.input for c in questions(1000)]


def test_a_thousand_slow_async_calls_complete_too() -> None:
    async def answer(call: Call) -> Any:
        await asyncio.sleep(0.05)
        return call.input

    outcomes = run(Answers(answer), questions(1000), RunOptions(concurrency=100))
    assert _kinds(outcomes) == ["ok"] * 1000


def test_the_same_call_twice_is_refused() -> None:
    with pytest.raises(BadInputError, match="id 'q0000', epoch 0 is asked for twice"):
        run(Answers(lambda _: 1), [*questions(1), *questions(1)])


def test_no_calls_give_no_outcomes() -> None:
    assert run(Answers(lambda _: 1), []) == ()


@pytest.mark.parametrize("output", [math.nan, math.inf, {"a": [math.nan]}, {1, 2}, 2**60, b"x"])
def test_an_output_that_is_not_finite_json_is_a_bad_reply(output: Any) -> None:
    (outcome,) = run(Answers(lambda _: output), questions(1), RunOptions(retries=3))
    assert outcome.error is not None
    assert outcome.error.kind == "bad_reply"
    assert outcome.attempts == 1


def test_a_bug_in_a_target_is_a_crash_of_one_call() -> None:
    def answer(call: Call) -> str:
        return {"question 0": "ok"}[call.input]

    assert _kinds(run(Answers(answer), questions(2))) == ["ok", "crash"]


def test_a_target_that_cancels_itself_does_not_cancel_the_run() -> None:
    async def answer(call: Call) -> str:
        if call.id == "q0000":
            raise asyncio.CancelledError
        return "ok"

    assert _kinds(run(Answers(answer), questions(2))) == ["cancelled", "ok"]


def test_retries_back_off_with_full_jitter_from_the_seed() -> None:
    def fail(_: Call) -> str:
        raise TargetError("unreachable", "gone", retryable=True)

    time_source = Time()
    options = RunOptions(retries=4, backoff_base_s=1, backoff_max_s=3)
    (outcome,) = run(Answers(fail), questions(1), options, time_source=time_source, seed=9)
    rng = random.Random(9)
    assert time_source.slept == [rng.random() * bound for bound in (1, 2, 3, 3)]
    assert outcome.attempts == 5
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("unreachable", "gone")


def test_an_error_that_is_not_retryable_is_final() -> None:
    def fail(_: Call) -> str:
        raise TargetError("http_status", "401")

    (outcome,) = run(Answers(fail), questions(1), RunOptions(retries=4))
    assert outcome.attempts == 1


def test_a_timeout_is_an_error_of_its_own_and_is_retried() -> None:
    async def hang(_: Call) -> str:
        await asyncio.sleep(60)
        return "late"

    options = RunOptions(timeout_s=0.01, retries=1, backoff_base_s=0)
    (outcome,) = run(Answers(hang), questions(1), options)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.attempts) == ("timeout", 2)


def test_a_timeout_inside_the_target_is_not_mistaken_for_ours() -> None:
    def fail(_: Call) -> str:
        raise TimeoutError("database")

    (outcome,) = run(Answers(fail), questions(1), RunOptions(timeout_s=5))
    assert outcome.error is not None
    assert outcome.error.kind == "crash"
    assert "TimeoutError: database" in outcome.error.message


def test_progress_counts_everything_once(tmp_path: Path) -> None:
    failed: set[str] = set()

    def answer(call: Call) -> str:
        if call.id == "q0002":
            raise TargetError("refused", "never")
        if call.id == "q0001" and call.id not in failed:
            failed.add(call.id)
            raise TargetError("unreachable", "once", retryable=True)
        return "ok"

    told: list[RunProgress] = []
    options = RunOptions(retries=1, backoff_base_s=0)
    with _journal(tmp_path / "j") as journal:
        run(Answers(answer), questions(2), options, journal)
        failed.clear()
        run(Answers(answer), questions(5), options, journal, on_progress=told.append)
    assert told[-1] == RunProgress(total=5, done=5, ok=4, error=1, retry=0, cached=2)
    assert [p.done for p in told] == [1, 2, 3, 4, 5]
    told.clear()
    run(Answers(answer), questions(5), options, on_progress=told.append)
    assert told[-1] == RunProgress(total=5, done=5, ok=4, error=1, retry=1, cached=0)


def test_a_call_budget_turns_the_rest_into_errors() -> None:
    target = Answers(lambda _: "ok")
    outcomes = run(target, questions(10), RunOptions(concurrency=3, budget=Budget(calls=4)))
    assert len(target.seen) == 4
    assert _kinds(outcomes) == ["ok"] * 4 + ["budget"] * 6
    assert outcomes[9].error is not None
    assert outcomes[9].error.message == "the budget of 4 calls is spent"
    assert outcomes[9].attempts == 0


def test_runs_that_share_a_budget_share_what_was_spent() -> None:
    spent, target = Spending(), Answers(lambda _: Reply(output="yes", latency_ms=1.0, cost=0.4))
    limits = RunOptions(budget=Budget(calls=4))
    assert _kinds(run(target, questions(3), limits, spent=spent)) == ["ok"] * 3
    assert _kinds(run(target, questions(3), limits, spent=spent)) == ["ok", "budget", "budget"]
    assert (spent.calls, spent.cost) == (4, pytest.approx(1.6))
    by_cost = RunOptions(budget=Budget(cost=1.6))
    assert _kinds(run(target, questions(2), by_cost, spent=spent)) == ["budget"] * 2


def test_runs_that_share_a_time_budget_share_the_time() -> None:
    spent, watch = Spending(), Time()

    def slow(_: Call) -> str:
        watch.now += 10
        return "yes"

    options = RunOptions(budget=Budget(wall_s=25))
    first = run(Answers(slow), questions(2), options, time_source=watch, spent=spent)
    second = run(Answers(slow), questions(2), options, time_source=watch, spent=spent)
    assert _kinds(first) + _kinds(second) == ["ok", "ok", "ok", "budget"]


def test_progress_counts_what_passed_where_somebody_scores() -> None:
    told: list[RunProgress] = []

    def answer(call: Call) -> str:
        if call.id == "q0003":
            raise TargetError("refused", "no")
        return call.id

    run(
        Answers(answer),
        questions(5),
        on_progress=told.append,
        passes=lambda outcome: outcome.id != "q0001",
    )
    assert told[-1] == RunProgress(total=5, done=5, ok=4, error=1, passed=3)


def test_a_budget_of_nothing_asks_nothing() -> None:
    target = Answers(lambda _: "ok")
    assert _kinds(run(target, questions(2), RunOptions(budget=Budget(calls=0)))) == ["budget"] * 2
    assert target.seen == []


def test_retries_count_against_the_call_budget_and_the_cause_is_kept() -> None:
    def fail(_: Call) -> str:
        raise TargetError("unreachable", "gone", retryable=True)

    options = RunOptions(retries=5, backoff_base_s=0, budget=Budget(calls=3))
    target = Answers(fail)
    outcomes = run(target, questions(2), options)
    assert len(target.seen) == 3
    assert _kinds(outcomes) == ["budget", "budget"]
    assert outcomes[0].error is not None
    assert outcomes[0].error.message.endswith("the last attempt failed: unreachable: gone")


def test_a_cost_budget_stops_before_the_next_call() -> None:
    target = Answers(lambda _: Reply(output="ok", latency_ms=1.0, cost=0.4))
    outcomes = run(target, questions(5), RunOptions(budget=Budget(cost=1.0)))
    assert _kinds(outcomes) == ["ok", "ok", "ok", "budget", "budget"]


def test_a_cost_budget_without_costs_stops_at_once() -> None:
    target = Answers(lambda _: "free?")
    outcomes = run(target, questions(3), RunOptions(budget=Budget(cost=1.0)))
    assert _kinds(outcomes) == ["ok", "budget", "budget"]
    assert outcomes[1].error is not None
    assert "the reply to id 'q0000' has none" in outcomes[1].error.message


def test_prices_make_costs_for_the_budget() -> None:
    options = RunOptions(budget=Budget(cost=1.0), prices=Prices(per_call=0.5))
    outcomes = run(Answers(lambda _: "ok"), questions(4), options)
    assert _kinds(outcomes) == ["ok", "ok", "budget", "budget"]


def test_a_time_budget_is_kept_by_the_clock_it_is_given() -> None:
    time_source = Time()

    def answer(_: Call) -> str:
        time_source.now += 10
        return "ok"

    options = RunOptions(budget=Budget(wall_s=25))
    outcomes = run(Answers(answer), questions(5), options, time_source=time_source)
    assert _kinds(outcomes) == ["ok", "ok", "ok", "budget", "budget"]


def test_a_time_budget_ends_calls_that_hang() -> None:
    async def hang(call: Call) -> str:
        await asyncio.sleep(0 if call.id == "q0000" else 60)
        return "ok"

    options = RunOptions(concurrency=2, budget=Budget(wall_s=0.05))
    outcomes = run(Answers(hang), questions(5), options)
    assert _kinds(outcomes) == ["ok", "budget", "budget", "budget", "budget"]
    assert [o.attempts for o in outcomes] == [1, 1, 1, 0, 0]


def test_resume_repeats_no_finished_call(tmp_path: Path) -> None:
    calls = questions(10)

    def answer(call: Call) -> str:
        if call.id == "q0003":
            raise TargetError("refused", "no")
        return call.input

    with _journal(tmp_path / "j") as journal:
        first = run(Answers(answer), calls[:6], RunOptions(), journal)
    target = Answers(answer)
    with _journal(tmp_path / "j") as journal:
        second = run(target, calls, RunOptions(), journal)
    assert target.seen == [call.key for call in calls[6:]]
    assert [o.cached for o in second] == [True] * 6 + [False] * 4
    assert [(o.reply, o.error) for o in second[:6]] == [(o.reply, o.error) for o in first]


def test_another_target_or_input_is_not_served_from_the_journal(tmp_path: Path) -> None:
    calls = questions(3)
    with _journal(tmp_path / "j") as journal:
        run(Answers(lambda _: "old"), calls, RunOptions(), journal)
        changed = Answers(lambda _: "new", name="changed")
        outcomes = run(changed, calls, RunOptions(), journal)
        assert [o.reply.output for o in outcomes if o.reply] == ["new"] * 3
        edited = [Call(id=call.id, epoch=0, input="edited") for call in calls]
        same = Answers(lambda _: "again")
        run(same, edited, RunOptions(), journal)
        assert len(same.seen) == 3


def test_epochs_are_never_shared_even_by_a_cache(tmp_path: Path) -> None:
    target = Answers(lambda _: "ok")
    calls = [Call(id="q", epoch=epoch, input="same") for epoch in range(3)]
    with _journal(tmp_path / "j") as journal:
        run(target, calls, RunOptions(reuse="cache"), journal)
    assert len(target.seen) == 3


def test_a_cache_serves_another_id_with_the_same_input(tmp_path: Path) -> None:
    with _journal(tmp_path / "j") as journal:
        run(Answers(lambda _: "ok"), [Call(id="a", epoch=0, input="x")], RunOptions(), journal)
        target = Answers(lambda _: "new")
        renamed = [Call(id="b", epoch=0, input="x")]
        (outcome,) = run(target, renamed, RunOptions(reuse="cache"), journal)
        assert (target.seen, outcome.cached) == ([], True)
        (outcome,) = run(target, renamed, RunOptions(reuse="resume"), journal)
        assert (len(target.seen), outcome.cached) == (1, False)


def test_a_resumed_run_remembers_what_it_spent(tmp_path: Path) -> None:
    target = Answers(lambda _: Reply(output="ok", latency_ms=1.0, cost=0.5))
    options = RunOptions(budget=Budget(cost=2.0))
    with _journal(tmp_path / "j") as journal:
        run(target, questions(3), options, journal)
        outcomes = run(target, questions(8), options, journal)
    assert len(target.seen) == 4
    assert _kinds(outcomes) == ["ok"] * 4 + ["budget"] * 4


def test_a_resumed_run_remembers_how_often_it_asked(tmp_path: Path) -> None:
    target = Answers(lambda _: "ok")
    options = RunOptions(budget=Budget(calls=5))
    with _journal(tmp_path / "j") as journal:
        run(target, questions(3), options, journal)
        outcomes = run(target, questions(8), options, journal)
    assert len(target.seen) == 5
    assert _kinds(outcomes) == ["ok"] * 5 + ["budget"] * 3


def test_retry_after_holds_every_caller_not_only_the_one_told() -> None:
    failed: list[str] = []
    slept: list[float] = []
    now = [1000.0]

    def answer(call: Call) -> str:
        if not failed:
            failed.append(call.id)
            raise TargetError("http_status", "429", retryable=True, retry_after_s=5.0)
        return "ok"

    async def whole() -> tuple[CallOutcome, ...]:
        others = asyncio.Event()

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 1:
                await others.wait()
                return
            now[0] += seconds
            others.set()

        return await run_calls(
            Answers(answer),
            questions(2),
            RunOptions(concurrency=2, retries=1, backoff_base_s=0),
            None,
            clock=lambda: now[0],
            sleep=sleep,
            rng=random.Random(1),
        )

    outcomes = asyncio.run(asyncio.wait_for(whole(), timeout=10))
    assert slept == [5.0, 5.0]
    assert [o.attempts for o in outcomes] == [2, 1]


def test_what_a_budget_cut_off_is_not_in_the_journal(tmp_path: Path) -> None:
    with _journal(tmp_path / "j") as journal:
        run(Answers(lambda _: 1), questions(5), RunOptions(budget=Budget(calls=2)), journal)
        assert len(journal) == 2
        outcomes = run(Answers(lambda _: 1), questions(5), RunOptions(), journal)
    assert _kinds(outcomes) == ["ok"] * 5


def test_cancelling_leaves_a_whole_journal_that_resumes(tmp_path: Path) -> None:
    async def answer(call: Call) -> str:
        await asyncio.sleep(0 if call.id < "q0010" else 60)
        return "ok"

    async def whole(journal: Journal) -> None:
        task = asyncio.create_task(
            run_calls(
                Answers(answer),
                questions(20),
                RunOptions(concurrency=4),
                journal,
                clock=time.monotonic,
                sleep=asyncio.sleep,
                rng=random.Random(1),
            )
        )
        while len(journal) < 10:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with _journal(tmp_path / "j") as journal:
        asyncio.run(whole(journal))
    target = Answers(lambda _: "ok")
    with _journal(tmp_path / "j") as journal:
        assert journal.damage.messages("j") == ()
        outcomes = run(target, questions(20), RunOptions(), journal)
    assert len(target.seen) == 10
    assert _kinds(outcomes) == ["ok"] * 20


def test_a_broken_journal_ends_the_run_instead_of_going_on_unrecorded(tmp_path: Path) -> None:
    journal = _journal(tmp_path / "j")
    journal.close()
    target = Answers(lambda _: "ok")
    with pytest.raises(OSError, match="Bad file descriptor"):
        run(target, questions(50), RunOptions(reuse="nothing"), journal)
    assert len(target.seen) == 1


CTRL_C = """
import asyncio, random, sys, time
from pathlib import Path
from gatemark.targets.journal import Journal
from gatemark.targets.run_options import RunOptions
from gatemark.targets.port import Call
from gatemark.targets.python_callable import PythonTarget
from gatemark.targets.runner import run_calls

async def main():
    folder = Path(sys.argv[1])
    target = PythonTarget("slow_one:answer", folder, clock=time.perf_counter, inline=True)
    with Journal(folder / "j", clock=time.monotonic) as journal:
        calls = [Call(id=f"q{i:04d}", epoch=0, input=i) for i in range(5000)]
        await run_calls(target, calls, RunOptions(), journal, clock=time.monotonic,
                        sleep=asyncio.sleep, rng=random.Random(1))

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_ends_a_run_of_plain_functions_at_once(tmp_path: Path) -> None:
    (tmp_path / "slow_one.py").write_text(
        "import time\ndef answer(q):\n    time.sleep(0.005)\n    return q\n"
    )
    process = subprocess.Popen([sys.executable, "-c", CTRL_C, str(tmp_path)])
    journal_path = tmp_path / "j"
    while not journal_path.exists() or journal_path.stat().st_size < 2000:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=15) == 130
    with _journal(journal_path) as journal:
        assert journal.damage.messages("j") == ()
        assert 10 <= len(journal) < 5000


def _remote(**options: Any) -> RunOptions:
    return RunOptions(is_remote=True, retries=2, **options)


@pytest.mark.parametrize("kind", ["unreachable", "unauthorized", "no_reply"])
def test_a_dead_service_is_asked_once_and_no_more(kind: Any) -> None:
    def gone(_: Call) -> None:
        raise TargetError(kind, "nobody there", retryable=kind != "unauthorized")

    target = Answers(gone)
    outcomes = run(target, questions(500), _remote(concurrency=8), time_source=Time())
    assert {(o.error.kind if o.error else "ok") for o in outcomes} == {kind}
    assert len(target.seen) == (1 if kind == "unauthorized" else 3)
    assert outcomes[0].error is not None
    assert outcomes[0].error.message == "nobody there"
    assert outcomes[-1].error is not None
    assert outcomes[-1].error.message == "stopped at the first call: nobody there"


@pytest.mark.parametrize(("kind", "retried"), [("unreachable", 2), ("unavailable", 20)])
def test_a_service_that_dies_on_the_way_is_given_up_after_some_calls(
    kind: Any, retried: int
) -> None:
    def dying(call: Call) -> str:
        if call.id < "q0005":
            return "ok"
        raise TargetError(kind, "gone", retryable=True)

    target = Answers(dying)
    outcomes = run(target, questions(500), _remote(), time_source=Time())
    assert sum(o.reply is not None for o in outcomes) == 5
    assert len(target.seen) == 5 + 10 + retried
    assert outcomes[-1].error is not None
    assert outcomes[-1].error.kind == kind
    assert outcomes[-1].error.message == "stopped after 10 calls in a row: gone"


def test_an_answer_in_between_starts_the_count_again() -> None:
    def flaky(call: Call) -> str:
        if int(call.id[1:]) % 5:
            raise TargetError("unavailable", "busy", retryable=True)
        return "ok"

    options = RunOptions(is_remote=True, stop_after=5)
    outcomes = run(Answers(flaky), questions(50), options, time_source=Time())
    assert sum(o.attempts for o in outcomes) == 50


def test_a_resumed_run_asks_again_what_could_not_be_asked(tmp_path: Path) -> None:
    state = {"up": False}

    def answer(call: Call) -> str:
        if not state["up"] and call.id == "q0002":
            raise TargetError("unavailable", "busy")
        return "ok"

    kinds = []
    for _ in range(2):
        with Journal(tmp_path / "j", clock=time.monotonic) as journal:
            target = Answers(answer)
            outcomes = run(target, questions(4), RunOptions(is_remote=True), journal)
            kinds.append([o.error.kind if o.error else "ok" for o in outcomes])
        state["up"] = True
    assert kinds == [["ok", "ok", "unavailable", "ok"], ["ok"] * 4]
    assert target.seen == [("q0002", 0)]
