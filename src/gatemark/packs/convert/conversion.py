"""The result of a conversion: a pack, its files, and what could not be converted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from gatemark.core.atomic import write_whole
from gatemark.core.errors import RefusedError
from gatemark.core.text import visible_line
from gatemark.packs.documents import make_json_schema

PACK_FILE: Final = "pack.yaml"
SCHEMA_FILE: Final = "pack.schema.json"
REGRESSION_MAX: Final = 0.05
JsonMap = dict[str, Any]


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """A pack as a mapping, its files by name, and notes for the reader."""

    pack: JsonMap
    files: dict[str, bytes]
    converted: tuple[str, ...]
    left_out: tuple[str, ...]


def make_pack_name(text: str) -> str:
    """Turn a text into a valid pack name."""
    found = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:64].strip("-")
    return found or "converted"


def build_pack(
    name: str, kind: str, suite: Mapping[str, Any], candidate: JsonMap, baseline: JsonMap | str
) -> JsonMap:
    """Build a pack with one suite. Without a baseline, every test must pass."""
    floor = {"min": 1.0} if baseline == "none" else {}
    whole = {"id": "tests", "kind": "golden", "weight": 1, **floor, **suite}
    return {
        "gatemark": 1,
        "name": name,
        "version": 1,
        "asset": {"kind": kind, "name": name},
        "score_min": 1.0 if baseline == "none" else 0.0,
        "regression_max": REGRESSION_MAX,
        "suites": [whole],
        "targets": {"baseline": baseline, "candidate": candidate},
    }


def write_json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write_conversion(conversion: Conversion, folder: Path) -> tuple[Path, ...]:
    """Write a pack and its files; never overwrites a file."""
    schema = json.dumps(make_json_schema("gatemark.pack/1"), indent=2) + "\n"
    wanted = {
        PACK_FILE: _write_pack_text(conversion).encode(),
        **conversion.files,
        SCHEMA_FILE: schema.encode(),
    }
    present = [str(folder / name) for name in wanted if (folder / name).exists()]
    if present:
        raise RefusedError(f"{present[0]} is already there; choose an empty folder")
    for name, data in wanted.items():
        write_whole(folder / name, [data])
    return tuple(folder / name for name in wanted)


def _write_pack_text(conversion: Conversion) -> str:
    lines = [f"# yaml-language-server: $schema={SCHEMA_FILE}"]
    lines += [f"# {visible_line(line)}" for line in conversion.converted]
    lines += [f"# NOT CONVERTED: {visible_line(line)}" for line in conversion.left_out]
    body = yaml.safe_dump(conversion.pack, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(lines) + "\n" + body
