"""Convert model names of other tools to targets. A key is never copied, only its variable name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gatemark.packs.convert.foreign_files import Unconvertible

_COMPATIBLE: Final = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "togetherai": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
}
"""Services with OpenAI's interface: their address, and the variable with their key."""
_PRESETS: Final = {
    "anthropic": ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "google": ("gemini", "https://generativelanguage.googleapis.com", "GOOGLE_API_KEY"),
    "ollama": ("ollama", "http://127.0.0.1:11434", None),
}
MAX_TOKENS: Final = 1024
"""Anthropic requires a number; promptfoo sends this one."""
_MODES: Final = frozenset({"chat", "messages", "completion"})
_REPLY: Final = re.compile(r"json((?:\.\w+|\[\d+\])+)")


def convert_provider(
    name: str, config: Mapping[str, Any], prompt: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the target for a provider such as ``openai:gpt-4o-mini`` with a prompt."""
    if name.startswith(("http://", "https://")):
        return {"http": _convert_own_service(name, config, prompt)}
    # promptfoo writes openai:gpt-4o-mini, Inspect openai/gpt-4o-mini.
    service, _, model = re.sub(r"^(\w+)/", r"\1:", name).partition(":")
    mode, _, rest = model.partition(":")
    model = rest if mode in _MODES and rest else model
    settings = _convert_settings(config)
    if service in _COMPATIBLE and mode != "completion":
        address, key = _COMPATIBLE[service]
        seed = {"seed": config["seed"]} if isinstance(config.get("seed"), int) else {}
        if not model or mode in ("responses", "embedding", "assistant", "image", "realtime"):
            raise Unconvertible(f"provider {name}: only chat models can be asked")
        base = str(config.get("apiBaseUrl") or config.get("apiHost") or address)
        base = base if "://" in base else f"https://{base}/v1"
        found = {"base_url": base, "model": model, "api_key_env": _find_key_variable(config, key)}
        return {"openai": {**found, **prompt, **settings, **seed}}
    if service in _PRESETS and model and mode not in ("embedding", "embeddings", "completion"):
        preset, address, variable = _PRESETS[service]
        shape = {"url": str(config.get("apiBaseUrl") or address), "preset": preset, "model": model}
        if variable is not None:
            shape["api_key_env"] = _find_key_variable(config, variable)
        if preset == "anthropic":
            settings = {"max_tokens": MAX_TOKENS, **settings}
        return {"http": {**shape, **prompt, **settings}}
    raise Unconvertible(f"provider {name}: there is no target for it")


def _convert_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    if isinstance(config.get("temperature"), int | float):
        found["temperature"] = config["temperature"]
    tokens = config.get("max_tokens", config.get("max_completion_tokens"))
    if isinstance(tokens, int):
        found["max_tokens"] = tokens
    return found


def _find_key_variable(config: Mapping[str, Any], default: str) -> str:
    named = config.get("apiKeyEnvar")
    return named if isinstance(named, str) and re.fullmatch(r"[A-Za-z_]\w*", named) else default


def _convert_own_service(
    name: str, config: Mapping[str, Any], prompt: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the target of a custom HTTP service; code that builds requests is not converted."""
    url = str(config.get("url") or name)
    if "{" in url or urlsplit(url).scheme not in ("http", "https"):
        raise Unconvertible(f"provider {name}: its address is a template")
    body = config.get("body", {"prompt": "{{prompt}}"})
    if not isinstance(body, Mapping):
        raise Unconvertible(f"provider {name}: its request body is not a mapping")
    reply = config.get("transformResponse", config.get("responseParser"))
    path = _REPLY.fullmatch(str(reply)) if reply is not None else None
    if path is None:
        raise Unconvertible(f"provider {name}: its reply is read by code; name a path: response: …")
    response = re.sub(r"\[(\d+)\]", r".\1", path[1]).removeprefix(".")
    return {"url": url, "body": dict(body), "response": response, **prompt}


def list_unread_settings(config: Mapping[str, Any]) -> list[str]:
    """Settings of a provider that its target does not have."""
    known = {
        *("temperature", "max_tokens", "max_completion_tokens", "seed", "apiBaseUrl", "apiHost"),
        *("apiKeyEnvar", "url", "body", "transformResponse", "responseParser", "method"),
    }
    return sorted(str(name) for name in config if name not in known)
