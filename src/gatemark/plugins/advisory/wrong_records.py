"""The records that people should look at, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gatemark.evidence.private_text import PrivateTextScan
from gatemark.plugins.advisory.category import HIGH_SEVERITIES
from gatemark.plugins.advisory.exam_state import AdvisoryExamState
from gatemark.plugins.advisory.scored_kind import ScoredKind


class WrongRecord(NamedTuple):
    """A record for people to look at: what is wrong with it, expected and given."""

    decision_id: str
    fixture_id: str | None
    run: str | None
    lane: str
    problem: str
    expected: str | None
    given: str
    bucket: str


class WrongRecords(NamedTuple):
    """The worst of the wrong, uncertain and violating records, and their total number."""

    total: int
    by_problem: dict[str, int]
    worst: list[WrongRecord]


PROBLEMS: Final = (
    "authority_violation",
    "side_effect",
    "privacy_violation",
    "false_negative",
    "false_positive_high",
    "false_positive",
    "disagree",
    "severity_undercall",
    "severity_overcall",
    "missing_reference",
    "unexpected_fallback",
    "fallback_without_reason",
    "uncertain",
)
"""What can be wrong with a record, worst first; a record is named by its worst problem."""
SHOWN_WRONG: Final = 100


def _name_problem(row: ScoredKind) -> str | None:
    """Return the worst problem of the records of a kind."""
    kind = row.kind
    high = row.category == "false_positive" and kind.severity in HIGH_SEVERITIES
    found = {
        "authority_violation": kind.authority,
        "side_effect": kind.side_effect,
        "privacy_violation": kind.privacy,
        "false_positive_high": high,
        "unexpected_fallback": row.fallback == "unexpected",
        "fallback_without_reason": kind.no_reason,
        row.category: True,
    }
    return next((name for name in PROBLEMS if found.get(name)), None)


def find_wrong_records(
    state: AdvisoryExamState,
    scored: Iterable[tuple[ScoredKind, int]],
    *,
    shown: Mapping[str, str],
    shown_lanes: Mapping[str, str],
    scan: PrivateTextScan,
) -> WrongRecords:
    """Return the records that are wrong, uncertain or violate something, worst first."""
    totals: Counter[str] = Counter()
    found: list[tuple[int, WrongRecord]] = []
    private = scan.private(
        [
            name
            for all_named in state.named.values()
            for one in all_named
            if (name := one.fixture_id)
        ]
    )
    for row, count in scored:
        kind, problem = row.kind, _name_problem(row)
        if problem is None:
            continue
        totals[problem] += count
        expected = kind.reference_label and f"{kind.reference_label}/{kind.reference_severity}"
        for named in state.named.get(kind, []):
            name = named.fixture_id
            wrong = WrongRecord(
                decision_id=named.decision_id,
                fixture_id="withheld" if name in private else name,
                run=shown.get(named.run or "", named.run)
                if named.run in state.first_times
                else None,
                lane=shown_lanes[kind.lane],
                problem=problem,
                expected=expected,
                given=f"{kind.label}/{kind.severity}",
                bucket=kind.bucket,
            )
            found.append((PROBLEMS.index(problem), wrong))
    found.sort(key=lambda row: (row[0], row[1].decision_id))
    return WrongRecords(
        total=sum(totals.values()),
        by_problem={name: totals[name] for name in PROBLEMS if totals[name]},
        worst=[wrong for _, wrong in found[:SHOWN_WRONG]],
    )


NAMED_WRONG: Final = 3


def describe_wrong_records(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the worst records by their ids, in one line."""
    wrong = facts["wrong_records"]
    if not wrong["total"]:
        return
    named = [
        f"{one['problem']} {one['fixture_id'] or one['decision_id']} "
        f"(expected {one['expected'] or 'nothing'}, given {one['given']})"
        for one in wrong["worst"][:NAMED_WRONG]
    ]
    rest = wrong["total"] - len(named)
    more = f"; and {rest:,} more" if rest else ""
    yield f"records to look at, worst first: {'; '.join(named)}{more}"
