"""The report of a check of the ledger: what does not verify, and where first."""

from __future__ import annotations

from typing import Literal

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
