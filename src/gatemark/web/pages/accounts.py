"""Pages for people and roles (admins), and for tokens."""

from __future__ import annotations

from typing import Final, get_args

from fastapi import APIRouter, Depends, Request, Response

from gatemark.accounts.identity import Identity
from gatemark.accounts.links import make_link_as_admin
from gatemark.accounts.nouns import SCOPES
from gatemark.accounts.people import add_person, close_person, list_people, set_roles
from gatemark.accounts.tokens import list_own_tokens, make_token, revoke_token
from gatemark.core.errors import UnknownNameError
from gatemark.lifecycle.model.nouns import Role
from gatemark.web.areas.sessions import join_address
from gatemark.web.render import Fields, back, form, one, page, person, read_whole_number
from gatemark.web.site import site_of

router = APIRouter()
ROLES: Final[tuple[Role, ...]] = tuple(role for role in get_args(Role) if role != "system")


@router.get("/people")
def people_page(request: Request) -> Response:
    """Show people and their roles."""
    identity = person(request)
    return _show_people(request, identity)


def _show_people(request: Request, identity: Identity, **more: object) -> Response:
    context = {
        "title": "People",
        "people": list_people(site_of(request).workspace, identity),
        "role_names": ROLES,
        "link": None,
        **more,
    }
    return page(request, "people.html", identity, context)


@router.post("/people")
def people_post(request: Request, fields: Fields) -> Response:
    """Add a person; the link to set a password is shown once."""
    identity = person(request)
    site = site_of(request)
    roles = [role for role in ROLES if role in fields.get("role", ())]
    name = one(fields, "name")
    secret = add_person(site.workspace, identity, name, roles)
    return _show_people(request, identity, link=join_address(site, secret), linked=name)


@router.post("/people/{name}/{verb}")
def person_post(request: Request, name: str, verb: str, fields: Fields) -> Response:
    """Change roles, create a new link, or close an account."""
    identity = person(request)
    site = site_of(request)
    if verb == "roles":
        roles = [role for role in ROLES if role in fields.get("role", ())]
        set_roles(site.workspace, identity, name, roles)
    elif verb == "link":
        secret = make_link_as_admin(site.workspace, identity, name)
        return _show_people(request, identity, link=join_address(site, secret), linked=name)
    elif verb == "close":
        close_person(site.workspace, identity, name)
    else:
        raise UnknownNameError(f"unknown action {verb}")
    return back("/people", "saved")


@router.get("/tokens")
def tokens_page(request: Request) -> Response:
    """Show the caller's tokens."""
    return _show_tokens(request, person(request))


def _show_tokens(request: Request, identity: Identity, **more: object) -> Response:
    context = {
        "title": "Tokens",
        "tokens": list_own_tokens(site_of(request).workspace, identity),
        "scopes": SCOPES,
        "now": site_of(request).workspace.clock(),
        "fresh": None,
        **more,
    }
    return page(request, "tokens.html", identity, context)


@router.post("/tokens")
def tokens_post(request: Request, fields: Fields) -> Response:
    """Create a token; its secret is shown once."""
    identity = person(request)
    scopes = [scope for scope in SCOPES if scope in fields.get("scope", ())]
    label = one(fields, "label")
    made = make_token(
        site_of(request).workspace, identity, label, scopes, read_whole_number(fields, "days") or 0
    )
    return _show_tokens(request, identity, fresh=made)


@router.post("/tokens/{token}/revoke", dependencies=[Depends(form)])
def token_post(request: Request, token: str) -> Response:
    """Revoke a token."""
    identity = person(request)
    revoke_token(site_of(request).workspace, identity, token)
    return back("/tokens", "revoked")
