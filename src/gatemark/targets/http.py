"""A target behind an address: custom JSON, a known service, or a chat completions endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gatemark.targets.network_specs import HttpSpec, OpenAISpec
from gatemark.targets.port import Call, Reply
from gatemark.targets.transport import Transport


class HttpTarget:
    """Sends the filled-in template of a pack; its spec knows the form of requests and replies."""

    def __init__(
        self,
        spec: HttpSpec | OpenAISpec,
        *,
        clock: Callable[[], float],
        environ: Mapping[str, str],
        max_reply_bytes: int,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._template = spec.template()
        self.reads = self._template.reads
        self._transport = Transport(
            spec.address(),
            spec,
            environ,
            method=spec.method if isinstance(spec, HttpSpec) else "POST",
            max_reply_bytes=max_reply_bytes,
        )

    async def call(self, call: Call) -> Reply:
        body = self._spec.request(self._template.render(call), call)
        started = self._clock()
        document = await self._transport.send(body)
        latency_ms = (self._clock() - started) * 1000.0
        return self._spec.read(document, latency_ms, self._transport.place)

    async def close(self) -> None:
        await self._transport.close()

    def identity(self) -> dict[str, Any]:
        return {"kind": self._spec.kind, **self._spec.pins()}
