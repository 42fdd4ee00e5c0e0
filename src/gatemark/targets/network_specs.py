"""The ``http:`` and ``openai:`` parts of a pack, checked without loading any HTTP library."""

from __future__ import annotations

import ipaddress
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.paths import parse_path
from gatemark.targets.template import Template

SECRET_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"}
)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every endpoint has: plain headers, and where its key comes from; never the key."""

    headers: dict[str, str] = {}
    api_key_env: str | None = None
    api_key_header: str = "Authorization"
    api_key_prefix: str = "Bearer "

    def __post_init__(self) -> None:
        for name in self.headers:
            if name.lower() in SECRET_HEADERS:
                raise InvalidValueError(
                    f"header {name!r} must not be written down; name an environment variable "
                    "with api_key_env, and the header with api_key_header"
                )

    def pins(self) -> dict[str, Any]:
        """Digest material; without where the key comes from, which changes no reply."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if not name.startswith("api_key_")}


class ReplyPaths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where in the reply the answer is; a path named here must be there."""

    output: str
    confidence: str | None = None
    cost: str | None = None
    model: str | None = None
    usage: str | None = None


class HttpSpec(Endpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``http:`` part. ``response`` is the path of the output, or all the paths."""

    url: str
    response: str | ReplyPaths
    body: Any = msgspec.field(default_factory=lambda: {"input": "{{input}}"})
    method: Literal["POST", "PUT"] = "POST"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_url("http.url", self.url)
        self.template()
        self.paths()

    def template(self) -> Template:
        """The request body, ready to be filled in."""
        return Template(self.body, name="http.body")

    def paths(self) -> dict[str, tuple[str, ...]]:
        """Each field of the reply and the path that leads to it."""
        named = ReplyPaths(self.response) if isinstance(self.response, str) else self.response
        texts = msgspec.structs.asdict(named)
        return {name: parse_path(text) for name, text in texts.items() if text is not None}


class OpenAISpec(Endpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``openai:`` part.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_url("openai.base_url", self.base_url)
        if self.messages is not None and (self.prompt is not None or self.system is not None):
            raise InvalidValueError("openai: messages replaces prompt and system; give one of them")
        for name, text in (("prompt", self.prompt), ("system", self.system)):
            if text is not None and text.lstrip().startswith("file://"):
                raise InvalidValueError(
                    f"openai.{name} would be sent as the text {text!r}; write the prompt itself, "
                    f"on several lines after '{name}: |'"
                )
        taken = sorted(set(self.parameters) & {"model", "messages", "stream", "n"})
        if taken:
            raise InvalidValueError(f"openai.parameters must not hold {taken[0]!r}")
        self.template()

    def template(self) -> Template:
        """The conversation, ready to be filled in."""
        source: Any = self.messages
        if source is None:
            system = [] if self.system is None else [{"role": "system", "content": self.system}]
            prompt = "{{input}}" if self.prompt is None else self.prompt
            source = [*system, {"role": "user", "content": prompt}]
        return Template(source, name="openai.messages")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by name or by address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
