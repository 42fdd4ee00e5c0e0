"""The pack as it is stored with a result: the pack itself, its rows, and people's labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, canonical_bytes
from gatemark.core.errors import BadInputError, IncomparableError, IntegrityError
from gatemark.core.result import PACK_BLOB, Result
from gatemark.evidence.rows import Snapshot, stored_snapshot, write_rows
from gatemark.packs.pack import Pack, read_pack
from gatemark.packs.pack_file import OpenPack
from gatemark.workspace import Workspace

ROWS_SUFFIX: Final = ".rows.jsonl"


def write_definition(opened: OpenPack) -> dict[str, bytes]:
    """Return what is needed to judge a pack again: the pack, its rows, people's labels."""
    pack = opened.pack
    kept = {PACK_BLOB: canonical_bytes(pack)}
    for suite in pack.suites:
        if suite.dataset is not None:
            kept[suite.id + ROWS_SUFFIX] = write_rows(opened.snapshots[suite.id])
    for name, labels in opened.labels.items():
        kept[name_labels(name)] = write_rows(labels)
    return kept


def name_labels(judge: str) -> str:
    """Return the name of a judge's labels in a result."""
    return f"labels/{judge}{ROWS_SUFFIX}"


def make_title(pack: Pack) -> str:
    """Return the title of every result of a pack."""
    return f"{pack.asset.name} ({pack.asset.kind}), pack {pack.name} v{pack.version}"


def read_pack_of_result(workspace: Workspace, result: Result) -> Pack:
    """Return the pack that a result keeps."""
    for blob in result.blobs:
        if blob.name == PACK_BLOB:
            data = workspace.blobs.get(blob.digest)
            return read_pack(data, result.pack.digest, f"result {result.id}: {PACK_BLOB}")
    raise BadInputError(f"result {result.id} is not of a pack, so it cannot be a baseline")


def open_stored_pack(result: Result, data: Mapping[str, bytes]) -> OpenPack:
    """Return the pack of a result with its rows; ``data`` are the files that the result stores."""
    pack = read_pack(data[PACK_BLOB], result.pack.digest, PACK_BLOB)
    references = {
        account.checks["suite"]: account.checks["snapshot"]
        for account in result.evidence
        if "snapshot" in account.checks
    }
    snapshots: dict[str, Snapshot] = {}
    for suite in pack.suites:
        if suite.dataset is not None:
            name = suite.id + ROWS_SUFFIX
            if name not in data or suite.id not in references:
                raise IncomparableError(f"the rows of suite {suite.id} were not kept with it")
            snapshots[suite.id] = _read_snapshot(references[suite.id], data[name], name)
    for suite in pack.suites:
        if suite.source is not None:
            snapshots[suite.id] = snapshots[suite.source]
    # The pack's folder is not stored; scorers in it are not run again.
    return OpenPack(pack, Path(), snapshots)


def _read_snapshot(reference: str, lines: bytes, place: str) -> Snapshot:
    name = reference.rpartition(f"@{DIGEST_PREFIX}")[0]
    snapshot = read_stored_rows(name, lines, place)
    if snapshot.reference != reference:
        raise IntegrityError(f"{place}: are not the rows of {reference}")
    return snapshot


def read_stored_rows(name: str, lines: bytes, place: str) -> Snapshot:
    """Return stored rows or labels under their name."""
    try:
        return stored_snapshot(name, lines)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"{place}: cannot be read: {error}") from error
