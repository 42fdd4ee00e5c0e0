"""The ``http:`` and ``openai:`` parts of a pack, validated without importing an HTTP library."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.targets.paths import follow, parse_path
from gatemark.targets.port import Call, Reply
from gatemark.targets.replies import BadReplyError
from gatemark.targets.request_shapes import (
    COMPLETIONS,
    SHAPES,
    ChatOptions,
    Preset,
    RequestShape,
    check_parameters,
    read_conversation,
)
from gatemark.targets.template import Template

OWN_PREFIX: Final = "GATEMARK_"
"""How the names of Gatemark's own settings start; no target receives them."""
SECRET_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"}
)
FILE_SUFFIX: Final = "_file"
TEXTS: Final = ("prompt", "system", "messages")
"""Texts that a pack can contain or keep in a separate file."""
_FILES: Final = frozenset(name + FILE_SUFFIX for name in TEXTS)
_FILE_ADDRESS: Final = "file:"
_TEXT_NAME: Final = re.compile(r"\{\{\s*(prompt|system|messages)\s*\}\}")
_DEFAULT_BODY: Final = {"input": "{{input}}"}


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every endpoint has: plain headers, the source of its key, and the messages.

    ``prompt`` is the user's message and ``system`` the one before it; ``messages`` replaces both
    and may be a placeholder for a whole conversation. Each of them can be in a file of its own.
    """

    headers: Annotated[dict[str, str], about("Headers of every request; never a secret.")] = {}
    api_key_env: Annotated[str | None, about("Environment variable that holds the API key.")] = None
    api_key_header: Annotated[
        str | None,
        about("Header that carries the key. Default: `Authorization`, or the preset's."),
    ] = None
    api_key_prefix: Annotated[
        str | None, about("Text before the key. Default: `Bearer `, or the preset's.")
    ] = None
    prompt: Annotated[
        str | None, about("The user's message, with placeholders such as `{{input}}`.")
    ] = None
    prompt_file: Annotated[str | None, about("File with the prompt, relative to the pack.")] = None
    system: Annotated[str | None, about("The system message; may have placeholders.")] = None
    system_file: Annotated[
        str | None, about("File with the system message, relative to the pack.")
    ] = None
    messages: Annotated[
        list[dict[str, Any]] | str | None,
        about("Whole conversation, in place of prompt and system; or a placeholder for one."),
    ] = None
    messages_file: Annotated[
        str | None, about("YAML or JSON file with the messages, relative to the pack.")
    ] = None
    temperature: Annotated[float | None, about("Sampling temperature.")] = None
    max_tokens: Annotated[int | None, about("Maximum number of tokens of a reply.")] = None
    parameters: Annotated[
        dict[str, Any], about("Further keys of the request, sent as they are.")
    ] = msgspec.field(default_factory=dict)

    kind: ClassVar[str] = "http"
    later_fields: ClassVar[frozenset[str]] = _FILES
    """Fields added after the first release; they are part of the identity only if set."""

    def __post_init__(self) -> None:
        for name in self.headers:
            if name.lower() in SECRET_HEADERS:
                raise InvalidValueError(
                    f"header {name!r} must not be written down; name an environment variable "
                    "with api_key_env, and the header with api_key_header"
                )
        self._check_texts()

    def _check_texts(self) -> None:
        given = {name for name in (*TEXTS, *_FILES) if getattr(self, name) is not None}
        for name in TEXTS:
            if {name, name + FILE_SUFFIX} <= given:
                raise InvalidValueError(f"give {name} or {name}{FILE_SUFFIX}, not both")
        whole = given & {"messages", "messages_file"}
        if whole and given - whole:
            raise InvalidValueError(
                f"{min(whole)} replaces prompt and system; give one or the other"
            )
        for name in sorted(given):
            value = getattr(self, name)
            if name in _FILES and value.startswith(_FILE_ADDRESS):
                raise InvalidValueError(
                    f"{name} takes a path, not an address; write {name}: {_strip_prefix(value)}"
                )
            if name in TEXTS:
                refuse_file_addresses(value, name, hint=f"{name}{FILE_SUFFIX}")

    def key_place(self) -> tuple[str, str]:
        """Return the header that carries the key, and the text before the key."""
        return self._choose_key_place("Authorization", "Bearer ")

    def _choose_key_place(self, header: str, prefix: str) -> tuple[str, str]:
        if self.api_key_header is not None:
            header, prefix = self.api_key_header, "Bearer "
        return header, prefix if self.api_key_prefix is None else self.api_key_prefix

    def sent_headers(self) -> dict[str, str]:
        """Return the headers of every request, without the key."""
        return dict(self.headers)

    def _build_chat(
        self, shape: RequestShape, model: str, filled: object, call: Call
    ) -> dict[str, object]:
        """Return the request that sends a filled-in conversation."""
        messages = read_conversation(filled, f"{self.kind}.messages of id {call.id!r}")
        options = ChatOptions(model, self.temperature, self.max_tokens, self.parameters)
        return shape.body(messages, options)

    def conversation(self, name: str) -> Template:
        """Return the messages, ready to be filled in."""
        source: Any = self.messages
        if source is None:
            system = [] if self.system is None else [{"role": "system", "content": self.system}]
            prompt = "{{input}}" if self.prompt is None else self.prompt
            source = [*system, {"role": "user", "content": prompt}]
        return Template(source, name=name)

    def pins(self) -> dict[str, Any]:
        """Return the digest material, without the source of the key, which changes no reply."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {
            name: value
            for name, value in fields.items()
            if not name.startswith("api_key_")
            and not (name in self.later_fields and value in (None, {}))
        }


