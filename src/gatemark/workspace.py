"""The workspace: clock, actor, engine and store, passed to every command."""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.errors import (
    GatemarkError,
    IntegrityError,
    NewerFormatError,
    OtherRulesError,
    RefusedError,
    UsageError,
)
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.engines.port import Engine
from gatemark.ledger.event_kinds import BLOB_ERASED, Channel
from gatemark.ledger.port import BlobStore, LedgerStore, ResultStore
from gatemark.ledger.stores import DATABASE

if TYPE_CHECKING:
    from gatemark.core.result import Result
    from gatemark.ledger.stores.database import SqlDatabase
    from gatemark.ledger.stores.folder import StorePlace
    from gatemark.ledger.stores.sql import SqlStore

S = TypeVar("S")
EngineName = Literal["local", "ray"]

DEFAULT_STORE = ".gatemark"
DATABASE_SCHEMES = ("postgresql", "postgres")


def _find_system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


class Workspace:
    """What a command needs from outside. Nothing is opened before it is needed."""

    def __init__(
        self,
        *,
        store: str = DEFAULT_STORE,
        jobs: int | None = None,
        engine: EngineName = "local",
        actor: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        scheme, found, _ = store.partition("://")
        if found and scheme not in DATABASE_SCHEMES:
            raise UsageError(
                f"store {scheme}://… is not supported; give a folder or postgresql://…"
            )
        self._address = store if found else None
        self._folder = Path(DEFAULT_STORE if found else store)
        self._jobs = jobs
        self._engine: EngineName = engine
        self._actor = actor
        self.clock = clock
        self.secret_files: tuple[Path, ...] = ()
        """Files with secrets of the process, such as the TLS key of a server."""
        self._stores: dict[Callable[[SqlDatabase], object], object] = {}

    @cached_property
    def engine(self) -> Engine:
        """Where folds run."""
        jobs = self._jobs or os.cpu_count() or 1
        if self._engine == "ray":
            from gatemark.evidence.engines.ray import RayEngine  # noqa: PLC0415 - few need it

            return RayEngine(jobs, os.environ.get("RAY_ADDRESS"))
        return LocalEngine(jobs)

    def engine_for(self, task_count: int, few: int) -> Engine:
        """The engine for some tasks: one process for a few, unless a user named a number.

        Starting a process, and loading in it what the tasks need, can cost more than they do.
        """
        return LocalEngine(1) if self._jobs is None and task_count < few else self.engine

    @cached_property
    def actor(self) -> str:
        """Name of the person who acts: as given, or the login name."""
        return self._actor or _find_system_user()

    @cached_property
    def channel(self) -> Channel:
        """How acts in this workspace are made; a server sets it for each request."""
        return Channel("command_line", f"os_user {_find_system_user()}")

    def acting_as(self, person: str) -> Workspace:
        """Return the same workspace for another actor; the store is shared."""
        self.existing_store()
        other = copy(self)
        other.actor = person
        return other

    @property
    def has_store(self) -> bool:
        """Whether there may be something to read; a database server is asked when it is opened."""
        return self._address is not None or (self._folder / DATABASE).exists()

    def existing_store(self) -> SqlStore:
        """Open a store that exists; reading must not create one."""
        if "store" not in self.__dict__:
            self.store = self._open(must_exist=True)
        return self.store

    def existing_results(self) -> ResultStore:
        """Return the sealed results of a store that exists."""
        return self.existing_store().results

    def citable_result(self, reference: str) -> Result:
        """Return a sealed result that something new may rest on.

        Everything that rests on a result reads it here. One that this build cannot decide again, or
        that no build made, raises OtherRulesError or IntegrityError.
        """
        result = self.existing_results().get(reference)
        doubt = self.find_doubt(result)
        if doubt is not None:
            raise doubt
        return result

    def find_doubt(self, result: Result) -> GatemarkError | None:
        """Return why nothing may rest on a sealed result, or None if it may be cited."""
        # The rules of exams are loaded only by those who ask for them.
        from gatemark.evidence.result_rules import check_result_rules  # noqa: PLC0415

        try:
            check_result_rules(result, self.blobs)
        except (IntegrityError, NewerFormatError, OtherRulesError) as error:
            return error
        return None

    @cached_property
    def store(self) -> SqlStore:
        """The store; created on first use."""
        return self._open(must_exist=False)

    @contextmanager
    def frozen(self) -> Iterator[Workspace]:
        """Yield a workspace on the store as it is now, whatever others write meanwhile."""
        store = self.existing_store()
        with store.frozen() as snapshot:
            other = copy(self)
            other.__dict__.update(store=snapshot, _stores={})
            yield other

    def _open(self, *, must_exist: bool) -> SqlStore:
        # The database library is heavy, and scoring without a store must not pay for it.
        if self._address is not None:
            from gatemark.ledger.stores.postgres import open_postgres  # noqa: PLC0415

            return open_postgres(self._address, must_exist=must_exist)
        if must_exist:
            self._require_file()
        from gatemark.ledger.stores.folder import open_sqlite  # noqa: PLC0415

        return open_sqlite(self._folder / DATABASE, must_exist=must_exist)

    def _require_file(self) -> None:
        try:
            size = (self._folder / DATABASE).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                f"there is no store at {self._folder}; the first sealed result makes it "
                "(gatemark run PACK); --store or GATEMARK_STORE names another place"
            ) from None
        if size == 0:
            raise UsageError(f"{self._folder / DATABASE}: is not a usable store: it is empty")

    def existing_place(self) -> StorePlace:
        """Return where an existing store of any layout is."""
        if self._address is None:
            self._require_file()
        return self.place()

    def place(self) -> StorePlace:
        """Return where the store is or will be; for commands that copy or upgrade it."""
        if self._address is not None:
            from gatemark.ledger.stores.postgres import postgres_place  # noqa: PLC0415

            return postgres_place(self._address)
        from gatemark.ledger.stores.folder import folder_place  # noqa: PLC0415

        return folder_place(self._folder)

    @property
    def results(self) -> ResultStore:
        """The sealed results."""
        return self.store.results

    @property
    def events(self) -> LedgerStore:
        """The chain of events."""
        return self.store.events

    @property
    def blobs(self) -> BlobStore:
        """The files that results rest on."""
        return self.store.blobs

    def keep(
        self, result: Result, files: Iterable[bytes], evidence_paths: Mapping[str, str]
    ) -> int:
        """Put a result, its files and its evidence into the store; return its number.

        ``evidence_paths`` has the path of each evidence file by its name in the result. What was
        erased cannot come back.
        """
        files = tuple(files)
        self.refuse_erased(result, files)
        for evidence in result.evidence:
            for file in evidence.files:
                self.blobs.put_file(Path(evidence_paths[file.name]), file.digest)
        for data in files:
            self.blobs.put(data)
        return self.results.append(result)

    def refuse_erased(self, result: Result, files: Iterable[bytes] = ()) -> None:
        """Refuse a result that would bring back what was erased."""
        digests = result.file_digests.union(map(digest_bytes, files))
        for event, payload in self.events.events(kind=BLOB_ERASED):
            if payload is not None and payload["digest"] in digests:
                raise RefusedError(
                    f"{payload['digest']} was erased by event {event.seq} and cannot be sealed "
                    "again; leave out what was erased"
                )

    def keep_reserve(self) -> None:
        """Keep room on the disk of a store in files, so that a rollback finds it on a full one."""
        if self._address is None:
            from gatemark.ledger.stores.folder import keep_reserve  # noqa: PLC0415

            keep_reserve(self._folder)

    def release_reserve(self) -> bool:
        """Give the kept room back; say whether there was any."""
        if self._address is not None:
            return False
        from gatemark.ledger.stores.folder import release_reserve  # noqa: PLC0415

        return release_reserve(self._folder)

    def delete_copies(self) -> None:
        """Delete cached replies, cached facts and the journals of interrupted runs.

        They hold what evidence holds, so they go with what is erased.
        """
        for folder in (self.cache_folder, self.facts_folder, self._folder / "runs"):
            if folder.exists():
                shutil.rmtree(folder)

    def store_of(self, kind: Callable[[SqlDatabase], S]) -> S:
        """Return the store of a feature; made once per workspace from its class."""
        if kind not in self._stores:
            self._stores[kind] = kind(self.store.database)
        return cast("S", self._stores[kind])

    @property
    def address(self) -> str:
        """Where the store is, for messages: never with a password."""
        if self._address is None:
            return str(self._folder)
        from gatemark.ledger.stores.postgres import redact_address  # noqa: PLC0415

        return redact_address(self._address)

    @property
    def store_setting(self) -> str:
        """The value of ``--store`` for another process; may contain a password."""
        return self._address or str(self._folder)

    @property
    def folder(self) -> Path | None:
        """The folder of a store in files; None for one in a database server."""
        return self._folder if self._address is None else None

    @property
    def local_folder(self) -> Path:
        """The folder of the store, or of the local files alongside a database."""
        return self._folder

    @property
    def session_key_file(self) -> Path:
        """The key that signs sessions; servers of one database need the same file."""
        named = os.environ.get("GATEMARK_SESSION_KEY")
        return Path(named) if named else self._folder / "session.key"

    @property
    def review_key_file(self) -> Path:
        """The key that seals the keys of open reviews in the database."""
        named = os.environ.get("GATEMARK_REVIEW_KEY")
        return Path(named) if named else self._folder / "review.key"

    @property
    def signing_key_file(self) -> Path:
        """The key that signs checkpoints without being asked for; made at the first promotion."""
        named = os.environ.get("GATEMARK_SIGNING_KEY")
        return Path(named) if named else self._folder / "ledger.key"

    @property
    def private_paths(self) -> tuple[Path, ...]:
        """What code under examination must not read: the store, keys, and ways into a database."""
        keys = (self.session_key_file, self.review_key_file, self.signing_key_file)
        found = (self._folder, *keys, *self.secret_files)
        if self._address is None:
            return found
        from gatemark.ledger.stores.postgres import private_files  # noqa: PLC0415

        return (*found, *private_files(self._address, os.environ))

    def run_folder(self, key: str) -> Path:
        """Return the folder for the journals of a run until it is sealed."""
        return self._folder / "runs" / key.removeprefix(DIGEST_PREFIX)[:32]

    @property
    def cache_folder(self) -> Path:
        """Folder for replies that later runs can reuse."""
        return self._folder / "cache"

    @property
    def facts_folder(self) -> Path:
        """Folder for cached facts about large files."""
        return self._folder / "facts"
