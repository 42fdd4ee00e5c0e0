"""HTTP for slow senders: a connection whose next request does not arrive in time is closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def protocol_with_timeout(seconds: float) -> type[H11Protocol]:
    """The protocol of uvicorn, with a time limit for request line and headers."""

    class TimedProtocol(H11Protocol):
        """Closes connections that send their headers byte by byte."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                self._stop()
            elif self._timer is None:
                self._wait()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._stop()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._timer = self.loop.call_later(seconds, self._too_slow)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _too_slow(self) -> None:
            if not self.transport.is_closing():
                self.transport.close()

    return TimedProtocol
