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
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.targets.isolation import close_process_memory, landlock_version
from gatemark.targets.port import Call, CallPart, Reply, TargetError, shared_fields
from gatemark.targets.python_callable import (
    module_file,
    parts_read,
    source_digests,
    split_reference,
)
from gatemark.targets.workers.worker_wire import (
    Answered,
    Ask,
    Failed,
    Ready,
    decode_answered,
    decode_hello,
    encode,
)

WORKER: Final = str(Path(__file__).parent / "workers" / "worker.py")
STDERR_KEPT_BYTES: Final = 1_500
CLOSE_GRACE_S: Final = 2.0
LISTEN_GRACE_S: Final = 0.5
POLL_S: Final = 0.005
MAX_HELLO_BYTES: Final = 2**20
READ_BYTES: Final = 2**18
UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes of foreign code."""


# A grandchild can leave the group by starting its own session. It still has the inherited
# environment with a mark in it, by which it is found if there is /proc (Linux).

MARK: Final = "GATEMARK_TARGET_PROCESS"
MOST_ROUNDS: Final = 100
MAX_ENVIRONMENT_BYTES: Final = 2**21


def new_mark() -> str:
    """Return a value of ``MARK`` that no other process has."""
    return secrets.token_hex(16)


def end_marked(mark: str) -> None:
    """End every process that inherited a mark, including those that start meanwhile."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(MOST_ROUNDS):
        found = [pid for pid in _processes() if wanted in _environment(pid).split(b"\0")]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    try:
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return []


