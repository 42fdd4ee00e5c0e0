"""The reference gateway as a child process that lives as long as a dry run needs it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gatemark
from gatemark.core.errors import UsageError
from gatemark.targets.port import Call, CallPart, Reply, Target

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
GREETING: Final = "listening on "


class HostedGateway:
    """A target that starts its own gateway on a free port and ends it when closed."""

    reads: frozenset[CallPart] = frozenset({"input"})

    def __init__(self, arguments: tuple[str, ...], connect: Callable[[str], Target]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-m", "gatemark", "advisory", "gateway", "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_same_code(),
            # Ctrl-C belongs to the dry run, which ends the gateway itself.
            start_new_session=True,
        )
        try:
            self._target = connect(self._address())
        except BaseException:
            self._stop()
            raise

    async def call(self, call: Call) -> Reply:
        return await self._target.call(call)

    async def close(self) -> None:
        await self._target.close()
        self._stop()

    def identity(self) -> dict[str, Any]:
        return self._target.identity()

    def _address(self) -> str:
        line = self._first_line()
        if line.startswith(GREETING):
            return line.removeprefix(GREETING).strip()
        self._process.terminate()
        _, said = self._process.communicate(timeout=STOP_SECONDS)
        words = said.decode(errors="replace").strip().removeprefix("gatemark: ")
        raise UsageError(f"the gateway did not start: {words or 'it said nothing'}")

    def _first_line(self) -> str:
        """The first line that the gateway prints; empty when it ends or takes too long."""
        if self._process.stdout is None:
            return ""
        descriptor = self._process.stdout.fileno()
        data = b""
        deadline = time.monotonic() + START_SECONDS
        while b"\n" not in data:
            ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(descriptor, 4096) if ready else b""
            if not chunk:
                return ""
            data += chunk
        return data.decode(errors="replace").splitlines()[0]

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def _same_code() -> dict[str, str]:
    """The environment in which the child finds the very package that this process runs."""
    places = [str(Path(gatemark.__file__).resolve().parents[1])]
    if os.environ.get("PYTHONPATH"):
        places.append(os.environ["PYTHONPATH"])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
