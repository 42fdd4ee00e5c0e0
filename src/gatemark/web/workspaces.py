"""Houses for the threads of a server: opened ahead, and never used by two threads at once."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

from gatemark.workspace import Workspace

OpenWorkspace = Callable[[str | None], Workspace]


class _Lease:
    """A house in the hands of one thread; it goes when the thread does."""

    def __init__(self, house: Workspace) -> None:
        self.house = house


class Workspaces:
    """A house per thread. What a thread leaves behind when it ends, the next one takes over.

    Threads come and go with the visitors; what a house has read of the ledger should not.
    """

    def __init__(self, open_house: OpenWorkspace) -> None:
        self._open_house = open_house
        self._idle: deque[Workspace] = deque()
        self._mine = threading.local()

    @property
    def mine(self) -> Workspace:
        """The house of this thread: what it has read of the ledger is nobody else's to change."""
        lease: _Lease | None = getattr(self._mine, "lease", None)
        if lease is None:
            lease = self._mine.lease = _Lease(self._taken())
            weakref.finalize(lease, self._idle.append, lease.house).atexit = False
        return lease.house

    def prepare(self, count: int, make_ready: Callable[[Workspace], object]) -> None:
        """Open houses before anybody waits for them."""
        for _ in range(count):
            house = self._open_house(None)
            make_ready(house)
            self._idle.append(house)

    def _taken(self) -> Workspace:
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_house(None)