def _environment(pid: int) -> bytes:
    """Return the inherited environment of a process; empty if it ended or is not ours."""
    try:
        opened = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(opened, MAX_ENVIRONMENT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(opened)


class WorkerDiedError(GatemarkError):
    """The process ended, or had to be ended, during this call.

    ``was_alone`` means that no other call can have been the reason, ``is_first`` that no other call
    has reported the same end.
    """

    def __init__(self, message: str, *, was_alone: bool, is_first: bool) -> None:
        super().__init__(message)
        self.was_alone = was_alone
        self.is_first = is_first


class WorkerProcess:
    """A started process. It belongs to the event loop on which it is first called."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        settings: Mapping[str, Any],
        *,
        name: str,
        max_line_bytes: int,
    ) -> None:
        self._name = name
        self._max_line_bytes = max_line_bytes
        self._asked: dict[int, asyncio.Future[Answered]] = {}
        self._last_number = 0
        self._unsent = bytearray()
        self._rest = b""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: str | None = None
        self._said = bytearray()
        self._mark = new_mark()
        close_process_memory()
        self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-P", "-B", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**environ, MARK: self._mark},
            start_new_session=True,
        )
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._stdout = cast("IO[bytes]", self._process.stdout)
        stderr = cast("IO[bytes]", self._process.stderr)
        # A grandchild may hold the pipe longer than this object lives, so the thread owns its end.
        self._stderr = os.dup(stderr.fileno())
        stderr.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        places = [str(Path(place).absolute()) for place in sys.path]
        line = msgspec.json.encode({"path": places, "parent": os.getpid(), **settings})
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(line + b"\n")
            self._stdin.flush()

    @property
    def is_usable(self) -> bool:
        """Whether calls can still be sent from the running event loop."""
        return self._ended is None and self._loop in (None, asyncio.get_running_loop())

    @property
    def is_busy(self) -> bool:
        """Whether any call waits for its answer."""
        return bool(self._asked)

    def hello(self) -> Ready | Failed:
        """Wait until the function is loaded. Blocks."""
        line = self._stdout.readline(MAX_HELLO_BYTES)
        try:
            return decode_hello(line)
        except UNDECODABLE:
            message = self._end_message()
            self.kill()
            raise WorkerDiedError(message, was_alone=True, is_first=True) from None

    async def ask(self, call: Call) -> Answered:
        """Send one call and wait for its answer."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._attach(loop)
        self._last_number = number = self._last_number + 1
        try:
            line = encode(Ask(number, call)) + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise TargetError("refused", f"the input cannot be sent as JSON: {error}") from error
        if self._ended is not None:
            raise WorkerDiedError(self._ended, was_alone=False, is_first=False)
        future: asyncio.Future[Answered] = loop.create_future()
        self._asked[number] = future
        if not self._unsent:
            # Calls made in the same turn of the loop are sent in one write.
            loop.call_soon(self._send)
        self._unsent += line
        try:
            return await future
        finally:
            self._asked.pop(number, None)

    async def finish(self) -> None:
        """End the process by closing its pipe; kill it after a moment."""
        self._detach()
        with contextlib.suppress(OSError):
            self._stdin.close()
        patience = round(CLOSE_GRACE_S / POLL_S)
        while self._process.poll() is None and patience:
            patience -= 1
            await asyncio.sleep(POLL_S)
        self.kill()

    def kill(self) -> None:
        """End the process and all that it started; its calls end as ``WorkerDiedError``."""
        self._fail("was ended")
        self._detach()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._stdin.close()
        self._stdout.close()
        self._process.wait()
        end_marked(self._mark)
        self._listener.join(LISTEN_GRACE_S)

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        loop.add_reader(self._stdout.fileno(), self._receive)

    def _detach(self) -> None:
        if self._loop is None or self._loop.is_closed() or self._stdout.closed:
            return
        self._loop.remove_reader(self._stdout.fileno())
        if not self._stdin.closed:
            self._loop.remove_writer(self._stdin.fileno())

    def _send(self) -> None:
        if self._ended is not None or self._loop is None:
            return
        try:
            sent = os.write(self._stdin.fileno(), self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it hung up; the end of its answers tells how
        del self._unsent[:sent]
        if self._unsent:
            self._loop.add_writer(self._stdin.fileno(), self._send)
        else:
            self._loop.remove_writer(self._stdin.fileno())

    def _receive(self) -> None:
        try:
            data = os.read(self._stdout.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._give_up(self._end_message())
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            problem = self._settle(line)
            if problem is not None:
                self._give_up(problem)
                return
        if len(self._rest) > self._max_line_bytes:
            self._give_up(f"wrote a line of over {self._max_line_bytes} bytes and was ended")

    def _settle(self, line: bytes) -> str | None:
        """Pass an answer to its call; return what is wrong with a line that answers none."""
        try:
            answered = decode_answered(line)
        except UNDECODABLE as error:
            return f"wrote something that is not an answer and was ended: {error}"
        future = self._asked.pop(answered.number, None)
        if future is None:
            return "answered a call that was not open and was ended"
        if not future.done():
            future.set_result(answered)
        return None

    def _give_up(self, message: str) -> None:
        self._fail(message)
        self.kill()

    def _fail(self, message: str) -> None:
        if self._ended is not None:
            return
        self._ended = message
        was_alone = len(self._asked) == 1
        for place, future in enumerate(self._asked.values()):
            if not future.done():
                future.set_exception(
                    WorkerDiedError(message, was_alone=was_alone, is_first=place == 0)
                )

    def _end_message(self) -> str:
        """Return how a process that closed its pipe ended, and its last output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LISTEN_GRACE_S)
        code = self._process.returncode
        if code is None:
            ending = "closed its pipe"
        elif code < 0:
            ending = f"was killed by {signal_name(-code)}"
        else:
            ending = f"ended its process with code {code}"
        self._listener.join(LISTEN_GRACE_S)
        words = bytes(self._said).decode(errors="replace").strip()
        return f"{ending} instead of answering" + (f"; stderr ends: {words}" if words else "")

    def _listen(self) -> None:
        """Keep the tail of what the process prints, and forward it to our stderr."""
        while chunk := os.read(self._stderr, 65_536):
            self._said += chunk
            del self._said[:-STDERR_KEPT_BYTES]
            with contextlib.suppress(ValueError, OSError):
                sys.stderr.write(_printable(chunk.decode(errors="replace")))
        os.close(self._stderr)


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _printable(text: str) -> str:
    """Return the text without characters that move the cursor or change colours."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)


MAX_DEATHS_IN_A_ROW: Final = 10
AHEAD: Final = 64
"""How many calls may wait in the pipe of a worker process for each one it works on."""
FAST_MS: Final = 1.0


class _Window:
    """How many calls are sent to the process at once: more than it works on, if they are fast.

    Calls that wait in the pipe save a fast function the wait for the next one. A slow function
    gains nothing by them, and more calls would have to be repeated after a crash.
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
        self.is_isolated = hidden is not None and landlock_version() > 0
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
        self._window = _Window(concurrency, ahead=AHEAD if timeout_s is None else 1)
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
        file = module_file(split_reference(self._reference)[0], self._folder)
        return {} if file is None else source_digests(file, self._folder)

    async def _ask(self, call: Call, key: tuple[str, int]) -> Answered:
        # A call that has ended a process is tried again where it cannot end that of other calls.
        if key not in self._killers:
            worker = await self._shared_worker()
            try:
                return await self._from(worker, call)
            except WorkerDiedError as death:
                if death.was_alone:
                    raise self._crash(death, key) from death
        async with self._alone:
            if self._lone_worker is None or not self._lone_worker.is_usable:
                self._lone_worker = await self._new_worker("lone")
            try:
                return await self._from(self._lone_worker, call)
            except WorkerDiedError as death:
                raise self._crash(death, key) from death

    async def _from(self, worker: WorkerProcess, call: Call) -> Answered:
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

    async def _shared_worker(self) -> WorkerProcess:
        if self._worker is not None and self._worker.is_usable:
            return self._worker
        async with self._starting:
            if self._worker is None or not self._worker.is_usable:
                self._worker = await self._new_worker("shared")
            return self._worker

    async def _new_worker(self, role: str) -> WorkerProcess:
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

    def _crash(self, death: WorkerDiedError, key: tuple[str, int]) -> TargetError:
        self._killers.add(key)
        return TargetError("crash", f"{self._reference}: {death}", retryable=True)
