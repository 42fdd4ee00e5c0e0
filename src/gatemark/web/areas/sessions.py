"""Start a session, by page or by interface, and refuse too many tries."""

from __future__ import annotations

from http import HTTPStatus
from math import ceil

from fastapi import Request, Response

from gatemark.web.problems import ProblemResponse
from gatemark.web.site import Site


def let_in(site: Site, response: Response, secret: str) -> Response:
    """Set the cookie of a session."""
    response.set_cookie(
        site.cookie,
        secret,
        path="/",
        secure=site.settings.is_https,
        httponly=True,
        samesite="lax",
    )
    return response


def check_rate(site: Site, request: Request, name: str, what: str = "address") -> None:
    """Refuse too many tries by name or by address."""
    waits = [site.sign_ins.take(f"{what} {address_of(request)}")]
    if name:
        waits.append(site.sign_ins.take(f"name {name[:64]}"))
    if max(waits) > 0:
        raise ProblemResponse(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many attempts; try again later",
            headers={"Retry-After": str(ceil(max(waits)))},
        )


def address_of(request: Request) -> str:
    """Return the address that a request comes from."""
    return request.client.host if request.client else "unknown"


def join_address(site: Site, secret: str) -> str:
    """Return the link of a secret; it works once."""
    return f"{site.settings.base_url}/join/{secret}"
