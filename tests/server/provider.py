"""A small OpenID provider on this machine: ``python -m tests.server.provider PORT``."""

from __future__ import annotations

import secrets
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from html import escape
from typing import Any
from urllib.parse import urlencode

import httpx2
import uvicorn
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.server.scene import serving

from gatemark.server.settings import ServerSettings

CLIENT = "gatemark"
SECRET = "client-secret-of-the-tests"
PEOPLE: dict[str, dict[str, Any]] = {
    "zoe": {"sub": "s-1", "email": "Zoe@example.org", "groups": ["release-approvers"]},
    "yan": {"sub": "s-2", "email": "yan@example.org", "groups": ["strangers"]},
    "mal": {"sub": "s-3", "email": "mal@example.org", "email_verified": False},
    "adi": {"sub": "s-4", "email": "adi@example.org", "groups": ["owners"]},
}
Mint = Callable[["TinyProvider", dict[str, Any]], str]


def _now() -> datetime:
    return datetime.now(UTC)


def signed(provider: TinyProvider, claims: dict[str, Any]) -> str:
    """An ID token as it should be."""
    key = provider.key
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key, algorithms=["RS256"])


@cache
def _first_key() -> RSAKey:
    """Made once: looking for large primes takes long."""
    return RSAKey.generate_key(2048, auto_kid=True)


class TinyProvider:
    """Code flow with PKCE; what it signs can be twisted."""

    def __init__(self, issuer: str, clock: Callable[[], datetime] = _now) -> None:
        self.issuer = issuer
        self.clock = clock
        self.key = _first_key()
        self.people = {name: dict(claims) for name, claims in PEOPLE.items()}
        self.mint: Mint = signed
        self.says: dict[str, Any] = {}
        self.published: list[dict[str, Any]] | None = None
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    def turn_key(self) -> None:
        """Take a new key, as providers do now and then."""
        self.key = RSAKey.generate_key(2048, auto_kid=True)

    def app(self) -> FastAPI:
        app = FastAPI(openapi_url=None)
        app.add_api_route("/.well-known/openid-configuration", self._document)
        app.add_api_route("/jwks", self._jwks)
        app.add_api_route("/favicon.ico", lambda: Response(status_code=204))
        app.add_api_route("/authorize", self._form)
        app.add_api_route("/authorize", self._enter, methods=["POST"])
        app.add_api_route("/token", self._token, methods=["POST"])
        return app

    def _document(self) -> Response:
        self.asked.append("document")
        plain = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "code_challenge_methods_supported": ["S256"],
        }
        return JSONResponse(plain | self.says)

    def _jwks(self) -> Response:
        self.asked.append("keys")
        keys = [self.key.as_dict(private=False)] if self.published is None else self.published
        return JSONResponse({"keys": keys})

    def _form(self, request: Request) -> Response:
        page = (
            "<!DOCTYPE html><html lang=en><title>Provider</title><main><h1>Tiny provider</h1>"
            f'<form method=post action="/authorize?{escape(request.url.query)}">'
            "<label>Who are you? <input name=user></label><button>Go on</button></form></main>"
        )
        return HTMLResponse(page)

    async def _enter(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        user = str((await request.form())["user"])
        code = secrets.token_urlsafe()
        self.codes[code] = {**asked, "user": user}
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", status_code=303)

    async def _token(self, request: Request) -> Response:
        basic = request.headers["authorization"].removeprefix("Basic ")
        fields = await request.form()
        begun = self.codes.pop(str(fields.get("code")), None)
        if b64decode(basic).decode() != f"{CLIENT}:{SECRET}" or begun is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        challenge = create_s256_code_challenge(str(fields["code_verifier"]))
        if (challenge, fields["redirect_uri"]) != (begun["code_challenge"], begun["redirect_uri"]):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(self.clock().timestamp())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": begun["nonce"],
            "email_verified": True,
            **self.people[begun["user"]],
        }
        told = {"access_token": "a", "token_type": "Bearer", "id_token": self.mint(self, claims)}
        return JSONResponse(told)


@contextmanager
def provided(clock: Callable[[], datetime], port: int) -> Iterator[TinyProvider]:
    """A provider that is there until the block ends."""
    provider = TinyProvider(f"http://127.0.0.1:{port}", clock)
    with serving(provider.app(), ServerSettings(), port):
        yield provider


def enter(address: str, user: str) -> str:
    """Prove to the provider who one is; gives the way back."""
    return httpx2.post(address, data={"user": user}, verify=False).headers["location"]


if __name__ == "__main__":
    at = int(sys.argv[1])
    served = TinyProvider(f"http://127.0.0.1:{at}").app()
    uvicorn.run(served, host="127.0.0.1", port=at, log_level="error")
