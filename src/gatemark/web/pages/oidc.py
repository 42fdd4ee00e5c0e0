"""Sign in through an OpenID Connect provider."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from gatemark.accounts.oidc import Return, begin, finish
from gatemark.accounts.oidc_file import SignInWay
from gatemark.core.errors import GatemarkError, NotAllowedError
from gatemark.web.areas.sessions import address_of, check_rate, let_in
from gatemark.web.pages.auth import inside, sign_in_again
from gatemark.web.problems import ProblemResponse
from gatemark.web.site import Site, site_of

router = APIRouter()
CALLBACK: Final = "/sign-in/oidc/callback"
TRY_SECONDS: Final = 600
MAX_PARAMETERS: Final = 20


@router.get("/sign-in/oidc")
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


@router.get(CALLBACK)
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
