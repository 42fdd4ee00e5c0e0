from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.targets.pacing import RateLimit, draw_backoff_s
from gatemark.targets.port import Reply
from gatemark.targets.run_options import RunOptions
from gatemark.targets.spending import Budget, Prices

from .rigs import Answers, Time, questions, run


@given(
    rate=st.floats(0.5, 50),
    burst=st.integers(1, 5),
    pauses=st.lists(st.floats(0, 3), min_size=5, max_size=40),
)
@settings(deadline=None, max_examples=60)
def test_no_window_holds_more_than_burst_plus_rate(
    rate: float, burst: int, pauses: list[float]
) -> None:
    time_source = Time()

    async def whole() -> list[float]:
        limit = RateLimit(rate, burst, clock=time_source.clock, sleep=time_source.sleep)
        starts: list[float] = []
        for pause in pauses:
            time_source.now += pause
            await limit.acquire()
            starts.append(time_source.now)
        return starts

    starts = asyncio.run(whole())
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            allowed = burst + rate * (starts[last] - starts[first])
            assert last - first + 1 <= allowed + 1e-6


def test_ten_calls_at_four_per_second_start_a_quarter_second_apart() -> None:
    time_source = Time()
    starts: list[float] = []
    target = Answers(lambda _: starts.append(time_source.now - 1000.0) or "ok")
    run(target, questions(10), RunOptions(rate_per_s=4.0), time_source=time_source)
    assert starts == pytest.approx([i * 0.25 for i in range(10)])


def test_a_limit_that_was_idle_does_not_save_up_more_than_its_burst() -> None:
    time_source = Time()

    async def whole() -> list[float]:
        limit = RateLimit(1.0, 2, clock=time_source.clock, sleep=time_source.sleep)
        time_source.now += 100
        starts = []
        for _ in range(4):
            await limit.acquire()
            starts.append(time_source.now - 1100)
        return starts

    assert asyncio.run(whole()) == pytest.approx([0, 0, 1, 2])


@given(st.integers(1, 200), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_backoff_stays_within_its_doubling_bound(failures: int, seed: int) -> None:
    wait = draw_backoff_s(failures, base_s=0.5, max_s=30, rng=random.Random(seed))
    assert 0 <= wait <= min(30, 0.5 * 2.0 ** (failures - 1))


def test_backoff_uses_the_whole_range() -> None:
    rng = random.Random(3)
    waits = [draw_backoff_s(3, base_s=1, max_s=30, rng=rng) for _ in range(500)]
    assert min(waits) < 0.2
    assert max(waits) > 3.8


@pytest.mark.parametrize(
    ("prices", "usage", "cost"),
    [
        (Prices(per_call=0.5), None, 0.5),
        (Prices(input_per_million=2.0), {"input_tokens": 500_000}, 1.0),
        (Prices(input_per_million=2.0), {"prompt_tokens": 0}, 0.0),
        (Prices(output_per_million=2.0), {"prompt_tokens": 5}, None),
        (Prices(output_per_million=2.0), None, None),
    ],
)
def test_a_price_without_its_count_is_unknown(prices: Prices, usage: Any, cost: Any) -> None:
    assert prices.cost_of(Reply(output="", latency_ms=None, usage=usage)) == cost


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"concurrency": 0}, "concurrency must be >= 1, got 0"),
        ({"retries": -1}, "retries must be >= 0, got -1"),
        ({"timeout_s": 0.0}, "timeout_s must be > 0, got 0.0"),
        ({"rate_per_s": float("nan")}, "rate_per_s must be > 0, got nan"),
        ({"max_reply_bytes": 0}, "max_reply_bytes must be >= 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidValueError, match=complaint):
        RunOptions(**fields)


@pytest.mark.parametrize("fields", [{"calls": -1}, {"cost": float("nan")}, {"wall_s": -0.1}])
def test_a_negative_budget_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="must be >= 0"):
        Budget(**fields)
