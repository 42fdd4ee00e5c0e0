"""Sign in and out, with a password or through a provider, and join by a link.

Nobody is known here yet, so these doors ask for no identity.
"""

from __future__ import annotations

from http import HTTPStatus
from math import ceil
from typing import Annotated, Final

import msgspec
from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse
from msgspec import Meta

from gatemark.core.errors import GatemarkError, InvalidValueError, NotAllowedError
from gatemark.core.request_fields import read_request
from gatemark.server.accounts.links import find_link_holder, join
from gatemark.server.accounts.nouns import derive_form_token
from gatemark.server.accounts.oidc import Return, begin, finish
from gatemark.server.accounts.oidc_file import SignInWay
from gatemark.server.accounts.people import PersonName
from gatemark.server.accounts.sign_in import sign_in, sign_out
from gatemark.server.doors import Doors, Visit
from gatemark.server.guards import client_of
from gatemark.server.openapi import describe_answers, reply
from gatemark.server.problems import ProblemResponse
from gatemark.server.render import Fields, form, one, page
from gatemark.server.request_body import JsonBody, describe_body
from gatemark.server.site import Site, caller, check_origin, site_of, visitor
from gatemark.server.views.accounts import Acknowledged

doors = Doors("accounts")
CALLBACK: Final = "/sign-in/oidc/callback"
TRY_SECONDS: Final = 600
MAX_PARAMETERS: Final = 20
Secret = Annotated[str, Meta(min_length=1, max_length=256)]


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Name and password."""

    name: PersonName
    password: Annotated[Secret, Meta(description="Password of the person.")]


class Join(SignIn, frozen=True, kw_only=True):
    """The secret of a one-time link, and the password to set."""

    secret: Annotated[Secret, Meta(description="Secret of the link.")]


class Me(msgspec.Struct, frozen=True):
    """The caller; send ``csrf`` as X-CSRF-Token with every change in a session."""

    person: str
    roles: tuple[str, ...]
    way: str
    scopes: tuple[str, ...]
    csrf: str | None = None


def let_in(site: Site, response: Response, secret: str) -> Response:
    """Set the session cookie."""
    site.set_secret(response, site.cookie, secret)
    return response


def signed_in(site: Site, request: Request, name: str, password: str) -> str:
    """Return the secret of a new session, which replaces an earlier one of this browser."""
    check_rate(site, request, name)
    before = request.cookies.get(site.cookie)
    where, failures = address_of(request), site.failures
    return sign_in(site.workspace, name, password, where=where, before=before, failures=failures)


def check_rate(site: Site, request: Request, name: str, what: str = "address") -> None:
    """Refuse too many attempts by name or by address."""
    waits = [site.sign_ins.take(f"{what} {client_of(address_of(request))}")]
    if name:
        waits.append(site.sign_ins.take(f"name {name[:64]}"))
    if max(waits) > 0:
        raise ProblemResponse(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many attempts; try again later",
            headers={"Retry-After": str(ceil(max(waits)))},
        )


def address_of(request: Request) -> str:
    """Return the client address of a request."""
    return request.client.host if request.client else "unknown"


@doors.view("/session", Me, needs_role=False)
def get_session(visit: Visit) -> Me:
    """Return the caller."""
    found = visit.identity
    secret = visit.request.cookies.get(visit.site.cookie, "")
    csrf = derive_form_token(secret) if found.way == "session" else None
    return Me(found.person, found.roles, found.way, found.scopes, csrf)


@doors.interface.post(
    "/session", responses=describe_answers(Acknowledged), openapi_extra=describe_body(SignIn)
)
def post_session(request: Request, body: JsonBody) -> Response:
    """Sign in; the response sets the session cookie."""
    site = site_of(request)
    check_origin(request)
    given = read_request(SignIn, body)
    return let_in(site, reply(Acknowledged()), signed_in(site, request, given.name, given.password))


@doors.interface.delete("/session", responses=describe_answers(Acknowledged))
def delete_session(request: Request) -> Response:
    """Sign out."""
    site = site_of(request)
    caller(request, in_person=True, needs_role=False)
    sign_out(site.workspace, request.cookies.get(site.cookie, ""))
    return reply(Acknowledged())


@doors.interface.post(
    "/join", responses=describe_answers(Acknowledged), openapi_extra=describe_body(Join)
)
def post_join(request: Request, body: JsonBody) -> Response:
    """Use a one-time link: set a password and start a session."""
    site = site_of(request)
    check_origin(request)
    check_rate(site, request, "")
    given = read_request(Join, body)
    return let_in(
        site,
        reply(Acknowledged()),
        join(site.workspace, given.secret, given.name, given.password),
    )


@doors.pages.get("/sign-in")
def sign_in_page(request: Request, to: str = "/") -> Response:
    """Show the sign-in form."""
    if visitor(request) is not None:
        return RedirectResponse("/", status_code=303)
    return sign_in_again(request, HTTPStatus.OK, to=inside(to))


def sign_in_again(request: Request, status: HTTPStatus, **more: str) -> Response:
    """Show the sign-in form with an error, and the fields filled in."""
    way = site_of(request).sign_in_way
    provider = None if way is None else way.settings.label
    context = {"title": "Sign in", "to": "/", "provider": provider, **more}
    return page(request, "sign_in.html", None, context, status)


@doors.pages.post("/sign-in")
def sign_in_post(request: Request, fields: Fields) -> Response:
    """Sign in; a new session replaces any earlier one."""
    site = site_of(request)
    name = one(fields, "name")
    to = inside(one(fields, "to"))
    try:
        secret = signed_in(site, request, name, one(fields, "password"))
    except GatemarkError as error:
        return sign_in_again(request, HTTPStatus.FORBIDDEN, to=to, trouble=str(error), name=name)
    return let_in(site, RedirectResponse(to, status_code=303), secret)


@doors.pages.post("/sign-out", dependencies=[Depends(form)])
def sign_out_post(request: Request) -> Response:
    """Sign out."""
    site = site_of(request)
    sign_out(site.workspace, request.cookies.get(site.cookie, ""))
    response = RedirectResponse("/sign-in", status_code=303)
    response.delete_cookie(site.cookie, path="/", secure=site.settings.is_https, httponly=True)
    return response


@doors.pages.get("/join/{secret}")
def join_page(request: Request, secret: str) -> Response:
    """Show the form of a one-time link."""
    holder = find_link_holder(site_of(request).workspace, secret)
    if holder is None:
        raise ProblemResponse(HTTPStatus.NOT_FOUND, "this link was used before or has expired")
    context = {"title": "Welcome", "name": holder[0], "secret": secret}
    return page(request, "join.html", None, context)


@doors.pages.post("/join/{secret}")
def join_post(request: Request, secret: str, fields: Fields) -> Response:
    """Set a password and start a session."""
    site = site_of(request)
    check_rate(site, request, "")
    holder = find_link_holder(site.workspace, secret)
    if holder is None:
        raise ProblemResponse(HTTPStatus.NOT_FOUND, "this link was used before or has expired")
    name = holder[0] or one(fields, "name")
    try:
        if fields.get("password") != fields.get("again"):
            raise InvalidValueError("the two passwords differ")
        session = join(site.workspace, secret, name, one(fields, "password"))
    except GatemarkError as error:
        context = {"title": "Welcome", "name": holder[0], "secret": secret, "trouble": str(error)}
        return page(request, "join.html", None, context, HTTPStatus.UNPROCESSABLE_ENTITY)
    return let_in(site, RedirectResponse("/", status_code=303), session)


def inside(address: str) -> str:
    """Return the address if it is on this server, otherwise the start page."""
    is_inside = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_inside and address.isprintable() else "/"


@doors.pages.get("/sign-in/oidc")
def to_provider(request: Request, to: str = "/") -> Response:
    """Start a sign-in with the provider; its secret stays in a cookie of this browser."""
    site = site_of(request)
    way = _require_sign_in_way(site)
    check_rate(site, request, "", "provider")
    try:
        begun = begin(site.workspace, way, redirect_uri(site), inside(to))
    except GatemarkError as error:
        return sign_in_again(request, HTTPStatus.BAD_GATEWAY, trouble=str(error))
    response = RedirectResponse(begun.address, status_code=303)
    # The redirect back comes from another site and must send this cookie.
    site.set_secret(response, cookie_of(site), begun.secret, max_age=TRY_SECONDS)
    return response


@doors.pages.get(CALLBACK)
def from_provider(request: Request) -> Response:
    """Handle the redirect back from the provider; an attempt can be used once."""
    site = site_of(request)
    way = _require_sign_in_way(site)
    check_rate(site, request, "")
    given = request.query_params.multi_items()
    if len(given) > MAX_PARAMETERS or len(dict(given)) != len(given):
        raise ProblemResponse(HTTPStatus.BAD_REQUEST, "the provider's answer repeats a parameter")
    back = Return(
        answer=dict(given),
        secret=request.cookies.get(cookie_of(site)),
        redirect_uri=redirect_uri(site),
        where=address_of(request),
        before=request.cookies.get(site.cookie),
        failures=site.failures,
    )
    try:
        done = finish(site.workspace, way, back)
        response = let_in(site, RedirectResponse(done.back_to, status_code=303), done.session)
    except NotAllowedError as error:
        response = sign_in_again(request, HTTPStatus.FORBIDDEN, trouble=str(error))
    except GatemarkError as error:
        response = sign_in_again(request, HTTPStatus.BAD_GATEWAY, trouble=str(error))
    response.delete_cookie(cookie_of(site), path="/", secure=site.settings.is_https, httponly=True)
    return response


def _require_sign_in_way(site: Site) -> SignInWay:
    if site.sign_in_way is None:
        raise ProblemResponse(HTTPStatus.NOT_FOUND, "this server has no sign-in provider")
    return site.sign_in_way


def redirect_uri(site: Site) -> str:
    """Return the redirect address; it must be registered with the provider."""
    return f"{site.settings.base_url}{CALLBACK}"


def cookie_of(site: Site) -> str:
    """Return the name of the cookie of an attempt."""
    return "__Host-gatemark-oidc" if site.settings.is_https else "gatemark-oidc"
