"""Numbers that rest on nothing: what a 0 of empty sets must not be taken for.

Where no summary holds a concept, nothing is unsupported, and M5 and M6 are 0, their best. A list
of names that does not fit the traces would so turn every summariser into a perfect one. The files
keep the numbers as they are defined; judging and showing them goes through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gatemark.exams.runlog.aggregate import VariantEstimate
from gatemark.exams.runlog.rows import METRICS, Needs, RunRow

_NOTHING_FOUND: Mapping[Needs, str] = {
    "said": "no summary holds a concept that the extractor knows",
    "trace": "no trace holds a concept that the extractor knows",
}


def has_substance(name: str, rows: Iterable[RunRow]) -> bool:
    """Whether anybody has the concepts that a metric is about."""
    needs = METRICS[name].needs
    if needs == "said":
        return any(row.said_concepts for row in rows)
    return needs == "nothing" or any(row.trace_concepts for row in rows)


def substantiated(
    found: Mapping[str, VariantEstimate], rows: Sequence[RunRow]
) -> dict[str, VariantEstimate]:
    """The estimates, without those of metrics that nobody has concepts for."""
    return {
        name: estimate
        if has_substance(name, rows)
        else VariantEstimate(None, _NOTHING_FOUND[METRICS[name].needs], len(rows))
        for name, estimate in found.items()
    }


def caveats(rows: Sequence[RunRow]) -> Iterator[str]:
    """What a reader of one variant's numbers should know before believing them."""
    count = len(rows)
    without_trace = sum(row.trace_concepts == 0 for row in rows)
    mute = sum(row.valid_events == 0 for row in rows)
    silent = sum(row.said_concepts == 0 for row in rows) - mute
    stubs = sum(row.is_stub for row in rows)
    if without_trace == count:
        yield f"{_NOTHING_FOUND['trace']}: M4 and M7b could not be measured"
    elif without_trace:
        yield f"{without_trace} of {count} traces hold no concept; M4 and M7b count them as 0"
    if silent + mute == count:
        yield f"{_NOTHING_FOUND['said']}: M3, M5 and M6 could not be measured"
    elif silent:
        yield (
            f"{silent} of {count} cases have no concept in any summary; M5, M6a and M6b count them "
            "as 0, the best there is"
        )
    if 0 < mute < count:
        yield (
            f"{mute} of {count} cases have no valid summary; M5 counts them as 0, and M6a and M6b "
            "leave them out"
        )
    if stubs:
        yield f"{stubs} of {count} traces are stubs, which stand in for missing ones"
    if count == 1:
        yield "there is one case, so that intervals over cases have no width"
