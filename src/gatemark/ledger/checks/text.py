"""A check of the ledger in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.ledger.checks.report import LedgerReport

SHOWN_TROUBLES = 20


def verified_text(report: LedgerReport) -> str:
    """The report of a check as a person reads it: the verdict first, then what is wrong."""
    return "\n".join(_lines(report))


def _lines(report: LedgerReport) -> Iterator[str]:
    yield f"{report.verdict.upper()}  {_counts(report)}"
    if report.troubles:
        first = report.first_bad_seq
        yield f"first bad sequence number: {'none' if first is None else first}"
    for trouble in report.troubles[:SHOWN_TROUBLES]:
        place = ""
        if trouble.until is not None:
            place = f" (somewhere in events {trouble.seq} to {trouble.until})"
        yield f"  {trouble.check}: {trouble.message}{place}"
    more = len(report.troubles) - SHOWN_TROUBLES + report.troubles_unlisted
    if more > 0:
        yield f"  and {more} more"
    for why in report.unjudged:
        yield f"could not be judged: {why}"
    for note in report.caveats:
        yield f"note: {note}"
    if report.origin is not None:
        yield f"ledger {report.origin}"
    yield f"head   {report.head.seq} {report.head.digest}"
    if report.root is not None:
        yield f"root   {report.root}"


def _counts(report: LedgerReport) -> str:
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
