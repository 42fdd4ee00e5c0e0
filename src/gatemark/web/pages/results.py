"""Pages for results: list, one result, verification, and comparison."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from gatemark.report.html import result_context
from gatemark.web.areas.results import (
    check_result,
    compare_results,
    download,
    get_result,
    read_result_file,
    result_page,
)
from gatemark.web.render import form, member, page
from gatemark.web.site import site_of

router = APIRouter()
SHOWN = 50
DRAWN = 64
JUMPS = (("#again", "Verify it now"), ("#more", "Compare it, and its files"))
"""Links to the sections below a long result."""


@router.get("/results")
def results_page(request: Request, before: int | None = None) -> Response:
    """Show the newest results."""
    identity = member(request)
    view = result_page(site_of(request).workspace, before=before, limit=SHOWN)
    return page(request, "results.html", identity, {"title": "Results", "view": view})


@router.get("/results/{reference}")
def one_result_page(request: Request, reference: str) -> Response:
    """Show a result, verdict first."""
    identity = member(request)
    return page(request, "result.html", identity, _build_context(request, reference))


def _build_context(request: Request, reference: str) -> dict[str, object]:
    result = get_result(site_of(request).workspace, reference)
    drawn: dict[str, dict[str, object]] = request.app.state.drawn
    if result.stamp not in drawn:
        while len(drawn) >= DRAWN:
            drawn.pop(next(iter(drawn)))
        drawn[result.stamp] = result_context(result)
    others = result_page(site_of(request).workspace, before=None, limit=SHOWN).items
    return {**drawn[result.stamp], "check": None, "others": others, "jumps": JUMPS}


@router.post("/results/{reference}/verify", dependencies=[Depends(form)])
def post_result_verify(request: Request, reference: str) -> Response:
    """Verify a result and show the checks."""
    identity = member(request)
    check = check_result(site_of(request).workspace, reference)
    if check.verdict == "fail" and len(check.lines) == 1:
        return page(request, "check.html", identity, {"title": "Check", "check": check})
    return page(
        request, "result.html", identity, {**_build_context(request, reference), "check": check}
    )


@router.get("/results/{reference}/files/{digest}")
def file_page(request: Request, reference: str, digest: str) -> Response:
    """Return a file of a result as a download."""
    member(request)
    pieces = read_result_file(site_of(request).workspace, reference, digest)
    return download(pieces, digest)


@router.get("/compare")
def compare_page(request: Request, before: str = "", after: str = "") -> Response:
    """Show two results side by side."""
    identity = member(request)
    workspace = site_of(request).workspace
    view = compare_results(workspace, before, after) if before and after else None
    others = result_page(workspace, before=None, limit=SHOWN).items
    context = {
        "title": "Compare",
        "view": view,
        "others": others,
        "before": before,
        "after": after,
    }
    return page(request, "compare.html", identity, context)
