"""A target behind an OpenAI-compatible chat completions endpoint, hosted or local.

A declared ``seed`` is sent as ``seed + epoch``: reruns of a sample are different draws, and the
same draws whenever the run is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gatemark.targets.network_specs import OpenAISpec
from gatemark.targets.port import Call, Reply, TargetError, bad_reply
from gatemark.targets.template import as_text
from gatemark.targets.transport import Transport

Clock = Callable[[], float]


class OpenAITarget:
    """Asks for one completion per call and keeps its text, model and token counts."""

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
        return Reply(
            output=self._text(document),
            latency_ms=latency_ms,
            model=document.get("model"),
            usage=document.get("usage"),
        )

    async def close(self) -> None:
        await self._transport.close()

    def identity(self) -> dict[str, Any]:
        return {"kind": "openai", **self._spec.pins()}

    def _body(self, call: Call) -> dict[str, Any]:
        spec = self._spec
        messages = self._messages.render(call)
        if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
            raise TargetError("refused", f"openai.messages of id {call.id!r} must be a list")
        body: dict[str, Any] = {
            **spec.parameters,
            "model": spec.model,
            "messages": [_with_text(message) for message in messages],
        }
        if spec.temperature is not None:
            body["temperature"] = spec.temperature
        if spec.max_tokens is not None:
            body["max_tokens"] = spec.max_tokens
        if spec.seed is not None:
            body["seed"] = spec.seed + call.epoch
        return body

    def _text(self, document: dict[str, Any]) -> str:
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise bad_reply(f"{self._transport.place}: reply has no choices.0.message")
        content, refusal = message.get("content"), message.get("refusal")
        if isinstance(content, str) and content:
            return content
        if choice.get("finish_reason") == "content_filter":
            raise TargetError("refused", f"{self._transport.place}: stopped by a content filter")
        # A refusal is an answer: for a hostile question it may be the right one.
        if isinstance(refusal, str) and refusal:
            return refusal
        if isinstance(content, str):
            return content
        raise bad_reply(
            f"{self._transport.place}: choices.0.message.content must be text, "
            f"got {type(content).__name__}"
        )


def _with_text(message: dict[str, Any]) -> dict[str, Any]:
    """Content is text or a list of parts; an input of another shape travels as JSON text."""
    content = message.get("content")
    if content is None or isinstance(content, str | list):
        return message
    return {**message, "content": as_text(content)}
