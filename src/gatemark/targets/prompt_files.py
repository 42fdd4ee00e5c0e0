"""Prompts in files: read when a target is built, as if their text were in the pack.

The text is part of the target's identity, so a changed file is another candidate.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.settings_file import parse_settings
from gatemark.targets.network_specs import FILE_SUFFIX, TEXTS, Endpoint, refuse_file_addresses

MAX_PROMPT_BYTES: Final = 4 * 1024 * 1024
_MESSAGES: Final = "messages"

Spec = TypeVar("Spec", bound=Endpoint)


def read_prompt_files(spec: Spec, folder: Path) -> Spec:
    """Return an endpoint with the texts of its files; paths are relative to the pack's folder."""
    texts: dict[str, Any] = {}
    for name in TEXTS:
        key = name + FILE_SUFFIX
        path = getattr(spec, key)
        if path is not None:
            texts[name] = _read(folder, path, key)
            texts[key] = None
    if not texts:
        return spec
    filled = msgspec.structs.replace(spec, **texts)
    # A copy is not validated automatically: an unknown placeholder must be found here.
    filled.__post_init__()
    return filled


def _read(folder: Path, path: str, key: str) -> Any:
    if Path(path).is_absolute():
        raise UsageError(f"{key}: {path!r} must be relative to the pack, to be found elsewhere too")
    place = f"{key}: {path}"
    try:
        if not stat.S_ISREG((folder / path).stat().st_mode):
            raise BadInputError(f"{place}: expected a regular file")
        with (folder / path).open("rb") as stream:
            data = stream.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        raise BadInputError(
            f"{place}: cannot be read: {error.strerror or error}; paths start at the pack's folder"
        ) from error
    if len(data) > MAX_PROMPT_BYTES:
        raise BadInputError(f"{place}: must be at most {MAX_PROMPT_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{place}: must be UTF-8 text: {error}") from error
    if not text.strip():
        raise BadInputError(f"{place}: is empty")
    if key != _MESSAGES + FILE_SUFFIX:
        # Editors end a file with a line break that should not be sent.
        return text.removesuffix("\n").removesuffix("\r")
    return _parse_messages(text, place)


def _parse_messages(text: str, place: str) -> list[dict[str, Any]]:
    value = parse_settings(text, place)
    if not isinstance(value, list) or not all(
        isinstance(message, dict) and {"role", "content"} <= message.keys() for message in value
    ):
        raise BadInputError(
            f"{place}: must be a list of messages, as in "
            '[{"role": "user", "content": "{{input}}"}]'
        )
    refuse_file_addresses(value, place, hint="the text itself")
    return value
