"""Presets of the ``http:`` target: the request and reply formats of known services.

A preset knows the path below the service's address, the header of the key, the format of a request
and the path to the text, the model and the token counts of a reply. A conversation is a list of
``{role, content}`` messages; services that separate system messages get them separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal
from urllib.parse import quote, urlsplit

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.port import Reply, TargetError
from gatemark.targets.replies import BadReplyError, read_model, read_usage
from gatemark.targets.template import spell_value

Preset = Literal["anthropic", "bedrock", "gemini", "ollama", "openai", "vllm"]
Message = dict[str, object]


class ChatOptions(msgspec.Struct, frozen=True):
    """Options of a request besides its messages."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    parameters: Mapping[str, object] = {}


class Reading(msgspec.Struct, frozen=True):
    """Text, model and usage of a reply, whatever its format."""

    text: str
    model: str | None = None
    usage: dict[str, object] | None = None


class RequestShape(msgspec.Struct, frozen=True):
    """The format of one service's requests and replies."""

    path: str
    body: Callable[[list[Message], ChatOptions], dict[str, object]]
    read: Callable[[dict[str, object], str], Reading]
    owned: frozenset[str]
    """Keys of a request that ``parameters`` must not replace."""
    headers: Mapping[str, str] = {}
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    needs_max_tokens: bool = False
    kept_in_path: str = ":@"
    """Characters of a model's name that are not escaped in the path."""

    def address(self, url: str, model: str) -> str:
        """Return the address to call; a base address is completed, a full one is kept."""
        path = self.path.format(model=quote(model, safe=self.kept_in_path))
        given = urlsplit(url)
        if not path.startswith(given.path.rstrip("/") + "/"):
            return url
        return given._replace(path=path).geturl()

    def reply(self, document: object, latency_ms: float, place: str) -> Reply:
        """Return the reply in a decoded document."""
        if not isinstance(document, dict):
            raise BadReplyError(f"{place}: reply is not an object")
        said = self.read(document, place)
        return Reply(said.text, latency_ms, model=said.model, usage=said.usage)


def read_conversation(value: object, place: str) -> list[Message]:
    """Return filled-in messages, or raise when they are not a conversation."""
    if not isinstance(value, list) or not all(
        isinstance(message, dict) and isinstance(message.get("role"), str) for message in value
    ):
        raise TargetError("refused", f"{place} must be a list of messages with role and content")
    return [
        message
        if message.get("content") is None or isinstance(message["content"], str | list)
        else {**message, "content": spell_value(message["content"])}
        for message in value
    ]


def _build_completion(messages: list[Message], options: ChatOptions) -> dict[str, object]:
    body = {"model": options.model, "messages": messages}
    return _add_parameters(
        options.parameters, body | _select_options(options, "temperature", "max_tokens")
    )


def _read_completion(document: dict[str, object], place: str) -> Reading:
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise BadReplyError(f"{place}: reply has no choices.0.message")
    content, refusal = message.get("content"), message.get("refusal")
    if not content and choice.get("finish_reason") == "content_filter":
        raise TargetError("refused", f"{place}: stopped by a content filter")
    # A refusal is an answer: for a hostile question it may be the right one.
    text = refusal if not content and isinstance(refusal, str) and refusal else content
    if not isinstance(text, str):
        raise BadReplyError(
            f"{place}: choices.0.message.content must be text, got {type(text).__name__}"
        )
    return _make_reading(text, document.get("model"), document.get("usage"))


def _build_anthropic(messages: list[Message], options: ChatOptions) -> dict[str, object]:
    system, rest = _split_system(messages)
    body: dict[str, object] = {"model": options.model, "messages": rest}
    if system:
        body["system"] = "\n\n".join(system)
    return _add_parameters(
        options.parameters, body | _select_options(options, "temperature", "max_tokens")
    )


def _read_anthropic(document: dict[str, object], place: str) -> Reading:
    text = _join_blocks(document.get("content"), f"{place}: content")
    if not text and document.get("stop_reason") == "refusal":
        raise TargetError("refused", f"{place}: the service refused to answer")
    return _make_reading(text, document.get("model"), document.get("usage"))


def _build_gemini(messages: list[Message], options: ChatOptions) -> dict[str, object]:
    system, rest = _split_system(messages)
    contents = [
        {
            "role": "model" if message["role"] == "assistant" else message["role"],
            "parts": [{"text": _get_text(message, "gemini")}],
        }
        for message in rest
    ]
    body: dict[str, object] = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in system]}
    settings = _select_options(options, temperature="temperature", max_tokens="maxOutputTokens")
    return _add_parameters(
        options.parameters, body | ({"generationConfig": settings} if settings else {})
    )


def _read_gemini(document: dict[str, object], place: str) -> Reading:
    candidates = document.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    feedback = document.get("promptFeedback")
    if first is None and isinstance(feedback, dict) and "blockReason" in feedback:
        raise TargetError("refused", f"{place}: blocked the prompt: {feedback['blockReason']}")
    if not isinstance(first, dict):
        raise BadReplyError(f"{place}: reply has no candidates.0")
    content = first.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    reason = first.get("finishReason")
    if not parts and reason not in (None, "STOP", "MAX_TOKENS"):
        raise TargetError("refused", f"{place}: stopped without an answer: {reason}")
    text = _join_blocks(parts or [], f"{place}: candidates.0.content.parts")
    counts = document.get("usageMetadata")
    usage = None
    if isinstance(counts, dict):
        # Thinking tokens are billed as output but counted separately.
        output = [counts.get(key) for key in ("candidatesTokenCount", "thoughtsTokenCount")]
        usage = {
            "input_tokens": counts.get("promptTokenCount"),
            "output_tokens": sum(count for count in output if isinstance(count, int)),
        }
    return _make_reading(text, document.get("modelVersion"), usage)