class ReplyPaths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paths to the fields of the reply; a path given here must exist in it."""

    output: str
    confidence: str | None = None
    cost: str | None = None
    model: str | None = None
    usage: str | None = None


class HttpSpec(Endpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service with custom JSON (``body``, ``response``), or a known one (``preset``)."""

    url: Annotated[
        str, about("Address to ask. With a preset, the address of the service is enough.")
    ]
    preset: Annotated[
        Preset | None, about("Service whose requests and replies are known, such as `anthropic`.")
    ] = None
    model: Annotated[str | None, about("Name of the model, for a preset.")] = None
    response: Annotated[
        str | ReplyPaths | None,
        about("Path of the output in the reply, or `{output, confidence, cost, model, usage}`."),
    ] = None
    body: Annotated[
        Any,
        about(
            "The request; `{{input}}`, `{{sample.KEY}}`, `{{prompt}}`, `{{system}}` and "
            "`{{messages}}` are filled in."
        ),
    ] = msgspec.field(default_factory=lambda: dict(_DEFAULT_BODY))
    method: Annotated[Literal["POST", "PUT"], about("HTTP method.")] = "POST"

    later_fields: ClassVar[frozenset[str]] = _FILES | {
        *TEXTS, "preset", "model", "temperature", "max_tokens", "parameters"
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_url("http.url", self.url)
        if self.preset is None:
            self._check_own_form()
        else:
            self._check_preset(SHAPES[self.preset])
        self.template()
        self.paths()

    def _check_own_form(self) -> None:
        if self.response is None:
            known = ", ".join(sorted(SHAPES))
            raise InvalidValueError(
                "http.response must say where the answer is in the reply, as in "
                f"response: answer.text; or name a preset ({known})"
            )
        for name in ("model", "temperature", "max_tokens", "parameters"):
            if getattr(self, name) not in (None, {}):
                raise InvalidValueError(f"http.{name} belongs to a preset; write it into http.body")
        refuse_file_addresses(self.body, "http.body", hint="prompt_file")

    def _check_preset(self, shape: RequestShape) -> None:
        if self.response is not None or self.body != _DEFAULT_BODY or self.method != "POST":
            raise InvalidValueError(
                f"http.preset {self.preset} makes the request and reads the reply itself; "
                "remove body, response and method"
            )
        if not self.model:
            raise InvalidValueError(f"http.preset {self.preset} needs http.model")
        if shape.needs_max_tokens and self.max_tokens is None:
            raise InvalidValueError(f"http.preset {self.preset} needs http.max_tokens")
        check_parameters(shape, self.parameters, "http.parameters")

    @property
    def shape(self) -> RequestShape | None:
        """The format of requests and replies, if a preset names one."""
        return None if self.preset is None else SHAPES[self.preset]

    def address(self) -> str:
        """Return the address of every request."""
        return self.url if self.shape is None else self.shape.address(self.url, self.model or "")

    def request(self, filled: object, call: Call) -> object:
        """Return the body of a request, from the filled-in template."""
        if self.shape is None:
            return filled
        return self._build_chat(self.shape, self.model or "", filled, call)

    def read(self, document: object, latency_ms: float, place: str) -> Reply:
        """Return the reply in a decoded document."""
        if self.shape is not None:
            return self.shape.reply(document, latency_ms, place)
        fields: dict[str, Any] = {}
        for name, path in self.paths().items():
            found, value = follow(document, path)
            if not found:
                raise BadReplyError(f"{place}: reply has no {'.'.join(path)} ({name})")
            fields[name] = value
        return Reply(latency_ms=latency_ms, **fields)

    def key_place(self) -> tuple[str, str]:
        shape = self.shape
        return (
            super().key_place()
            if shape is None
            else self._choose_key_place(*_get_key_header(shape))
        )

    def sent_headers(self) -> dict[str, str]:
        return {**(self.shape.headers if self.shape is not None else {}), **self.headers}

    def template(self) -> Template:
        """Return what is filled in for each call: a preset's conversation, or the whole body."""
        if self.preset is not None:
            return self.conversation("http.messages")
        # A file is read when the target is built; until then any text stands for it.
        texts = {
            name: "{{input}}" if getattr(self, name) is None else getattr(self, name)
            for name in TEXTS
            if getattr(self, name) is not None or getattr(self, name + FILE_SUFFIX) is not None
        }
        used: set[str] = set()
        body = _insert_texts(self.body, texts, used)
        for name in sorted(texts.keys() - used):
            raise InvalidValueError(
                f"http.{name} is never sent: put {{{{{name}}}}} into http.body, or name a preset"
            )
        return Template(body, name="http.body")

    def paths(self) -> dict[str, tuple[str, ...]]:
        """Return each field of the reply with its path."""
        if self.response is None:
            return {}
        named = ReplyPaths(self.response) if isinstance(self.response, str) else self.response
        texts = msgspec.structs.asdict(named)
        return {name: parse_path(text) for name, text in texts.items() if text is not None}


class OpenAISpec(Endpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenAI-compatible service: ``prompt`` and ``system``, or ``messages``, to one model."""

    kind: ClassVar[str] = "openai"
    base_url: Annotated[str, about("Address before `/chat/completions`, mostly ending in `/v1`.")]
    model: Annotated[str, about("Name of the model.")]
    seed: Annotated[
        int | None, about("Random seed. Repeats of an item get the seeds that follow.")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_url("openai.base_url", self.base_url)
        taken = sorted(set(self.parameters) & {"model", "messages", "stream", "n"})
        if taken:
            raise InvalidValueError(f"openai.parameters must not hold {taken[0]!r}")
        self.template()

    def template(self) -> Template:
        """Return the conversation as a template."""
        return self.conversation("openai.messages")

    def address(self) -> str:
        """Return the address of every request."""
        return self.base_url.rstrip("/") + "/chat/completions"

    def request(self, filled: object, call: Call) -> object:
        """Return the body of a request, from the filled-in conversation.

        A seed is sent as ``seed + epoch``: reruns of a sample are different draws, and the same
        draws whenever the run is repeated.
        """
        body = self._build_chat(COMPLETIONS, self.model, filled, call)
        return body if self.seed is None else {**body, "seed": self.seed + call.epoch}

    def read(self, document: object, latency_ms: float, place: str) -> Reply:
        """Return the reply in a decoded document."""
        return COMPLETIONS.reply(document, latency_ms, place)


def refuse_file_addresses(value: object, name: str, *, hint: str) -> None:
    """Refuse ``file://`` addresses, which other tools read and which would be sent as text."""
    if isinstance(value, str) and value.strip().startswith(_FILE_ADDRESS + "//"):
        raise InvalidValueError(
            f"{name} would be sent as the text {value.strip()!r}; "
            f"write {hint}: {_strip_prefix(value.strip())}"
        )
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            refuse_file_addresses(item, name, hint=hint)


def _strip_prefix(address: str) -> str:
    return address.removeprefix(_FILE_ADDRESS).removeprefix("//").removeprefix("./")


def _get_key_header(shape: RequestShape) -> tuple[str, str]:
    return shape.key_header, shape.key_prefix


def _insert_texts(node: Any, texts: dict[str, Any], used: set[str]) -> Any:
    """Insert a pack's own texts into a body, before any item is filled in."""
    if isinstance(node, list):
        return [_insert_texts(item, texts, used) for item in node]
    if isinstance(node, dict):
        return {key: _insert_texts(item, texts, used) for key, item in node.items()}
    if not isinstance(node, str):
        return node
    whole = _TEXT_NAME.fullmatch(node.strip())
    if whole is not None and whole[1] in texts:
        used.add(whole[1])
        return texts[whole[1]]

    def replace_slot(match: re.Match[str]) -> str:
        text = texts.get(match[1], match[0])
        if not isinstance(text, str):
            raise InvalidValueError("http.body: {{messages}} must stand alone, not inside text")
        used.update(texts.keys() & {match[1]})
        return text

    return _TEXT_NAME.sub(replace_slot, node)


def _check_url(name: str, text: str) -> None:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidValueError(f"{name} is not valid: {error}") from error
    if "@" in parts.netloc:
        raise InvalidValueError(f"{name} must not hold a user name or password; use api_key_env")
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidValueError(
            f"{name} must start with http:// or https:// and name a host, got {text!r}"
        )
