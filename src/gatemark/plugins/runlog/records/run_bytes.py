"""Rules of a run log that decoded records cannot show: its bytes, and unknown keys.

A log says in ``determinism`` how it was written, and the bytes must agree. Provenance hashes belong
in one place, also in nested objects. A key that resembles a missing known one is a warning, because
nothing reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

import msgspec

from gatemark.core.record import Remark
from gatemark.plugins.runlog.records.run import (
    PROVENANCE_KEYS,
    RECORD_TYPES,
    Determinism,
    FilterResults,
    LlmUsage,
    StoplistsProvenance,
    SummaryContent,
    TimestampDerivation,
)

_STOPLIST_HASHES: Final = ("stop_entities_hash", "stop_cuis_hash", "stoplist_df_report_hash")
_PLACES: Final = frozenset(
    {
        *(f"$.{key}" for key in PROVENANCE_KEYS),
        *(f"$.stoplists_provenance.{key}" for key in _STOPLIST_HASHES),
    }
)
_PINNED: Final = frozenset({*PROVENANCE_KEYS, *_STOPLIST_HASHES})
_MAYBE_PINNED: Final = re.compile(rb"\\u|" + "|".join(sorted(_PINNED)).encode())
"""What a line with one of these keys has; a letter of a key may be written as an escape."""
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_SEPARATORS: Final = (re.compile(rb"\s*,\s*"), re.compile(rb"\s*:\s*"))
_ALIKE: Final = 0.8


_KNOWN: Final = {tag: kind.__struct_encode_fields__ for tag, kind in RECORD_TYPES.items()}
_NESTED: Final = {
    "llm_usage": LlmUsage,
    "filter_results": FilterResults,
    "summary_content": SummaryContent,
    "determinism": Determinism,
    "timestamp_derivation": TimestampDerivation,
    "stoplists_provenance": StoplistsProvenance,
}


class RunByteRules:
    """Checks the bytes of a run log, block by block."""

    def __init__(self, gzip_mtime: int | None, *, check_bytes: bool = True) -> None:
        self._check_bytes = check_bytes
        self._gzip_mtime = gzip_mtime
        self._rest = b""
        self._line = 0
        self._stated: Mapping[str, object] = {}
        self._remarks: list[Remark] = []
        self._seen: set[tuple[str, str]] = set()

    def update(self, data: bytes) -> None:
        """Read the next uncompressed bytes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._check_line(line)

    def list_remarks(self) -> list[Remark]:
        """Return the findings, after the last byte."""
        if self._rest:
            self._check_line(self._rest)
            self._rest = b""
        return self._remarks

    def _check_line(self, line: bytes) -> None:
        self._line += 1
        unsorted: list[str] = []

        def ordered(pairs: list[tuple[str, object]]) -> dict[str, object]:
            keys = [key for key, _ in pairs]
            unsorted.extend(keys if keys != sorted(keys) else ())
            return dict(pairs)

        try:
            if self._check_bytes:
                record = json.loads(line, object_pairs_hook=ordered)
            else:
                record = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            return  # The reader reports it.
        if not isinstance(record, dict):
            return
        if self._line == 1 and self._check_bytes:
            self._note_determinism(record)
        if unsorted and self._stated.get("json_sort_keys") is True:
            self._add("determinism", "$", f"says sorted keys, but {unsorted[0]!r} is out of order")
        self._check_separators(line)
        # A whole run in one object nests its provenance and its events.
        if "record_type" in record:
            if _MAYBE_PINNED.search(line):
                self._remarks += self._find_misplaced(record, record["record_type"] == "run_meta")
            self._find_near_misses(record)

    def _note_determinism(self, meta: Mapping[str, object]) -> None:
        stated = meta.get("determinism")
        self._stated = stated if isinstance(stated, dict) else {}
        if self._stated.get("gzip_mtime") == 0 and self._gzip_mtime:
            message = f"says gzip_mtime 0, but the gzip header has the time {self._gzip_mtime}"
            self._add("determinism", "$.determinism.gzip_mtime", message)

    def _check_separators(self, line: bytes) -> None:
        stated = self._stated.get("json_separators")
        if not isinstance(stated, list) or len(stated) != len(_SEPARATORS):
            return
        bare = _TEXT.sub(b'""', line)
        for pattern, text in zip(_SEPARATORS, stated, strict=True):
            found = next((one for one in pattern.findall(bare) if one != str(text).encode()), None)
            if found is not None:
                message = f"says the separator {text!r}, but the line has {found.decode()!r}"
                self._add("determinism", "$", message)

    def _find_misplaced(self, value: object, in_meta: bool, path: str = "$") -> Iterator[Remark]:
        """Yield hashes of provenance outside their one place; the reader reports the top level."""
        if isinstance(value, list):
            for place, one in enumerate(value):
                yield from self._find_misplaced(one, in_meta, f"{path}[{place}]")
        if not isinstance(value, dict):
            return
        for key, one in value.items():
            here = f"{path}.{key}"
            if key in _PINNED and here not in _PLACES:
                message = "belongs to run_meta, in one place only"
                yield Remark(self._line, "one_provenance", here, message)
            elif not (in_meta and here in _PLACES and not isinstance(one, dict)):
                yield from self._find_misplaced(one, in_meta, here)

    def _find_near_misses(self, record: Mapping[str, object]) -> None:
        kind = str(record.get("record_type"))
        self._compare(kind, record, _KNOWN.get(kind, ()), "$")
        for name, nested in _NESTED.items():
            inner = record.get(name)
            if isinstance(inner, dict):
                self._compare(kind, inner, nested.__struct_encode_fields__, f"$.{name}")

    def _compare(
        self, kind: str, record: Mapping[str, object], known: tuple[str, ...], path: str
    ) -> None:
        unknown = record.keys() - known - {"record_type"}
        lacking = [key for key in known if key not in record] if unknown else []
        for key in sorted(unknown):
            if (kind, f"{path}.{key}") in self._seen:
                continue
            found = get_close_matches(key, lacking, n=1, cutoff=_ALIKE) if lacking else []
            if found:
                self._seen.add((kind, f"{path}.{key}"))
                message = f"nothing reads {key!r}; did you mean {found[0]!r}?"
                self._remarks.append(
                    Remark(self._line, "near_miss", f"{path}.{key}", message, "warning")
                )

    def _add(self, rule: str, path: str, message: str) -> None:
        """Add one remark per rule and path: how a file was written concerns all of it."""
        if (rule, path) not in self._seen:
            self._seen.add((rule, path))
            self._remarks.append(Remark(self._line, rule, path, message))


def read_gzip_mtime(head: bytes) -> int | None:
    """Return the time in the header of a gzip file; None for other files."""
    return int.from_bytes(head[4:8], "little") if head[:2] == b"\x1f\x8b" else None
