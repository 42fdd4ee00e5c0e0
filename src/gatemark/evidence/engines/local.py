"""The local engine: this process, or several on this machine."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from gatemark.core.errors import UsageError, WorkerLostError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class LocalEngine:
    """Runs work in this process, or in ``jobs`` processes."""

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise UsageError(f"jobs must be >= 1, got {jobs}")
        self.jobs = jobs
        self.in_process = jobs == 1

    def run(self, work: Callable[[T], bytes], tasks: Sequence[T]) -> Iterator[bytes]:
        """Yield the result of ``work`` for every task, as each finishes."""
        workers = min(self.jobs, len(tasks))
        logger.debug(
            "shards start", extra={"engine": "local", "shards": len(tasks), "workers": workers}
        )
        if workers <= 1:
            for task in tasks:
                yield work(task)
            return
        # A fresh interpreter per worker: forking a process that has threads is not safe.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            futures = [pool.submit(work, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BrokenProcessPool as error:
                logger.info("worker lost", extra={"engine": "local", "shards": len(tasks)})
                raise WorkerLostError(
                    "a worker process ended early (was it killed, or out of memory?); "
                    "nothing was judged. Use -j 1 to run without workers"
                ) from error
            finally:
                # Waiting matters: a pool that is still closing when Python ends prints a traceback.
                pool.shutdown(cancel_futures=True)
