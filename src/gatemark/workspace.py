"""The workspace: clock, actor and store, wired once and handed to every journey."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import UsageError
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.engines.port import Engine
from gatemark.ledger.port import BlobStore, LedgerStore, ResultStore
from gatemark.ledger.stores import DATABASE

if TYPE_CHECKING:
    from gatemark.ledger.stores.database import SqlDatabase
    from gatemark.ledger.stores.place import StorePlace
    from gatemark.ledger.stores.sql import SqlStore

S = TypeVar("S")
EngineName = Literal["local", "ray"]

DEFAULT_STORE = ".gatemark"
DATABASE_SCHEMES = ("postgresql", "postgres")


class Workspace:
    """Everything a journey may need from outside. Nothing is opened before it is asked for."""

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
        """Who acts, as far as this machine knows."""
        if self._actor:
            return self._actor
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return f"uid-{os.getuid()}"

    def acting_as(self, person: str) -> Workspace:
        """The same workspace with somebody acting in it by name; the store is shared."""
        self.existing_store()
        other = copy(self)
        other.actor = person
        return other

    def existing_store(self) -> SqlStore:
        """A store that is already there; looking must not make one."""
        if "store" not in self.__dict__:
            self.store = self._open(must_exist=True)
        return self.store

    def existing_results(self) -> ResultStore:
        """The sealed results of a store that is already there."""
        return self.existing_store().results

    @cached_property
    def store(self) -> SqlStore:
        """The whole ledger; made on first use."""
        return self._open(must_exist=False)

    def _open(self, *, must_exist: bool) -> SqlStore:
        # The database library is heavy, and scoring without a store must not pay for it.
        if self._address is not None:
            from gatemark.ledger.stores.postgres import open_postgres  # noqa: PLC0415

            return open_postgres(self._address, must_exist=must_exist)
        if must_exist:
            self._require_file()
        from gatemark.ledger.stores.sqlite import open_sqlite  # noqa: PLC0415

        return open_sqlite(self._folder / DATABASE, must_exist=must_exist)

    def _require_file(self) -> None:
        if not (self._folder / DATABASE).exists():
            raise UsageError(f"there is no store at {self._folder}")
        if (self._folder / DATABASE).stat().st_size == 0:
            raise UsageError(f"{self._folder / DATABASE}: is not a usable store: it is empty")

    def existing_place(self) -> StorePlace:
        """Where a store should be, whatever its layout; a place without a file is refused."""
        if self._address is None:
            self._require_file()
        return self.place()

    def place(self) -> StorePlace:
        """Where the store is or will be; for journeys that copy a store or change its layout."""
        if self._address is not None:
            from gatemark.ledger.stores.postgres import postgres_place  # noqa: PLC0415

            return postgres_place(self._address)
        from gatemark.ledger.stores.sqlite import folder_place  # noqa: PLC0415

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

    def store_of(self, kind: Callable[[SqlDatabase], S]) -> S:
        """The store of a feature, made once per database from the class that it hands in."""
        if kind not in self._stores:
            self._stores[kind] = kind(self.store.database)
        return cast("S", self._stores[kind])

    @property
    def address(self) -> str:
        """Where the store is, as a user would say it."""
        return self._address or str(self._folder)

    @property
    def folder(self) -> Path | None:
        """The folder of a store in files; None for one in a database server."""
        return self._folder if self._address is None else None

    @property
    def local_folder(self) -> Path:
        """The folder of the store, or of the local files beside a database."""
        return self._folder

    def run_folder(self, key: str) -> Path:
        """Where the journals of a run lie until it is sealed."""
        return self._folder / "runs" / key.removeprefix(DIGEST_PREFIX)[:32]

    @property
    def cache_folder(self) -> Path:
        """Where replies are kept for later runs that ask for them."""
        return self._folder / "cache"

    @property
    def facts_folder(self) -> Path:
        """Where the facts of large files that were read before are kept."""
        return self._folder / "facts"
