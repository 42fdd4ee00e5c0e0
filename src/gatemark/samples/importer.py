"""Importers of other tools' logs: what they read, what they return, how they are found."""

from __future__ import annotations

import gzip
import io
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.registry import Registry
from gatemark.samples.records import SampleOrigin

T = TypeVar("T")

SAMPLE_SCHEMA: Final = "gatemark.sample/1"
HEAD_BYTES: Final = 1 << 18
GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
TABLES: Final = "csv"
_TABLE_NAMES: Final = ("tsv", "jsonl")
_LISTED: Final = 5
_JSON_NAME: Final = re.compile(r"^[^.].*\.jsonl?(\.gz|\.zst)?$")
_VERSION: Final = re.compile(
    rb'"(?:promptfooVersion|inspect_ai|lm_eval_version)"\s*:\s*"([A-Za-z0-9.+_-]{1,40})"'
)


class ForeignLimits(msgspec.Struct, frozen=True):
    """Limits on files from other tools."""

    file_bytes: int = 1 << 30
    member_count: int = 200_000
    member_bytes: int = 256 << 20
    expanded_bytes: int = 4 << 30
    value_depth: int = 60
    unpack_ratio: int = 200
    free_bytes: int = 64 << 20
    """Unpacked bytes that are allowed at any compression ratio."""
    containers: int = 10_000_000
    """Arrays and objects in a file; each takes about sixty bytes of memory, however short."""


class ReadOptions(msgspec.Struct, frozen=True):
    """Options for reading a log.

    ``arm`` selects one of several experiments in a file, by name or number; ``id_path`` is a dotted
    path to the item id in the tool's row; ``columns`` maps fields of a sample to columns of a
    table.
    """

    arm: str | None = None
    id_path: str | None = None
    columns: dict[str, str] = {}
    limits: ForeignLimits = ForeignLimits()


class ForeignFile(msgspec.Struct, frozen=True):
    """The bytes of one log, and its folder if it has one."""

    name: str
    data: bytes
    folder: str | None = None

    @property
    def head(self) -> bytes:
        """The first bytes, enough to recognise a format."""
        return self.data[:HEAD_BYTES]

    def read_sibling(self, name: str, limits: ForeignLimits) -> ForeignFile | None:
        """Return the file of that name in the same folder, or None."""
        if self.folder is None:
            return None
        path = Path(self.folder) / name
        return open_foreign(path, limits) if path.is_file() else None


class ForeignError(msgspec.Struct, frozen=True):
    """Why an item has no scores."""

    kind: str
    message: str


class ForeignSample(msgspec.Struct, frozen=True):
    """One row of a log; the fields are those of `gatemark.sample/1`."""

    id: str
    epoch: int = 1
    input: object = None
    target: object = None
    output: object = None
    scores: dict[str, float | None] = {}
    confidence: float | None = None
    error: ForeignError | None = None
    latency_ms: float | None = None
    cluster: str | None = None
    tags: dict[str, str] = {}
    origin: SampleOrigin | None = None
    cost: float | None = None
    tokens: int | None = None


class Refusal(msgspec.Struct, frozen=True):
    """A row that could not be read: its place and the reason."""

    place: str
    reason: str


class LogExperiment(msgspec.Struct, frozen=True):
    """One experiment inside a log."""

    name: str
    row_count: int


class ClaimCheck(msgspec.Struct, frozen=True):
    """A number that the tool claims, and the same number computed from the imported rows.

    ``found`` is over the ``found_count`` rows that have it; ``over_all`` is over ``all_count`` rows
    with errored rows counted as wrong, and None if that makes no sense.
    """

    name: str
    claimed: float
    found: float | None
    found_count: int
    over_all: float | None
    all_count: int
    agrees: bool
    why: str | None
    explained: bool = False
    """Whether the log explains why the numbers differ."""

    def line(self) -> str:
        """Return both numbers, and why they differ if that is known."""
        found = "nothing" if self.found is None else f"{self.found:.6g} (n={self.found_count})"
        text = f"{self.name}: the log says {self.claimed:.6g}, its rows give {found}"
        if self.over_all is not None and self.all_count != self.found_count:
            text += f", {self.over_all:.6g} over all {self.all_count}"
        return text if self.why is None else f"{text}; {self.why}"


