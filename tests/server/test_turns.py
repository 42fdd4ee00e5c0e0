"""Requests that may change something take turns, and keep nobody else waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gatemark.server.guards import Guards, Message
from gatemark.server.problems import ProblemResponse
from gatemark.server.settings import ServerSettings

WHOLE: Message = {"type": "http.request", "body": b"{}", "more_body": False}
PART: Message = {"type": "http.request", "body": b"{", "more_body": True}


class Stage:
    """Guards around an application that stays inside until it is let go."""

    def __init__(self, threads: int = 4) -> None:
        self.inside: list[str] = []
        self.seen: list[str] = []
        self.go = asyncio.Event()
        self.trouble: Exception | None = None
        settings = ServerSettings(threads=threads, body_seconds=30)
        self.guards = Guards(self._app, settings, lambda: 0.0)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        self.inside.append(scope["name"])
        self.seen.append(scope["name"])
        await self.go.wait()
        self.inside.remove(scope["name"])
        if self.trouble is not None:
            raise self.trouble
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def ask(self, name: str, method: str = "POST", *pieces: Message) -> asyncio.Task[None]:
        """Send a request; without a whole body it never ends by itself."""
        waiting = list(pieces or [WHOLE])

        async def receive() -> Message:
            if waiting:
                return waiting.pop(0)
            await asyncio.Event().wait()
            raise AssertionError

        async def send(_: Message) -> None:
            pass

        scope = {"type": "http", "method": method, "name": name, "query_string": b""}
        scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1)}
        return asyncio.create_task(self.guards(scope, receive, send))


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(play(), 20))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_half_of_the_threads_are_for_changes() -> None:
    async def play() -> None:
        stage = Stage(threads=4)
        tasks = [stage.ask(f"change {number}") for number in range(5)]
        await settled()
        assert stage.inside == ["change 0", "change 1"]
        stage.go.set()
        await asyncio.gather(*tasks)
        assert stage.seen == [f"change {number}" for number in range(5)]

    played(play)


def test_who_only_looks_waits_for_nobody() -> None:
    async def play() -> None:
        stage = Stage(threads=2)
        tasks = [stage.ask("first"), stage.ask("second"), stage.ask("look", "GET")]
        await settled()
        assert stage.inside == ["first", "look"]
        stage.go.set()
        await asyncio.gather(*tasks)

    played(play)


def test_a_body_that_comes_slowly_holds_no_turn() -> None:
    async def play() -> None:
        stage = Stage(threads=1)
        slow = stage.ask("slow", "POST", PART)
        await settled()
        task = stage.ask("quick")
        await settled()
        assert stage.inside == ["quick"]
        stage.go.set()
        await task
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow

    played(play)


@pytest.mark.parametrize("trouble", [ProblemResponse(409, "no"), ZeroDivisionError("broken")])
def test_a_turn_comes_back_whatever_happens(trouble: Exception) -> None:
    async def play() -> None:
        stage = Stage(threads=1)
        stage.trouble = trouble
        stage.go.set()
        await asyncio.gather(stage.ask("first"), stage.ask("second"), return_exceptions=True)
        assert stage.seen == ["first", "second"]

    played(play)


def test_who_gives_up_waiting_leaves_the_turn_to_others() -> None:
    async def play() -> None:
        stage = Stage(threads=1)
        first, second, third = (stage.ask(name) for name in ("first", "second", "third"))
        await settled()
        second.cancel()
        stage.go.set()
        await asyncio.gather(first, third)
        assert stage.seen == ["first", "third"]
        assert second.cancelled()

    played(play)
