"""An OpenID provider: discovery, the way to its sign-in page, and the checks of its answer."""

from __future__ import annotations

import hmac
import ssl
import threading
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from gatemark.core.errors import GatemarkError, NotAllowedError, RefusedError, UsageError
from gatemark.core.hosts import is_loopback

if TYPE_CHECKING:
    from joserfc.jwk import Key
    from joserfc.jwt import Token

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Signatures by a private key that only the provider has. Never none, never a shared secret."""
KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})
WELL_KNOWN: Final = "/.well-known/openid-configuration"
MAX_ANSWER_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 5.0
LEEWAY_S: Final = 60
FRESH_S: Final = 3600
"""How long the provider's document and keys are kept."""
ASK_AGAIN_S: Final = 30
"""After an unknown key or no answer the provider is asked again, no more often than this."""
MAX_SUBJECT: Final = 255
MAX_CODE: Final = 2048
MAX_WORDS: Final = 120


class ClientSecret:
    """A secret text; its repr hides it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret(…)"

    def reveal(self) -> str:
        """Return the secret, to send it."""
        return self._text


class ProviderMetadata(msgspec.Struct, frozen=True):
    """What we use of a provider's discovery document."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    id_token_signing_alg_values_supported: tuple[str, ...] = ("RS256",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    code_challenge_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool = False


class SignInKeys(msgspec.Struct, frozen=True):
    """State, nonce and PKCE verifier of a sign-in, derived from the browser's secret."""

    state: str
    nonce: str
    verifier: str


def derive_keys(secret: str) -> SignInKeys:
    """Derive the keys of a sign-in; none of them reveals the secret."""
    made = [
        hmac.new(secret.encode(), f"gatemark oidc {what}".encode(), "sha256").hexdigest()
        for what in ("state", "nonce", "verifier")
    ]
    return SignInKeys(*made)


def check_state(answer: Mapping[str, str], secret: str) -> None:
    """Refuse an answer to a sign-in of another browser."""
    state = answer.get("state", "").encode()
    if not hmac.compare_digest(state, derive_keys(secret).state.encode()):
        raise NotAllowedError("the answer does not belong to a sign-in of this browser")


