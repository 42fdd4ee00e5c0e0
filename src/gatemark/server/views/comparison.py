"""The comparison of two results: measures, rules, and items that changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import Query

from gatemark.core.measurement import Measurement
from gatemark.core.result import Result
from gatemark.packs.pack_file import CANDIDATE
from gatemark.packs.sample_lines import read_sample_lines
from gatemark.release.lifecycle.views.views import View
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.parameters import REFERENCE
from gatemark.server.views.results import SHOWN, ResultSummary, get_result, result_page
from gatemark.workspace import Workspace

doors = Doors("results")
MAX_ITEMS: Final = 200
MAX_SAMPLE_BYTES: Final = 64 * 1024 * 1024
_BAD: Final = ("fail", "inconclusive")
ResultQuery = Annotated[str, Query(pattern=REFERENCE)]


class MeasureDelta(View, frozen=True, kw_only=True):
    """One measure in two results; None if a result lacks it, with the reason."""

    name: str
    scope: str | None
    unit: str
    direction: str
    before: float | None
    after: float | None
    delta: float | None
    is_worse: bool | None
    before_reason: str | None
    after_reason: str | None


class FindingDelta(View, frozen=True, kw_only=True):
    """One rule in two results."""

    rule: str
    before: str | None
    after: str | None
    is_worse: bool


class ItemChange(View, frozen=True, kw_only=True):
    """An item that was answered worse or better than before."""

    suite: str
    item: str
    before: float
    after: float


class ResultDelta(View, frozen=True, kw_only=True):
    """The comparison of two results. Items are paired by suite and id, on the same data only."""

    before: ResultSummary
    after: ResultSummary
    same_data: bool
    caveats: tuple[str, ...]
    measures: tuple[MeasureDelta, ...]
    findings: tuple[FindingDelta, ...]
    lost: tuple[ItemChange, ...]
    gained: tuple[ItemChange, ...]
    compared_items: int
    more_items: int


def compare_results(workspace: Workspace, before: str, after: str) -> ResultDelta:
    """Compare two results: measures, rules, and items that changed."""
    old, new = get_result(workspace, before), get_result(workspace, after)
    caveats = []
    if old.pack.digest != new.pack.digest:
        caveats.append(
            f"the packs differ: {old.pack.name} v{old.pack.version} and "
            f"{new.pack.name} v{new.pack.version}"
        )
    if old.policy_digest != new.policy_digest:
        caveats.append("the bounds or rules of the two differ")
    same_data = set(old.snapshots) == set(new.snapshots)
    lost, gained, count = _compare_items(workspace, old, new) if same_data else ([], [], 0)
    if not same_data:
        caveats.append("the data differ, so items cannot be compared")
    return ResultDelta(
        before=_summarize_result(old),
        after=_summarize_result(new),
        same_data=same_data,
        caveats=tuple(caveats),
        measures=tuple(_measure_deltas(old, new)),
        findings=tuple(_compare_findings(old, new)),
        lost=tuple(lost[:MAX_ITEMS]),
        gained=tuple(gained[:MAX_ITEMS]),
        compared_items=count,
        more_items=max(0, len(lost) - MAX_ITEMS) + max(0, len(gained) - MAX_ITEMS),
    )


def _summarize_result(result: Result) -> ResultSummary:
    return ResultSummary(
        seq=0,
        id=result.id,
        title=result.title,
        verdict=result.verdict,
        finished_at=result.finished_at,
    )


def _measure_deltas(old: Result, new: Result) -> Iterator[MeasureDelta]:
    before = {one.key: one for one in old.measurements}
    after = {one.key: one for one in new.measurements}
    for key, known in (before | after).items():
        yield _measure_delta(known, before.get(key), after.get(key))


def _missing_reason(number: Measurement | None) -> str | None:
    if number is None:
        return "not in this result"
    return None if number.reason is None else str(number.reason)


def _measure_delta(
    known: Measurement, old: Measurement | None, new: Measurement | None
) -> MeasureDelta:
    before = None if old is None else old.value
    after = None if new is None else new.value
    delta = None if before is None or after is None else after - before
    is_worse = None
    if delta is not None and known.direction != "neutral":
        is_worse = delta < 0 if known.direction == "higher_is_better" else delta > 0
    return MeasureDelta(
        name=known.name,
        scope=known.scope,
        unit=known.unit,
        direction=known.direction,
        before=before,
        after=after,
        delta=delta,
        is_worse=is_worse,
        before_reason=_missing_reason(old),
        after_reason=_missing_reason(new),
    )


def _compare_findings(old: Result, new: Result) -> Iterator[FindingDelta]:
    before = {one.rule: one.verdict for one in old.findings}
    after = {one.rule: one.verdict for one in new.findings}
    for rule in before | after:
        was, now = before.get(rule), after.get(rule)
        yield FindingDelta(
            rule=rule, before=was, after=now, is_worse=now in _BAD and was not in _BAD
        )


def _compare_items(
    workspace: Workspace, old: Result, new: Result
) -> tuple[list[ItemChange], list[ItemChange], int]:
    """Return the items that were answered worse and better, largest change first."""
    before, after = _read_scores(workspace, old), _read_scores(workspace, new)
    shared = sorted(before.keys() & after.keys())
    changes = [
        ItemChange(suite=key[0], item=key[1], before=before[key], after=after[key])
        for key in shared
        if before[key] != after[key]
    ]
    changes.sort(key=lambda one: (-abs(one.after - one.before), one.suite, one.item))
    lost = [one for one in changes if one.after < one.before]
    return lost, [one for one in changes if one.after > one.before], len(shared)


def _read_scores(workspace: Workspace, result: Result) -> dict[tuple[str, str], float]:
    """Return the mean score of each item of the candidate; an error counts as 0."""
    totals: dict[tuple[str, str], list[float]] = {}
    for blob in result.blobs:
        suite, _, tail = blob.name.partition(".")
        if tail != f"{CANDIDATE}.jsonl" or not workspace.blobs.has(blob.digest):
            continue
        data = workspace.blobs.get(blob.digest)
        if len(data) > MAX_SAMPLE_BYTES:
            continue
        for sample in read_sample_lines(data, blob.name):
            score = next(iter(sample["scores"].values()), None)
            totals.setdefault((suite, str(sample["id"])), []).append(score or 0.0)
    return {key: sum(scores) / len(scores) for key, scores in totals.items()}


@doors.view("/comparison", ResultDelta)
def get_comparison(visit: Visit, before: ResultQuery, after: ResultQuery) -> ResultDelta:
    """Compare two results."""
    return compare_results(visit.workspace, before, after)


@doors.page("/compare", "compare.html")
def compare_page(visit: Visit, before: str = "", after: str = "") -> Context:
    """Show two results side by side, or the form that asks for them."""
    workspace = visit.workspace
    return {
        "title": "Compare",
        "view": compare_results(workspace, before, after) if before and after else None,
        "others": result_page(workspace, before=None, limit=SHOWN).items,
        "before": before,
        "after": after,
    }
