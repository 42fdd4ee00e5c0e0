"""The Ray engine: the same tasks on a cluster of processes, here or on many machines.

Without an address, it starts a cluster on this machine, on loopback and without telemetry.
With one, its workers must see the evidence under the same paths and have the same Gatemark.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from gatemark.core.errors import GatemarkError, UsageError, WorkerLostError, not_installed

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
WAITING_PER_JOB = 2
"""Tasks under way per worker: enough to keep it busy, few enough to hold in memory."""


class RayEngine:
    """Runs work on the workers of a Ray cluster."""

    in_process = False

    def __init__(self, jobs: int, address: str | None = None) -> None:
        if jobs < 1:
            raise UsageError(f"jobs must be >= 1, got {jobs}")
        self.jobs = jobs
        self._address = address

    def run(self, work: Callable[[T], bytes], tasks: Sequence[T]) -> Iterator[bytes]:
        """Yield the result of ``work`` for every task, as each finishes."""
        ray = self._join_cluster()
        logger.debug(
            "shards start", extra={"engine": "ray", "shards": len(tasks), "workers": self.jobs}
        )
        try:
            remote = ray.remote(num_cpus=1, max_retries=0)(work_on)
            yield from self._collect(ray, remote, work, tasks)
        finally:
            ray.shutdown()

    def _join_cluster(self) -> Any:
        # Read when Ray is imported, so it must be set before.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray  # noqa: PLC0415 - heavy, and only this engine needs it
        except ModuleNotFoundError as error:
            raise UsageError(not_installed("the ray engine needs", "ray", "ray")) from error
        local: dict[str, Any] = {}
        if self._address is None:
            keep_to_this_machine(ray)
            local = {"num_cpus": self.jobs, "include_dashboard": False}
        try:
            ray.init(
                address=self._address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                _node_ip_address=LOOPBACK,
                **local,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(f"no Ray cluster at {self._address or LOOPBACK}: {error}") from error
        return ray

    def _collect(
        self, ray: Any, remote: Any, work: Callable[[T], bytes], tasks: Sequence[T]
    ) -> Iterator[bytes]:
        waiting = iter(tasks)
        under_way: list[object] = []
        while True:
            while len(under_way) < self.jobs * WAITING_PER_JOB:
                task = next(waiting, None)
                if task is None:
                    break
                under_way.append(remote.remote(work, task))
            if not under_way:
                return
            done, under_way = ray.wait(under_way, num_returns=1)
            try:
                yield ray.get(done[0])
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, GatemarkError):
                    raise error.cause from error
                raise
            except ray.exceptions.RayError as error:
                logger.info("worker lost", extra={"engine": "ray", "kind": type(error).__name__})
                first = str(error).strip().partition("\n")[0]
                raise WorkerLostError(
                    f"a Ray worker was lost; nothing was judged: {first}"
                ) from error


def keep_to_this_machine(ray: Any) -> None:
    """Keep a cluster that is started here from asking other machines and writing to the home.

    Without dashboard and statistics, Ray still starts the process of both, which asks the metadata
    services of clouds whether it runs there, and it finds its own address by the route to a public
    name server. No setting turns these off. It would write a new token of the cluster to the home.
    """
    if not any(name.startswith("RAY_AUTH_") for name in os.environ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    private = ray._private  # noqa: SLF001 - see above
    private.node.Node.start_api_server = lambda *_, **__: None
    private.services.get_node_ip_address = lambda *_: LOOPBACK


def work_on(work: Callable[[T], bytes], task: T) -> bytes:
    """Run one task on a worker."""
    return work(task)
