"""Workspaces for the threads of a server: opened in advance, never shared by two threads."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

from gatemark.workspace import Workspace

OpenWorkspace = Callable[[str | None], Workspace]


class _Lease:
    """The workspace of one thread; it is returned when the thread ends."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace


class Workspaces:
    """One workspace per thread; a new thread reuses one that an ended thread returned.

    Threads start and end with the load, but the ledger cache of a workspace should survive.
    """

    def __init__(self, open_workspace: OpenWorkspace) -> None:
        self._open_workspace = open_workspace
        self._idle: deque[Workspace] = deque()
        self._mine = threading.local()

    @property
    def mine(self) -> Workspace:
        """Return the workspace of this thread; no other thread uses it."""
        lease: _Lease | None = getattr(self._mine, "lease", None)
        if lease is None:
            lease = self._mine.lease = _Lease(self._take_workspace())
            weakref.finalize(lease, self._idle.append, lease.workspace).atexit = False
        return lease.workspace

    def prepare(self, count: int, make_ready: Callable[[Workspace], object]) -> None:
        """Open workspaces in advance."""
        for _ in range(count):
            workspace = self._open_workspace(None)
            make_ready(workspace)
            self._idle.append(workspace)

    def _take_workspace(self) -> Workspace:
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_workspace(None)
