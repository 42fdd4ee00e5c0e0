"""Results for page and API: lists, verification, and comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec
from fastapi import Response
from fastapi.responses import StreamingResponse

from gatemark.core.canonical import DIGEST_PREFIX, same_digest
from gatemark.core.errors import GatemarkError, IntegrityError, UnknownNameError
from gatemark.core.measurement import Measurement
from gatemark.core.result import Result, verify_seal
from gatemark.ledger.event_kinds import RESULT_SEALED
from gatemark.packs.pack_file import CANDIDATE
from gatemark.packs.sample_lines import read_sample_lines
from gatemark.web.areas.views import (
    CheckLine,
    FindingDelta,
    ItemChange,
    MeasureDelta,
    ResultCheck,
    ResultDelta,
    ResultPage,
    ResultSummary,
)
from gatemark.workspace import Workspace

MAX_ITEMS: Final = 200
MAX_SAMPLE_BYTES: Final = 64 * 1024 * 1024
_BAD: Final = ("fail", "inconclusive")


def result_page(workspace: Workspace, *, before: int | None, limit: int) -> ResultPage:
    """Return a page of results, newest first."""
    found = workspace.existing_results().lines(limit + 1, before)
    shown = found[:limit]
    return ResultPage(
        items=tuple(ResultSummary(**msgspec.structs.asdict(line)) for line in shown),
        next=str(shown[-1].seq) if len(found) > limit else None,
    )


def get_result(workspace: Workspace, reference: str) -> Result:
    """Return a result by its id or a prefix of it."""
    return workspace.existing_results().get(reference)


def read_result_file(workspace: Workspace, reference: str, digest: str) -> Iterator[bytes]:
    """Yield the bytes of a file of a result; files of other results are refused."""
    result = get_result(workspace, reference)
    kept = {blob.digest for blob in result.blobs}
    if digest not in kept:
        raise UnknownNameError(f"result {result.id} keeps no file {digest}")
    if not workspace.blobs.has(digest):
        raise UnknownNameError(f"the file {digest} is not in the store")
    return workspace.blobs.pieces(digest)


def download(pieces: Iterator[bytes], digest: str) -> Response:
    """Return a response that browsers save and never run."""
    name = digest.removeprefix("sha256:")[:16]
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


def check_result(workspace: Workspace, reference: str) -> ResultCheck:
    """Verify a result: its seal, all its files, and its events."""
    now = workspace.clock()
    try:
        result = get_result(workspace, reference)
    except IntegrityError as error:
        line = CheckLine(what="seal", holds=False, detail=str(error))
        return ResultCheck(id=reference, verdict="fail", checked_at=now, lines=(line,))
    verify_seal(result)
    lines = [CheckLine(what="seal", holds=True, detail="id and stamp match the content")]
    lines.extend(_check_blob(workspace, blob.name, blob.digest) for blob in result.blobs)
    lines.append(_check_event(workspace, result))
    holds = all(line.holds for line in lines)
    return ResultCheck(
        id=result.id, verdict="pass" if holds else "fail", checked_at=now, lines=tuple(lines)
    )


def _check_blob(workspace: Workspace, name: str, digest: str) -> CheckLine:
    seen = hashlib.sha256()
    try:
        for piece in workspace.blobs.pieces(digest):
            seen.update(piece)
    except GatemarkError as error:
        return CheckLine(what=name, holds=False, detail=str(error))
    holds = same_digest(DIGEST_PREFIX + seen.hexdigest(), digest)
    detail = "matches its digest" if holds else "does not match its digest"
    return CheckLine(what=name, holds=holds, detail=detail)


def _check_event(workspace: Workspace, result: Result) -> CheckLine:
    subject = result.candidate.id.partition("/")[0] if result.candidate else None
    try:
        events = workspace.events.events(kind=RESULT_SEALED, subject=subject)
        stamps = [
            event.seq
            for event, payload in events
            if payload is not None and payload.get("stamp") == result.stamp
        ]
    except IntegrityError as error:
        return CheckLine(what="ledger", holds=False, detail=str(error))
    if not stamps:
        return CheckLine(what="ledger", holds=False, detail="no ledger event records it")
    return CheckLine(what="ledger", holds=True, detail=f"event {stamps[0]} records it")


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
