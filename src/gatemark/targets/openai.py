"""A target behind an OpenAI-compatible chat completions endpoint, hosted or local.

A ``seed`` is sent as ``seed + epoch``: reruns of a sample are different draws, and the same draws
whenever the run is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gatemark.targets.network_specs import OpenAISpec
from gatemark.targets.port import Call, Reply, bad_reply
from gatemark.targets.request_shapes import conversation_from, read_completion
from gatemark.targets.transport import Transport

Clock = Callable[[], float]


class OpenAITarget:
    """Requests one completion per call and returns its text, model and token counts."""

    def __init__(
        self,
        spec: OpenAISpec,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        max_reply_bytes: int,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._messages = spec.template()
        self.reads = self._messages.reads
        self._transport = Transport(
            spec.base_url.rstrip("/") + "/chat/completions",
            spec,
            environ,
            max_reply_bytes=max_reply_bytes,
        )

    async def call(self, call: Call) -> Reply:
        body = self._body(call)
        started = self._clock()
        document = await self._transport.send(body)
        latency_ms = (self._clock() - started) * 1000.0
        if not isinstance(document, dict):
            raise bad_reply(f"{self._transport.place}: reply is not an object")
        said = read_completion(document, self._transport.place)
        return Reply(said.text, latency_ms, model=said.model, usage=said.usage)

    async def close(self) -> None:
        await self._transport.close()

    def identity(self) -> dict[str, Any]:
        return {"kind": "openai", **self._spec.pins()}

    def _body(self, call: Call) -> dict[str, Any]:
        spec = self._spec
        place = f"openai.messages of id {call.id!r}"
        body: dict[str, Any] = {
            **spec.parameters,
            "model": spec.model,
            "messages": conversation_from(self._messages.render(call), place),
        }
        if spec.temperature is not None:
            body["temperature"] = spec.temperature
        if spec.max_tokens is not None:
            body["max_tokens"] = spec.max_tokens
        if spec.seed is not None:
            body["seed"] = spec.seed + call.epoch
        return body
