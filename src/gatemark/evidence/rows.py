"""Data sets: rows under unique ids, read from JSON Lines, CSV or Parquet and named by content."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gatemark.core.canonical import digest, digest_document, plain
from gatemark.core.errors import BadInputError, InvalidValueError, UsageError, not_installed
from gatemark.core.text import is_one_line
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.inputs import SeenInputs
from gatemark.evidence.reading_choices import Limits
from gatemark.evidence.settings_file import about
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source, inspect_source
from gatemark.evidence.strict_json import parse_strictly, quoted


class Row(msgspec.Struct, frozen=True):
    """One item: input, expected output, tags and cluster."""

    id: str
    input: Any
    target: Any = None
    cluster: str | None = None
    confidence: float | None = None
    tags: dict[str, str] = {}
    extra: dict[str, Any] = {}


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A seeded draw from a data set, even over the values of a tag when one is named."""

    n: Annotated[Annotated[int, msgspec.Meta(ge=1, le=1_000_000)], about("Number of items.")]
    seed: Annotated[int, about("Random seed.")] = 0
    stratify: Annotated[str | None, about("Tag whose values are drawn evenly.")] = None


class Snapshot(msgspec.Struct, frozen=True):
    """The rows of a data set. The digest does not depend on their order."""

    name: str
    digest: str
    rows: tuple[Row, ...]

    @property
    def reference(self) -> str:
        """The reference that a result cites."""
        return f"{self.name}@{self.digest}"

    @property
    def ids(self) -> frozenset[str]:
        """The pinned ids."""
        return frozenset(row.id for row in self.rows)


def freeze(name: str, rows: tuple[Row, ...]) -> Snapshot:
    """Return a snapshot of rows, sorted by id; refuse repeated ids and empty sets."""
    if not rows:
        raise InvalidValueError(f"data set {name} is empty")
    ordered = tuple(sorted(rows, key=lambda row: row.id))
    seen = SeenInputs()
    for row in ordered:
        if (same := seen.see(row.id, "in the same data set")) is not None:
            raise InvalidValueError(f"data set {name}: {same.describe()}")
    return Snapshot(name=name, digest=digest([digest(row) for row in ordered]), rows=ordered)


def write_rows(snapshot: Snapshot) -> bytes:
    """Return the rows of a snapshot as stored: JSON Lines, with numbers as they were read."""
    return b"".join(msgspec.json.encode(plain(row)) + b"\n" for row in snapshot.rows)


def stored_snapshot(name: str, lines: bytes) -> Snapshot:
    """The snapshot in stored lines, its digest taken over the lines and not over today's types.

    Raise msgspec.MsgspecError for lines that are not rows.
    """
    found = [(msgspec.json.decode(line, type=Row), line) for line in lines.splitlines()]
    found.sort(key=lambda one: one[0].id)
    digests = [digest_document(line) for _, line in found]
    return Snapshot(name=name, digest=digest(digests), rows=tuple(row for row, _ in found))


MAX_PROBLEMS = 20
_KNOWN = ("id", "input", "target", "cluster", "confidence", "tags")


def read_dataset(path: str, name: str) -> Snapshot:
    """Return the rows of a file as a snapshot; list every problem with its place."""
    return _freeze_rows(name, _read_values(path, inspect_source(path)))


def placed_rows(path: str, name: str) -> Iterator[tuple[str, Row]]:
    """Yield every valid row of a file in order, with its place."""
    for place, value in _read_values(path, inspect_source(path, name=name)):
        row = _parse_row(value)
        if not isinstance(row, str):
            yield place, row


def _read_values(path: str, source: Source) -> Iterator[tuple[str, object]]:
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        return _read_csv(source)
    if suffix == ".parquet":
        return _read_parquet(source)
    return json_rows(source, Limits())


def frozen_rows(name: str, records: Iterable[Mapping[str, object]]) -> Snapshot:
    """Return a snapshot of rows that are already in memory."""
    return _freeze_rows(
        name, ((f"{name}:{n}", dict(record)) for n, record in enumerate(records, 1))
    )


def draw_rows(snapshot: Snapshot, sampling: Sampling) -> Snapshot:
    """Draw rows by a seed. A row's chance does not depend on the other rows or strata."""

    def luck(row: Row) -> bytes:
        return hashlib.sha256(f"{sampling.seed}\x00{row.id}".encode()).digest()

    if sampling.n >= len(snapshot.rows):
        return snapshot
    strata: dict[str, list[Row]] = {}
    for row in snapshot.rows:
        key = "" if sampling.stratify is None else row.tags.get(sampling.stratify, "")
        strata.setdefault(key, []).append(row)
    quotas = _split_quotas({key: len(rows) for key, rows in strata.items()}, sampling.n)
    chosen = [row for key, rows in strata.items() for row in sorted(rows, key=luck)[: quotas[key]]]
    return freeze(snapshot.name, tuple(chosen))


