"""Names of stored formats, and how to compare them.

A format is named ``FAMILY/VERSION``. Within a version only optional fields are added; anything
else is a new version with a reader for the old one. A document that names a version this build
does not know is not broken: this build cannot judge it.
"""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = "format"
"""The member of a document or payload that names its format."""
_NAME: Final = re.compile(r"(gatemark(?:\.[a-z][a-z0-9_-]*)+)/([1-9][0-9]{0,3})\Z")


def parse_format(name: object) -> tuple[str, int] | None:
    """Return family and version of a format's name; None if it does not have that form."""
    match = _NAME.match(name) if isinstance(name, str) else None
    return None if match is None else (match[1], int(match[2]))


def is_newer(name: str, known: str) -> bool:
    """Tell whether a name is a later version of a format that this build knows."""
    there, here = parse_format(name), parse_format(known)
    return there is not None and here is not None and there[0] == here[0] and there[1] > here[1]


def newer_format(name: str) -> str:
    """Return the message about a format that this build does not know."""
    return f"has format {name}, which this build does not know: install a newer Gatemark"
