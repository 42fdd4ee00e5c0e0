"""Gathering what a check of the ledger finds, and pointing each finding at its event."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.ledger.checks.report import Check, VerificationIssue

MOST_KEPT: Final = 1_000


class TroubleList:
    """Troubles as they come up; only so many are kept, all are counted."""

    def __init__(self) -> None:
        self._kept: list[VerificationIssue] = []
        self.count = 0

    def add(self, seq: int | None, check: Check, message: str, until: int | None = None) -> None:
        """One more."""
        self.count += 1
        if len(self._kept) < MOST_KEPT:
            self._kept.append(VerificationIssue(seq, check, message, until))

    def exact_within(self, first: int, last: int) -> int | None:
        """The first event between these that is known to be bad by itself."""
        found = [
            trouble.seq
            for trouble in self._kept
            if trouble.seq is not None and trouble.until is None and first <= trouble.seq <= last
        ]
        return min(found, default=None)

    def settled(self) -> tuple[VerificationIssue, ...]:
        """All that were kept in the order of the ledger.

        A trouble that lies anywhere in a range is moved to the bad event in it, where one is known.
        """
        settled = []
        for trouble in self._kept:
            moved = trouble
            if trouble.seq is not None and trouble.until is not None:
                known = self.exact_within(trouble.seq, trouble.until)
                if known is not None:
                    moved = msgspec.structs.replace(trouble, seq=known, until=None)
            settled.append(moved)
        settled.sort(key=lambda t: (t.seq is None, t.seq or 0, t.until is not None))
        return tuple(settled)
