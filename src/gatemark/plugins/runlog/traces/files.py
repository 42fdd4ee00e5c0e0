"""Read complete, checked traces, manifests and run logs from files."""

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

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError
from gatemark.core.record import FileRules, Remark
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.source import digest_source, inspect_source
from gatemark.evidence.whole_file import (
    OpenedFile,
    TaggedReading,
    open_records,
    read_tagged,
    remark_words,
)
from gatemark.plugins.runlog.records.manifest import RunManifest
from gatemark.plugins.runlog.records.manifest_file_rules import ManifestRules
from gatemark.plugins.runlog.records.names import (
    TRACE_FILE_ENDS,
    TRACE_SUFFIX,
    find_case_of_trace_file,
    strip_case_id,
)
from gatemark.plugins.runlog.records.older_run import (
    SingleRunRules,
    build_run_log,
    convert_to_run_log,
    is_single_record,
)
from gatemark.plugins.runlog.records.run import Compat, RunLog, VersionedRecord
from gatemark.plugins.runlog.records.run_bytes import RunByteRules, read_gzip_mtime
from gatemark.plugins.runlog.records.run_file_rules import RunRules
from gatemark.plugins.runlog.records.source_marks import (
    has_null_filters,
    relax_schema,
    strip_source_marks,
)
from gatemark.plugins.runlog.records.trace_file_rules import Mode, TraceRules
from gatemark.plugins.runlog.traces.dataset import CaseList, list_manifest_records
from gatemark.plugins.runlog.traces.trace import Trace, build_trace

GZIP_LEVEL: Final = 9
_PLAIN: Final = re.compile(rb"[ -~]*\Z").match
_encoder: Final = msgspec.json.Encoder(order="sorted")


def render_json_lines(records: Iterable[object], *, ascii_only: bool = False) -> bytes:
    """Return JSON Lines with sorted keys and no spaces; ``ascii_only`` escapes other characters."""
    lines = []
    for record in records:
        line = _encoder.encode(record)
        if ascii_only and not _PLAIN(line):
            plain = msgspec.to_builtins(record)
            line = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
        lines.append(line)
    return b"".join(line + b"\n" for line in lines)


