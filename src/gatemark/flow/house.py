"""The house: clock, actor and store, wired once and handed to every journey."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import UsageError
from gatemark.engines.local import LocalEngine
from gatemark.engines.port import Engine
from gatemark.ledger.blobs import BlobStore
from gatemark.ledger.port import ResultStore

DEFAULT_STORE = ".gatemark"
DATABASE = "gatemark.sqlite3"


class House:
    """Everything a journey may need from outside. Nothing is opened before it is asked for."""

    def __init__(
        self,
        *,
        store: str = DEFAULT_STORE,
        jobs: int | None = None,
        actor: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if "://" in store:
            raise UsageError(
                f"store {store.split('://', maxsplit=1)[0]}://… is not supported; give a folder"
            )
        self._folder = Path(store)
        self._jobs = jobs
        self._actor = actor
        self.clock = clock

    @cached_property
    def engine(self) -> Engine:
        """Where folds run."""
        return LocalEngine(self._jobs or os.cpu_count() or 1)

    @cached_property
    def actor(self) -> str:
        """Who acts, as far as this machine knows."""
        if self._actor:
            return self._actor
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return f"uid-{os.getuid()}"

    def existing_results(self) -> ResultStore:
        """The sealed results of a store that is already there; looking must not make one."""
        if not (self._folder / DATABASE).exists():
            raise UsageError(f"there is no store at {self._folder}")
        return self.results

    @cached_property
    def results(self) -> ResultStore:
        """The sealed results; made on first use."""
        # The database library is heavy, and scoring without a store must not pay for it.
        from gatemark.ledger.stores.sqlite import SqliteResults  # noqa: PLC0415

        return SqliteResults(self._folder / DATABASE)

    def run_folder(self, key: str) -> Path:
        """Where the journals of a run lie until it is sealed."""
        return self._folder / "runs" / key.removeprefix(DIGEST_PREFIX)[:32]

    @property
    def facts_folder(self) -> Path:
        """Where the facts of large files that were read before are kept."""
        return self._folder / "facts"

    @cached_property
    def blobs(self) -> BlobStore:
        """The files that results rest on."""
        return BlobStore(self._folder / "blobs")
