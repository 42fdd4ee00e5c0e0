"""Request ids, and one log line per request: method, route, status and duration only."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

from gatemark.logs import request_id
from gatemark.server.guards import App, Message, Receive, Scope, Send

HEADER: Final = "X-Request-ID"
REQUEST_ID_KEY: Final = "gatemark.request_id"
"""Scope key of the request id, for responses that are made outside of this layer."""
_KEY: Final = HEADER.lower().encode()
_VALID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

logger = logging.getLogger(__name__)


class RequestLog:
    """Outermost middleware: takes or makes a request id, returns it, and logs the request."""

    def __init__(
        self, app: App, api: str, new_id: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        self._app = app
        self._api = api
        self._new_id = new_id
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = self._clock()
        current = self._choose_id(scope)
        scope[REQUEST_ID_KEY] = current
        # An exception that is not handled here becomes a 500 response further out.
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (_KEY, current.encode())]
                message = {**message, "headers": headers}
            await send(message)

        token = request_id.set(current)
        try:
            await self._app(scope, receive, sending)
        except Exception:
            logger.exception("request failed", extra={"route": self._route(scope)})
            raise
        finally:
            logger.info(
                "request",
                extra={
                    "method": scope["method"],
                    "route": self._route(scope),
                    "status": status,
                    "duration_ms": round((self._clock() - started) * 1000, 1),
                },
            )
            request_id.reset(token)

    def _choose_id(self, scope: Scope) -> str:
        given = [value for name, value in scope["headers"] if name == _KEY]
        if len(given) == 1 and _VALID.fullmatch(given[0]):
            return str(given[0], "ascii")
        return self._new_id()

    def _route(self, scope: Scope) -> str | None:
        """Return the matched route pattern: the address itself may contain a secret.

        API and pages share patterns; the prefix tells them apart.
        """
        pattern = getattr(scope.get("route"), "path", None)
        if pattern is None or pattern.startswith(self._api):
            return pattern
        return f"{self._api}{pattern}" if scope["path"].startswith(f"{self._api}/") else pattern