class Imported(msgspec.Struct, frozen=True):
    """A log after reading: every row is either a sample or a refusal.

    ``claimed`` are the tool's own aggregates; ``checks`` compare some of them with the rows.
    ``headline`` names the score that the tool shows first, if any. ``lineage`` has what the log
    says about model, data and versions. ``origin`` is the tool with its version, and what prevents
    these samples from passing.
    """

    tool: str
    arm: str | None
    samples: tuple[ForeignSample, ...]
    refused: tuple[Refusal, ...]
    claimed: dict[str, float]
    checks: tuple[ClaimCheck, ...]
    notes: tuple[str, ...]
    headline: str | None
    lineage: dict[str, str]
    origin: SampleOrigin

    @property
    def errored_count(self) -> int:
        """The number of samples with an error; they count in every denominator."""
        return sum(sample.error is not None for sample in self.samples)

    @property
    def received_count(self) -> int:
        """The number of rows in the log, readable or not."""
        return len(self.samples) + len(self.refused)


class Importer(msgspec.Struct, frozen=True):
    """A reader of one tool's logs.

    ``sniff`` checks the first bytes and the file name. ``arms`` lists the experiments in the files;
    ``read`` reads one of them. ``joint`` means that several files make up one log. ``in_folder``
    selects the logs among the names in a folder that the tool writes to.
    """

    name: str
    summary: str
    sniff: Callable[[bytes, str], bool]
    arms: Callable[[Sequence[ForeignFile], ReadOptions], tuple[LogExperiment, ...]]
    read: Callable[[Sequence[ForeignFile], ReadOptions], Imported]
    joint: bool = False
    in_folder: Callable[[Sequence[str]], Sequence[str]] | None = None


@cache
def importers() -> Registry[Importer]:
    """Return every importer, built in or from a plugin."""
    return Registry(
        kind="importer",
        places=("gatemark.samples.importers.*",),
        attribute="IMPORTER",
        plugin_type=Importer,
        name_of=lambda importer: importer.name,
    )


def to_record(sample: ForeignSample) -> dict[str, Any]:
    """Return the `gatemark.sample/1` object of a row; an unknown origin or cost is left out."""
    record: dict[str, Any] = {"schema": SAMPLE_SCHEMA, **msgspec.to_builtins(sample)}
    for name in ("origin", "cost", "tokens"):
        if record[name] is None:
            del record[name]
    return record


