"""A store with people, versions and results, and a server over it."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from tests.release.lifecycle.sealed import result
from tests.release.lifecycle.world import window

from gatemark.core.canonical import digest
from gatemark.release.lifecycle.act import act, run_due
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    GrantRoles,
    Promote,
    PushWindow,
    SetRequiredPack,
)
from gatemark.release.lifecycle.model.nouns import PackIdentity
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.release.lifecycle.pack_identity import identify_result_pack
from gatemark.server.accounts.nouns import derive_form_token
from gatemark.server.accounts.open_stores import people_of
from gatemark.server.app import create_app
from gatemark.server.serving import protocol_with_limits
from gatemark.server.settings import ServerSettings
from gatemark.workspace import Workspace

ASSET = "triage"
PASSWORD = "correct horse battery"
PEOPLE: dict[str, tuple[Any, ...]] = {
    "root": ("admin",),
    "ann": ("author", "approver"),
    "eve": ("evaluator", "pack_owner"),
    "bob": ("approver",),
    "cat": ("approver", "security_approver"),
    "olu": ("operator",),
    "tom": ("viewer",),
}
ROOMY = {"visits_per_address": 10**6, "visits_per_person": 10**6, "sign_ins": 10**5}


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _grant_roles(workspace: Workspace, people: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
    for person, roles in people:
        act(workspace, GrantRoles(actor="root", person=person, roles=roles))


@cache
def _folder_with(people: tuple[tuple[str, tuple[Any, ...]], ...]) -> Path:
    """The store that most scenes begin with: made once, copied for each."""
    parent = Path(tempfile.mkdtemp(prefix="gm-people-"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    workspace = Workspace(store=str(parent / "store"), clock=Clock())
    _grant_roles(workspace, people)
    workspace.store.close()
    return parent / "store"


class Scene:
    """A workspace with people, and short ways to say things."""

    port = 0

    def __init__(
        self, store: str, clock: Any = None, *, has_people: bool = False, **settings: Any
    ) -> None:
        self.clock = clock or Clock()
        self.store = store
        self.settings = ServerSettings(**{**ROOMY, **settings})
        self.port = settings.get("port", 0)
        if clock is None and "://" not in store:
            shutil.copytree(_folder_with(tuple(PEOPLE.items())), store)
            self.workspace = Workspace(store=store, clock=self.clock)
        else:
            self.workspace = Workspace(store=store, clock=self.clock)
            if not has_people:
                _grant_roles(self.workspace, PEOPLE.items())

    def app(self) -> Any:
        return create_app(
            self.settings,
            lambda person: Workspace(store=self.store, clock=self.clock, actor=person),
        )

    @contextmanager
    def running(self) -> Iterator[httpx2.Client]:
        """A real server in a thread, and a client of it that follows nothing by itself."""
        with (
            serving(self.app(), self.settings, self.port) as address,
            httpx2.Client(base_url=address, timeout=30, verify=False) as client,
        ):
            yield client

    def account(self, *names: str) -> None:
        for name in names:
            secret = people_of(self.workspace).new_link(name, self.clock())
            # One password hash for all: hashing is slow on purpose.
            people_of(self.workspace).use_link(secret, name, PASSWORD, self.clock())

    def session(self, client: httpx2.Client, name: str) -> dict[str, str]:
        """Sign somebody in behind the page's back; gives the headers of fetches."""
        if name not in {person.name for person in people_of(self.workspace).all()}:
            self.account(name)
        secret = people_of(self.workspace).new_session(name, "password", self.clock())
        client.cookies.clear()
        client.cookies.set("gatemark", secret)
        return {"X-CSRF-Token": derive_form_token(secret)}

    def mark(self, client: httpx2.Client) -> str:
        return derive_form_token(str(client.cookies.get("gatemark")))

    def seal(self, version: str, **more: Any) -> str:
        if isinstance(self.clock, Clock):
            self.clock.now += timedelta(minutes=1)
        now = self.clock()
        more.setdefault("title", f"{version} at {now:%H:%M}")
        made = result(ASSET, digest(version), now, **more)
        self.workspace.results.append(made)
        return made.id

    def exam(self) -> PackIdentity:
        return identify_result_pack(result("any", digest("any"), self.clock()))

    def add(self, version: str, author: str = "ann", **more: Any) -> None:
        fields: dict[str, Any] = {"kind": "prompt", "digest": digest(version), **more}
        act(self.workspace, AddVersion(actor=author, asset=ASSET, version=version, **fields))
        act(self.workspace, SetRequiredPack(actor="eve", asset=ASSET, required_pack=self.exam()))

    def promote(self, version: str, to: Any, *cites: str, actor: str = "olu") -> None:
        act(
            self.workspace,
            Promote(actor=actor, asset=ASSET, version=version, to=to, result_ids=cites),
        )

    def to_shadow(self, version: str, **more: Any) -> str:
        self.add(version, **more)
        self.promote(version, "evaluating", actor="ann")
        sealed = self.seal(version)
        self.promote(version, "eligible", sealed, actor="eve")
        self.promote(version, "shadow")
        return sealed

    def approve(self, version: str, stage: Any, *cites: str, actor: str = "bob") -> None:
        act(
            self.workspace,
            Approve(
                actor=actor,
                asset=ASSET,
                version=version,
                stage=stage,
                result_ids=cites,
                note="read the results",
            ),
        )

    def enable(self, version: str) -> str:
        sealed = self.to_shadow(version)
        self.approve(version, "enabled")
        self.promote(version, "enabled")
        return sealed

    def canary(self, version: str, live: str) -> None:
        # These tests are about what follows, not about the day in shadow that is the default.
        act(self.workspace, AdoptPolicy(actor="root", policy=ReleasePolicy(name="no-wait")))
        self.to_shadow(version)
        compared = self.seal(version, baseline=digest(live))
        self.approve(version, "canary_1", compared)
        self.promote(version, "canary_1", compared)

    def clean_window(self, start: datetime) -> None:
        command: PushWindow = window(start)
        act(self.workspace, command)
        run_due(self.workspace, ASSET, "production")


class _Server(uvicorn.Server):
    """Ends as soon as it is told to; the original looks ten times a second, and then waits."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for server in self.servers:
            server.close()
        await self.lifespan.shutdown()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._told.set)


@contextmanager
def serving(app: Any, settings: ServerSettings, port: int = 0) -> Iterator[str]:
    """The address of an application that is served until the block ends."""
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app,
        http=protocol_with_limits(settings),
        ws="none",
        log_level="error",
        access_log=False,
        proxy_headers=settings.is_behind_proxy,
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        if thread.is_alive():
            server.stop()
        thread.join()
        listener.close()


def free_port() -> int:
    """A port that was free a moment ago, for a server that must know its address beforehand."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def new_scene(folder: Path, **settings: Any) -> Scene:
    return Scene(str(folder / "store"), **settings)
