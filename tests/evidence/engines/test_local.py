from __future__ import annotations

import os
import threading

import pytest

from gatemark.core.errors import ExitCode, UsageError, WorkerLostError
from gatemark.evidence.engines.local import LocalEngine


def test_no_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="jobs must be >= 1, got 0"):
        LocalEngine(0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_done_once(jobs: int) -> None:
    tasks = [b"abc", b"", b"de", b"fghi"]
    assert sorted(LocalEngine(jobs).run(bytes.upper, tasks)) == [b"", b"ABC", b"DE", b"FGHI"]


def test_nothing_of_a_pool_is_left_when_the_work_is_done() -> None:
    """A thread of a pool that outlives it races with the end of Python."""
    before = set(threading.enumerate())
    for _ in range(3):
        assert len(list(LocalEngine(2).run(bytes, range(4)))) == 4
        assert set(threading.enumerate()) == before


def test_a_worker_that_dies_leaves_nothing_concluded() -> None:
    with pytest.raises(WorkerLostError, match="ended early") as raised:
        list(LocalEngine(2).run(os._exit, [1, 1]))  # type: ignore[arg-type]
    assert raised.value.exit_code == ExitCode.INCONCLUSIVE
