"""The types of an Inspect AI log and its two packagings: one JSON object, or a ZIP of many.

Both say version 2, so the bytes decide which one it is. ZIP archives are not trusted: stored,
deflated and zstd members are read within limits.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
import zstandard

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import decode, rows
from gatemark.samples.importer import ForeignFile, ForeignLimits, ReadOptions, Refusal

_DIRECTORY_ENTRY: Final = b"PK\x01\x02"
_LOCAL_ENTRY: Final = b"PK\x03\x04"
_LOCAL_SIZE: Final = 30
_ENCRYPTED: Final = 0x1
_STORED, _DEFLATED, _ZSTD = 0, 8, 93
_WINDOW_BYTES: Final = 1 << 27


class Archive:
    """A ZIP archive whose members are decompressed one by one.

    The standard library reads the directory. The members are decompressed here, because it has no
    zstd before Python 3.14 and no limit on the decompressed size.
    """

    def __init__(self, file: ForeignFile, limits: ForeignLimits) -> None:
        self._file = file
        self._limits = limits
        self._expanded_bytes = 0
        # Counting signatures first prevents a forged directory from filling memory.
        if file.data.count(_DIRECTORY_ENTRY) > limits.member_count:
            raise BadInputError(f"{file.name}: contains more than {limits.member_count} members")
        try:
            with zipfile.ZipFile(io.BytesIO(file.data)) as directory:
                members = directory.infolist()
        except (
            zipfile.BadZipFile,
            struct.error,
            NotImplementedError,
            OSError,
            OverflowError,
            ValueError,
        ) as error:
            raise BadInputError(f"{file.name}: not a readable ZIP archive: {error}") from error
        self._members = {member.filename: member for member in members}
        if len(self._members) != len(members):
            raise BadInputError(f"{file.name}: two members have the same name")

    @property
    def names(self) -> tuple[str, ...]:
        """The members, in directory order."""
        return tuple(self._members)

    def read(self, name: str) -> bytes:
        """Return the content of one member, after checking its length and checksum."""
        member = self._members[name]
        place = f"{self._file.name}: {name}"
        if member.flag_bits & _ENCRYPTED:
            raise BadInputError(f"{place}: is encrypted")
        if member.file_size > self._limits.member_bytes:
            raise BadInputError(
                f"{place}: must unpack to at most {self._limits.member_bytes} bytes, "
                f"claims {member.file_size}"
            )
        self._expanded_bytes += member.file_size
        if self._expanded_bytes > self._limits.expanded_bytes:
            raise BadInputError(
                f"{self._file.name}: must unpack to at most {self._limits.expanded_bytes} bytes"
            )
        content = _unpack(self._packed(member, place), member, place)
        if len(content) != member.file_size:
            raise BadInputError(
                f"{place}: does not unpack to the {member.file_size} bytes it claims"
            )
        if zlib.crc32(content) != member.CRC:
            raise BadInputError(f"{place}: the checksum does not match")
        return content

    def _packed(self, member: zipfile.ZipInfo, place: str) -> memoryview:
        data = memoryview(self._file.data)
        start = member.header_offset
        if (
            not 0 <= start <= len(data) - _LOCAL_SIZE
            or bytes(data[start : start + 4]) != _LOCAL_ENTRY
        ):
            raise BadInputError(f"{place}: its entry is not where the directory says")
        name_bytes, extra_bytes = struct.unpack("<HH", data[start + 26 : start + _LOCAL_SIZE])
        begin = start + _LOCAL_SIZE + name_bytes + extra_bytes
        packed = data[begin : begin + member.compress_size]
        if len(packed) != member.compress_size:
            raise BadInputError(f"{place}: the archive ends before the member does")
        return packed


def _unpack(packed: memoryview, member: zipfile.ZipInfo, place: str) -> bytes:
    bound = member.file_size + 1
    try:
        if member.compress_type == _STORED:
            return bytes(packed[:bound])
        if member.compress_type == _DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, bound)
        if member.compress_type == _ZSTD:
            reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(
                packed, read_across_frames=True
            )
            return reader.read(bound)
    except (zlib.error, zstandard.ZstdError, MemoryError) as error:
        raise BadInputError(f"{place}: cannot be unpacked: {error}") from error
    raise BadInputError(
        f"{place}: unknown compression method {member.compress_type} "
        f"(known: {_STORED} stored, {_DEFLATED} deflate, {_ZSTD} zstd)"
    )


ZIP: Final = b"PK\x03\x04"


class EditProvenance(msgspec.Struct):
    """Author, time and reason of a change."""

    author: str | None = None
    reason: str | None = None
    timestamp: str | None = None


class Edit(msgspec.Struct):
    """One change of a score; the value can be the word UNCHANGED."""

    value: object = "UNCHANGED"
    provenance: EditProvenance | None = None


class InspectScore(msgspec.Struct):
    """The score of one scorer; ``value`` is the value after all edits."""

    value: object = None
    history: list[Edit] = []


class Message(msgspec.Struct):
    """A chat message."""

    content: object = None


class InspectChoice(msgspec.Struct):
    """One answer of the model."""

    message: Message | None = None
    stop_reason: str | None = None


class Output(msgspec.Struct):
    """The output of the model; old logs have no ``completion``."""

    completion: str | None = None
    choices: list[InspectChoice] = []


class InspectFailure(msgspec.Struct):
    """Why a sample crashed."""

    message: str = ""


class LimitHit(msgspec.Struct):
    """The limit that ended a sample."""

    type: str = ""


class InspectSample(msgspec.Struct):
    """One sample in one epoch."""

    id: str | int
    epoch: int = 1
    input: object = None
    choices: list[object] | None = None
    target: object = None
    output: Output | None = None
    scores: dict[str, InspectScore] | None = None
    error: InspectFailure | None = None
    invalidation: EditProvenance | None = None
    limit: LimitHit | None = None
    metadata: dict[str, object] = {}
    error_retries: list[msgspec.Raw] | None = None
    total_time: float | None = None
    model_usage: dict[str, dict[str, object]] = {}


class Config(msgspec.Struct):
    """The settings of the run."""

    epochs: int | None = None
    limit: object = None
    sample_id: object = None


class Dataset(msgspec.Struct):
    """The data set of the run."""

    name: str | None = None
    samples: int | None = None
    sample_ids: list[str | int] | None = None


class Spec(msgspec.Struct):
    """The task, the model and the data."""

    task: str = ""
    model: str = ""
    created: str = ""
    config: Config = msgspec.field(default_factory=Config)
    dataset: Dataset = msgspec.field(default_factory=Dataset)
    packages: dict[str, object] = {}


class InspectMetric(msgspec.Struct):
    """An aggregate number."""

    value: object = None


class Total(msgspec.Struct):
    """The aggregates of one scorer."""

    name: str = ""
    scorer: str = ""
    reducer: str | None = None
    metrics: dict[str, InspectMetric] = {}


class Headline(msgspec.Struct):
    """The score that the log shows first."""

    score: str | None = None


class Results(msgspec.Struct):
    """All aggregates."""

    total_samples: int | None = None
    scores: list[Total] = []
    headline: Headline | None = None


class Step(msgspec.Struct):
    """One solver of a task."""

    solver: str = ""


class Plan(msgspec.Struct):
    """The solvers that ran on every sample before scoring."""

    steps: list[Step] = []


class Log(msgspec.Struct):
    """A log; its samples are separate members of an archive, or part of the JSON object."""

    eval: Spec
    status: str = "started"
    results: Results | None = None
    samples: list[msgspec.Raw] | None = None
    plan: Plan = msgspec.field(default_factory=Plan)


def load(
    file: ForeignFile, options: ReadOptions
) -> tuple[Log, Iterator[tuple[str, msgspec.Raw, InspectSample | Refusal]]]:
    """Return the log and its samples, each decoded or refused with its place."""
    if file.data.startswith(ZIP):
        return _from_archive(file, options)
    log = decode(file.data, Log, file.name)
    if log.samples is None:
        raise BadInputError(f"{file.name}: the log contains no samples (log_samples was off)")
    return log, rows(log.samples, InspectSample, f"{file.name}: samples")


def _from_archive(
    file: ForeignFile, options: ReadOptions
) -> tuple[Log, Iterator[tuple[str, msgspec.Raw, InspectSample | Refusal]]]:
    archive = Archive(file, options.limits)
    spec = next((n for n in ("header.json", "_journal/start.json") if n in archive.names), None)
    if spec is None:
        raise BadInputError(
            f"{file.name}: a ZIP archive, but not an Inspect log: "
            "it has neither header.json nor _journal/start.json"
        )
    log = decode(archive.read(spec), Log, f"{file.name}: {spec}")
    names = [n for n in archive.names if n.startswith("samples/") and n.endswith(".json")]
    if not names:
        raise BadInputError(f"{file.name}: the log contains no samples (log_samples was off)")
    return log, _archived(archive, names, file, keep=options.id_path is not None)


def _archived(
    archive: Archive, names: list[str], file: ForeignFile, *, keep: bool
) -> Iterator[tuple[str, msgspec.Raw, InspectSample | Refusal]]:
    for name in names:
        content = archive.read(name)
        place = f"{file.name}: {name}"
        try:
            sample = decode(content, InspectSample, place)
        except BadInputError as error:
            yield place, msgspec.Raw(), Refusal(place, str(error).removeprefix(f"{place}: "))
        else:
            # Decompressed bytes are large; keep them only if they contain the id.
            yield place, msgspec.Raw(content if keep else b""), sample