def render_compact_lines(records: Iterable[object]) -> bytes:
    """Return decoded JSON as the lines of a run log: keys sorted at every depth, no spaces."""
    return b"".join(
        json.dumps(one, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        for one in records
    )


def pack_gzip(data: bytes) -> bytes:
    """Return bytes as gzip without a time and without a name."""
    target = io.BytesIO()
    with gzip.GzipFile("", "wb", GZIP_LEVEL, target, mtime=0) as stream:
        stream.write(data)
    return target.getvalue()


def render_plain_json(value: object) -> bytes:
    """Return an indented JSON document with sorted keys and a final newline."""
    return msgspec.json.format(_encoder.encode(value), indent=2) + b"\n"


JSONL_ENDS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
MANIFEST_END = ".manifest.jsonl"
CASE_LIST_END = ".case_list.jsonl"


def write_case_list(folder: Path, manifest: RunManifest, cases: CaseList) -> str:
    """Write the list of cases of a data set into a folder, and return its path."""
    target = folder / f"{manifest.meta.dataset_id}{CASE_LIST_END}"
    write_whole(target, [cases.data])
    return str(target)


def write_manifest_file(folder: Path, manifest: RunManifest) -> str:
    """Write a manifest into a folder, and return its path."""
    target = folder / f"{manifest.meta.dataset_id}{MANIFEST_END}"
    write_whole(target, [render_json_lines(list_manifest_records(manifest), ascii_only=True)])
    return str(target)


class ReadTrace(msgspec.Struct, frozen=True):
    """A trace with the hash of its file, the hash of its content, and its warnings."""

    trace: Trace
    file_hash: str
    content_hash: str
    delta_count: int
    remarks: tuple[Remark, ...]


class TraceReading(msgspec.Struct, frozen=True):
    """The result of reading a trace file; ``trace`` is None if it is not usable."""

    reading: TaggedReading
    trace: Trace | None
    file_hash: str
    content_hash: str


def inspect_trace(
    path: str, mode: Mode = "strict", choices: ReadingChoices | None = None
) -> TraceReading:
    """Read a trace and return its problems instead of raising them."""
    source = inspect_source(path)
    rules = TraceRules(mode)
    content = hashlib.sha256()
    reading = read_tagged(
        source, schemas().get("exaid.trace"), rules, choices or ReadingChoices(), content.update
    )
    usable = reading.is_valid and rules.meta is not None
    return TraceReading(
        reading=reading,
        trace=build_trace(rules) if usable else None,
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
    """Read a trace that is fit for replay; raise with every reason why it is not."""
    looked = inspect_trace(path, mode, choices)
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


def read_manifest(path: str) -> RunManifest:
    """Read a consistent manifest; raise with every reason why it is not."""
    rules = ManifestRules()
    reading = read_tagged(
        inspect_source(path), schemas().get("exaid.manifest"), rules, ReadingChoices()
    )
    manifest = rules.manifest()
    if not reading.is_valid or manifest is None:
        problems = reading.problems or (f"{path}: the manifest is incomplete",)
        raise BadInputError(problems, unlisted_count=reading.unlisted)
    return manifest


class RunReading(msgspec.Struct, frozen=True):
    """The result of reading a run log; ``log`` is None if it is not usable.

    ``warnings`` do not make it invalid; each has its line.
    """

    log: RunLog | None
    problems: tuple[str, ...]
    unlisted: int
    warnings: tuple[str, ...]


def inspect_run_log(
    path: str,
    *,
    compat: Compat = "gatemark",
    choices: ReadingChoices | None = None,
    check_bytes: bool = True,
) -> RunReading:
    """Read a run log of any version, and return its problems instead of raising them.

    Mode ``source`` also reads logs whose case ids end with ``.trace`` or whose filters are null.
    ``check_bytes`` compares the bytes with what the log says in ``determinism``.
    """
    choices = choices or ReadingChoices()
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        opened = open_records(inspect_source(path), choices, Path(folder))
        return _read_run(opened, compat, choices, check_bytes=check_bytes)


def read_run_log(
    path: str, *, compat: Compat = "gatemark", choices: ReadingChoices | None = None
) -> RunLog:
    """Return a run log of any version; raise with every problem it has.

    ``missing`` of the log lists the fields that an older version lacks.
    """
    looked = inspect_run_log(path, compat=compat, choices=choices, check_bytes=False)
    if looked.log is None:
        raise BadInputError(looked.problems, unlisted_count=looked.unlisted)
    return looked.log


def _read_run(
    opened: OpenedFile, compat: Compat, choices: ReadingChoices, *, check_bytes: bool
) -> RunReading:
    source, first, why_empty = opened
    if why_empty is not None:
        between = ":" if why_empty[0].isdigit() else ": "
        return RunReading(None, (f"{source.name}{between}{why_empty}",), 0, ())
    has_suffix = str(first.get("case_id", "")).endswith(TRACE_SUFFIX)
    if has_suffix and compat != "source":
        problem = (
            f"{source.name}:1: case ids end with {TRACE_SUFFIX!r}, as the source writes them; read "
            "the log with --compat source, or convert it with gatemark runlog migrate"
        )
        return RunReading(None, (problem,), 0, ())
    schema = schemas().get("exaid.run").version_of(first)
    schema = relax_schema(schema) if compat == "source" else schema
    rules = _Keeping(schema.across() if schema.across is not None else RunRules())
    with Path(source.path).open("rb") as stream:
        raw = RunByteRules(read_gzip_mtime(stream.read(8)), check_bytes=check_bytes)
    expected = schema if schema.tag is not None else schema.forms[0]
    reading = read_tagged(source, expected, rules, choices, raw.update)
    found = raw.list_remarks()
    problems = [*reading.problems]
    problems += [remark_words(source.name, one) for one in found if one.grade == "error"]
    warnings = [
        remark_words(source.name, one) for one in (*reading.remarks, *found) if one.grade != "error"
    ]
    failed = sum(has_null_filters(record) for record in rules.records)
    if failed:
        warnings.append(f"{source.name}: warning: {failed} decisions have no filters, only nulls")
    log = None
    if not problems and isinstance(rules.inner, SingleRunRules):
        log = convert_to_run_log(strip_source_marks(rules.records[0]))
    elif not problems:
        notes = [remark for remark in reading.remarks if remark.grade == "note"]
        log = build_run_log(rules.records, notes)
    return RunReading(log, tuple(problems), reading.unlisted, tuple(warnings))


def read_first_record(path: Path) -> dict[str, object]:
    """Return the first record of a file; empty if it cannot be read."""
    try:
        return open_records(inspect_source(str(path)), ReadingChoices(), None).first
    except BadInputError:
        return {}


TRACE_KINDS: Final = frozenset({"trace_meta", "stream_delta", "turn_boundary"})
RUN_KINDS: Final = frozenset({"run_meta", "tokengate_flush", "buffer_decision", "summary_event"})


def find_kind_of_file(path: Path) -> str | None:
    """Return the schema of a trace, a manifest or a run log by its first record."""
    first = read_first_record(path)
    kind = first.get("record_type")
    if kind in TRACE_KINDS:
        return "exaid.trace"
    if kind in RUN_KINDS or first.get("schema_name") == "exaid.run" or is_single_record(first):
        return "exaid.run"
    return "exaid.manifest" if kind == "manifest_meta" else None


def find_traces(folder: str) -> tuple[Path, ...]:
    """Return the traces of a folder, sorted by name; a single file stands for itself.

    Files are recognised by their first record, whatever they are called.
    """
    place = Path(folder)
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise BadInputError(f"{folder}: expected a folder of traces")
    found = sorted(path for path in place.iterdir() if path.is_file() and _is_trace(path))
    if not found:
        raise BadInputError(f"{folder}: holds no traces (such as case-1{TRACE_FILE_ENDS[0]})")
    return tuple(found)


def group_traces_by_case(paths: Iterable[Path]) -> dict[str, Path]:
    """Return traces by the case that their first record names, else by their file name."""
    found: dict[str, Path] = {}
    for path in paths:
        named = find_case_of_trace_file(path.name) or path.stem
        found[strip_case_id(str(read_first_record(path).get("case_id") or named))] = path
    return found


def _is_trace(path: Path) -> bool:
    """Return whether a file is a trace, or is named like one and cannot be read."""
    if not path.name.endswith(JSONL_ENDS):
        return False
    kind = find_kind_of_file(path)
    return kind == "exaid.trace" or (kind is None and path.name.endswith(TRACE_FILE_ENDS))


def find_manifest(given: str | None, *folders: Path) -> Path | None:
    """Return the named manifest, or the only one in the first folder that has any."""
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
    """Rules that also store the records they have seen."""

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
