"""HTTP targets: with custom JSON, or with a preset for a known service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gatemark.targets.network_specs import HttpSpec
from gatemark.targets.paths import follow
from gatemark.targets.port import Call, Reply, bad_reply
from gatemark.targets.request_shapes import RequestShape, conversation_from
from gatemark.targets.transport import Transport

Clock = Callable[[], float]


class HttpTarget:
    """Sends the filled-in template and reads the reply by its paths."""

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


class PresetTarget:
    """Sends a conversation in the format of a service and reads its reply."""

    def __init__(
        self,
        spec: HttpSpec,
        shape: RequestShape,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        max_reply_bytes: int,
    ) -> None:
        self._spec = spec
        self._shape = shape
        self._clock = clock
        self._messages = spec.template()
        self.reads = self._messages.reads
        self._options = spec.options()
        self._transport = Transport(
            shape.address(spec.url, self._options.model),
            spec,
            environ,
            max_reply_bytes=max_reply_bytes,
        )

    async def call(self, call: Call) -> Reply:
        place = f"http.messages of id {call.id!r}"
        messages = conversation_from(self._messages.render(call), place)
        body = self._shape.body(messages, self._options)
        started = self._clock()
        document = await self._transport.send(body)
        latency_ms = (self._clock() - started) * 1000.0
        if not isinstance(document, dict):
            raise bad_reply(f"{self._transport.place}: reply is not an object")
        said = self._shape.read(document, self._transport.place)
        return Reply(said.text, latency_ms, model=said.model, usage=said.usage)

    async def close(self) -> None:
        await self._transport.close()

    def identity(self) -> dict[str, Any]:
        return {"kind": "http", **self._spec.pins()}


def open_http(
    spec: HttpSpec, *, clock: Clock, environ: Mapping[str, str], max_reply_bytes: int
) -> HttpTarget | PresetTarget:
    """Return the target that an ``http:`` part describes."""
    shape = spec.shape
    if shape is None:
        return HttpTarget(spec, clock=clock, environ=environ, max_reply_bytes=max_reply_bytes)
    return PresetTarget(spec, shape, clock=clock, environ=environ, max_reply_bytes=max_reply_bytes)
