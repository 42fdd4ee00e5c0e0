"""Getting evidence ready: finding the files, naming their bytes, pinning what must be there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError
from gatemark.core.evidence import EvidenceFile
from gatemark.intake.limits import Limits
from gatemark.intake.source import STDIN, Source, inspect_source, spool_stdin


def find_sources(paths: Sequence[str], limits: Limits, spool: Path) -> tuple[Source, ...]:
    """The files behind the names a user gave; ``-`` is standard input, at most once."""
    if list(paths).count(STDIN) > 1:
        raise BadInputError("standard input can be read only once")
    return tuple(
        spool_stdin(spool, limits) if path == STDIN else inspect_source(path) for path in paths
    )


def digest_source(source: Source) -> EvidenceFile:
    """Name a file by its bytes as they lie on disk."""
    with open(source.path, "rb", buffering=0) as stream:  # noqa: PTH123
        found = hashlib.file_digest(stream, "sha256").hexdigest()
        size = os.fstat(stream.fileno()).st_size
    if size != source.byte_count:
        raise BadInputError(f"{source.name}: changed while it was read")
    return EvidenceFile(name=source.name, digest=DIGEST_PREFIX + found, byte_count=size)


def read_expected_ids(path: str) -> frozenset[str]:
    """The pinned ids of a list, one per line."""
    source = inspect_source(path)
    try:
        lines = Path(source.path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise BadInputError(f"{path}: pins no ids")
    repeated = (
        sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
    )
    if repeated:
        raise BadInputError(f"{path}: pins {repeated[0]!r} more than once")
    return frozenset(ids)
