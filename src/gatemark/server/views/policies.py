"""The policies in force: for releases, for drift, and the required pack of an asset."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, ClassVar, Final

import msgspec
from fastapi import Response
from msgspec import Meta

from gatemark.release.drift.policy_file import choose_drift_policy
from gatemark.release.lifecycle.act import CommandResult, act
from gatemark.release.lifecycle.assets import RequirePack, require_pack
from gatemark.release.lifecycle.commands import AdoptPolicy, NoteField
from gatemark.release.lifecycle.policy_file import (
    PolicyInForce,
    policy_in_force,
    release_policy_from,
)
from gatemark.server.asset_tag import locked
from gatemark.server.doors import Doors, Tagged, Visit
from gatemark.server.openapi import reply
from gatemark.server.parameters import ASSET, Tag
from gatemark.server.problems import ProblemResponse
from gatemark.server.views.moves import MoveDone, move_done

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


class SentPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A whole release policy; gates that it does not name have their defaults."""

    policy: Annotated[
        dict[str, object], Meta(max_length=64, description="Release policy, as in a file.")
    ]
    note: NoteField = ""
    is_in_person: ClassVar[bool] = AdoptPolicy.is_in_person


@doors.act("/policy", MoveDone, command=SentPolicy)
def post_policy(visit: Visit, command: SentPolicy, tag: Tag = None) -> Tagged:
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
    adopt = AdoptPolicy(
        actor=visit.identity.person,
        policy=release_policy_from(command.policy, "policy"),
        note=command.note,
        expected_revision=before.revision,
    )
    done = MoveDone.of(act(workspace, adopt))
    return Tagged(f'"{policy_in_force(workspace).revision}"', lambda: done)


@doors.act("/assets/{asset}/required-pack", MoveDone, command=RequirePack)
def post_required_pack(visit: Visit, asset: str, command: RequirePack, tag: Tag = None) -> Tagged:
    """Make one of the server's packs the required pack of an asset."""
    here = msgspec.structs.replace(command, pack=visit.site.board.path_of(command.pack))

    def do(_: int) -> CommandResult:
        return require_pack(visit.workspace, here, actor=visit.identity.person)

    return move_done(visit.workspace, asset, locked(visit.workspace, asset, tag, do))


post_required_pack.form("/assets/{asset}/required-pack/set", to="/assets/{asset}", done="saved")
