"""Pack files: YAML that says exactly what a pack may say, or is refused with the place."""

from __future__ import annotations

import difflib
import re

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.pack import Arms, Asset, Pack, Sampling, ScorerSpec, SuiteSpec
from gatemark.core.policy import Rule
from gatemark.intake.settings_file import read_settings

_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<field>[^`]*)`(?: - at `(?P<path>[^`]*)`)?"
)


def read_pack(path: str) -> Pack:
    """The pack of a file."""
    value = read_settings(path)
    try:
        return msgspec.convert(value, Pack)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {_helpful(str(error))}") from error


def _helpful(message: str) -> str:
    """An unknown key gets the key it was probably meant to be."""
    found = _UNKNOWN.match(message)
    if not found:
        return message
    fields = set(Pack.__struct_encode_fields__)
    for noun in (SuiteSpec, Sampling, ScorerSpec, Arms, Asset, Rule):
        fields.update(noun.__struct_encode_fields__)
    close = difflib.get_close_matches(found["field"], sorted(fields), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    where = f" at {found['path']}" if found["path"] else ""
    return f"unknown key {found['field']!r}{where}{hint}"
