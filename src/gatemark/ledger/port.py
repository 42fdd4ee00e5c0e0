"""What the ledger asks of a store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from gatemark.core.result import Result
from gatemark.core.verdict import Outcome


class ResultLine(msgspec.Struct, frozen=True):
    """One sealed result as a list shows it."""

    seq: int
    id: str
    title: str
    verdict: Outcome
    finished_at: datetime


class ResultStore(Protocol):
    """Keeps sealed results; adds, never changes."""

    def append(self, result: Result) -> int:
        """Keep a result; one that is already there keeps its number."""
        ...

    def get(self, reference: str) -> Result:
        """The result of that id, or of the only id that starts so."""
        ...

    def lines(self, limit: int) -> Sequence[ResultLine]:
        """The newest results first."""
        ...
