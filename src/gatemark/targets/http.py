"""A target behind HTTP that speaks its own JSON: a body template out, paths into the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gatemark.targets.network_specs import HttpSpec
from gatemark.targets.paths import follow
from gatemark.targets.port import Call, Reply, bad_reply
from gatemark.targets.transport import Transport

Clock = Callable[[], float]


class HttpTarget:
    """Sends the filled-in template, reads the reply by its paths."""

    def __init__(
        self,
        spec: HttpSpec,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        max_reply_bytes: int,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._template = spec.template()
        self.reads = self._template.reads
        self._paths = spec.paths()
        self._transport = Transport(
            spec.url,
            spec,
            environ,
            method=spec.method,
            max_reply_bytes=max_reply_bytes,
        )

    async def call(self, call: Call) -> Reply:
        body = self._template.render(call)
        started = self._clock()
        document = await self._transport.send(body)
        latency_ms = (self._clock() - started) * 1000.0
        fields: dict[str, Any] = {}
        for name, path in self._paths.items():
            found, value = follow(document, path)
            if not found:
                raise bad_reply(f"{self._transport.place}: reply has no {'.'.join(path)} ({name})")
            fields[name] = value
        return Reply(latency_ms=latency_ms, **fields)

    async def close(self) -> None:
        await self._transport.close()

    def identity(self) -> dict[str, Any]:
        return {"kind": "http", **self._spec.pins()}
