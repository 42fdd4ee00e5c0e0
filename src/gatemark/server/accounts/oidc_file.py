"""Read the settings of an OpenID provider; the file names where the client secret is."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.settings_file import read_settings
from gatemark.release.lifecycle.model.nouns import Role
from gatemark.server.accounts.provider import ClientSecret, Provider, check_address
from gatemark.server.accounts.stores.identities import MAX_ISSUER

HEAD: Final = "gatemark_oidc"
MAX_FILE_BYTES: Final = 256 * 1024
MAX_SECRET: Final = 4096
APPROVING: Final = frozenset({"approver", "security_approver"})
_SECRET: Final = re.compile(r"[\x21-\x7e]+\Z")
Claim = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The provider, the claim for names, and which claim values give which roles."""

    issuer: Annotated[str, msgspec.Meta(max_length=MAX_ISSUER)]
    client_id: Word
    client_secret_file: str | None = None
    client_secret_env: str | None = None
    label: Annotated[str, msgspec.Meta(min_length=1, max_length=60)] = "your organisation"
    scopes: tuple[Word, ...] = ("openid", "email", "profile")
    name_claim: Claim = "email"
    roles_claim: Claim = "groups"
    roles: dict[str, tuple[Role, ...]] = {}
    may_grant_admin: bool = False
    default_role: Literal["none", "viewer"] = "none"
    granted_by: str | None = None


class SignInWay(msgspec.Struct, frozen=True):
    """A provider and its settings."""

    settings: OidcSettings
    provider: Provider


def read_sign_in_way(path: str, environment: Mapping[str, str] | None = None) -> SignInWay:
    """Read a settings file, and the client secret from the place that it names."""
    value = read_settings(path, MAX_FILE_BYTES)
    if not isinstance(value, dict) or value.pop(HEAD, None) != 1:
        raise BadInputError(f"{path}: must start with {HEAD}: 1")
    if "client_secret" in value:
        raise BadInputError(
            f"{path}: do not write the secret here: name its place with client_secret_file "
            "or client_secret_env"
        )
    try:
        settings = msgspec.convert(value, OidcSettings)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    problems = tuple(f"{path}: {problem}" for problem in _find_problems(settings))
    if problems:
        raise BadInputError(problems)
    secret = _read_secret(path, settings, os.environ if environment is None else environment)
    provider = Provider(settings.issuer, settings.client_id, secret, settings.scopes)
    return SignInWay(settings, provider)


def _find_problems(settings: OidcSettings) -> list[str]:
    found = []
    try:
        check_address(settings.issuer, "issuer")
    except UsageError as error:
        found.append(str(error))
    if (settings.client_secret_file is None) == (settings.client_secret_env is None):
        found.append("give either client_secret_file or client_secret_env")
    if "openid" not in settings.scopes:
        found.append("scopes must contain openid")
    for name, roles in settings.roles.items():
        if not roles or "system" in roles:
            found.append(f"roles.{name}: must list roles of people")
        if "admin" in roles and not settings.may_grant_admin:
            found.append(f"roles.{name}: grants admin, which needs may_grant_admin: true")
        if "admin" in roles and APPROVING & set(roles):
            found.append(f"roles.{name}: an admin cannot approve")
    if (settings.roles or settings.default_role != "none") and settings.granted_by is None:
        found.append("granted_by must name the admin in whose name roles are granted")
    return found


def _read_secret(path: str, settings: OidcSettings, environment: Mapping[str, str]) -> ClientSecret:
    if settings.client_secret_env is not None:
        place = f"the environment variable {settings.client_secret_env}"
        text = environment.get(settings.client_secret_env, "")
    else:
        place = str(settings.client_secret_file)
        # A place that is not absolute is seen from the file that names it.
        text = _read_text(Path(path).parent / place, place)
    text = text.strip()
    if not _SECRET.match(text) or len(text) > MAX_SECRET:
        raise BadInputError(f"{path}: {place} must hold the client secret, in plain ASCII")
    return ClientSecret(text)


def _read_text(path: Path, place: str) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInputError(f"{place}: expected a regular file")
        with path.open("rb") as stream:
            return stream.read(MAX_SECRET + 2).decode("ascii", "replace")
    except OSError as error:
        raise BadInputError(f"{place}: cannot be read: {error.strerror or error}") from error


def map_roles(settings: OidcSettings, claims: Mapping[str, object]) -> frozenset[Role]:
    """Return the roles that the claims give."""
    value = claims.get(settings.roles_claim)
    values = value if isinstance(value, list) else [value]
    return frozenset(
        role for one in values if isinstance(one, str) for role in settings.roles.get(one, ())
    )


def list_managed_roles(settings: OidcSettings) -> frozenset[Role]:
    """Return the roles that the provider grants and revokes."""
    return frozenset(role for roles in settings.roles.values() for role in roles)


def sort_roles(roles: frozenset[Role]) -> tuple[Role, ...]:
    """Roles in the order of the lifecycle."""
    order: tuple[Role, ...] = get_args(Role)
    return tuple(role for role in order if role in roles)
