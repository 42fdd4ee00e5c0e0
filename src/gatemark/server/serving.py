"""Run the server: the socket, the first link, and uvicorn with time limits."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.http.h11_impl import H11Protocol

from gatemark.core.errors import GatemarkError, UsageError
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.ledger.keys import keep_anchored
from gatemark.logs import server_has_handler
from gatemark.server.accounts.links import find_link_holder, make_first_link, make_link
from gatemark.server.accounts.oidc_file import read_sign_in_way
from gatemark.server.app import create_app
from gatemark.server.guards import client_of
from gatemark.server.settings import ServerSettings, check_settings
from gatemark.workspace import Workspace


class IdleConnections:
    """Idle connections by address; above a limit, the oldest is closed.

    Trusted proxies hold connections for many people, and are not limited.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._most = settings.idle_per_address
        self._proxies = [ip_network(one) for one in settings.proxies]
        self._waiting: dict[str, OrderedDict[H11Protocol, None]] = {}

    def add(self, address: str, connection: H11Protocol) -> None:
        """Count a connection as idle."""
        waiting = self._waiting.setdefault(client_of(address), OrderedDict())
        waiting[connection] = None
        while len(waiting) > self._most and not self._is_proxy(address):
            oldest, _ = waiting.popitem(last=False)
            oldest.transport.close()

    def remove(self, address: str, connection: H11Protocol) -> None:
        """Count a connection as busy or closed."""
        client = client_of(address)
        waiting = self._waiting.get(client, OrderedDict())
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(client, None)

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in one for one in self._proxies)
        except ValueError:
            return False


def protocol_with_limits(settings: ServerSettings) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits for slow headers and idle connections."""
    idle = IdleConnections(settings)

    class LimitedProtocol(H11Protocol):
        """Closes connections with slow headers, and idle ones."""

        _timer: asyncio.TimerHandle | None = None
        _address = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._address = (transport.get_extra_info("peername") or ("",))[0]
            idle.add(self._address, self)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                idle.remove(self._address, self)
                self._stop()
            elif self._timer is None:
                self._wait()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._stop()
            if not self.transport.is_closing():
                idle.add(self._address, self)

        def connection_lost(self, exc: Exception | None) -> None:
            idle.remove(self._address, self)
            self._stop()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._timer = self.loop.call_later(settings.head_seconds, self.transport.close)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return LimitedProtocol


MAX_CONNECTIONS = 1_000
LOOK_S = 3600
"""Interval between checks for a due checkpoint."""

logger = logging.getLogger(__name__)


def serve_site(settings: ServerSettings, store: str, say: Callable[[str], object]) -> int:
    """Serve until stopped."""
    check_settings(settings)
    if settings.oidc is not None:
        read_sign_in_way(settings.oidc)
    _check_tls_files(settings)
    workspace = Workspace(store=store)
    listener = _listen(settings)
    try:
        # An unusable store must fail the start, not the first request.
        secret = make_first_link(workspace)
        (admin,) = (secret and find_link_holder(workspace, secret)) or (None,)
    except GatemarkError:
        listener.close()
        raise
    settings = msgspec.structs.replace(settings, port=listener.getsockname()[1])
    app = create_app(settings, lambda person: Workspace(store=store, actor=person))
    if settings.oidc is not None:
        # It is in memory now; a pack of the page could name the variable under ``env``.
        os.environ.pop(read_sign_in_way(settings.oidc).settings.client_secret_env or "", None)
    say(f"Gatemark serves {workspace.address} at {settings.base_url}")
    if secret is not None:
        whose = f" as {admin}" if admin else ""
        say(f"First sign-in{whose}, works once, for a day: {settings.base_url}/join/{secret}")
    config = uvicorn.Config(
        app,
        http=protocol_with_limits(settings),
        ws="none",
        # No access log: addresses of links contain secrets. The ledger records all actions.
        access_log=False,
        log_level="warning",
        log_config=None if server_has_handler() else LOGGING_CONFIG,
        server_header=False,
        proxy_headers=settings.is_behind_proxy,
        forwarded_allow_ips=list(settings.proxies),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    logger.info(
        "server starts",
        extra={"host": settings.host, "port": settings.port, "tls": settings.has_tls},
    )
    stopped = threading.Event()
    threading.Thread(target=_sign_daily, args=(store, stopped), daemon=True).start()
    try:
        # Ctrl-C is the normal way to stop.
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    except ssl.SSLError as error:
        files = f"--tls-cert {settings.tls_cert} and --tls-key {settings.tls_key}"
        raise UsageError(f"{files} cannot be used: {error.reason or error}") from error
    finally:
        stopped.set()
        listener.close()
        workspace.store.close()
        logger.info("server stopped")
    return 0


def _sign_daily(store: str, stopped: threading.Event) -> None:
    """Sign a checkpoint at start, and whenever an event has been unsigned for a day."""
    workspace = Workspace(store=store, actor=SYSTEM)
    while True:
        keep_anchored(workspace, workspace.signing_key_file, is_daily=True)
        if stopped.wait(LOOK_S):
            workspace.store.close()
            return


def print_link(
    settings: ServerSettings, store: str, person: str, say: Callable[[str], object]
) -> int:
    """Print a link to set a new password; for whoever has access to the store."""
    workspace = Workspace(store=store)
    workspace.existing_store()
    say(f"{settings.base_url}/join/{make_link(workspace, person)}")
    return 0


def _check_tls_files(settings: ServerSettings) -> None:
    """Check that the TLS files can be read, since the library does not name the bad one."""
    for option, path in (("--tls-cert", settings.tls_cert), ("--tls-key", settings.tls_key)):
        if path is None:
            continue
        try:
            if not stat.S_ISREG(Path(path).stat().st_mode):
                raise UsageError(f"{option} {path}: expected a regular file")
            with Path(path).open("rb") as stream:
                stream.read(1)
        except OSError as error:
            raise UsageError(f"{option} {path}: {error.strerror or error}") from error


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise UsageError(f"cannot listen at {where}: {error.strerror or error}") from error
    return listener
