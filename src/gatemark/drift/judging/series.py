"""A series: one metric of one asset, and the grid that its windows stand on."""

from __future__ import annotations

import msgspec

from gatemark.core.durations import seconds_of
from gatemark.core.result import AssetKind
from gatemark.drift.judging.parts import FormName
from gatemark.drift.judging.policy import Watch


class Series(msgspec.Struct, frozen=True):
    """One metric of one asset: its form, the grid of its windows, and its bins or classes."""

    id: int
    asset: str
    metric: str
    form: FormName
    length_s: int
    phase_s: int
    layout: tuple[float | str, ...] = ()
    kind: AssetKind | None = None

    def window_s(self, watch: Watch) -> int:
        """The length of the windows that are judged: as watched where shorter ones fit in."""
        if watch.window is None:
            return self.length_s
        wanted = seconds_of(watch.window)
        return wanted if wanted % self.length_s == 0 else self.length_s
