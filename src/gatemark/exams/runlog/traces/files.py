"""Reading traces, manifests and run logs from files, whole and checked."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError
from gatemark.core.record import FileRules, Form, RecordSchema, Remark
from gatemark.evidence.exam import schemas
from gatemark.evidence.source import ReadingChoices, digest_source, inspect_source
from gatemark.evidence.whole_file import OpenedFile, TaggedReading, open_records, read_tagged
from gatemark.exams.runlog.records.manifest import RunManifest
from gatemark.exams.runlog.records.manifest_rules import ManifestRules
from gatemark.exams.runlog.records.names import TRACE_FILE_ENDS, TRACE_SUFFIX
from gatemark.exams.runlog.records.older_run import LENIENT, SingleRunRules, as_run_log, run_log_of
from gatemark.exams.runlog.records.run import Compat, RunLog, VersionedRecord
from gatemark.exams.runlog.records.run_rules import RunRules
from gatemark.exams.runlog.records.trace_rules import Mode, TraceRules
from gatemark.exams.runlog.traces.trace import Trace, trace_of

GZIP_LEVEL: Final = 9
_PLAIN: Final = re.compile(rb"[ -~]*\Z").match
_encoder: Final = msgspec.json.Encoder(order="sorted")


def json_lines(records: Iterable[object], *, ascii_only: bool = False) -> bytes:
    """JSON Lines with sorted keys and no spaces; ``ascii_only`` escapes other characters."""
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


def plain_json(value: object) -> bytes:
    """A JSON document for people: sorted keys, two spaces, a newline at the end."""
    return msgspec.json.format(_encoder.encode(value), indent=2) + b"\n"


MANIFEST_END = ".manifest.jsonl"
CASE_LIST_END = ".case_list.jsonl"


class ReadTrace(msgspec.Struct, frozen=True):
    """A trace with the hash of its file, the hash of its content, and what was odd about it."""

    trace: Trace
    file_hash: str
    content_hash: str
    delta_count: int
    remarks: tuple[Remark, ...]


class TraceReading(msgspec.Struct, frozen=True):
    """A trace file that was looked at; ``trace`` is None unless it is usable."""

    reading: TaggedReading
    trace: Trace | None
    file_hash: str
    content_hash: str


def look_at_trace(
    path: str, mode: Mode = "strict", choices: ReadingChoices | None = None
) -> TraceReading:
    """Read a trace and keep what is wrong with it instead of refusing it."""
    source = inspect_source(path)
    rules = TraceRules(mode)
    content = hashlib.sha256()
    reading = read_tagged(
        source, schemas().get("exaid.trace"), rules, choices or ReadingChoices(), content.update
    )
    usable = reading.is_valid and rules.meta is not None
    return TraceReading(
        reading=reading,
        trace=trace_of(rules) if usable else None,
        file_hash=digest_source(source).digest,
        content_hash=DIGEST_PREFIX + content.hexdigest(),
    )


def read_trace(
    path: str,
    *,
    mode: Mode = "strict",
    allow_stub: bool = False,
    choices: ReadingChoices | None = None,
) -> ReadTrace:
    """A trace that is fit for replay, or every reason why it is not."""
    looked = look_at_trace(path, mode, choices)
    if looked.trace is None:
        raise BadInputError(looked.reading.problems, unlisted_count=looked.reading.unlisted)
    if looked.trace.is_stub and not allow_stub:
        raise BadInputError(f"{path}: is a stub trace, which stands in for one that failed")
    return ReadTrace(
        trace=looked.trace,
        file_hash=looked.file_hash,
        content_hash=looked.content_hash,
        delta_count=looked.reading.kinds.get("stream_delta", 0),
        remarks=looked.reading.remarks,
    )


def read_manifest(path: str, choices: ReadingChoices | None = None) -> RunManifest:
    """A manifest that adds up, or every reason why it does not."""
    rules = ManifestRules()
    reading = read_tagged(
        inspect_source(path), schemas().get("exaid.manifest"), rules, choices or ReadingChoices()
    )
    manifest = rules.manifest()
    if not reading.is_valid or manifest is None:
        problems = reading.problems or (f"{path}: the manifest is incomplete",)
        raise BadInputError(problems, unlisted_count=reading.unlisted)
    return manifest


def read_run_log(
    path: str, *, compat: Compat = "gatemark", choices: ReadingChoices | None = None
) -> RunLog:
    """A run log of any version; what an older one does not tell is listed in ``missing``.

    ``source`` also reads logs whose case ids kept the ``.trace`` suffix, and takes it off.
    """
    choices = choices or ReadingChoices()
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        opened = open_records(inspect_source(path), choices, Path(folder))
        return _run_log(opened, compat, choices)


def _run_log(opened: OpenedFile, compat: Compat, choices: ReadingChoices) -> RunLog:
    source, first, _ = opened
    schema = schemas().get("exaid.run").version_of(first)
    if compat == "source" and str(first.get("case_id", "")).endswith(TRACE_SUFFIX):
        schema = _lenient(schema)
    rules = _Keeping(schema.across() if schema.across is not None else RunRules())
    reading = read_tagged(source, schema, rules, choices)
    if not reading.is_valid:
        raise BadInputError(reading.problems, unlisted_count=reading.unlisted)
    if isinstance(rules.inner, SingleRunRules):
        return as_run_log(rules.records[0])
    notes = [remark for remark in reading.remarks if remark.grade == "note"]
    return run_log_of(rules.records, notes)


def find_traces(folder: str) -> tuple[Path, ...]:
    """The trace files of a folder, sorted by name; a single file stands for itself."""
    place = Path(folder)
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise BadInputError(f"{folder}: expected a folder of traces")
    found = sorted(
        path for path in place.iterdir() if path.is_file() and path.name.endswith(TRACE_FILE_ENDS)
    )
    if not found:
        raise BadInputError(f"{folder}: holds no {' or '.join(TRACE_FILE_ENDS)} files")
    return tuple(found)


def find_manifest(given: str | None, *folders: Path) -> Path | None:
    """The manifest that was named, or the only one in the first of some folders that has any."""
    if given is not None:
        return Path(given)
    for folder in folders:
        found = sorted(folder.glob(f"*{MANIFEST_END}")) if folder.is_dir() else []
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise BadInputError(f"{folder}: holds several manifests ({names}); name one")
        if found:
            return found[0]
    return None


class _Keeping(FileRules):
    """Rules that also keep the records they have seen."""

    def __init__(self, inner: FileRules) -> None:
        self.inner = inner
        self.records: list[VersionedRecord] = []

    def see(self, lines: Sequence[int], records: Sequence[VersionedRecord]) -> Iterable[Remark]:
        self.records.extend(records)
        return self.inner.see(lines, records)

    def lost(self) -> None:
        self.inner.lost()

    def end(self) -> Iterable[Remark]:
        return self.inner.end()


def _lenient(schema: RecordSchema) -> RecordSchema:
    """The same schema without rules on single records, and with types that forgive."""
    forms = tuple(
        Form(
            name=str(kind.__struct_config__.tag),
            type=kind,
            marks=frozenset({"record_type"}),
            identity="case_id",
            good=(),
            bad=(),
        )
        for kind in LENIENT
    )
    return msgspec.structs.replace(schema, forms=forms, tag="record_type", across=RunRules)
