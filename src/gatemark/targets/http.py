"""A target behind HTTP that speaks its own JSON: a body template out, paths into the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from gatemark.targets.paths import follow, parse_path
from gatemark.targets.port import Call, Reply
from gatemark.targets.replies import bad_reply
from gatemark.targets.template import Template
from gatemark.targets.transport import Secret, Transport

Clock = Callable[[], float]


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the key comes from and how it travels; never the key itself."""

    api_key_env: str | None = None
    api_key_header: str = "Authorization"
    api_key_prefix: str = "Bearer "

    def secret(self, environ: Mapping[str, str]) -> Secret | None:
        """The key, read now; None when the endpoint needs none."""
        if self.api_key_env is None:
            return None
        return Secret(self.api_key_env, self.api_key_header, self.api_key_prefix, environ)


class ReplyPaths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where in the reply the answer is; a path named here must be there."""

    output: str
    confidence: str | None = None
    cost: str | None = None
    model: str | None = None
    usage: str | None = None


class HttpSpec(ApiKey, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``http:`` part of a pack. ``response`` is the path of the output, or all the paths."""

    url: str
    response: str | ReplyPaths
    body: Any = msgspec.field(default_factory=lambda: {"input": "{{input}}"})
    method: Literal["POST", "PUT"] = "POST"
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class HttpTarget:
    """Sends the filled-in template, reads the reply by its paths."""

    def __init__(
        self,
        spec: HttpSpec,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        max_reply_bytes: int,
        connections: int = 1,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._template = Template(spec.body, name="http.body")
        self.reads = self._template.reads
        paths = spec.response
        named = msgspec.structs.asdict(ReplyPaths(paths) if isinstance(paths, str) else paths)
        self._paths = {name: parse_path(text) for name, text in named.items() if text is not None}
        self._transport = Transport(
            spec.url,
            method=spec.method,
            headers=spec.headers,
            secret=spec.secret(environ),
            max_reply_bytes=max_reply_bytes,
            connections=connections,
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
        return {"kind": "http", **pinned(self._spec)}


def pinned(spec: ApiKey) -> dict[str, Any]:
    """A spec as digest material, without where the key comes from: that changes no reply."""
    fields: dict[str, Any] = msgspec.to_builtins(spec)
    return {name: value for name, value in fields.items() if not name.startswith("api_key_")}
