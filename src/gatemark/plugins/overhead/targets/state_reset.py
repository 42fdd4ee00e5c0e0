"""Two ways to reset the state of a target: restore a snapshot, or build the target again."""

from __future__ import annotations

from collections.abc import Callable

from gatemark.core.errors import IncomparableError
from gatemark.plugins.overhead.targets.loading import name_target_errors, name_windows
from gatemark.plugins.overhead.targets.port import OverheadTarget

Build = Callable[[], OverheadTarget]


class Restoring:
    """Keeps one target and restores its state from a snapshot."""

    is_cheap = True
    verb = "restore()"

    def __init__(self, target: OverheadTarget) -> None:
        self.target = target
        with name_target_errors("snapshot()"):
            self._snapshot = target.snapshot()

    def bring_back(self, *, is_touched: bool) -> None:
        """Restore the snapshot, with the guards off."""
        with name_target_errors("restore()"):
            if is_touched:
                self.target.toggle(guarded=False)
            self.target.restore(self._snapshot)


class Reloading:
    """Builds the target again whenever its state must be reset; needs no ``restore``."""

    is_cheap = False
    verb = "building the target again"

    def __init__(self, build: Build) -> None:
        self._build = build
        self.target = build()
        self._names = [window.window_id for window in name_windows(self.target)]

    def bring_back(self, *, is_touched: bool) -> None:
        """Build the target again; the old one goes first, so that only one is in memory."""
        del is_touched
        del self.target
        self.target = self._build()
        if [window.window_id for window in name_windows(self.target)] != self._names:
            raise IncomparableError(
                "overhead target: it has other windows after it was built again; "
                "use the seeds to choose them"
            )
