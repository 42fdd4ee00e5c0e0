"""Workspaces for the threads of a server: opened ahead, never used by two threads at once."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

from gatemark.workspace import Workspace

OpenWorkspace = Callable[[str | None], Workspace]


class _Lease:
    """The workspace of one thread; it is released when the thread ends."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace


class Workspaces:
    """A workspace per thread. What a thread leaves behind when it ends, the next one takes over.

    Threads come and go with the visitors; what a workspace has read of the ledger should not.
    """

    def __init__(self, open_workspace: OpenWorkspace) -> None:
        self._open_workspace = open_workspace
        self._idle: deque[Workspace] = deque()
        self._mine = threading.local()

    @property
    def mine(self) -> Workspace:
        """The workspace of this thread. No other thread changes what it has read."""
        lease: _Lease | None = getattr(self._mine, "lease", None)
        if lease is None:
            lease = self._mine.lease = _Lease(self._taken())
            weakref.finalize(lease, self._idle.append, lease.workspace).atexit = False
        return lease.workspace

    def prepare(self, count: int, make_ready: Callable[[Workspace], object]) -> None:
        """Open workspaces before anybody waits for them."""
        for _ in range(count):
            workspace = self._open_workspace(None)
            make_ready(workspace)
            self._idle.append(workspace)

    def _taken(self) -> Workspace:
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_workspace(None)
