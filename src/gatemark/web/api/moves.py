"""API routes that change assets: new versions, moves, votes. If-Match is the lock."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Request, Response
from pydantic import StringConstraints

from gatemark.core.request_fields import read_request
from gatemark.lifecycle.act import CommandResult
from gatemark.lifecycle.assets import NewVersion, add_version
from gatemark.web.api.assets import NAME, AssetPath, VersionPath
from gatemark.web.areas.moves import ACTS, WebAct, acted_document, carry_out
from gatemark.web.areas.overview import asset_etag
from gatemark.web.idempotency import REPEATABLE, KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.request_body import JsonBody, describe_body
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["moves"], route_class=KeyedRoute)
Tag = Annotated[str | None, Header(alias="If-Match", max_length=64)]
Note = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
Reference = Annotated[str, StringConstraints(pattern=r"^(sha256:)?[0-9a-f]{8,64}$")]
Place = Annotated[str, StringConstraints(max_length=128, pattern=NAME)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class MoveDone(msgspec.Struct, frozen=True):
    """The numbers of the events of a move; empty if nothing changed."""

    changed: bool
    events: tuple[int, ...]


def move_done(request: Request, asset: str, result: CommandResult) -> Response:
    """Return the outcome of a move, with the ETag for the next one."""
    return reply(acted_document(result), ETag=asset_etag(site_of(request).workspace, asset))


@router.post(
    "/assets/{asset}/versions/{version}",
    responses=describe_answers(MoveDone),
    openapi_extra=REPEATABLE | describe_body(NewVersion, without=("asset", "version")),
)
def post_version(
    request: Request, asset: AssetPath, version: VersionPath, body: JsonBody
) -> Response:
    """Add a version as a draft."""
    identity = caller(request, "act")
    new = read_request(NewVersion, body, {"asset": asset, "version": version})
    result = add_version(site_of(request).workspace, new, actor=identity.person)
    return move_done(request, asset, result)


def _add_route(one: WebAct) -> None:
    """Add the route of an act; the body has what its address does not say."""

    def move(request: Request, body: JsonBody, tag: str | None, **address: str) -> Response:
        identity = caller(request, "act", in_person=one.command.is_in_person)
        workspace = site_of(request).workspace
        result = carry_out(workspace, identity, one.command, body, tag, **address)
        return move_done(request, address["asset"], result)

    def post_version_move(
        request: Request, asset: AssetPath, version: VersionPath, body: JsonBody, tag: Tag = None
    ) -> Response:
        return move(request, body, tag, asset=asset, version=version)

    def post_asset_move(
        request: Request, asset: AssetPath, body: JsonBody, tag: Tag = None
    ) -> Response:
        return move(request, body, tag, asset=asset)

    address = ("asset", "version") if one.is_of_version else ("asset",)
    place = "/assets/{asset}/versions/{version}" if one.is_of_version else "/assets/{asset}"
    router.add_api_route(
        f"{place}/{one.route}",
        post_version_move if one.is_of_version else post_asset_move,
        methods=["POST"],
        name=f"post_{one.route.replace('-', '_')}",
        description=one.command.__doc__,
        responses=describe_answers(MoveDone),
        openapi_extra=describe_body(one.command, without=address),
    )


for _act in ACTS.values():
    _add_route(_act)
