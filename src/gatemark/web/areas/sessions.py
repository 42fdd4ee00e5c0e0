"""Start sessions, for page and API, and limit sign-in attempts."""

from __future__ import annotations

from http import HTTPStatus
from math import ceil

from fastapi import Request, Response

from gatemark.accounts.sign_in import sign_in
from gatemark.web.guards import client_of
from gatemark.web.problems import ProblemResponse
from gatemark.web.site import Site


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


def join_address(site: Site, secret: str) -> str:
    """Return the one-time link of a secret."""
    return f"{site.settings.base_url}/join/{secret}"
