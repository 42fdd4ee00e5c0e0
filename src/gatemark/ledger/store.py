"""The journeys of ``gatemark store``: look at a store, upgrade it, back it up, restore it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa

from gatemark.core.atomic import replacing_folder, secret_file
from gatemark.core.errors import BadInputError, IntegrityError, RefusedError, UsageError
from gatemark.core.progress import Advance
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import Event
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
    """What a store is, as far as this build can tell; a count is None when it cannot."""

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
    """How to upgrade: with a backup in a default place or a given one, or without."""

    backup: str | None = None
    no_backup: bool = False
    dry_run: bool = False


class StoreUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """What an upgrade did, or would do."""

    place: str
    database: str
    from_layout: str
    to_layout: str
    steps: tuple[str, ...] = ()
    backup: str | None = None
    covered_by: int | None = None
    is_done: bool = False
    is_done_elsewhere: bool = False
    events_checked: int | None = None
    trouble: str | None = None


class StoreCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds, or what was restored from one."""

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
    """Look at a store of any layout and change nothing."""
    place = context.existing_place()
    with place.database.snapshot() as connection:
        layout = existing_layout(connection, place.database.place)
        blobs, blob_bytes = _blob_totals(place, connection)
        return StoreInfo(
            place=place.database.place,
            database=_DATABASE_NAMES[place.database.dialect],
            layout=layout,
            newest_layout=NEWEST,
            oldest_usable_layout=OLDEST_USABLE,
            state=state_of(layout),
            events=_count(connection, "events"),
            results=_count(connection, "results"),
            blobs=blobs,
            bytes_on_disk=blob_bytes + _database_bytes(place, connection),
        )


def _count(connection: sa.Connection, table: str) -> int | None:
    if not sa.inspect(connection).has_table(table):
        return None
    counted = sa.select(sa.func.count()).select_from(sa.table(table))
    return connection.execute(counted).scalar_one()


def _blob_totals(place: StorePlace, connection: sa.Connection) -> tuple[int | None, int]:
    """How many blobs there are, and how many bytes they take outside the database."""
    if not isinstance(place.blobs, FolderBlobs):
        return _count(connection, "blobs"), 0
    sizes = [size for _, size in place.blobs.sizes()]
    return len(sizes), sum(sizes)


def _database_bytes(place: StorePlace, connection: sa.Connection) -> int:
    if place.file is not None:
        files = [place.file.with_name(place.file.name + end) for end in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())
    size = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
    own = "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    return int(connection.execute(sa.text(size + own)).scalar_one())


def upgrade_by(
    context: LedgerContext,
    request: UpgradeRequest,
    cover_rows: Callable[[], Event | None],
    on_progress: Advance | None = None,
) -> StoreUpgrade:
    """Bring a store to the newest layout, with a backup of what it was.

    ``cover_rows`` adds the event that covers rows of the old layout; None when there are none.
    """
    if request.backup is not None and request.no_backup:
        raise UsageError("give --backup PATH or --no-backup, not both")
    # Step 1. What is there. A layout that this build does not know is left alone.
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
    # Step 2. Where the backup goes.
    target = None if request.no_backup else _backup_target(place, request, found, context.clock())
    plan = msgspec.structs.replace(plan, backup=None if target is None else str(target))
    if request.dry_run:
        return plan

    # Step 3. Backup and migrations while no other writer is inside; all of it or nothing.
    def back_up(_: str) -> None:
        if target is not None:
            _make_backup(place, target, context.clock())

    if upgrade_database(place.database, back_up) is None:
        return msgspec.structs.replace(plan, backup=None, is_done_elsewhere=True)
    try:
        # Step 4. Rows of the old layout that no event tells of are covered from now on. An upgrade
        # that is killed before this loses nothing: the next push of points does it.
        context.existing_store()
        covered = cover_rows()
        plan = msgspec.structs.replace(plan, covered_by=None if covered is None else covered.seq)
        # Step 5. The chain, as everyone will see it from now on. What is wrong with it was wrong
        # before: an upgrade that loses or changes events is never committed.
        with place.database.snapshot() as connection:
            checked = check_chain(connection, name, on_progress)
    except IntegrityError as error:
        return msgspec.structs.replace(plan, is_done=True, trouble=str(error))
    return msgspec.structs.replace(plan, is_done=True, events_checked=checked)


def _backup_target(place: StorePlace, request: UpgradeRequest, layout: str, now: datetime) -> Path:
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
    """A copy of a SQLite database, or an archive where the name asks for one."""
    if place.file is not None and not target.name.endswith(ARCHIVE):
        copy_sqlite(place.file, target)
    else:
        _write_archive(place, target, now)


def _write_archive(
    place: StorePlace, target: Path, now: datetime, on_progress: Advance | None = None
) -> tuple[str, BackupManifest]:
    """Write a backup, read it back whole, and only then give it its name."""
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
    """Write a whole store, of any layout that this build knows, into a new file."""
    target = Path(file)
    _require_archive_name(target)
    place = context.existing_place()
    layout, manifest = _write_archive(place, target, context.clock(), on_progress)
    return _copy_of(place, file, layout, manifest)


def restore_store(
    context: LedgerContext, file: str, on_progress: Advance | None = None
) -> StoreCopy:
    """Make the store that a backup holds, in a place that holds none."""
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below, once it is known to be there
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read: {error.strerror or error}") from error
    with stream:
        backup = BackupReader(stream, file)
        if context.folder is None:
            manifest = restore_backup(backup, context.place(), on_progress)
        else:
            manifest = _restore_folder(context.folder, backup, on_progress)
    return _copy_of(context.place(), file, backup.about.layout, manifest)


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
            # The database has its log beside it until the last connection is gone.
            place.database.close()


def _copy_of(place: StorePlace, file: str, layout: str, manifest: BackupManifest) -> StoreCopy:
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
