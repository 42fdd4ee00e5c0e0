"""The judge's side of a ``python:`` target that runs in its own process.

The process gets calls and nothing else: no label, no score, no path of the store, and only the
environment variables of ``spec``. Several calls are in flight at once; each answer has the number
of its call, and an unknown or repeated number ends the process.

However the process ends, its calls end as errors. If it dies with several calls in flight, each of
them is made again alone, so that only the call that kills it is blamed. A call that runs out of
time cannot be taken back: its process gets no more calls, and is killed as soon as its other calls
are answered.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.call_window import AHEAD, CallWindow
from gatemark.targets.file_digests import digest_sources, find_module_file
from gatemark.targets.isolation import get_landlock_version
from gatemark.targets.load_function import list_parts_read, split_reference
from gatemark.targets.port import Call, CallPart, Reply, TargetError, select_fields
from gatemark.targets.workers.worker_process import WorkerDiedError, WorkerProcess
from gatemark.targets.workers.worker_wire import (
    Answered,
    Failed,
    Ready,
)

MAX_DEATHS_IN_A_ROW: Final = 10


class PythonWorkerTarget:
    """Calls one function in a worker process, which is replaced if it dies."""

    def __init__(
        self,
        reference: str,
        folder: Path,
        *,
        environ: Mapping[str, str],
        concurrency: int,
        max_reply_bytes: int,
        timeout_s: float | None = None,
        fields: Sequence[str] = (),
        hidden: Sequence[Path] | None = None,
    ) -> None:
        """Start the process and load the function; ``hidden`` paths are isolated from it.

        ``timeout_s`` limits a call, without the start-up time of a new process.
        """
        self._timeout_s = timeout_s
        self._reference = reference
        self._folder = folder.resolve()
        self._fields = tuple(fields)
        self._environ = dict(environ)
        self._private: str | None = None
        self._settings: dict[str, Any] = {
            "reference": reference,
            "folder": str(self._folder),
            "concurrency": concurrency,
            "fields": list(fields),
            "max_reply_bytes": max_reply_bytes,
            "isolation": None,
        }
        self.is_isolated = hidden is not None and get_landlock_version() > 0
        if hidden is not None and self.is_isolated:
            self._private = tempfile.mkdtemp(prefix="gatemark-target-")
            self._environ["TMPDIR"] = self._private
            self._settings["isolation"] = {
                # The process has another working folder.
                "hidden": [str(path.resolve()) for path in hidden],
                "writable": [self._private],
            }
        self._max_line_bytes = max_reply_bytes + 2**16
        self._deaths = 0
        self._killers: set[tuple[str, int]] = set()
        self._window = CallWindow(concurrency, ahead=AHEAD if timeout_s is None else 1)
        self._alone = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._starting_up: dict[str, asyncio.Future[tuple[WorkerProcess, Ready]]] = {}
        self._worker: WorkerProcess | None = None
        self._lone_worker: WorkerProcess | None = None
        self._retired: set[WorkerProcess] = set()
        self._sources = self.current_sources()
        self._worker, hello = self._start()
        self._extras = frozenset(hello.extras)
        self.packages = hello.packages
        self.reads: frozenset[CallPart] = list_parts_read(self._extras)

    async def call(self, call: Call) -> Reply:
        sent = Call(
            id=call.id if "id" in self._extras else "",
            epoch=call.epoch if "epoch" in self._extras else 0,
            input=call.input,
            sample=select_fields(call.sample, self._fields) if "sample" in self._extras else {},
            variables=call.variables if "variables" in self._extras else {},
        )
        await self._window.enter()
        latency_ms = None
        try:
            answered = await self._ask(sent, call.key)
            latency_ms = None if answered.reply is None else answered.reply.latency_ms
        finally:
            self._window.leave(latency_ms)
        if answered.reply is not None:
            return answered.reply
        if answered.failure is None:
            raise TargetError("crash", f"{self._reference}: the worker answered without an answer")
        failure = answered.failure
        raise TargetError(failure.kind, failure.message, retryable=failure.retryable)

    async def close(self) -> None:
        started = await asyncio.gather(*self._starting_up.values(), return_exceptions=True)
        unused = [start[0] for start in started if not isinstance(start, BaseException)]
        workers = [self._worker, self._lone_worker, *self._retired, *unused]
        self._worker = self._lone_worker = None
        self._retired.clear()
        for worker in workers:
            if worker is not None:
                await worker.finish()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)

    def identity(self) -> dict[str, Any]:
        packages = {"packages": self.packages} if self.packages else {}
        sources = {"sources": self._sources}
        return {"kind": "python", "function": self._reference, **sources, **packages}

    def current_sources(self) -> dict[str, str]:
        """Return digests of the function's module and its neighbours as they are now."""
        file = find_module_file(split_reference(self._reference)[0], self._folder)
        return {} if file is None else digest_sources(file, self._folder)

    async def _ask(self, call: Call, key: tuple[str, int]) -> Answered:
        # A call that has ended a process is tried again where it cannot end that of other calls.
        if key not in self._killers:
            worker = await self._get_shared_worker()
            try:
                return await self._ask_worker(worker, call)
            except WorkerDiedError as death:
                if death.was_alone:
                    raise self._make_crash_error(death, key) from death
        async with self._alone:
            if self._lone_worker is None or not self._lone_worker.is_usable:
                self._lone_worker = await self._start_worker("lone")
            try:
                return await self._ask_worker(self._lone_worker, call)
            except WorkerDiedError as death:
                raise self._make_crash_error(death, key) from death

    async def _ask_worker(self, worker: WorkerProcess, call: Call) -> Answered:
        try:
            async with asyncio.timeout(self._timeout_s):
                answered = await worker.ask(call)
        except TimeoutError as error:
            self._retire(worker)
            why = f"no reply within {self._timeout_s:g} s"
            raise TargetError("timeout", why, retryable=True) from error
        except asyncio.CancelledError:
            # The call goes on in the process; only a kill can stop it.
            self._retire(worker)
            raise
        except WorkerDiedError as death:
            self._deaths += death.is_first
            raise
        finally:
            if worker in self._retired and not worker.is_busy:
                self._retired.discard(worker)
                worker.kill()
        self._deaths = 0
        return answered

    def _retire(self, worker: WorkerProcess) -> None:
        self._retired.add(worker)
        if worker is self._worker:
            self._worker = None
        if worker is self._lone_worker:
            self._lone_worker = None

    async def _get_shared_worker(self) -> WorkerProcess:
        if self._worker is not None and self._worker.is_usable:
            return self._worker
        async with self._starting:
            if self._worker is None or not self._worker.is_usable:
                self._worker = await self._start_worker("shared")
            return self._worker

    async def _start_worker(self, role: str) -> WorkerProcess:
        """Start a process in a thread. If nobody waits for it any longer, the next call gets it."""
        if self._deaths >= MAX_DEATHS_IN_A_ROW:
            raise TargetError(
                "crash",
                f"{self._reference}: its process died {self._deaths} times in a row without an "
                "answer and is not started again",
            )
        if role not in self._starting_up:
            start = asyncio.to_thread(self._start_again)
            self._starting_up[role] = asyncio.ensure_future(start)
        try:
            worker, _ = await asyncio.shield(self._starting_up[role])
        except (UsageError, BadInputError) as error:
            self._starting_up.pop(role, None)
            raise TargetError(
                "crash", f"{self._reference} cannot be loaded again: {error}"
            ) from error
        # A cancelled caller leaves it for the next call, or for close.
        self._starting_up.pop(role, None)
        return worker

    def _start(self) -> tuple[WorkerProcess, Ready]:
        worker = WorkerProcess(
            self._folder,
            self._environ,
            self._settings,
            name=self._reference,
            max_line_bytes=self._max_line_bytes,
        )
        try:
            hello = worker.hello()
        except WorkerDiedError as death:
            raise BadInputError(f"python target: {self._reference}: {death}") from death
        if isinstance(hello, Failed):
            worker.kill()
            raise (UsageError if hello.kind == "usage" else BadInputError)(hello.message)
        return worker, hello

    def _start_again(self) -> tuple[WorkerProcess, Ready]:
        # Changed code must not answer under the old identity.
        if self.current_sources() != self._sources:
            raise BadInputError(f"{self._reference}: its source changed during the run")
        return self._start()

    def _make_crash_error(self, death: WorkerDiedError, key: tuple[str, int]) -> TargetError:
        self._killers.add(key)
        return TargetError("crash", f"{self._reference}: {death}", retryable=True)
