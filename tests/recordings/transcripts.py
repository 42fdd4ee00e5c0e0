"""Texts in which what differs from run to run is a numbered placeholder."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

MOST_LINES: Final = 60
MOST_SIGNS: Final = 400
_KINDS: Final = (
    ("digest", re.compile(r"\bsha256:[0-9a-f]{64}\b")),
    ("id", re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{8,64}\b")),
    ("id", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")),
    ("id", re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")),
    ("base64", re.compile(r"(?<![\w+/])(?=[\w+/]*[0-9])(?=[\w+/]*[A-Z])[A-Za-z0-9+/]{40,}={0,2}")),
    ("port", re.compile(r"(?<=127\.0\.0\.1:)\d+")),
    ("size", re.compile(r"\b[0-9,]+(?= bytes\b)")),
    ("duration", re.compile(r"(?<=\"duration_s\": )[0-9.]+|\b\d+(?:\.\d+)? ?s(?=[ ,;.)]|$)", re.M)),
)
_LETTERS: Final = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
"""Checksums in letters that no id has, so that they are not taken for one."""
_NUMBER: Final = re.compile(r"-?\b\d+\.\d{7,}(?:e[-+]?\d+)?\b")


def normalize(text: str, folders: dict[str, str]) -> str:
    """Replace folders, ids, digests, addresses and durations, and round numbers to nine digits.

    Numbers may differ in their last digits on another processor.
    """
    for folder, name in sorted(folders.items(), key=lambda item: -len(item[0])):
        text = text.replace(folder, name)
    for kind, pattern in _KINDS:
        text = pattern.sub(_numbered(kind), text)
    return _NUMBER.sub(lambda found: f"{float(found[0]):.9g}", text)


def _numbered(kind: str) -> Callable[[re.Match[str]], str]:
    seen: dict[str, str] = {}
    return lambda found: seen.setdefault(found[0], f"<{kind} {len(seen) + 1}>")


def shorten(text: str, most: int = MOST_LINES) -> str:
    """Keep the first lines of a long text and the first signs of long lines.

    A digest stands for the rest.
    """
    lines = text.splitlines()
    shown = [
        line if len(line) <= MOST_SIGNS else f"{line[:MOST_SIGNS]}… {_checksum(line)}"
        for line in lines[:most]
    ]
    if rest := lines[most:]:
        rest_digest = _checksum("\n".join(rest))
        shown.append(f"… {len(rest)} more lines, {rest_digest}")
    return "\n".join(shown)


def _checksum(text: str) -> str:
    return f"<checksum {sha256(text.encode()).hexdigest()[:12].translate(_LETTERS)}>"


def quote(text: str) -> str:
    """Set a text apart, line by line."""
    return "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())
