"""Sealed results: the list, one result with its files, and its verification."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final, Literal

import msgspec
from fastapi import Path, Response

from gatemark.core.canonical import DIGEST_PREFIX, plain, same_digest
from gatemark.core.errors import GatemarkError, IntegrityError, UnknownNameError
from gatemark.core.result import Result, verify_seal
from gatemark.ledger.event_kinds import RESULT_SEALED
from gatemark.release.lifecycle.views.views import View
from gatemark.report.html import result_context
from gatemark.server.doors import Context, Doors, Tagged, Visit
from gatemark.server.parameters import RESULT, Cursor, Limit
from gatemark.server.render import download
from gatemark.workspace import Workspace

doors = Doors("results", {"reference": RESULT, "digest": Path(pattern=r"^sha256:[0-9a-f]{64}$")})
SHOWN: Final = 50
DRAWN: Final = 64
"""Number of results whose pages are kept."""
JUMPS: Final = (("#again", "Verify it now"), ("#more", "Compare it, and its files"))
"""Links to the sections below a long result."""


class ResultSummary(View, frozen=True, kw_only=True):
    """A sealed result in a list."""

    seq: int
    id: str
    title: str
    verdict: str
    finished_at: datetime


class ResultPage(View, frozen=True, kw_only=True):
    """A page of results, newest first, and the cursor of the next page."""

    items: tuple[ResultSummary, ...]
    next: str | None


class CheckLine(View, frozen=True, kw_only=True):
    """One check and its outcome."""

    what: str
    holds: bool
    detail: str


class ResultCheck(View, frozen=True, kw_only=True):
    """The verification of a result: its seal, its evidence, and its events."""

    id: str
    verdict: Literal["pass", "fail"]
    checked_at: datetime
    lines: tuple[CheckLine, ...]


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
    doubt = workspace.find_doubt(result)
    if doubt is not None:
        lines.append(CheckLine(what="rules", holds=False, detail=str(doubt)))
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


@doors.view("/results", ResultPage)
def list_results(visit: Visit, before: Cursor = None, limit: Limit = 50) -> ResultPage:
    """List results, newest first; ``next`` is the cursor of the next page."""
    return result_page(visit.workspace, before=before, limit=limit)


@list_results.page("/results", "results.html", limit=SHOWN)
def results_page(document: ResultPage) -> Context:
    """Show the newest results."""
    return {"title": "Results", "view": document}


@doors.view("/results/{reference}", Result)
def one_result(visit: Visit, reference: str) -> Tagged:
    """Return a whole result (``gatemark.result/1``)."""
    result = get_result(visit.workspace, reference)
    return Tagged(f'"{result.stamp}"', lambda: plain(result))


@one_result.page("/results/{reference}", "result.html")
def one_result_page(visit: Visit, reference: str) -> Context:
    """Show a result, verdict first."""
    result = get_result(visit.workspace, reference)
    drawn: dict[str, dict[str, object]] = visit.request.app.state.drawn
    if result.stamp not in drawn:
        while len(drawn) >= DRAWN:
            drawn.pop(next(iter(drawn)))
        drawn[result.stamp] = result_context(result)
    others = result_page(visit.workspace, before=None, limit=SHOWN).items
    doubt = visit.workspace.find_doubt(result)
    return {
        **drawn[result.stamp],
        "doubt": doubt and str(doubt),
        "check": None,
        "others": others,
        "jumps": JUMPS,
    }


@doors.view("/results/{reference}/files/{digest}", bytes)
def result_file(visit: Visit, reference: str, digest: str) -> Response:
    """Return a file of the result."""
    result = get_result(visit.workspace, reference)
    if digest not in {blob.digest for blob in result.blobs}:
        raise UnknownNameError(f"result {result.id} keeps no file {digest}")
    if not visit.workspace.blobs.has(digest):
        raise UnknownNameError(f"the file {digest} is not in the store")
    return download(visit.workspace.blobs.pieces(digest), digest)


@result_file.page("/results/{reference}/files/{digest}")
def file_page(document: Response) -> Response:
    """Return a file of a result as a download."""
    return document


@doors.act("/results/{reference}/verification", ResultCheck, scope="read")
def verify_result(visit: Visit, reference: str) -> ResultCheck:
    """Verify a result: seal, files, and its events in the ledger."""
    return check_result(visit.workspace, reference)


@verify_result.form_page("/results/{reference}/verify")
def post_result_verify(visit: Visit, reference: str, document: ResultCheck) -> Response:
    """Show the checks, above the result if it can be read."""
    if document.verdict == "fail" and len(document.lines) == 1:
        return visit.show("check.html", {"title": "Check", "check": document})
    context = {**one_result_page(visit, reference), "check": document}
    return visit.show("result.html", context)
