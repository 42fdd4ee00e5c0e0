"""The report of ``gatemark ledger verify``: the verdict, and each issue with its event number."""

from __future__ import annotations

from collections.abc import Iterator
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

    ``seq`` is the number of the event, or None if the issue is not about an event. If ``until`` is
    set, one event between ``seq`` and ``until`` is bad, and the stored data does not show which.
    """

    seq: int | None
    check: Check
    message: str
    until: int | None = None


class LedgerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying a ledger.

    ``issues`` are the issues, ``unjudged`` lists what could not be checked, and ``caveats`` are
    notes for the reader.
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
    issues: tuple[VerificationIssue, ...]
    issues_unlisted: int
    unjudged: tuple[str, ...]
    caveats: tuple[str, ...]
    decided_through: dict[str, int] = {}
    """Number of human votes and moves, by the channel they came through."""
    is_anchored: bool = False
    """Whether a checkpoint or key that the reader supplied confirms the ledger."""

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command: 4 if something does not verify."""
        return {
            "pass": ExitCode.PASS,
            "fail": ExitCode.INTEGRITY,
            "inconclusive": ExitCode.INCONCLUSIVE,
        }[self.verdict]


MOST_KEPT: Final = 1_000


class IssueList:
    """Collects issues. Stores the first thousand and counts all of them."""

    def __init__(self) -> None:
        self._kept: list[VerificationIssue] = []
        self.count = 0

    def add(self, seq: int | None, check: Check, message: str, until: int | None = None) -> None:
        self.count += 1
        if len(self._kept) < MOST_KEPT:
            self._kept.append(VerificationIssue(seq, check, message, until))

    def of_event(self, seq: int | None, check: Check, message: str) -> None:
        """Add an issue of an event; its message begins with the number, if there is one."""
        self.add(seq, check, message if seq is None else f"event {seq}: {message}")

    def exact_within(self, first: int, last: int) -> int | None:
        """Return the first event in the range that is known to be bad."""
        found = [
            issue.seq
            for issue in self._kept
            if issue.seq is not None and issue.until is None and first <= issue.seq <= last
        ]
        return min(found, default=None)

    def settled(self) -> tuple[VerificationIssue, ...]:
        """Return the issues sorted by event number.

        An issue about a range is moved to the bad event in that range, if one is known.
        """
        settled = []
        for issue in self._kept:
            moved = issue
            if issue.seq is not None and issue.until is not None:
                known = self.exact_within(issue.seq, issue.until)
                if known is not None:
                    moved = msgspec.structs.replace(issue, seq=known, until=None)
            settled.append(moved)
        settled.sort(key=lambda t: (t.seq is None, t.seq or 0, t.until is not None))
        return tuple(settled)


SHOWN_ISSUES = 20
CLAIMED = "command line"


def format_ledger_report(report: LedgerReport) -> str:
    """Return the report as text: the verdict first, then the issues."""
    return "\n".join(_format_lines(report))


def _format_lines(report: LedgerReport) -> Iterator[str]:
    is_unanchored = report.verdict == "pass" and not report.is_anchored
    anchor = ", unanchored" if is_unanchored else ""
    yield f"{report.verdict.upper()}{anchor}  {_format_counts(report)}"
    if report.issues:
        first = report.first_bad_seq
        yield f"first bad sequence number: {'none' if first is None else first}"
    for issue in report.issues[:SHOWN_ISSUES]:
        place = ""
        if issue.until is not None:
            place = f" (somewhere in events {issue.seq} to {issue.until})"
        yield f"  {issue.check}: {issue.message}{place}"
    more = len(report.issues) - SHOWN_ISSUES + report.issues_unlisted
    if more > 0:
        yield f"  and {more} more"
    for why in report.unjudged:
        yield f"could not be judged: {why}"
    for note in report.caveats:
        yield f"note: {note}"
    if report.decided_through:
        ways = (f"{count:,} by {way}" for way, count in sorted(report.decided_through.items()))
        claims = " (names on a command line are claims)" * (CLAIMED in report.decided_through)
        yield f"votes and moves of people: {', '.join(ways)}{claims}"
    if report.origin is not None:
        yield f"ledger {report.origin}"
    yield f"head   {report.head.seq} {report.head.digest}"
    if report.root is not None:
        yield f"root   {report.root}"


def _format_counts(report: LedgerReport) -> str:
    counted = (
        (report.events, "event"),
        (report.results, "result"),
        (report.blobs, "blob"),
        (report.decisions, "decision"),
        (report.checkpoints, "checkpoint"),
    )
    words = [f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counted]
    if report.payloads_erased:
        words.append(f"{report.payloads_erased:,} erased")
    return ", ".join(words)
