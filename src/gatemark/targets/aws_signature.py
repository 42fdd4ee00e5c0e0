"""Sign requests to AWS: Signature Version 4, with keys from the environment.

The algorithm is AWS4-HMAC-SHA256: the request is written in canonical form, and its digest is
signed with a key that is valid for one day, region and service. A signature covers the body, so a
request cannot be changed on its way, and the secret key itself is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from gatemark.core.errors import InvalidValueError, UsageError
from gatemark.evidence.settings_file import about

ALGORITHM: Final = "AWS4-HMAC-SHA256"
_UNRESERVED: Final = "-_.~"
_HOST_WITH_REGION: Final = re.compile(r"(?P<service>[a-z0-9-]+)\.(?P<region>[a-z0-9-]+-\d)\.")
_BLANKS: Final = re.compile(r"\s+")


class AwsSignature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sign requests with an AWS access key that is in the environment."""

    region: Annotated[
        str | None, about("AWS region. Default: the one in the host name of the address.")
    ] = None
    service: Annotated[str, about("Name of the service that signatures are for.")] = "bedrock"
    access_key_env: Annotated[str, about("Environment variable with the id of the access key.")] = (
        "AWS_ACCESS_KEY_ID"
    )
    secret_key_env: Annotated[str, about("Environment variable with the secret access key.")] = (
        "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable
    )
    session_token_env: Annotated[
        str, about("Environment variable with the session token; not sent when it is unset.")
    ] = "AWS_SESSION_TOKEN"  # noqa: S105 - the name of a variable

    def region_for(self, url: str) -> str:
        """Return the region; if the pack does not name it, it is read from the host."""
        if self.region is not None:
            return self.region
        found = _HOST_WITH_REGION.match(urlsplit(url).hostname or "")
        if found is None:
            raise InvalidValueError(
                f"aws_signature needs a region: the host of {url} does not name one; "
                "add region: us-east-1, for example"
            )
        return found["region"]


class AwsKeys(msgspec.Struct, frozen=True):
    """An access key; its repr reveals nothing."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "AwsKeys([redacted])"

    def redact(self, text: str) -> str:
        """Return the text without the secrets."""
        for secret in (self.secret_key, self.session_token):
            text = text.replace(secret, "[redacted]") if secret else text
        return text


def read_aws_keys(spec: AwsSignature, environ: Mapping[str, str]) -> AwsKeys:
    """Return the keys that a pack names; raise UsageError if one is missing."""
    found = []
    for variable in (spec.access_key_env, spec.secret_key_env):
        value = environ.get(variable, "").strip()
        if not value:
            raise UsageError(
                f"environment variable {variable} must hold a part of the AWS access key, "
                "it is empty"
            )
        found.append(value)
    token = environ.get(spec.session_token_env, "").strip() or None
    for value in (*found, token or ""):
        if not (value.isascii() and value.isprintable()):
            raise UsageError("the AWS access key in the environment has characters no key can have")
    return AwsKeys(found[0], found[1], token)


def sign_request(
    keys: AwsKeys,
    *,
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]],
    content: bytes,
    scope: tuple[str, str, str],
) -> str:
    """Return the Authorization header of a request.

    ``target`` is the path and query as they are sent; ``headers`` are those that are signed, with
    ``x-amz-date`` among them; ``scope`` is the day, the region and the service.
    """
    path, _, query = target.partition("?")
    values = {name.lower(): _BLANKS.sub(" ", value.strip()) for name, value in headers}
    names = ";".join(sorted(values))
    canonical = "\n".join(
        (
            method,
            # Every service but S3 encodes the path that is sent once more.
            quote(path or "/", safe="/" + _UNRESERVED),
            _encode_query(query),
            *(f"{name}:{values[name]}" for name in sorted(values)),
            "",
            names,
            hashlib.sha256(content).hexdigest(),
        )
    )
    credential = "/".join((*scope, "aws4_request"))
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join((ALGORITHM, values["x-amz-date"], credential, hashed))
    signature = hmac.new(derive_day_key(keys.secret_key, scope), text.encode(), hashlib.sha256)
    return (
        f"{ALGORITHM} Credential={keys.access_key}/{credential}, "
        f"SignedHeaders={names}, Signature={signature.hexdigest()}"
    )


def derive_day_key(secret_key: str, scope: tuple[str, str, str]) -> bytes:
    """Return the key that signs requests of one day, region and service."""
    key = b"AWS4" + secret_key.encode()
    for part in (*scope, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _encode_query(query: str) -> str:
    pairs = [
        (quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED))
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


class AwsSigner:
    """Signs the requests to one address."""

    def __init__(
        self,
        spec: AwsSignature,
        url: str,
        environ: Mapping[str, str],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._region = spec.region_for(url)
        self._service = spec.service
        self._keys = read_aws_keys(spec, environ)
        self._now = now

    def redact(self, text: str) -> str:
        """Return the text without the secrets."""
        return self._keys.redact(text)

    def headers(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes
    ) -> list[tuple[str, str]]:
        """Return the headers that sign a request; ``headers`` are those it has."""
        moment = self._now().strftime("%Y%m%dT%H%M%SZ")
        added = [("X-Amz-Date", moment)]
        if self._keys.session_token is not None:
            added.append(("X-Amz-Security-Token", self._keys.session_token))
        # Proxies may change other headers on the way.
        signed = [
            (name, value) for name, value in headers.items() if name.lower() in _SIGNED_HEADERS
        ]
        value = sign_request(
            self._keys,
            method=method,
            target=target,
            headers=[*signed, *added],
            content=content,
            scope=(moment[:8], self._region, self._service),
        )
        return [*added, ("Authorization", value)]


_SIGNED_HEADERS: Final = frozenset({"host", "content-type"})