def _split_quotas(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Split ``n`` in proportion to size, by largest remainders."""
    total = sum(sizes.values())
    exact = {key: n * size / total for key, size in sizes.items()}
    quotas = {key: int(share) for key, share in exact.items()}
    left = n - sum(quotas.values())
    for key in sorted(exact, key=lambda key: (quotas[key] - exact[key], key))[:left]:
        quotas[key] += 1
    return quotas


def _freeze_rows(name: str, places: Iterable[tuple[str, object]]) -> Snapshot:
    rows: list[Row] = []
    seen = SeenInputs()
    problems: list[str] = []
    for place, value in places:
        row = _parse_row(value)
        if isinstance(row, str):
            problems.append(f"{place}: {row}")
        elif (same := seen.see(row.id, f"at {place}")) is not None:
            problems.append(f"{place}: {same.describe()}")
        else:
            rows.append(row)
    if problems:
        raise BadInputError(
            tuple(problems[:MAX_PROBLEMS]), unlisted_count=max(0, len(problems) - MAX_PROBLEMS)
        )
    if not rows:
        raise BadInputError(f"{name}: contains no rows")
    try:
        return freeze(name, tuple(rows))
    except InvalidValueError as error:
        raise BadInputError(f"{name}: {error}") from error


def _parse_row(value: object) -> Row | str:
    """Return a typed row, or its problem."""
    if isinstance(value, BadLine):
        return value.reason
    if not isinstance(value, dict):
        return f"got {quoted(value)}, expected an object"
    identity = value.get("id")
    if not isinstance(identity, str) or not identity or not is_one_line(identity):
        return f"id must be one line of text, got {quoted(identity)}"
    if "input" not in value:
        return 'key "input" is missing'
    tags = value.get("tags", {})
    if not isinstance(tags, dict) or not all(isinstance(tag, str) for tag in tags.values()):
        return "tags must map names to texts"
    cluster, confidence = value.get("cluster"), value.get("confidence")
    if cluster is not None and not isinstance(cluster, str):
        return f"cluster must be a text, got {quoted(cluster)}"
    if confidence is not None and not (
        isinstance(confidence, int | float)
        and not isinstance(confidence, bool)
        and 0 <= confidence <= 1
    ):
        return f"confidence must be in [0, 1], got {quoted(confidence)}"
    return Row(
        id=identity,
        input=value["input"],
        target=value.get("target"),
        cluster=cluster,
        confidence=confidence,
        tags=tags,
        extra={key: inner for key, inner in value.items() if key not in _KNOWN},
    )


def names_schema(source: Source, limits: Limits, schema: str) -> bool:
    """Whether the first readable record of a file names a schema."""
    for block in read_blocks(whole_file(source), limits):
        if block.overlong:
            continue
        for line in block.data.split(b"\n"):
            value, _ = parse_strictly(line, max_depth=limits.depth)
            if isinstance(value, dict):
                return value.get("schema") == schema
        return False
    return False


class BadLine(msgspec.Struct, frozen=True):
    """A line of a file that has no value, and why: never a text that stands in the line."""

    reason: str


def json_rows(source: Source, limits: Limits) -> Iterator[tuple[str, Any]]:
    """Place and value of every line that is not blank; a line that cannot be read is a BadLine."""
    number = 0
    for block in read_blocks(whole_file(source), limits):
        for line in block.data.removesuffix(b"\n").split(b"\n"):
            number += 1
            if block.overlong:
                reason = f"line is longer than {limits.line_bytes} bytes"
                yield f"{source.name}:{number}", BadLine(reason)
            elif line.strip():
                value, problems = parse_strictly(line, max_depth=limits.depth)
                found = BadLine(problems[0].message) if problems else value
                yield f"{source.name}:{number}", found


def _read_csv(source: Source) -> Iterator[tuple[str, object]]:
    """Columns id, input, target, cluster, confidence; ``tag.NAME`` columns are tags."""
    try:
        text = Path(source.path).read_text(encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        for cells in reader:
            if None in cells or None in cells.values():
                bad = BadLine("has another number of cells")
                yield f"{source.name}:{reader.line_num}", bad
                continue
            record: dict[str, Any] = {k: v for k, v in cells.items() if not k.startswith("tag.")}
            record["tags"] = {k[4:]: v for k, v in cells.items() if k.startswith("tag.") and v}
            for optional in ("cluster", "target"):
                record[optional] = record.get(optional) or None
            confidence = record.pop("confidence", "")
            if confidence:
                try:
                    record["confidence"] = float(confidence)
                except ValueError:
                    record["confidence"] = confidence
            yield f"{source.name}:{reader.line_num}", record
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInputError(f"{source.name}: not readable CSV: {error}") from error


def _read_parquet(source: Source) -> Iterator[tuple[str, object]]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra that few need
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(not_installed("reading Parquet needs", "pyarrow", "parquet")) from error
    try:
        table = parquet.read_table(source.path)
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(f"{source.name}: not readable Parquet: {error}") from error
    for number, record in enumerate(table.to_pylist(), start=1):
        tags = record.get("tags")
        if isinstance(tags, list):
            record["tags"] = dict(tags)
        yield f"{source.name}:{number}", {k: v for k, v in record.items() if v is not None}
