"""Records as bytes, the same bytes for the same records: sorted keys, no spaces, no clock."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

GZIP_LEVEL: Final = 9
_PLAIN: Final = re.compile(rb"[ -~]*\Z").match
_encoder: Final = msgspec.json.Encoder(order="sorted")


def json_lines(records: Iterable[Any], *, ascii_only: bool = False) -> bytes:
    """JSON Lines with sorted keys and no spaces; non-ASCII characters stay unless told not to."""
    lines = []
    for record in records:
        line = _encoder.encode(record)
        if ascii_only and not _PLAIN(line):
            plain = msgspec.to_builtins(record)
            line = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
        lines.append(line)
    return b"".join(line + b"\n" for line in lines)


def packed(data: bytes) -> bytes:
    """Bytes as gzip without a time and without a name."""
    target = io.BytesIO()
    with gzip.GzipFile("", "wb", GZIP_LEVEL, target, mtime=0) as stream:
        stream.write(data)
    return target.getvalue()


def plain_json(value: Any) -> bytes:
    """A JSON document for people: sorted keys, two spaces, a newline at the end."""
    return msgspec.json.format(_encoder.encode(value), indent=2) + b"\n"
