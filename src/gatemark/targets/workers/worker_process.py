"""One worker process, as the judge holds it: start it, send calls, pass answers on, end it.

``worker_wire`` defines the messages. A process that ends, or that writes anything but answers to
open calls, is ended with all that it started, and its calls fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

from gatemark.core.errors import GatemarkError
from gatemark.targets.child import name_signal
from gatemark.targets.isolation import close_process_memory
from gatemark.targets.port import Call, TargetError
from gatemark.targets.process_marks import MARK, end_marked, make_mark
from gatemark.targets.workers.worker_wire import (
    Answered,
    Ask,
    Failed,
    Ready,
    decode_answered,
    decode_hello,
    encode,
)

WORKER: Final = str(Path(__file__).parent / "worker.py")
STDERR_KEPT_BYTES: Final = 1_500
CLOSE_GRACE_S: Final = 2.0
LISTEN_GRACE_S: Final = 0.5
POLL_S: Final = 0.005
MAX_HELLO_BYTES: Final = 2**20
READ_BYTES: Final = 2**18
UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes of foreign code."""


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
        self._mark = make_mark()
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
            ending = f"was killed by {name_signal(-code)}"
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
                sys.stderr.write(_strip_control_characters(chunk.decode(errors="replace")))
        os.close(self._stderr)


def _strip_control_characters(text: str) -> str:
    """Return the text without characters that move the cursor or change colours."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)
