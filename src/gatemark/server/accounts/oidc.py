"""Sign-in through an OpenID provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from gatemark.core.errors import (
    GatemarkError,
    InvalidValueError,
    NotAllowedError,
    RefusedError,
)
from gatemark.ledger.event_kinds import SYSTEM, Channel
from gatemark.release.lifecycle.act import act, preview
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.release.lifecycle.model.nouns import Role
from gatemark.release.lifecycle.state_cache import asset_state_cache
from gatemark.server.accounts.account_events import record_account_event
from gatemark.server.accounts.events import ACCOUNT_ADDED, SIGNED_IN
from gatemark.server.accounts.identity import read_roles
from gatemark.server.accounts.nouns import check_name
from gatemark.server.accounts.oidc_file import (
    OidcSettings,
    SignInWay,
    list_managed_roles,
    map_roles,
    sort_roles,
)
from gatemark.server.accounts.open_stores import identities_of, people_of
from gatemark.server.accounts.provider import check_state
from gatemark.server.accounts.sign_in import FailedSignIns
from gatemark.workspace import Workspace

WAY: Final = "oidc"


class SignInAttempt(msgspec.Struct, frozen=True):
    """A sign-in that starts: the secret for the browser's cookie, and the URL to go to."""

    secret: str
    address: str


class Finished(msgspec.Struct, frozen=True):
    """A new session, and the page to go to."""

    session: str
    back_to: str


def begin(workspace: Workspace, way: SignInWay, redirect_uri: str, back_to: str) -> SignInAttempt:
    """Start a sign-in. The provider is asked first, so that nothing is stored if it is down."""
    now = workspace.clock()
    way.provider.metadata(now)
    secret = identities_of(workspace).new_try(back_to, now)
    return SignInAttempt(secret, way.provider.address_of_sign_in(secret, redirect_uri, now))


class Return(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the provider."""

    answer: Mapping[str, str]
    secret: str | None
    redirect_uri: str
    where: str
    before: str | None
    failures: FailedSignIns


def finish(workspace: Workspace, way: SignInWay, back: Return) -> Finished:
    """Start a new session for the person that the provider names.

    1. The sign-in must be of this browser, recent and not used before.
    2. The code is exchanged; the ID token must be signed for us and for this sign-in.
    3. The subject must have an account, or gets one under a free name.
    4. Roles that the mapping names follow the claims.
    5. The session that the browser had before ends.
    """
    asset_state_cache(workspace).unpin()
    name: str | None = None
    try:
        if not back.secret:
            raise NotAllowedError("this browser has no sign-in under way; start again")
        check_state(back.answer, back.secret)
        back_to = identities_of(workspace).use_try(back.secret, workspace.clock())
        claims = way.provider.claims(back.answer, back.secret, back.redirect_uri, workspace.clock())
        name = _choose_name(way.settings, claims)
        person = _choose_account(workspace, way, claims, name)
        _set_roles(workspace, way.settings, person, claims)
    except GatemarkError as error:
        known = {} if name is None else {"name": name}
        reason = str(error)[:200]
        back.failures.add(workspace, where=back.where, way=WAY, reason=reason, **known)
        raise
    back.failures.settle(workspace)
    if back.before is not None:
        people_of(workspace).end_session(back.before)
    record_account_event(
        workspace, SIGNED_IN, person, where=back.where, way=WAY, issuer=way.settings.issuer
    )
    vouched = f"openid {way.settings.issuer}"
    return Finished(people_of(workspace).new_session(person, vouched, workspace.clock()), back_to)


def _choose_name(settings: OidcSettings, claims: Mapping[str, object]) -> str:
    uses_email = "email" in (settings.name_claim, settings.roles_claim)
    # Anybody can claim an address; only a verified one says something about its owner.
    if uses_email and claims.get("email_verified") is not True:
        raise NotAllowedError("the provider has not verified your e-mail address")
    value = claims.get(settings.name_claim)
    if not isinstance(value, str) or not value:
        raise NotAllowedError(f"the provider sent no {settings.name_claim}")
    # Outside of ASCII, small letters of different texts can be the same.
    name = value.lower() if value.isascii() else value
    try:
        check_name(name)
    except InvalidValueError as error:
        raise NotAllowedError(
            f"your {settings.name_claim} cannot be a name here: {error}"
        ) from error
    return name


def _choose_account(
    workspace: Workspace, way: SignInWay, claims: Mapping[str, object], name: str
) -> str:
    issuer, subject = way.settings.issuer, str(claims["sub"])
    known = identities_of(workspace).person(issuer, subject)
    if known is not None:
        return known
    if read_roles(workspace, name):
        # Who acts from the command line has a name in the ledger and no account.
        raise NotAllowedError(f"{name} is already the name of another person")
    identities_of(workspace).add(issuer, subject, name, workspace.clock())
    record_account_event(workspace, ACCOUNT_ADDED, SYSTEM, person=name, way=WAY, issuer=issuer)
    return name


def _set_roles(
    workspace: Workspace, settings: OidcSettings, person: str, claims: Mapping[str, object]
) -> None:
    held = frozenset(read_roles(workspace, person))
    wanted: frozenset[Role] = (held - list_managed_roles(settings)) | map_roles(settings, claims)
    if not wanted and settings.default_role == "viewer":
        wanted = frozenset({"viewer"})
    if wanted == held or settings.granted_by is None:
        return
    # The server acts on the provider's word; the admin whose name it uses is not there.
    workspace.channel = Channel("server", f"openid {settings.issuer}")
    note = f"by {settings.roles_claim} at {settings.issuer}"
    roles = sort_roles(wanted)
    command = GrantRoles(actor=settings.granted_by, person=person, roles=roles, note=note)
    try:
        preview(workspace, command)
    except RefusedError as error:
        raise NotAllowedError(f"{person} cannot get the roles of the mapping: {error}") from error
    act(workspace, command)
