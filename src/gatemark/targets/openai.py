"""A target behind an OpenAI-compatible chat completions endpoint, hosted or local.

A declared ``seed`` is sent as ``seed + epoch``: reruns of a sample are different draws, and the
same draws whenever the run is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.http import ApiKey, pinned
from gatemark.targets.port import Call, Reply, TargetError
from gatemark.targets.replies import bad_reply
from gatemark.targets.template import Template, as_text
from gatemark.targets.transport import Transport

Clock = Callable[[], float]


class OpenAISpec(ApiKey, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``openai:`` part of a pack.

    ``prompt`` is the user's message and ``system`` the one before it; ``messages`` replaces both
    and may be a placeholder for a whole conversation. ``parameters`` go into the body as they are.
    """

    base_url: str
    model: str
    prompt: str | None = None
    system: str | None = None
    messages: list[dict[str, Any]] | str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.messages is not None and (self.prompt is not None or self.system is not None):
            raise InvalidValueError("openai: messages replaces prompt and system; give one of them")
        taken = sorted(set(self.parameters) & {"model", "messages", "stream", "n"})
        if taken:
            raise InvalidValueError(f"openai.parameters must not hold {taken[0]!r}")


class OpenAITarget:
    """Asks for one completion per call and keeps its text, model and token counts."""

    def __init__(
        self,
        spec: OpenAISpec,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        max_reply_bytes: int,
        connections: int = 1,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._messages = Template(_message_template(spec), name="openai.messages")
        self.reads = self._messages.reads
        self._transport = Transport(
            spec.base_url.rstrip("/") + "/chat/completions",
            headers=spec.headers,
            secret=spec.secret(environ),
            max_reply_bytes=max_reply_bytes,
            connections=connections,
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
        return {"kind": "openai", **pinned(self._spec)}

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


def _message_template(spec: OpenAISpec) -> Any:
    if spec.messages is not None:
        return spec.messages
    system = [] if spec.system is None else [{"role": "system", "content": spec.system}]
    return [*system, {"role": "user", "content": spec.prompt or "{{input}}"}]


def _with_text(message: dict[str, Any]) -> dict[str, Any]:
    """Content is text or a list of parts; an input of another shape travels as JSON text."""
    content = message.get("content")
    if content is None or isinstance(content, str | list):
        return message
    return {**message, "content": as_text(content)}
