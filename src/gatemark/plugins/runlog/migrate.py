"""``gatemark runlog migrate``: rewrite run logs of the source without their known faults.

``.trace`` is removed from ids, null filters are left out, older run names get underscores, and a
whole run in one object becomes one record per line. Unknown keys are kept. Nothing is invented: a
log that lacks fields required by its version is refused, with a list of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.reading_choices import Limits
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import inspect_source
from gatemark.evidence.strict_json import parse_strictly
from gatemark.plugins.runlog.records.names import name_run_file
from gatemark.plugins.runlog.records.older_fields import MULTI_RECORD, change_fields, split_run
from gatemark.plugins.runlog.records.source_marks import find_source_marks
from gatemark.plugins.runlog.traces.files import (
    JSONL_ENDS,
    find_kind_of_file,
    inspect_run_log,
    pack_gzip,
    render_compact_lines,
)


class MigratedLog(msgspec.Struct, frozen=True):
    """One log: what was changed and where it was written, or why it was refused."""

    file: str
    output: str | None
    changes: tuple[str, ...]
    problems: tuple[str, ...] = ()


def migrate_logs(paths: Sequence[str], output: str) -> Iterator[MigratedLog]:
    """Convert run logs one by one; one that cannot be converted does not stop the others."""
    found = list(_find_logs(paths))
    if not found:
        raise BadInputError(f"{', '.join(paths)}: there are no run logs")
    for path, folder in found:
        if Path(output).resolve() == path.parent.resolve():
            raise UsageError(f"{output}: the logs are in this folder; choose another one")
        yield _migrate(path, Path(output) / folder)


def _find_logs(paths: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Yield run logs, and the folder of each below the given one."""
    for text in paths:
        place = Path(text)
        if not place.is_dir():
            yield place, Path()
            continue
        for path in sorted(place.rglob("*")):
            if path.name.endswith(JSONL_ENDS) and find_kind_of_file(path) == "exaid.run":
                yield path, path.parent.relative_to(place)


def _migrate(path: Path, folder: Path) -> MigratedLog:
    try:
        records = list(_read_records(path))
        changes: dict[str, int] = {}
        lines = [_repair_record(record, changes) for record in _split_records(records, changes)]
        case_id = str(lines[0].get("case_id", path.name))
        target = folder / name_run_file(case_id)
        if target.exists():
            raise BadInputError(f"{target}: exists; choose another folder")
        data = pack_gzip(render_compact_lines(lines))
        _check(data, str(path))
        write_whole(target, [data])
    except GatemarkError as error:
        return MigratedLog(str(path), None, (), error.lines())
    words = tuple(f"{name} ({count})" for name, count in changes.items())
    return MigratedLog(str(path), str(target), words)


def _check(data: bytes, name: str) -> None:
    """Refuse what would not be a valid log."""
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        trial = Path(folder) / "log.jsonl.gz"
        trial.write_bytes(data)
        problems = inspect_run_log(str(trial)).problems
        if problems:
            raise BadInputError(tuple(problem.replace(str(trial), name) for problem in problems))


def _read_records(path: Path) -> Iterator[dict[str, Any]]:
    limits = Limits()
    data = b"".join(
        block.data for block in read_blocks(whole_file(inspect_source(str(path))), limits)
    )
    whole, problems = parse_strictly(data.strip(), max_depth=limits.depth)
    if not problems and isinstance(whole, dict):
        yield whole
        return
    for number, line in enumerate(data.splitlines(), start=1):
        if line.strip():
            record, problems = parse_strictly(line, max_depth=limits.depth)
            if problems or not isinstance(record, dict):
                message = problems[0].message if problems else "expected an object"
                raise BadInputError(f"{path}:{number}: {message}")
            yield record


def _split_records(
    records: Sequence[dict[str, Any]], changes: dict[str, int]
) -> Iterator[Mapping[str, Any]]:
    """Yield records one by one, also if a run is one object."""
    first = records[0] if records else {}
    if len(records) != 1 or "record_type" in first:
        yield from records
        return
    changes["one record per line"] = 1
    version = ".".join(map(str, (*MULTI_RECORD, 0)))
    for record in split_run(first):
        is_meta = record["record_type"] == "run_meta"
        yield record | ({"schema_version": version} if is_meta else {})


def _repair_record(record: Mapping[str, Any], changes: dict[str, int]) -> dict[str, Any]:
    """Return a record as it is written today, and count what was changed."""
    plain = dict(record)
    for mark, changed in find_source_marks(record):
        changes[mark.says] = changes.get(mark.says, 0) + 1
        plain |= changed
    for says, field, value in change_fields(record):
        changes[says] = changes.get(says, 0) + 1
        plain[field] = value
    return {key: value for key, value in plain.items() if value is not UNSET}


def describe_migration(logs: Sequence[MigratedLog]) -> Iterator[str]:
    """Yield what was done, for people."""
    for log in logs:
        if log.output is not None:
            yield f"{log.file} -> {log.output}: {', '.join(log.changes) or 'nothing to change'}"
    done = sum(log.output is not None for log in logs)
    yield f"{done} of {len(logs)} run logs written"
