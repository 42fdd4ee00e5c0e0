"""Pack files: YAML that says exactly what a pack may say, or is refused with the place."""

from __future__ import annotations

import difflib
import re

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.policy import Rule
from gatemark.evidence.rows import Sampling
from gatemark.evidence.settings_file import parse_settings, place_in, settings_text
from gatemark.packs.pack import Arms, JudgeSpec, Pack, PackAsset, ScorerSpec, SuiteSpec

_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<field>[^`]*)`(?: - at `(?P<path>[^`]*)`)?"
)

_PLACE = re.compile(r" - at `(?P<path>[^`]*)`$")


def read_pack(path: str) -> Pack:
    """The pack of a file."""
    text = settings_text(path)
    value = parse_settings(text, path)
    try:
        return msgspec.convert(value, Pack)
    except msgspec.ValidationError as error:
        raise BadInputError(_helpful(str(error), text, path)) from error


def _helpful(message: str, text: str, file: str) -> str:
    """A complaint with its line and the value seen; an unknown key gets the one it may mean."""
    found = _UNKNOWN.match(message)
    if found:
        line, _ = place_in(text, f"{found['path'] or '$'}.{found['field']}")
        return f"{file}:{line}: {_unknown(found)}"
    where = _PLACE.search(message)
    if where is None:
        return f"{file}: {message}"
    line, seen = place_in(text, where["path"])
    told = seen is None or ", got" in message or repr(seen) in message
    got = "" if told else f", got {seen}"
    return f"{file}:{line}: {message[: where.start()]}{got} (at {where['path']})"


def _unknown(found: re.Match[str]) -> str:
    fields = set(Pack.__struct_encode_fields__)
    for noun in (SuiteSpec, Sampling, ScorerSpec, JudgeSpec, Arms, PackAsset, Rule):
        fields.update(noun.__struct_encode_fields__)
    # A key that belongs somewhere else is no misspelling of itself.
    close = difflib.get_close_matches(found["field"], sorted(fields - {found["field"]}), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    where = f" at {found['path']}" if found["path"] else ""
    return f"unknown key {found['field']!r}{where}{hint}"