class Provider:
    """One configured provider. It is not contacted before someone signs in."""

    def __init__(
        self, issuer: str, client_id: str, secret: ClientSecret, scopes: tuple[str, ...]
    ) -> None:
        check_address(issuer, "issuer")
        self.issuer = issuer
        self._client_id = client_id
        self._secret = secret
        self._scopes = scopes
        self._lock = threading.Lock()
        self._metadata: tuple[float, ProviderMetadata] | None = None
        self._trouble: tuple[float, str] | None = None
        self._keys: tuple[float, list[Key]] | None = None

    def address_of_sign_in(self, secret: str, redirect_uri: str, now: datetime) -> str:
        """Return the sign-in URL: code flow with PKCE S256, state and nonce."""
        from authlib.oauth2.client import OAuth2Client  # noqa: PLC0415 - heavy, and only here

        keys = derive_keys(secret)
        client = OAuth2Client(
            session=None,
            client_id=self._client_id,
            scope=" ".join(self._scopes),
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
        )
        metadata = self.metadata(now)
        address, _ = client.create_authorization_url(
            metadata.authorization_endpoint,
            state=keys.state,
            code_verifier=keys.verifier,
            nonce=keys.nonce,
        )
        return str(address)

    def metadata(self, now: datetime) -> ProviderMetadata:
        """Return the provider's discovery document, which must be for this issuer."""
        with self._lock:
            if self._metadata is not None and self._metadata[0] > now.timestamp() - FRESH_S:
                return self._metadata[1]
            if self._trouble is not None and self._trouble[0] > now.timestamp() - ASK_AGAIN_S:
                # Else everybody who tries would wait for a provider that does not answer.
                raise RefusedError(self._trouble[1])
            try:
                found = self._read_document()
            except GatemarkError as error:
                self._trouble = (now.timestamp(), str(error))
                raise
            self._metadata, self._trouble = (now.timestamp(), found), None
            return found

    def _read_document(self) -> ProviderMetadata:
        plain = _ask("GET", self.issuer.rstrip("/") + WELL_KNOWN)
        try:
            found = msgspec.convert(plain, ProviderMetadata)
        except msgspec.ValidationError as error:
            raise RefusedError(f"the provider's document cannot be used: {error}") from error
        if found.issuer != self.issuer:
            raise RefusedError(f"the provider's document is for another issuer than {self.issuer}")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            check_address(getattr(found, name), name)
        challenges = found.code_challenge_methods_supported
        if challenges is not None and "S256" not in challenges:
            raise RefusedError("the provider does not support PKCE with S256")
        return found

    def claims(
        self, answer: Mapping[str, str], secret: str, redirect_uri: str, now: datetime
    ) -> dict[str, object]:
        """Return the claims of an ID token that this provider signed for this sign-in."""
        check_state(answer, secret)
        self._check_answer(answer, now)
        token = self._exchange(answer["code"], derive_keys(secret), redirect_uri, now)
        text = token.get("id_token")
        if not isinstance(text, str):
            raise NotAllowedError("the provider gave no ID token")
        access = token.get("access_token")
        return self._check_token(text, access if isinstance(access, str) else None, secret, now)

    def _check_answer(self, answer: Mapping[str, str], now: datetime) -> None:
        issuer = answer.get("iss")
        promised = self.metadata(now).authorization_response_iss_parameter_supported
        if (issuer is not None or promised) and issuer != self.issuer:
            raise NotAllowedError("the answer comes from another issuer")
        if "error" in answer:
            reported = answer["error"]
            known = (
                reported
                if reported.isascii() and reported.isidentifier() and len(reported) < 64
                else "an error"
            )
            raise NotAllowedError(f"the provider did not sign you in: {known}")
        if not 0 < len(answer.get("code", "")) <= MAX_CODE:
            raise NotAllowedError("the answer has no code")

    def _exchange(
        self, code: str, keys: SignInKeys, redirect_uri: str, now: datetime
    ) -> dict[str, object]:
        from authlib.oauth2.auth import ClientAuth  # noqa: PLC0415
        from authlib.oauth2.rfc6749.parameters import prepare_token_request  # noqa: PLC0415

        metadata = self.metadata(now)
        methods = metadata.token_endpoint_auth_methods_supported
        method = next((one for one in _AUTH_METHODS if one in methods), None)
        if method is None:
            raise RefusedError(
                "the provider supports no client authentication that Gatemark supports"
            )
        body = prepare_token_request(
            "authorization_code",
            code=code,
            redirect_uri=redirect_uri,
            code_verifier=keys.verifier,
        )
        auth = ClientAuth(self._client_id, self._secret.reveal(), method)
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        address, headers, body = auth.prepare("POST", metadata.token_endpoint, headers, body)
        return _ask("POST", address, headers=headers, body=body)

    def _check_token(
        self, text: str, access_token: str | None, secret: str, now: datetime
    ) -> dict[str, object]:
        from authlib.oidc.core import CodeIDToken  # noqa: PLC0415
        from joserfc.errors import JoseError  # noqa: PLC0415

        try:
            token = self._decode_token(text, now)
            options: object = {
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": self._client_id},
            }
            params = {
                "nonce": derive_keys(secret).nonce,
                "client_id": self._client_id,
                "access_token": access_token,
            }
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(now=int(now.timestamp()), leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError) as error:
            raise NotAllowedError(f"the ID token is refused: {_shorten_error(error)}") from error
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
            raise NotAllowedError("the ID token is refused: it names no subject")
        return dict(claims)

    def _decode_token(self, text: str, now: datetime) -> Token:
        from joserfc import jwt  # noqa: PLC0415
        from joserfc.errors import InvalidKeyIdError  # noqa: PLC0415
        from joserfc.jwk import KeySet  # noqa: PLC0415
        from joserfc.jws import JWSRegistry  # noqa: PLC0415

        offered = self.metadata(now).id_token_signing_alg_values_supported
        allowed = [name for name in ALGORITHMS if name in offered]
        if not allowed:
            raise RefusedError("the provider supports no signature algorithm that Gatemark accepts")
        registry = JWSRegistry(algorithms=allowed, strict_check_header=False)
        try:
            return jwt.decode(text, KeySet(self._fetch_signing_keys(now)), registry=registry)
        except InvalidKeyIdError:
            # The provider may have taken a new key since we last asked.
            keys = self._fetch_signing_keys(now, kept_s=ASK_AGAIN_S)
            return jwt.decode(text, KeySet(keys), registry=registry)

    def _fetch_signing_keys(self, now: datetime, kept_s: int = FRESH_S) -> list[Key]:
        from joserfc.errors import JoseError  # noqa: PLC0415
        from joserfc.jwk import import_key  # noqa: PLC0415

        address = self.metadata(now).jwks_uri
        with self._lock:
            if self._keys is not None and self._keys[0] > now.timestamp() - kept_s:
                return self._keys[1]
            listed = _ask("GET", address).get("keys")
            usable: list[Key] = []
            for plain in listed if isinstance(listed, list) else ():
                if (
                    not isinstance(plain, dict)
                    or plain.get("kty") not in KEY_TYPES
                    or plain.get("use", "sig") != "sig"
                ):
                    continue
                try:
                    usable.append(import_key(plain))
                except (JoseError, ValueError, TypeError):
                    # A key of a kind that we do not know signs nothing for us.
                    continue
            if not usable:
                raise RefusedError("the provider publishes no usable signing key")
            self._keys = (now.timestamp(), usable)
            return usable


