"""API routes for results: lists, one result, its files, verification, comparison."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from gatemark.core.canonical import plain
from gatemark.core.result import Result
from gatemark.web.api.document import describe_answers, reply
from gatemark.web.api.idempotency import KeyedRoute
from gatemark.web.areas.results import (
    check_result,
    compare_results,
    download,
    get_result,
    read_result_file,
    result_page,
)
from gatemark.web.areas.views import ResultCheck, ResultDelta, ResultPage
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["results"], route_class=KeyedRoute)
REFERENCE = r"^(sha256:)?[0-9a-f]{8,64}$"
ResultPath = Annotated[str, Path(pattern=REFERENCE)]
ResultQuery = Annotated[str, Query(pattern=REFERENCE)]
DigestPath = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$")]
Cursor = Annotated[int | None, Query(ge=1, le=2**53)]


@router.get("/results", responses=describe_answers(ResultPage))
def list_results(
    request: Request, before: Cursor = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Response:
    """List results, newest first; ``next`` is the cursor of the next page."""
    caller(request)
    return reply(result_page(site_of(request).workspace, before=before, limit=limit))


@router.get("/results/{reference}", responses=describe_answers(Result))
def one_result(request: Request, reference: ResultPath) -> Response:
    """Return a whole result (``gatemark.result/1``)."""
    caller(request)
    result = get_result(site_of(request).workspace, reference)
    tag = f'"{result.stamp}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return reply(plain(result), ETag=tag)


@router.post("/results/{reference}/verification", responses=describe_answers(ResultCheck))
def verify_result(request: Request, reference: ResultPath) -> Response:
    """Verify a result: seal, files, and its events in the ledger."""
    caller(request)
    workspace = site_of(request).workspace
    return reply(check_result(workspace, reference))


@router.get("/results/{reference}/files/{digest}", responses=describe_answers(bytes))
def result_file(request: Request, reference: ResultPath, digest: DigestPath) -> Response:
    """Return a file of the result."""
    caller(request)
    return download(read_result_file(site_of(request).workspace, reference, digest), digest)


@router.get("/comparison", responses=describe_answers(ResultDelta))
def get_comparison(request: Request, before: ResultQuery, after: ResultQuery) -> Response:
    """Compare two results."""
    caller(request)
    return reply(compare_results(site_of(request).workspace, before, after))
