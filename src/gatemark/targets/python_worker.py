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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.isolation import landlock_version
from gatemark.targets.port import Call, CallPart, Reply, TargetError, shared_fields
from gatemark.targets.python_callable import parts_read, split_reference
from gatemark.targets.sources import module_file, source_digests
from gatemark.targets.worker_process import WorkerDiedError, WorkerProcess
from gatemark.targets.worker_wire import Answered, Failed, Ready

MAX_DEATHS_IN_A_ROW: Final = 10

Clock = Callable[[], float]


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
        fields: Sequence[str] = (),
        hidden: Sequence[Path] | None = None,
    ) -> None:
        """Start the process and load the function; ``hidden`` asks for isolation from paths."""
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
        self._alone = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._lone_worker: WorkerProcess | None = None
        self._retired: set[WorkerProcess] = set()
        self._worker, hello = self._start()
        file = module_file(split_reference(reference)[0], self._folder)
        self._sources = {} if file is None else source_digests(file, self._folder)
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
        answered = await self._ask(sent)
        if answered.reply is not None:
            return answered.reply
        if answered.failure is None:
            raise TargetError("crash", f"{self._reference}: the worker answered without an answer")
        failure = answered.failure
        raise TargetError(failure.kind, failure.message, retryable=failure.retryable)

    async def close(self) -> None:
        workers = [self._worker, self._lone_worker, *self._retired]
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
                self._lone_worker = await self._new_worker()
            try:
                return await self._from(self._lone_worker, call)
            except WorkerDiedError as death:
                raise self._crash(death) from death

    async def _from(self, worker: WorkerProcess, call: Call) -> Answered:
        try:
            answered = await worker.ask(call)
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
                self._worker = await self._new_worker()
            return self._worker

    async def _new_worker(self) -> WorkerProcess:
        if self._deaths >= MAX_DEATHS_IN_A_ROW:
            raise TargetError(
                "crash",
                f"{self._reference}: its process died {self._deaths} times in a row without an "
                "answer and is not started again",
            )
        try:
            worker, _ = await asyncio.to_thread(self._start)
        except (UsageError, BadInputError) as error:
            raise TargetError(
                "crash", f"{self._reference} cannot be loaded again: {error}"
            ) from error
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
