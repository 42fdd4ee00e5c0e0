"""API routes for sessions, people and tokens."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gatemark.accounts.links import join, make_link_as_admin
from gatemark.accounts.nouns import Scope, Token, derive_form_token
from gatemark.accounts.people import PersonLine, add_person, close_person, list_people, set_roles
from gatemark.accounts.sign_in import sign_out
from gatemark.accounts.tokens import NewToken, list_own_tokens, make_token, revoke_token
from gatemark.web.areas.sessions import check_rate, join_address, let_in, signed_in
from gatemark.web.idempotency import KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.site import caller, check_origin, site_of

router = APIRouter(tags=["accounts"], route_class=KeyedRoute)
GrantedRole = Literal[
    "viewer",
    "author",
    "evaluator",
    "pack_owner",
    "approver",
    "security_approver",
    "operator",
    "auditor",
    "admin",
]
PersonName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Secret = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class Body(BaseModel):
    """A request body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class SignIn(Body):
    """Name and password."""

    name: PersonName
    password: Secret


class Join(SignIn):
    """The secret of a one-time link, and the password to set."""

    secret: Secret


class NewPerson(Body):
    """A person to add."""

    name: PersonName
    roles: list[GrantedRole] = Field(max_length=9)


class Roles(Body):
    """The complete list of a person's roles."""

    roles: list[GrantedRole] = Field(max_length=9)


class TokenRequest(Body):
    """The scopes and the lifetime of a token."""

    label: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    scopes: list[Scope] = Field(min_length=1, max_length=3)
    days: int = Field(ge=1, le=365)


class Me(msgspec.Struct, frozen=True):
    """The caller; send ``csrf`` as X-CSRF-Token with every change in a session."""

    person: str
    roles: tuple[str, ...]
    way: str
    scopes: tuple[str, ...]
    csrf: str | None = None


class JoinLink(msgspec.Struct, frozen=True):
    """A single-use link; it is shown once."""

    person: str
    link: str | None


class Acknowledged(msgspec.Struct, frozen=True):
    """A response without further data."""

    done: bool = True


@router.get("/session", responses=describe_answers(Me))
def get_session(request: Request) -> Response:
    """Return the caller."""
    found = caller(request, needs_role=False)
    secret = request.cookies.get(site_of(request).cookie, "")
    csrf = derive_form_token(secret) if found.way == "session" else None
    return reply(Me(found.person, found.roles, found.way, found.scopes, csrf))


@router.post("/session", responses=describe_answers(Acknowledged))
def post_session(request: Request, body: SignIn) -> Response:
    """Sign in; the response sets the session cookie."""
    site = site_of(request)
    check_origin(request)
    secret = signed_in(site, request, body.name, body.password)
    return let_in(site, reply(Acknowledged()), secret)


@router.delete("/session", responses=describe_answers(Acknowledged))
def delete_session(request: Request) -> Response:
    """Sign out."""
    site = site_of(request)
    caller(request, in_person=True, needs_role=False)
    sign_out(site.workspace, request.cookies.get(site.cookie, ""))
    return reply(Acknowledged())


@router.post("/join", responses=describe_answers(Acknowledged))
def post_join(request: Request, body: Join) -> Response:
    """Use a one-time link: set a password and start a session."""
    site = site_of(request)
    check_origin(request)
    check_rate(site, request, "")
    secret = join(site.workspace, body.secret, body.name, body.password)
    return let_in(site, reply(Acknowledged()), secret)


@router.get("/people", responses=describe_answers(tuple[PersonLine, ...]))
def get_people(request: Request) -> Response:
    """List everyone with an account or a role."""
    return reply(list_people(site_of(request).workspace, caller(request)))


@router.post("/people", responses=describe_answers(JoinLink, 201), status_code=201)
def post_person(request: Request, body: NewPerson) -> Response:
    """Add a person; the response has a link to set the password."""
    site = site_of(request)
    identity = caller(request, in_person=True)
    secret = add_person(site.workspace, identity, body.name, body.roles)
    return reply(JoinLink(body.name, join_address(site, secret)), 201)


@router.put("/people/{name}/roles", responses=describe_answers(Acknowledged))
def put_roles(request: Request, name: str, body: Roles) -> Response:
    """Replace the roles of a person."""
    set_roles(site_of(request).workspace, caller(request, in_person=True), name, body.roles)
    return reply(Acknowledged())


@router.post("/people/{name}/links", responses=describe_answers(JoinLink, 201), status_code=201)
def post_link(request: Request, name: str) -> Response:
    """Create a link to set a new password."""
    site = site_of(request)
    secret = make_link_as_admin(site.workspace, caller(request, in_person=True), name)
    return reply(JoinLink(name, join_address(site, secret)), 201)


@router.delete("/people/{name}", responses=describe_answers(Acknowledged))
def delete_person(request: Request, name: str) -> Response:
    """Close an account."""
    close_person(site_of(request).workspace, caller(request, in_person=True), name)
    return reply(Acknowledged())


@router.get("/tokens", responses=describe_answers(tuple[Token, ...]))
def get_tokens(request: Request) -> Response:
    """List the caller's tokens."""
    return reply(list_own_tokens(site_of(request).workspace, caller(request)))


@router.post("/tokens", responses=describe_answers(NewToken, 201), status_code=201)
def post_token(request: Request, body: TokenRequest) -> Response:
    """Create a token; its secret is shown only now."""
    identity = caller(request, in_person=True)
    made = make_token(site_of(request).workspace, identity, body.label, body.scopes, body.days)
    return reply(made, 201)


@router.delete("/tokens/{token}", responses=describe_answers(Token))
def delete_token(request: Request, token: str) -> Response:
    """Revoke a token immediately."""
    identity = caller(request, "act", needs_role=False)
    return reply(revoke_token(site_of(request).workspace, identity, token))
