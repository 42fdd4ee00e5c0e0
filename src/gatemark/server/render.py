"""Render pages from templates: first the server's own, then those of reports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from jinja2 import Environment

from gatemark import __version__
from gatemark.core.canonical import json_text
from gatemark.core.errors import InvalidValueError, OutageError
from gatemark.release.lifecycle.decisions.citation import short
from gatemark.report import words
from gatemark.report.pages import page_environment
from gatemark.server.accounts.identity import Identity, is_one_person
from gatemark.server.accounts.nouns import derive_form_token, make_secret
from gatemark.server.problems import ProblemResponse
from gatemark.server.site import FORM_FIELD, Site, check_mark, site_of, visitor

TEMPLATES: Final = (
    "gatemark.server",
    "gatemark.release.lifecycle.views",
    "gatemark.release.drift.views",
    "gatemark.release.attribution",
)
STYLES: Final = ("report.css", "lifecycle.css", "drift.css", "attribution.css", "page.css")
STATIC: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
PRE_COOKIE: Final = "gatemark-form"
DONE: Final = {
    "added": "The version was added.",
    "moved": "Done: the version moved.",
    "voted": "Your vote is in the ledger.",
    "paused": "The version is paused.",
    "resumed": "The version was resumed.",
    "reviewed": "Your review is in the ledger.",
    "waived": "The gate is waived for this version.",
    "nothing": "No change was needed.",
    "saved": "Saved.",
    "signed": "The checkpoint is signed; keep a copy of it elsewhere.",
    "revoked": "The token was revoked.",
    "sealed": "The review was created; its positions are drawn and sealed.",
    "unblinded": "The review is closed; its key is in the ledger.",
    "judged": "Your verdicts on the proposals are in the ledger.",
    "accepted": "Accepted; the digest of the data set is in the ledger.",
}


@cache
def environment() -> Environment:
    """Return the template environment."""
    found = page_environment(*TEMPLATES)
    found.globals.update(
        moment=words.moment,
        short=short,
        counted=words.counted,
        number=words.number,
        version=__version__,
        static=static_address,
        part=part,
        is_signed=False,
        more_css="",
    )
    return found


def load_templates() -> None:
    """Compile all templates."""
    found = environment()
    for name in found.list_templates(extensions=["html"]):
        found.get_template(name)


@cache
def static_file(name: str) -> bytes:
    """Return a static file."""
    if name == "page.css":
        source = environment()
        texts = [source.loader.get_source(source, one)[0] for one in STYLES]  # type: ignore[union-attr]
        return "\n".join(texts).encode()
    return (files("gatemark.server") / "static" / name).read_bytes()


@cache
def static_address(name: str) -> str:
    """Return the address of a static file, with a digest so that browsers can cache it."""
    return f"/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


def part(text: str) -> str:
    """Return a text quoted as one path segment."""
    return quote(text, safe="")


def person(request: Request) -> Identity:
    """Return the person who is signed in; others are redirected to sign in."""
    found = visitor(request)
    if found is None or found.way != "session":
        there = request.url.path if request.method == "GET" else "/"
        raise SignInFirst(there)
    return found


def member(request: Request) -> Identity:
    """Return the person who is signed in and has a role."""
    found = person(request)
    if not found.roles:
        raise ProblemResponse(
            HTTPStatus.FORBIDDEN, f"{found.person} has no role yet; ask an admin to grant one"
        )
    return found


class SignInFirst(Exception):  # noqa: N818 - no error, a way
    """Raised when a page needs a signed-in person."""

    def __init__(self, there: str) -> None:
        super().__init__(there)
        self.there = there

    def response(self) -> RedirectResponse:
        """Redirect to the sign-in page."""
        tail = "" if self.there == "/" else f"?to={quote(self.there, safe='/')}"
        return RedirectResponse(f"/sign-in{tail}", status_code=303)


async def form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form, after checking that it belongs to this session."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise ProblemResponse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "forms come as urlencoded fields")
    fields: dict[str, list[str]] = {}
    for name, value in (await request.form(max_fields=200)).multi_items():
        fields.setdefault(name, []).append(str(value))
    is_signed = site_of(request).cookie in request.cookies
    cookie = None if is_signed else PRE_COOKIE
    check_mark(request, one(fields, FORM_FIELD), cookie=cookie)
    return fields


Fields = Annotated[dict[str, list[str]], Depends(form)]
"""The fields of a form, as a parameter of a page."""


def one(fields: Mapping[str, list[str]], name: str) -> str:
    """Return a field, empty if it is missing; refused if it was sent more than once."""
    if len(fields.get(name, ())) > 1:
        raise InvalidValueError(f"the field {name} was sent more than once")
    return fields.get(name, [""])[0].strip() if name != "password" else fields.get(name, [""])[0]


def show_content(content: object) -> str:
    """Return text as it is and anything else as JSON, for a template that escapes it."""
    if isinstance(content, str):
        return content
    return json_text(content)


def page(
    request: Request,
    template: str,
    identity: Identity | None,
    context: Mapping[str, object],
    status: int = 200,
) -> HTMLResponse:
    """Render a page in the common layout."""
    site = site_of(request)
    is_signed = identity is not None
    secret = request.cookies.get(site.cookie if is_signed else PRE_COOKIE, "")
    fresh = ""
    if not secret and not is_signed:
        secret = fresh = make_secret()
    shell = {
        "identity": identity,
        "mark": derive_form_token(secret) if secret else "",
        "path": request.url.path,
        "done": DONE.get(request.query_params.get("done", "")),
        "has_packs": bool(site.settings.packs),
        "is_one_person": _is_one_person(site),
    }
    text = environment().get_template(template).render({**shell, **context})
    response = HTMLResponse(text, status_code=status)
    if fresh:
        response.set_cookie(
            PRE_COOKIE,
            fresh,
            max_age=3600,
            secure=site.settings.is_https,
            httponly=True,
            samesite="strict",
        )
    return response


def _is_one_person(site: Site) -> bool:
    try:
        return is_one_person(site.workspace)
    except OutageError:
        # The error page must work while the store is unavailable.
        return False


def download(pieces: Iterator[bytes], digest: str) -> Response:
    """Return a response that browsers save and never run."""
    name = digest.removeprefix("sha256:")[:16]
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


def back(address: str, done: str) -> RedirectResponse:
    """Redirect to a page after an action."""
    return RedirectResponse(f"{address}?done={done}", status_code=303)
