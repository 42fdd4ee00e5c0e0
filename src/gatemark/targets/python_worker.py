"""A ``python:`` target in a process of its own: the judge's side.

The process gets calls and nothing else: no label, no score, no path of the store, and only the
environment variables of ``environment``. Several calls travel at once; the process says which
number it answers, and a number that was not asked, or was answered before, ends it.

However the process ends, its calls end as errors. When it dies with several calls on its hands,
each of them is asked again alone, so that only the call that kills it is blamed. A call that runs
out of time cannot be taken back: its process gets no more calls, and is killed as soon as the
others on its hands are answered.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.isolation import landlock_version
from gatemark.targets.port import Call, CallPart, Reply, TargetError, shared_fields
from gatemark.targets.python_callable import parts_read, split_reference
from gatemark.targets.sources import module_file, source_digests
from gatemark.targets.workers.worker_process import WorkerDiedError, WorkerProcess
from gatemark.targets.workers.worker_wire import Answered, Failed, Ready

MAX_DEATHS_IN_A_ROW: Final = 10
AHEAD: Final = 64
"""How many calls may wait in the pipe of a worker process for each that it works on."""
FAST_MS: Final = 1.0

Clock = Callable[[], float]


class _Window:
    """How many calls may be with the process at once: more than it works on, if they are fast.

    Calls that wait in the pipe save a fast function the wait for the next one. A slow function
    gains nothing by them, and a judge that is killed would have more calls to repeat.
    """

    def __init__(self, slots: int, ahead: int) -> None:
        self._slots = slots
        self._most = slots * ahead
        self._size = slots
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        if self._inside < self._size:
            self._inside += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(None)
            raise

    def leave(self, latency_ms: float | None) -> None:
        is_fast = latency_ms is not None and latency_ms < FAST_MS
        self._size = min(2 * self._size, self._most) if is_fast else self._slots
        self._inside -= 1
        while self._waiting and self._inside < self._size:
            turn = self._waiting.popleft()
            if not turn.done():
                self._inside += 1
                turn.set_result(None)


class PythonWorkerTarget:
    """Calls one function in a worker process, which is replaced when it dies."""

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
        """Start the process and load the function; ``hidden`` asks for isolation from paths.

        ``timeout_s`` limits a call, without the time that a new process needs to start.
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
        self.is_isolated = hidden is not None and landlock_version() > 0
        if hidden is not None and self.is_isolated:
            self._private = tempfile.mkdtemp(prefix="gatemark-target-")
            self._environ["TMPDIR"] = self._private
            self._settings["isolation"] = {
                "hidden": [str(path) for path in hidden],
                "writable": [self._private],
            }
        self._max_line_bytes = max_reply_bytes + 2**16
        self._deaths = 0
        self._window = _Window(concurrency, ahead=AHEAD if timeout_s is None else 1)
        self._alone = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._starting_up: dict[str, asyncio.Future[tuple[WorkerProcess, Ready]]] = {}
        self._worker: WorkerProcess | None = None
        self._lone_worker: WorkerProcess | None = None
        self._retired: set[WorkerProcess] = set()
        file = module_file(split_reference(reference)[0], self._folder)
        self._sources = {} if file is None else source_digests(file, self._folder)
        self._worker, hello = self._start()
        self._extras = frozenset(hello.extras)
        self.packages = hello.packages
        self.reads: frozenset[CallPart] = parts_read(self._extras)

    async def call(self, call: Call) -> Reply:
        sent = Call(
            id=call.id if "id" in self._extras else "",
            epoch=call.epoch if "epoch" in self._extras else 0,
            input=call.input,
            sample=shared_fields(call.sample, self._fields) if "sample" in self._extras else {},
            variables=call.variables if "variables" in self._extras else {},
        )
        await self._window.enter()
        latency_ms = None
        try:
            answered = await self._ask(sent)
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

    async def _ask(self, call: Call) -> Answered:
        worker = await self._shared_worker()
        try:
            return await self._from(worker, call)
        except WorkerDiedError as death:
            if death.was_alone:
                raise self._crash(death) from death
        async with self._alone:
            if self._lone_worker is None or not self._lone_worker.is_usable:
                self._lone_worker = await self._new_worker("lone")
            try:
                return await self._from(self._lone_worker, call)
            except WorkerDiedError as death:
                raise self._crash(death) from death

    async def _from(self, worker: WorkerProcess, call: Call) -> Answered:
        try:
            async with asyncio.timeout(self._timeout_s):
                answered = await worker.ask(call)
        except TimeoutError as error:
            self._retire(worker)
            why = f"no reply within {self._timeout_s:g} s"
            raise TargetError("timeout", why, retryable=True) from error
        except asyncio.CancelledError:
            # The call goes on in there; nobody can wait for it or stop it but by a kill.
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

    async def _shared_worker(self) -> WorkerProcess:
        if self._worker is not None and self._worker.is_usable:
            return self._worker
        async with self._starting:
            if self._worker is None or not self._worker.is_usable:
                self._worker = await self._new_worker("shared")
            return self._worker

    async def _new_worker(self, role: str) -> WorkerProcess:
        """Start a process in a thread. One that nobody waits for any more is there for the next."""
        if self._deaths >= MAX_DEATHS_IN_A_ROW:
            raise TargetError(
                "crash",
                f"{self._reference}: its process died {self._deaths} times in a row without an "
                "answer and is not started again",
            )
        if role not in self._starting_up:
            start = asyncio.to_thread(self._start)
            self._starting_up[role] = asyncio.ensure_future(start)
        started = self._starting_up[role]
        try:
            worker, _ = await asyncio.shield(started)
        except (UsageError, BadInputError) as error:
            raise TargetError(
                "crash", f"{self._reference} cannot be loaded again: {error}"
            ) from error
        finally:
            if started.done():
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

    def _crash(self, death: WorkerDiedError) -> TargetError:
        return TargetError("crash", f"{self._reference}: {death}", retryable=True)
