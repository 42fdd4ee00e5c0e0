"""The policies in force: for releases, for drift, and the required pack of an asset."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from fastapi import Response
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field

from gatemark.drift.policy_file import choose_drift_policy
from gatemark.lifecycle.act import CommandResult, act
from gatemark.lifecycle.assets import set_required_pack
from gatemark.lifecycle.commands import AdoptPolicy, NoteField
from gatemark.lifecycle.policy_file import PolicyInForce, policy_in_force, release_policy_from
from gatemark.web.asset_tag import locked
from gatemark.web.doors import Doors, Tagged, Visit
from gatemark.web.openapi import reply
from gatemark.web.parameters import ASSET, Note, Tag
from gatemark.web.problems import ProblemResponse
from gatemark.web.views.moves import MoveDone, move_done

doors = Doors("rules", {"asset": ASSET})
_TAG: Final = re.compile(r'"([0-9]{1,15})"\Z')


class DriftPolicyView(msgspec.Struct, frozen=True):
    """The drift policy of this server; it is set by ``--drift-policy``."""

    policy: dict[str, object]
    policy_digest: str


@doors.view("/policy", PolicyInForce)
def get_policy(visit: Visit) -> Response:
    """Return the release policy in force; send the ETag as If-Match to replace it."""
    found = policy_in_force(visit.workspace)
    return reply(found, ETag=f'"{found.revision}"')


@doors.view("/drift-policy", DriftPolicyView)
def get_drift_policy(visit: Visit) -> DriftPolicyView:
    """Return the drift policy of this server."""
    policy = choose_drift_policy(visit.site.settings.drift_policy)
    return DriftPolicyView(msgspec.to_builtins(policy), policy.digest)


class PolicyBody(BaseModel):
    """A whole release policy; gates that it does not name have their defaults."""

    model_config = ConfigDict(extra="forbid")
    policy: dict[str, object] = Field(max_length=64)
    note: Note = ""


@doors.act("/policy", MoveDone, in_person=True)
def post_policy(visit: Visit, body: PolicyBody, tag: Tag = None) -> Tagged:
    """Adopt a release policy; votes under the old one are void. Needs a session."""
    workspace = visit.workspace
    before = policy_in_force(workspace)
    found = _TAG.match(tag or "")
    if tag is None:
        message = "missing If-Match header; send the ETag of the policy"
        raise ProblemResponse(HTTPStatus.PRECONDITION_REQUIRED, message)
    if found is None or int(found[1]) != before.revision:
        message = "the rules changed since you loaded them; reload and try again"
        headers = {"ETag": f'"{before.revision}"'}
        raise ProblemResponse(HTTPStatus.PRECONDITION_FAILED, message, headers=headers)
    command = AdoptPolicy(
        actor=visit.identity.person,
        policy=release_policy_from(body.policy, "policy"),
        note=body.note,
        expected_revision=before.revision,
    )
    done = MoveDone.of(act(workspace, command))
    return Tagged(f'"{policy_in_force(workspace).revision}"', lambda: done)


class RequirePack(msgspec.Struct, frozen=True, kw_only=True):
    """One of the server's packs."""

    pack: Annotated[str, Meta(min_length=1, max_length=200, description="Pack of this server.")]
    note: NoteField = ""


@doors.act("/assets/{asset}/required-pack", MoveDone, command=RequirePack, in_person=True)
def post_required_pack(visit: Visit, asset: str, command: RequirePack, tag: Tag = None) -> Tagged:
    """Make one of the server's packs the required pack of an asset."""
    path = visit.site.board.path_of(command.pack)

    def do(_: int) -> CommandResult:
        person = visit.identity.person
        return set_required_pack(
            visit.workspace, asset, path, actor=person, note=command.note, file=path
        )

    return move_done(visit.workspace, asset, locked(visit.workspace, asset, tag, do))


post_required_pack.form("/assets/{asset}/required-pack/set", to="/assets/{asset}", done="saved")
