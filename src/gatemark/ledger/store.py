"""The commands of ``gatemark store``: info, upgrade, backup and restore."""

from __future__ import annotations

import stat
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa

from gatemark.core.atomic import replacing_folder, secret_file
from gatemark.core.errors import BadInputError, IntegrityError, RefusedError, UsageError
from gatemark.core.progress import Advance
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.stores.backup import BackupManifest, BackupReader, restore_backup, write_backup
from gatemark.ledger.stores.chain_check import check_chain
from gatemark.ledger.stores.database import (
    NEWEST,
    OLDEST_USABLE,
    LayoutState,
    existing_layout,
    require_known,
    state_of,
    steps_after,
)
from gatemark.ledger.stores.folder import (
    FolderBlobs,
    StorePlace,
    copy_name,
    copy_sqlite,
    folder_place,
)
from gatemark.ledger.stores.sql import upgrade_database

ARCHIVE: Final = ".tar.zst"
_DATABASE_NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a store; a count is None if this build cannot determine it."""

    place: str
    database: str
    layout: str
    newest_layout: str
    oldest_usable_layout: str
    state: LayoutState
    events: int | None
    results: int | None
    blobs: int | None
    bytes_on_disk: int


class UpgradeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Upgrade options: with a backup at the default or a given path, or without one."""

    backup: str | None = None
    no_backup: bool = False
    dry_run: bool = False


class StoreUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """What an upgrade did, or would do in a dry run."""

    place: str
    database: str
    from_layout: str
    to_layout: str
    steps: tuple[str, ...] = ()
    backup: str | None = None
    is_done: bool = False
    is_done_elsewhere: bool = False
    events_checked: int | None = None
    issue: str | None = None


class StoreCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a backup, or of a store restored from one."""

    place: str
    database: str
    file: str
    layout: str
    state: LayoutState
    rows: int
    events: int
    results: int
    blobs: int
    blob_bytes: int


def store_info(context: LedgerContext) -> StoreInfo:
    """Return facts about a store of any layout, without changing it."""
    place = context.existing_place()
    with place.database.snapshot() as connection:
        layout = existing_layout(connection, place.database.place)
        blobs, blob_bytes = _total_blobs(place, connection)
        return StoreInfo(
            place=place.database.place,
            database=_DATABASE_NAMES[place.database.dialect],
            layout=layout,
            newest_layout=NEWEST,
            oldest_usable_layout=OLDEST_USABLE,
            state=state_of(layout),
            events=_count_rows(connection, "events"),
            results=_count_rows(connection, "results"),
            blobs=blobs,
            bytes_on_disk=blob_bytes + _measure_database(place, connection),
        )


def _count_rows(connection: sa.Connection, table: str) -> int | None:
    if not sa.inspect(connection).has_table(table):
        return None
    counted = sa.select(sa.func.count()).select_from(sa.table(table))
    return connection.execute(counted).scalar_one()


def _total_blobs(place: StorePlace, connection: sa.Connection) -> tuple[int | None, int]:
    """Return the number of blobs, and the bytes they take outside the database."""
    if not isinstance(place.blobs, FolderBlobs):
        return _count_rows(connection, "blobs"), 0
    sizes = [size for _, size in place.blobs.sizes()]
    return len(sizes), sum(sizes)


def _measure_database(place: StorePlace, connection: sa.Connection) -> int:
    if place.file is not None:
        files = [place.file.with_name(place.file.name + end) for end in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())
    size = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
    own = "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    return int(connection.execute(sa.text(size + own)).scalar_one())


def upgrade_store(
    context: LedgerContext,
    request: UpgradeRequest,
    on_progress: Advance | None = None,
) -> StoreUpgrade:
    """Upgrade a store to the newest layout, and back it up first."""
    if request.backup is not None and request.no_backup:
        raise UsageError("give --backup PATH or --no-backup, not both")
    # Step 1: read the layout. A layout that this build does not know is refused.
    place = context.existing_place()
    name = place.database.place
    with place.database.reading() as connection:
        found = existing_layout(connection, name)
    require_known(name, found)
    plan = StoreUpgrade(
        place=name,
        database=_DATABASE_NAMES[place.database.dialect],
        from_layout=found,
        to_layout=NEWEST,
        steps=steps_after(found),
    )
    if found == NEWEST:
        return plan
    # Step 2: choose where the backup goes.
    target = (
        None if request.no_backup else _choose_backup_file(place, request, found, context.clock())
    )
    plan = msgspec.structs.replace(plan, backup=None if target is None else str(target))
    if request.dry_run:
        return plan

    # Step 3: back up and migrate while other writers are locked out, in one transaction.
    def back_up(_: str) -> None:
        if target is not None:
            _make_backup(place, target, context.clock())

    if upgrade_database(place.database, back_up) is None:
        return msgspec.structs.replace(plan, backup=None, is_done_elsewhere=True)
    try:
        # Step 4: verify the chain as it is now. Any problem existed before: an upgrade that loses
        # or changes events is never committed.
        with place.database.snapshot() as connection:
            checked = check_chain(connection, name, on_progress)
    except IntegrityError as error:
        return msgspec.structs.replace(plan, is_done=True, issue=str(error))
    return msgspec.structs.replace(plan, is_done=True, events_checked=checked)


def _choose_backup_file(
    place: StorePlace, request: UpgradeRequest, layout: str, now: datetime
) -> Path:
    if request.backup is None:
        if place.file is None:
            raise UsageError(
                f"{place.database.place}: name a file for the backup with --backup FILE{ARCHIVE} "
                "or use --no-backup if you have a backup"
            )
        return copy_name(place.file, layout, now)
    target = Path(request.backup)
    if place.file is None:
        _require_archive_name(target)
    if target.exists():
        raise BadInputError(f"{target}: already exists and is never overwritten")
    return target


def _make_backup(place: StorePlace, target: Path, now: datetime) -> None:
    """Copy a SQLite database, or write an archive if the file name asks for one."""
    if place.file is not None and not target.name.endswith(ARCHIVE):
        copy_sqlite(place.file, target)
    else:
        _write_archive(place, target, now)


def _write_archive(
    place: StorePlace, target: Path, now: datetime, on_progress: Advance | None = None
) -> tuple[str, BackupManifest]:
    """Write a backup, read it back completely, and only then rename it to its final name."""
    with secret_file(target) as temporary:
        with place.database.snapshot() as connection, temporary.open("wb") as stream:
            manifest = write_backup(place, connection, stream, now, on_progress)
        with temporary.open("rb") as stream:
            reader = BackupReader(stream, str(target))
            reader.check()
    return reader.about.layout, manifest


def back_up_store(
    context: LedgerContext, file: str, on_progress: Advance | None = None
) -> StoreCopy:
    """Write a complete store, of any layout that this build knows, to a new file."""
    target = Path(file)
    _require_archive_name(target)
    place = context.existing_place()
    layout, manifest = _write_archive(place, target, context.clock(), on_progress)
    return _describe_copy(place, file, layout, manifest)


def restore_store(
    context: LedgerContext, file: str, on_progress: Advance | None = None
) -> StoreCopy:
    """Restore a backup to a place that has no store yet."""
    try:
        if not stat.S_ISREG(Path(file).stat().st_mode):
            raise BadInputError(f"{file}: expected a regular file")
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below, once it is known to be there
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read: {error.strerror or error}") from error
    with stream:
        backup = BackupReader(stream, file)
        if context.folder is None:
            manifest = restore_backup(backup, context.place(), on_progress)
        else:
            manifest = _restore_folder(context.folder, backup, on_progress)
    return _describe_copy(context.place(), file, backup.about.layout, manifest)


def _restore_folder(
    folder: Path, backup: BackupReader, on_progress: Advance | None
) -> BackupManifest:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RefusedError(f"{folder}: is not empty; name another place with --store")
    with replacing_folder(folder, is_private=True) as temporary:
        place = folder_place(temporary)
        try:
            return restore_backup(backup, place, on_progress)
        finally:
            # The database keeps its log alongside it until the last connection is closed.
            place.database.close()


def _describe_copy(
    place: StorePlace, file: str, layout: str, manifest: BackupManifest
) -> StoreCopy:
    return StoreCopy(
        place=place.database.place,
        database=_DATABASE_NAMES[place.database.dialect],
        file=file,
        layout=layout,
        state=state_of(layout),
        rows=sum(manifest.rows.values()),
        events=manifest.rows.get("events", 0),
        results=manifest.rows.get("results", 0),
        blobs=manifest.blobs,
        blob_bytes=manifest.blob_bytes,
    )


def _require_archive_name(target: Path) -> None:
    if not target.name.endswith(ARCHIVE):
        raise UsageError(f"{target}: the name of a backup must end in {ARCHIVE}")
