"""The report of a check of the ledger: what does not verify, at which event."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from gatemark.core.errors import ExitCode
from gatemark.core.policy import Outcome
from gatemark.ledger.event import Head

Check = Literal[
    "chain",
    "payload",
    "time",
    "tree",
    "checkpoint",
    "key",
    "decision",
    "result",
    "blob",
    "points",
    "drift",
    "review",
    "labels",
    "rescore",
]


class VerificationIssue(msgspec.Struct, frozen=True):
    """One thing that does not verify.

    ``seq`` is the event it concerns, None when it concerns none. With ``until``, the trouble lies
    somewhere from ``seq`` to there and nothing kept tells where.
    """

    seq: int | None
    check: Check
    message: str
    until: int | None = None


class LedgerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a check.

    ``troubles`` do not verify, ``unjudged`` could not be checked, ``caveats`` are worth knowing.
    """

    verdict: Outcome
    first_bad_seq: int | None
    origin: str | None
    head: Head
    root: str | None
    events: int
    payloads_erased: int
    results: int
    blobs: int
    decisions: int
    checkpoints: int
    keys: tuple[str, ...]
    troubles: tuple[VerificationIssue, ...]
    troubles_unlisted: int
    unjudged: tuple[str, ...]
    caveats: tuple[str, ...]

    @property
    def exit_code(self) -> ExitCode:
        """How a command that reports this ends: what does not verify is exit code 4."""
        return {
            "pass": ExitCode.PASS,
            "fail": ExitCode.INTEGRITY,
            "inconclusive": ExitCode.INCONCLUSIVE,
        }[self.verdict]


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
