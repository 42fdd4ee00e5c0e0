"""People with their roles, for admins, and everybody's own tokens."""

from __future__ import annotations

from typing import Final

import msgspec
from fastapi import Response

from gatemark.release.lifecycle.commands import GRANTED_ROLES, GrantRoles
from gatemark.server.accounts.links import make_link_as_admin
from gatemark.server.accounts.nouns import SCOPES, Token
from gatemark.server.accounts.people import (
    AddPerson,
    PersonLine,
    add_person,
    close_person,
    list_people,
    set_roles,
)
from gatemark.server.accounts.tokens import (
    MakeToken,
    NewToken,
    list_own_tokens,
    make_token,
    revoke_token,
)
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.request_body import FormFields
from gatemark.server.site import Site

doors = Doors("accounts")
FIRST_SCOPE: Final = "read"


class JoinLink(msgspec.Struct, frozen=True):
    """A single-use link; it is shown once."""

    person: str
    link: str | None


class Acknowledged(msgspec.Struct, frozen=True):
    """A response without further data."""

    done: bool = True


def join_address(site: Site, secret: str) -> str:
    """Return the one-time link of a secret."""
    return f"{site.settings.base_url}/join/{secret}"


@doors.view("/people", tuple[PersonLine, ...])
def get_people(visit: Visit) -> tuple[PersonLine, ...]:
    """List everyone with an account or a role."""
    return list_people(visit.workspace, visit.identity)


@get_people.page("/people")
def people_page(visit: Visit) -> Response:
    """Show people and their roles."""
    return _show_people(visit)


def _show_people(visit: Visit, made: JoinLink | None = None) -> Response:
    context = {
        "title": "People",
        "people": get_people.make(visit),
        "role_names": tuple(GRANTED_ROLES),
        "made": made,
        "add": FormFields(AddPerson),
        "grant": FormFields(GrantRoles),
    }
    return visit.show("people.html", context)


@doors.act("/people", JoinLink, command=AddPerson, status=201)
def post_person(visit: Visit, command: AddPerson) -> JoinLink:
    """Add a person; the response has a link to set the password."""
    secret = add_person(visit.workspace, visit.identity, command)
    return JoinLink(command.name, join_address(visit.site, secret))


@post_person.form_page("/people")
def people_post(visit: Visit, document: JoinLink) -> Response:
    """Show the link to set a password, once."""
    return _show_people(visit, document)


@doors.act("/people/{person}/roles", Acknowledged, command=GrantRoles, method="PUT")
def put_roles(visit: Visit, command: GrantRoles) -> Acknowledged:
    """Replace the roles of a person."""
    set_roles(visit.workspace, visit.identity, command)
    return Acknowledged()


put_roles.form("/people/{person}/roles", to="/people", done="saved")


@doors.act("/people/{person}/links", JoinLink, status=201, in_person=True)
def post_link(visit: Visit, person: str) -> JoinLink:
    """Create a link to set a new password."""
    secret = make_link_as_admin(visit.workspace, visit.identity, person)
    return JoinLink(person, join_address(visit.site, secret))


@post_link.form_page("/people/{person}/link")
def link_post(visit: Visit, document: JoinLink) -> Response:
    """Show the link, once."""
    return _show_people(visit, document)


@doors.act("/people/{person}", Acknowledged, method="DELETE", in_person=True)
def delete_person(visit: Visit, person: str) -> Acknowledged:
    """Close an account."""
    close_person(visit.workspace, visit.identity, person)
    return Acknowledged()


delete_person.form("/people/{person}/close", to="/people", done="saved")


@doors.view("/tokens", tuple[Token, ...], needs_role=False)
def get_tokens(visit: Visit) -> tuple[Token, ...]:
    """List the caller's tokens."""
    return list_own_tokens(visit.workspace, visit.identity)


@get_tokens.page("/tokens")
def tokens_page(visit: Visit) -> Response:
    """Show the caller's tokens."""
    return _show_tokens(visit)


def _show_tokens(visit: Visit, made: NewToken | None = None) -> Response:
    context: Context = {
        "title": "Tokens",
        "tokens": get_tokens.make(visit),
        "scopes": SCOPES,
        "first": FIRST_SCOPE,
        "now": visit.workspace.clock(),
        "fresh": made,
        "new": FormFields(MakeToken),
    }
    return visit.show("tokens.html", context)


@doors.act("/tokens", NewToken, command=MakeToken, status=201, scope="read")
def post_token(visit: Visit, command: MakeToken) -> NewToken:
    """Create a token; its secret is shown only now."""
    return make_token(visit.workspace, visit.identity, command)


@post_token.form_page("/tokens")
def tokens_post(visit: Visit, document: NewToken) -> Response:
    """Show the secret, once."""
    return _show_tokens(visit, document)


@doors.act("/tokens/{token}", Token, method="DELETE", needs_role=False)
def delete_token(visit: Visit, token: str) -> Token:
    """Revoke a token immediately."""
    return revoke_token(visit.workspace, visit.identity, token)


delete_token.form("/tokens/{token}/revoke", to="/tokens", done="revoked")
