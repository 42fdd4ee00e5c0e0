"""Stoplists: concepts that occur in nearly every case and so do not distinguish cases.

Generating counts, with stoplists off, in how many cases each concept and each surface occurs. The
hashed files contain no time, so that the same traces give the same bytes.
"""

from __future__ import annotations

import csv
import io
import math
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.text import inert_cell
from gatemark.plugins.runlog.concepts.port import Stoplists

ENTITIES_FILE: Final = "stop_entities.txt"
CUIS_FILE: Final = "stop_cuis.txt"
REPORT_FILE: Final = "stoplist_df_report.csv"
METADATA_FILE: Final = "stoplists_metadata.json"
DEFAULT_THRESHOLD: Final = 0.90
FILE_BYTES_MAX: Final = 16 * 1024 * 1024

ConceptType = Literal["CUI", "SURFACE"]


class StoplistMetadata(msgspec.Struct, frozen=True):
    """When the lists were made, by which code, from which traces."""

    stoplists_generated_at: str
    stoplists_generated_by_commit: str | None = None


class Frequency(NamedTuple):
    """In how many cases one concept or surface occurs."""

    concept: str
    type: ConceptType
    df_count: int


class Frequencies(NamedTuple):
    """All counts, most frequent first, and the count from which a concept is stopped."""

    case_count: int
    cutoff: int
    threshold: float
    rows: tuple[Frequency, ...]

    def list_stopped(self, kind: ConceptType) -> list[str]:
        """Return the concepts of one type that occur too often, sorted."""
        return sorted(
            row.concept for row in self.rows if row.type == kind and row.df_count >= self.cutoff
        )


def find_cutoff(case_count: int, threshold: float) -> int:
    """Return the smallest number of cases that is at least this share of them.

    Computed in decimals: in binary, 0.7 of 10 cases would be a little more than 7.
    """
    if not 0 < threshold <= 1:
        raise InvalidValueError(f"threshold must be inside (0, 1], got {threshold}")
    return math.ceil(Decimal(repr(threshold)) * case_count)


def count_frequencies(
    found: Mapping[str, tuple[Iterable[str], Iterable[str]]], threshold: float = DEFAULT_THRESHOLD
) -> Frequencies:
    """Count the cases in which each concept occurs; ``found`` has ids and surfaces of each case."""
    if not found:
        raise BadInputError("stoplists need at least one case")
    counts: Counter[tuple[ConceptType, str]] = Counter()
    for cuis, surfaces in found.values():
        counts.update(("CUI", name) for name in {name.upper() for name in cuis})
        counts.update(("SURFACE", name) for name in {name.lower() for name in surfaces})
    rows = [Frequency(name, kind, count) for (kind, name), count in counts.items()]
    rows.sort(key=lambda row: (-row.df_count, row.concept, row.type))
    return Frequencies(len(found), find_cutoff(len(found), threshold), threshold, tuple(rows))


def render_stoplists(
    frequencies: Frequencies, *, generated_at: str, commit: str | None
) -> dict[str, bytes]:
    """Return the files of a stoplist folder, by name."""
    metadata = StoplistMetadata(
        stoplists_generated_at=generated_at, stoplists_generated_by_commit=commit
    )
    packed = msgspec.json.encode(metadata, order="sorted")
    return {
        ENTITIES_FILE: _render_list("surfaces", frequencies, "SURFACE"),
        CUIS_FILE: _render_list("concept ids", frequencies, "CUI"),
        REPORT_FILE: _render_report(frequencies),
        METADATA_FILE: msgspec.json.format(packed, indent=2) + b"\n",
    }


def _render_list(what: str, frequencies: Frequencies, kind: ConceptType) -> bytes:
    names = frequencies.list_stopped(kind)
    head = (
        f"# {what} in at least {frequencies.cutoff} of {frequencies.case_count} cases",
        "# generator: gatemark runlog stoplists",
        f"# count: {len(names)}",
    )
    return "".join(f"{line}\n" for line in (*head, *names)).encode()


def _render_report(frequencies: Frequencies) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("concept", "type", "df_count", "df_fraction", "status"))
    for row in frequencies.rows:
        status = "STOPLISTED" if row.df_count >= frequencies.cutoff else "KEPT"
        share = f"{row.df_count / frequencies.case_count:.4f}"
        writer.writerow((inert_cell(row.concept), row.type, row.df_count, share, status))
    kinds: tuple[ConceptType, ...] = ("CUI", "SURFACE")
    totals = Counter(row.type for row in frequencies.rows)
    text.write(f"# cases: {frequencies.case_count}\n")
    text.write(f"# threshold: {frequencies.threshold:g}, cutoff: {frequencies.cutoff}\n")
    for kind in kinds:
        count = len(frequencies.list_stopped(kind))
        text.write(f"# {kind}: {count} of {totals[kind]} stoplisted\n")
    return text.getvalue().encode()


def read_stoplists(folder: str) -> Stoplists:
    """Read the stoplists of a folder; raise if one of the two lists is missing."""
    place = Path(folder)
    entities = _read_bounded(place / ENTITIES_FILE)
    cuis = _read_bounded(place / CUIS_FILE)
    report = place / REPORT_FILE
    metadata = _read_metadata(place / METADATA_FILE)
    return Stoplists(
        entities=frozenset(name.lower() for name in _read_entries(entities, ENTITIES_FILE)),
        cuis=frozenset(name.upper() for name in _read_entries(cuis, CUIS_FILE)),
        stop_entities_hash=digest_bytes(entities),
        stop_cuis_hash=digest_bytes(cuis),
        stoplist_df_report_hash=digest_bytes(_read_bounded(report)) if report.is_file() else None,
        generated_at=metadata.stoplists_generated_at if metadata else None,
        generated_by_commit=metadata.stoplists_generated_by_commit if metadata else None,
    )


def _read_entries(data: bytes, name: str) -> list[str]:
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name}: is not UTF-8") from error
    stripped = (line.strip() for line in lines)
    return [line for line in stripped if line and not line.startswith("#")]


def _read_metadata(path: Path) -> StoplistMetadata | None:
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(_read_bounded(path), type=StoplistMetadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{path}: {error}") from error


def _read_bounded(path: Path) -> bytes:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise BadInputError(f"{path}: expected a regular file")
        if info.st_size > FILE_BYTES_MAX:
            raise BadInputError(f"{path}: holds more than {FILE_BYTES_MAX} bytes")
        return path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
