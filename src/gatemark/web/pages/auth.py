"""Pages to sign in and out and to join by a link."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from gatemark.accounts.links import find_link_holder, join
from gatemark.accounts.sign_in import sign_out
from gatemark.core.errors import GatemarkError, InvalidValueError
from gatemark.web.areas.sessions import check_rate, let_in, signed_in
from gatemark.web.problems import ProblemResponse
from gatemark.web.render import Fields, form, one, page
from gatemark.web.site import site_of, visitor

router = APIRouter()


@router.get("/sign-in")
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


@router.post("/sign-in")
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


@router.post("/sign-out", dependencies=[Depends(form)])
def sign_out_post(request: Request) -> Response:
    """Sign out."""
    site = site_of(request)
    sign_out(site.workspace, request.cookies.get(site.cookie, ""))
    response = RedirectResponse("/sign-in", status_code=303)
    response.delete_cookie(site.cookie, path="/", secure=site.settings.is_https, httponly=True)
    return response


@router.get("/join/{secret}")
def join_page(request: Request, secret: str) -> Response:
    """Show the form of a one-time link."""
    holder = find_link_holder(site_of(request).workspace, secret)
    if holder is None:
        raise ProblemResponse(HTTPStatus.NOT_FOUND, "this link was used before or has expired")
    context = {"title": "Welcome", "name": holder[0], "secret": secret}
    return page(request, "join.html", None, context)


@router.post("/join/{secret}")
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