_AUTH_METHODS: Final = ("client_secret_basic", "client_secret_post")


def check_address(address: str, what: str) -> None:
    """Refuse an address that is neither https nor on this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError as error:
        raise UsageError(f"{what} {address!r} is not an address") from error
    is_clean = not (parts.query or parts.fragment or parts.username or parts.password)
    if what != "issuer":
        is_clean = not (parts.fragment or parts.username or parts.password)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    if not (host and is_clean and is_safe):
        raise UsageError(f"{what} {address!r} must be https://NAME (http only on this machine)")


@cache
def _load_certificates(*, trust_env: bool) -> ssl.SSLContext:
    """Read the trusted certificates once: it takes longer than everything else in a sign-in."""
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context(trust_env=trust_env)


def _ask(
    method: str, address: str, *, headers: Mapping[str, str] | None = None, body: str | None = None
) -> dict[str, object]:
    """Fetch one JSON object, with limits on size and time; redirects are not followed."""
    import httpx2  # noqa: PLC0415 - the network is for whoever signs in

    host = urlsplit(address).hostname or ""
    # A proxy from the environment would take what is meant for this machine out of it.
    trust_env = not is_loopback(host)
    try:
        with (
            httpx2.Client(
                timeout=TIMEOUT_S,
                follow_redirects=False,
                verify=_load_certificates(trust_env=trust_env),
                trust_env=trust_env,
            ) as client,
            client.stream(method, address, headers=headers, content=body) as response,
        ):
            data = b""
            for piece in response.iter_bytes():
                data += piece
                if len(data) > MAX_ANSWER_BYTES:
                    raise RefusedError(f"the provider's answer exceeds {MAX_ANSWER_BYTES} bytes")
            status = response.status_code
    except httpx2.HTTPError as error:
        kind = type(error).__name__
        raise RefusedError(f"the provider at {host} cannot be reached ({kind})") from error
    if status != HTTPStatus.OK:
        raise RefusedError(f"the provider at {host} answered with status {status}")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(f"the provider at {host} did not answer with JSON") from error
    if not isinstance(found, dict):
        raise RefusedError(f"the provider at {host} did not answer with a JSON object")
    return found


def _shorten_error(error: Exception) -> str:
    """Return an error as one short line."""
    code = str(getattr(error, "error", "")).replace("_", " ")
    words = str(getattr(error, "description", "")) or code or type(error).__name__
    return " ".join(words.split())[:MAX_WORDS]
