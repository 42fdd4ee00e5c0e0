"""The state of a running server: settings, workspaces, runs, and caller authentication."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from fastapi import Request, Response

from gatemark.core.errors import NotAllowedError
from gatemark.ledger.event_kinds import Channel
from gatemark.release.lifecycle.state_cache import asset_state_cache
from gatemark.server.accounts.identity import Identity, identify_session, identify_token
from gatemark.server.accounts.nouns import Scope, derive_form_token, is_same_hash
from gatemark.server.accounts.oidc_file import read_sign_in_way
from gatemark.server.accounts.sign_in import FailedSignIns
from gatemark.server.guards import SAFE, Limiter
from gatemark.server.problems import ProblemResponse
from gatemark.server.run_board import RunBoard
from gatemark.server.settings import ServerSettings
from gatemark.server.workspaces import OpenWorkspace, Workspaces
from gatemark.workspace import Workspace

FORM_FIELD: Final = "form_mark"
MARK_HEADER: Final = "x-csrf-token"
MAX_KEPT: Final = 200
BY_ITSELF: Final = Channel("server", "none")
Made = TypeVar("Made")


class Site:
    """The state that every route uses."""

    def __init__(self, settings: ServerSettings, open_workspace: OpenWorkspace) -> None:
        self.settings = settings
        self.sign_ins = Limiter(settings.sign_ins, time.monotonic)
        self.failures = FailedSignIns()
        self.verifying = threading.Lock()
        self.sign_in_way = None if settings.oidc is None else read_sign_in_way(settings.oidc)
        self.board = RunBoard(
            open_workspace, settings.packs, secret_files=self._list_secret_files(settings)
        )
        self.workspaces = Workspaces(open_workspace)
        self._kept: dict[tuple[object, ...], Any] = {}
        self._keeping = threading.Lock()

    def _list_secret_files(self, settings: ServerSettings) -> tuple[Path, ...]:
        """Return the files that no pack of the page may read."""
        named = [settings.tls_key, settings.signing_key]
        if settings.oidc is not None and self.sign_in_way is not None:
            secret = self.sign_in_way.settings.client_secret_file
            named.append(secret and str(Path(settings.oidc).parent / secret))
        return tuple(Path(name) for name in named if name)

    @property
    def cookie(self) -> str:
        """The name of the session cookie; browsers bind a __Host- cookie to this host."""
        return "__Host-gatemark" if self.settings.is_https else "gatemark"

    @property
    def workspace(self) -> Workspace:
        """The workspace of this thread."""
        return self.workspaces.mine

    def set_secret(
        self, response: Response, name: str, secret: str, *, max_age: int | None = None
    ) -> None:
        """Set a cookie that no script can read; of other sites, only links send it."""
        response.set_cookie(
            name,
            secret,
            max_age=max_age,
            secure=self.settings.is_https,
            httponly=True,
            samesite="lax",
        )

    def kept(self, what: str, asset: str, make: Callable[[], Made]) -> Made:
        """Return a value about an asset, cached until the asset or the minute changes.

        All threads share it, so it must be immutable.
        """
        minute = int(self.workspace.clock().timestamp() // 60)
        key = (what, asset, minute, *asset_state_cache(self.workspace).mark(asset))
        with self._keeping:
            if key in self._kept:
                found: Made = self._kept[key]
                return found
        made = make()
        with self._keeping:
            while len(self._kept) >= MAX_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = made
        return made


def site_of(request: Request) -> Site:
    """Return the site of a request."""
    found: Site = request.app.state.site
    return found


def visitor(request: Request) -> Identity | None:
    """Return the caller by token or session, or None.

    Everything that this thread records for the request includes how the caller signed in.
    """
    site = site_of(request)
    site.workspace.channel = BY_ITSELF
    found = _identify_caller(request, site)
    if found is not None:
        site.workspace.channel = found.channel
    return found


def refresh_state(workspace: Workspace, *, once: bool) -> None:
    """Read the ledger once for a request, or, if it changes something, each time."""
    if once:
        asset_state_cache(workspace).pin()
    else:
        asset_state_cache(workspace).unpin()


def _identify_caller(request: Request, site: Site) -> Identity | None:
    refresh_state(site.workspace, once=request.method in SAFE)
    header = request.headers.get("authorization")
    if header is not None:
        kind, _, text = header.partition(" ")
        found = identify_token(site.workspace, text.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise ProblemResponse(
                HTTPStatus.UNAUTHORIZED,
                "this token is unknown, has expired or was revoked",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found
    secret = request.cookies.get(site.cookie)
    return None if not secret else identify_session(site.workspace, secret)


def caller(
    request: Request,
    scope: Scope = "read",
    *,
    in_person: bool = False,
    needs_role: bool = True,
) -> Identity:
    """Return the authorized caller of the API; sessions must send their CSRF token with changes."""
    found = visitor(request)
    if found is None:
        raise ProblemResponse(
            HTTPStatus.UNAUTHORIZED,
            "sign in, or send a token as Authorization: Bearer",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if found.way == "session" and request.method not in SAFE:
        check_mark(request, request.headers.get(MARK_HEADER))
    if found.way == "token" and (in_person or scope not in found.scopes):
        what = "this must be done in person, not with a token" if in_person else f"it lacks {scope}"
        raise NotAllowedError(f"the token may not do this: {what}")
    if needs_role and not found.roles:
        raise NotAllowedError(f"{found.person} has no role; ask an admin to grant one")
    return found


def check_mark(request: Request, mark: str | None, *, cookie: str | None = None) -> None:
    """Refuse a form without the CSRF token of this session."""
    check_origin(request)
    secret = request.cookies.get(cookie or site_of(request).cookie, "")
    if not secret or mark is None or not is_same_hash(derive_form_token(secret), mark):
        raise ProblemResponse(
            HTTPStatus.FORBIDDEN, "the form is from another session; reload the page"
        )


def check_origin(request: Request) -> None:
    """Refuse a request from a page of another site."""
    fetched = request.headers.get("sec-fetch-site")
    if fetched is not None and fetched not in ("same-origin", "none"):
        raise ProblemResponse(HTTPStatus.FORBIDDEN, "requests from other sites are refused")
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{request.headers.get('host')}":
        public = site_of(request).settings.base_url
        if origin != public:
            raise ProblemResponse(HTTPStatus.FORBIDDEN, "requests from other sites are refused")
