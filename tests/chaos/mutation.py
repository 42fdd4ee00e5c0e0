"""Structure-aware damage: one value of a document becomes something that no reader expects."""

from __future__ import annotations

import json
import random
from typing import Any

RAW = "@raw:"
"""Marks a text that stands for JSON which ``json.dumps`` would not write."""
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**23, -(10**23), 2**63, 1e308, 5e-324),
    *(
        "",
        " ",
        "²",
        "x" * 5000,
        "1" * 5000,
        "nan",
        "\x00",
        "\x1b[2J",
        "\u202e",
        "\u2028",
        "../../x",
    ),
    *("2026-02-30", "2026-02-30T10:00:00Z", "9999-12-31T23:59:59.999999+00:00", "0001-01-01"),
    *("0001-01-01T00:00:00+23:59", "2026-01-01T00:00:00", "24:61", "P9999999Y", "10^23", "1e400"),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, [1, "1"], {"\u0000": 1}),
    *(f"{RAW}NaN", f"{RAW}-Infinity", f"{RAW}1e400", f"{RAW}-0.0", RAW + "9" * 5000),
    *(
        f'{RAW}"\\ud800"',
        RAW + "[" * 300 + "]" * 300,
        RAW + '{"a":1,"a":2}',
        f'{RAW}{{"\\udfff":1}}',
    ),
    *(f"{RAW}2026-02-30", f"{RAW}2026-13-01 10:00:00", f"{RAW}!!binary x", f"{RAW}0x" + "f" * 9),
    *(
        f"{RAW}.inf",
        f"{RAW}190:20:30",
        f"{RAW}!!float x",
        f"{RAW}!!int x",
        f"{RAW}!!timestamp 2026",
    ),
    *(f"{RAW}!!set [a]", f"{RAW}!!omap {{a: 1}}", f"{RAW}!!pairs x", f"{RAW}? a", f"{RAW}!!bool x"),
)


def damaged_value(value: Any, draw: random.Random) -> Any:
    """The document with one part replaced, left out, doubled or renamed."""
    path = _some_path(value, draw)
    if not path:
        return draw.choice(HOSTILE)
    copied = json.loads(json.dumps(value))
    parent = copied
    for step in path[:-1]:
        parent = parent[step]
    last = path[-1]
    match draw.randrange(10):
        case 0:
            del parent[last]
        case 1 if isinstance(parent, dict):
            odd = draw.choice(["", "\x1b", "x" * 300, f"{last}x", "²"])
            parent[odd] = parent.pop(last)
        case 2 if isinstance(parent, list):
            parent.append(parent[last])
        case 3:
            parent[last] = [parent[last]]
        case _:
            parent[last] = draw.choice(HOSTILE)
    return copied


def _some_path(value: Any, draw: random.Random) -> list[Any]:
    path: list[Any] = []
    while isinstance(value, dict | list) and value:
        step = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
        path.append(step)
        value = value[step]
        if draw.random() < 0.15:
            break
    return path


def spelled(value: Any) -> bytes:
    """The document as JSON, with what JSON has no word for."""
    text = json.dumps(value)
    found = json.JSONDecoder()
    while (at := text.find(f'"{RAW}')) >= 0:
        raw, end = found.raw_decode(text, at)
        text = text[:at] + raw.removeprefix(RAW) + text[end:]
    return text.encode()


def damaged_bytes(data: bytes, draw: random.Random) -> bytes:
    """The file with a few bytes that are no text, cut short, or in another encoding."""
    at = draw.randrange(len(data) + 1)
    match draw.randrange(7):
        case 0:
            return data[:at] + draw.choice([b"\xff", b"\x00", b"\xed\xa0\x80", b"\x1b"]) + data[at:]
        case 1:
            return data[:at]
        case 2:
            return data.decode(errors="replace").encode("utf-16")
        case 3:
            return b"\xef\xbb\xbf" + data
        case 4:
            return (
                data[:at]
                + draw.choice([b"\n", b"\r", b"\t", b"\\", b'"', b"[", b"&a *a"])
                + data[at:]
            )
        case 5:
            return data.replace(b"\n", b"\r\n")
        case _:
            return draw.choice(
                [b"", b"\n" * 50, b"null", b"[]", b"{}", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]
            )