def open_foreign(path: Path, limits: ForeignLimits) -> ForeignFile:
    """Read and decompress a whole log; raise if it exceeds the limits."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadInputError(f"{path}: expected a regular file")
        if found.st_size > limits.file_bytes:
            raise BadInputError(f"{path}: larger than {limits.file_bytes} bytes")
        with path.open("rb") as stream:
            # No more than it needs: a buffer of the whole limit would take a gigabyte.
            packed = stream.read(found.st_size + 1)
        if len(packed) > found.st_size:
            raise BadInputError(f"{path}: grew while it was read")
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    most = min(limits.file_bytes, max(limits.free_bytes, len(packed) * limits.unpack_ratio))
    data = _unpack(packed, path, most)
    if data is not packed and len(data) > most:
        raise BadInputError(f"{path}: unpacks to more than {most} bytes")
    if data.count(b"[") + data.count(b"{") > limits.containers:
        raise BadInputError(f"{path}: has more than {limits.containers} arrays and objects")
    if len(data) > limits.file_bytes:
        raise BadInputError(f"{path}: larger than {limits.file_bytes} bytes")
    if data.startswith(LFS_POINTER):
        raise BadInputError(
            f"{path}: is a Git LFS pointer, not the file itself; fetch it with 'git lfs pull' "
            "(in GitHub Actions, check out with lfs: true)"
        )
    if not data.strip():
        raise BadInputError(f"{path}: the file is empty")
    return ForeignFile(name=str(path), data=data, folder=str(path.parent))


def _unpack(data: bytes, path: Path, most: int) -> bytes:
    """Decompress gzip or zstd, up to one byte more than allowed; return other data unchanged."""
    if data.startswith(ZSTD_MAGIC):
        return _unpack_zstd(data, path, most)
    if not data.startswith(GZIP_MAGIC):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(most + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise BadInputError(f"{path}: gzip data is damaged or truncated ({error})") from error


def _unpack_zstd(data: bytes, path: Path, most: int) -> bytes:
    import zstandard  # noqa: PLC0415 - few logs come packed that way

    unpack = zstandard.ZstdDecompressor()
    try:
        with unpack.stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
            return bytes(stream.read(most + 1))
    except zstandard.ZstdError as error:
        raise BadInputError(f"{path}: zstd data is damaged or truncated ({error})") from error


def detect(file: ForeignFile, known: Registry[Importer]) -> Importer:
    """Return the only importer that recognises a file."""
    fitting = [importer for importer in known if importer.sniff(file.head, file.name)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise BadInputError(
            f"{file.name}: neither {SAMPLE_SCHEMA} nor a log in a known format "
            f"(known: {', '.join(known.names())}); to read your own table, use "
            f"--from {TABLES} --map id=COLUMN,score=COLUMN"
        )
    raise BadInputError(
        f"{file.name}: looks like several formats: "
        f"{', '.join(importer.name for importer in fitting)}; choose one with --from"
    )


def import_files(
    paths: Sequence[Path], *, tool: str = "auto", options: ReadOptions | None = None
) -> tuple[Imported, ...]:
    """Read logs of one tool: one result per log, or one for all if they belong together."""
    options = options or ReadOptions()
    return tuple(_read_each_log(paths, tool, options, lambda one, files: one.read(files, options)))


def list_arms(paths: Sequence[Path], *, tool: str = "auto") -> tuple[LogExperiment, ...]:
    """Return the experiments in the files."""
    options = ReadOptions()
    found = _read_each_log(paths, tool, options, lambda one, files: one.arms(files, options))
    return tuple(arm for arms in found for arm in arms)


def _read_each_log(
    paths: Sequence[Path],
    tool: str,
    options: ReadOptions,
    read: Callable[[Importer, Sequence[ForeignFile]], T],
) -> Iterator[T]:
    files = [open_foreign(find_tool_log(path), options.limits) for path in paths]
    importer = _choose_importer(files, tool, options)
    for group in [files] if importer.joint else [[file] for file in files]:
        with _name_tool_in_errors(importer, group):
            yield read(importer, group)


@contextmanager
def _name_tool_in_errors(importer: Importer, files: Sequence[ForeignFile]) -> Iterator[None]:
    """Add the tool and its version to the message of every refusal."""
    try:
        yield
    except BadInputError as error:
        first, *others = error.problems
        versions = [found[1] for file in files if (found := _VERSION.search(file.data))]
        name = " ".join([importer.name, *(version.decode() for version in versions[:1])])
        if name not in first:
            first = f"{first} (read as {name})"
        raise BadInputError((first, *others), unlisted_count=error.unlisted_count) from error


def find_tool_log(path: Path) -> Path:
    """Return the log at a path: the file itself, or the only log in a tool's folder."""
    if not path.is_dir():
        return path
    names = sorted(one.name for one in path.iterdir() if one.is_file())
    for importer in importers():
        found = importer.in_folder(names) if importer.in_folder is not None else ()
        if len(found) == 1:
            return path / found[0]
        if found:
            listed = ", ".join(found[:_LISTED]) + (", …" if len(found) > _LISTED else "")
            raise BadInputError(
                f"{path}: contains {len(found)} logs of {importer.name}; name one: {listed}"
            )
    raise BadInputError(f"{path}: a folder without a log of a known tool; name a file in it")


def find_tool_logs(path: Path, tool: str) -> tuple[Path, ...]:
    """The logs that a path names: those of a folder too, where several files make up one log."""
    if not path.is_dir():
        return (path,)
    inside = sorted(one for one in path.iterdir() if one.is_file())
    names = [one.name for one in inside]
    found = [one for one in inside if _JSON_NAME.search(one.name)]
    if any(one.in_folder(names) for one in importers() if one.in_folder is not None) or not found:
        return (find_tool_log(path),)
    if tool != "auto":
        return tuple(found) if get_importer(tool).joint else (find_tool_log(path),)
    limits = ForeignLimits()
    kinds = {detect(open_foreign(one, limits), importers()).name for one in found}
    is_one_log = len(kinds) == 1 and importers().get(kinds.pop()).joint
    return tuple(found) if is_one_log else (find_tool_log(path),)


def get_importer(tool: str) -> Importer:
    """Return the importer of that name; all kinds of tables share one."""
    return importers().get(TABLES if tool in _TABLE_NAMES else tool)


def _choose_importer(files: Sequence[ForeignFile], tool: str, options: ReadOptions) -> Importer:
    known = importers()
    if not files:
        raise BadInputError("nothing to import: no file was named")
    if options.columns:
        if tool not in ("auto", TABLES, *_TABLE_NAMES):
            raise UsageError(f"--map is for tables (--from {TABLES}), not for {tool} logs")
        return known.get(TABLES)
    if tool != "auto":
        return get_importer(tool)
    found = [detect(file, known) for file in files]
    names = sorted({importer.name for importer in found})
    if len(names) > 1:
        raise BadInputError(
            f"the files are logs of several tools: {', '.join(names)}; import them separately"
        )
    return found[0]
