"""API routes for the release policy, the drift policy and required packs."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated

import msgspec
from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from gatemark.drift.policy_file import choose_drift_policy
from gatemark.lifecycle.act import act
from gatemark.lifecycle.commands import AdoptPolicy
from gatemark.lifecycle.policy_file import PolicyInForce, policy_in_force, release_policy_from
from gatemark.web.api.accounts import Body
from gatemark.web.api.assets import AssetPath
from gatemark.web.api.moves import MoveDone, Note, Tag, move_done
from gatemark.web.areas.assets import require_server_pack
from gatemark.web.areas.moves import acted_document
from gatemark.web.idempotency import KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.problems import ProblemResponse
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["rules"], route_class=KeyedRoute)
_TAG = re.compile(r'"([0-9]{1,15})"\Z')


class PolicyBody(Body):
    """A whole release policy; gates that it does not name have their defaults."""

    policy: dict[str, object] = Field(max_length=64)
    note: Note = ""


class FullPackBody(Body):
    """One of the server's packs."""

    pack: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    note: Note = ""


class DriftPolicyView(msgspec.Struct, frozen=True):
    """The drift policy of this server; it is set by ``--drift-policy``."""

    policy: dict[str, object]
    policy_digest: str


@router.get("/policy", responses=describe_answers(PolicyInForce))
def get_policy(request: Request) -> Response:
    """Return the release policy in force; send the ETag as If-Match to replace it."""
    caller(request)
    found = policy_in_force(site_of(request).workspace)
    return reply(found, ETag=f'"{found.revision}"')


@router.post("/policy", responses=describe_answers(MoveDone))
def post_policy(request: Request, body: PolicyBody, tag: Tag = None) -> Response:
    """Adopt a release policy; votes under the old one are void. Needs a session."""
    identity = caller(request, "act", in_person=True)
    workspace = site_of(request).workspace
    before = policy_in_force(workspace)
    headers = {"ETag": f'"{before.revision}"'}
    found = _TAG.match(tag or "")
    if tag is None:
        message = "missing If-Match header; send the ETag of the policy"
        raise ProblemResponse(HTTPStatus.PRECONDITION_REQUIRED, message)
    if found is None or int(found[1]) != before.revision:
        message = "the rules changed since you loaded them; reload and try again"
        raise ProblemResponse(HTTPStatus.PRECONDITION_FAILED, message, headers=headers)
    command = AdoptPolicy(
        actor=identity.person,
        policy=release_policy_from(body.policy, "policy"),
        note=body.note,
        expected_revision=before.revision,
    )
    result = act(workspace, command)
    return reply(acted_document(result), ETag=f'"{policy_in_force(workspace).revision}"')


@router.get("/drift-policy", responses=describe_answers(DriftPolicyView))
def get_drift_policy(request: Request) -> Response:
    """Return the drift policy of this server."""
    caller(request)
    policy = choose_drift_policy(site_of(request).settings.drift_policy)
    return reply(DriftPolicyView(msgspec.to_builtins(policy), policy.digest))


@router.post("/assets/{asset}/required-pack", responses=describe_answers(MoveDone))
def post_required_pack(
    request: Request, asset: AssetPath, body: FullPackBody, tag: Tag = None
) -> Response:
    """Make one of the server's packs the required pack of an asset."""
    identity = caller(request, "act", in_person=True)
    site = site_of(request)
    result = require_server_pack(site, identity, asset, body.pack, note=body.note, tag=tag)
    return move_done(request, asset, result)
