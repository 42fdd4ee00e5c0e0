"""The ETag of an asset: what a caller has seen, and the lock of what follows from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from gatemark.core.errors import GatemarkError, RefusedError
from gatemark.release.lifecycle.act import CommandResult
from gatemark.release.lifecycle.model.state import LifecycleState
from gatemark.release.lifecycle.state_cache import read_state, unknown_asset
from gatemark.server.problems import ProblemResponse
from gatemark.workspace import Workspace

_TAG: Final = re.compile(r'"([0-9]{1,15})\.([0-9]{1,15})"\Z')


def etag_of(state: LifecycleState) -> str:
    """Return the ETag of an asset; it also covers roles and policies."""
    return f'"{state.asset.revision}.{state.governance.revision}"'


def asset_etag(workspace: Workspace, asset: str) -> str:
    """Return the current ETag of an asset."""
    state = read_state(workspace, asset)
    if not state.asset.versions:
        raise unknown_asset(workspace, asset)
    return etag_of(state)


def locked(
    workspace: Workspace,
    asset: str,
    tag: str | None,
    do: Callable[[int], CommandResult],
    *,
    needs: bool = True,
) -> CommandResult:
    """Run ``do`` on an asset that has not changed since the caller loaded it.

    Raise 428 if a tag is needed and missing, and 412 if it is old; nothing is done then.
    """
    if tag is None or tag == "*":
        if needs:
            raise ProblemResponse(
                HTTPStatus.PRECONDITION_REQUIRED,
                "missing If-Match header; send the ETag of the asset",
            )
        tag = asset_etag(workspace, asset)
    found = _TAG.match(tag)
    if found is None or tag != asset_etag(workspace, asset):
        raise _report_changed(workspace, asset)
    try:
        return do(int(found[1]))
    except RefusedError:
        if tag != asset_etag(workspace, asset):
            raise _report_changed(workspace, asset) from None
        raise


def _report_changed(workspace: Workspace, asset: str) -> ProblemResponse:
    headers: dict[str, str] = {}
    try:
        headers = {"ETag": asset_etag(workspace, asset)}
    except GatemarkError as error:
        return ProblemResponse(HTTPStatus.NOT_FOUND, str(error))
    return ProblemResponse(
        HTTPStatus.PRECONDITION_FAILED,
        f"{asset} changed since you loaded it; reload and try again",
        headers=headers,
    )