def _build_ollama(messages: list[Message], options: ChatOptions) -> dict[str, object]:
    body = {"model": options.model, "messages": messages, "stream": False}
    settings = _select_options(options, temperature="temperature", max_tokens="num_predict")
    return _add_parameters(options.parameters, body | ({"options": settings} if settings else {}))


def _read_ollama(document: dict[str, object], place: str) -> Reading:
    message = document.get("message")
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str):
        raise BadReplyError(f"{place}: reply has no text at message.content")
    counts = {"input_tokens": "prompt_eval_count", "output_tokens": "eval_count"}
    usage = {name: document[key] for name, key in counts.items() if key in document}
    return _make_reading(text, document.get("model"), usage or None)


def _build_bedrock(messages: list[Message], options: ChatOptions) -> dict[str, object]:
    system, rest = _split_system(messages)
    talk = [
        {"role": message["role"], "content": [{"text": _get_text(message, "bedrock")}]}
        for message in rest
    ]
    body: dict[str, object] = {"messages": talk}
    if system:
        body["system"] = [{"text": text} for text in system]
    settings = _select_options(options, temperature="temperature", max_tokens="maxTokens")
    return _add_parameters(
        options.parameters, body | ({"inferenceConfig": settings} if settings else {})
    )


def _read_bedrock(document: dict[str, object], place: str) -> Reading:
    output = document.get("output")
    message = output.get("message") if isinstance(output, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    reason = document.get("stopReason")
    if not content and reason in ("content_filtered", "guardrail_intervened"):
        raise TargetError("refused", f"{place}: stopped without an answer: {reason}")
    text = _join_blocks(content, f"{place}: output.message.content")
    counts = document.get("usage")
    usage = None
    if isinstance(counts, dict):
        names = {"input_tokens": "inputTokens", "output_tokens": "outputTokens"}
        usage = {name: counts[key] for name, key in names.items() if key in counts}
    return Reading(text, None, usage)


def _make_reading(text: str, model: object, usage: object) -> Reading:
    return Reading(text, read_model(model), read_usage(usage))


def _split_system(messages: list[Message]) -> tuple[list[str], list[Message]]:
    """Return the texts of the system messages, and the other messages."""
    system = [_get_text(message, "system") for message in messages if message["role"] == "system"]
    return system, [message for message in messages if message["role"] != "system"]


def _get_text(message: Message, where: str) -> str:
    content = message.get("content")
    if not isinstance(content, str):
        raise TargetError(
            "refused",
            f"{where}: content of a {message['role']} message must be text, "
            f"got {type(content).__name__}",
        )
    return content


def _join_blocks(blocks: object, place: str) -> str:
    """Return the text of a reply in blocks; thinking is not part of the answer."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise BadReplyError(f"{place} must be a list of blocks, got {type(blocks).__name__}")
    texts = [
        block["text"]
        for block in blocks
        if isinstance(block.get("text"), str) and block.get("thought") is not True
    ]
    if blocks and not texts:
        raise BadReplyError(
            f"{place} has no text (keys of the first block: {', '.join(blocks[0])})"
        )
    return "".join(texts)


def _select_options(options: ChatOptions, *same: str, **renamed: str) -> dict[str, object]:
    """Return the options that are set, under the service's names."""
    names = {**dict(zip(same, same, strict=True)), **renamed}
    values = {name: getattr(options, field) for field, name in names.items()}
    return {name: value for name, value in values.items() if value is not None}


def _add_parameters(parameters: Mapping[str, object], body: dict[str, object]) -> dict[str, object]:
    """Add a pack's own parameters; nested settings under the same key are merged."""
    merged = {**parameters, **body}
    for key in parameters.keys() & body.keys():
        theirs, ours = parameters[key], body[key]
        if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
            merged[key] = {**theirs, **ours}
    return merged


def check_parameters(shape: RequestShape, parameters: Mapping[str, object], name: str) -> None:
    """Refuse parameters that would replace what the preset sends."""
    for key in sorted(shape.owned & parameters.keys()):
        raise InvalidValueError(f"{name} must not hold {key!r}: it has a key of its own")


COMPLETIONS: Final = RequestShape(
    path="/v1/chat/completions",
    body=_build_completion,
    read=_read_completion,
    owned=frozenset({"model", "messages", "stream", "n", "temperature", "max_tokens"}),
)
SHAPES: Final[Mapping[Preset, RequestShape]] = {
    "openai": COMPLETIONS,
    "vllm": COMPLETIONS,
    "anthropic": RequestShape(
        path="/v1/messages",
        body=_build_anthropic,
        read=_read_anthropic,
        owned=frozenset({"model", "messages", "system", "stream", "temperature", "max_tokens"}),
        headers={"anthropic-version": "2023-06-01"},
        key_header="x-api-key",
        key_prefix="",
        needs_max_tokens=True,
    ),
    "gemini": RequestShape(
        path="/v1beta/models/{model}:generateContent",
        body=_build_gemini,
        read=_read_gemini,
        owned=frozenset({"contents", "systemInstruction"}),
        key_header="x-goog-api-key",
        key_prefix="",
    ),
    "ollama": RequestShape(
        path="/api/chat",
        body=_build_ollama,
        read=_read_ollama,
        owned=frozenset({"model", "messages", "stream"}),
    ),
    "bedrock": RequestShape(
        path="/model/{model}/converse",
        body=_build_bedrock,
        read=_read_bedrock,
        owned=frozenset({"messages", "system"}),
        kept_in_path="",
    ),
}
