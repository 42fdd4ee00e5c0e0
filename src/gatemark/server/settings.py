"""The settings of a server, and its addresses."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.hosts import is_loopback

LOOPBACK: Final = ("127.0.0.1", "::1")
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server. Rate limits are per minute."""

    host: str = "127.0.0.1"
    port: int = 8787
    packs: tuple[str, ...] = ()
    schedules: str | None = None
    drift_policy: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    is_behind_proxy: bool = False
    trusted_proxies: tuple[str, ...] = ()
    public_url: str | None = None
    oidc: str | None = None
    signing_key: str | None = None
    max_body_bytes: int = 1024 * 1024
    body_seconds: float = 20.0
    head_seconds: float = 10.0
    sign_ins: int = 10
    visits_per_person: int = 1_200
    visits_per_address: int = 12_000
    threads: int = 4
    idle_per_address: int = 64

    @property
    def proxies(self) -> tuple[str, ...]:
        """Addresses and networks that are trusted to give the client's address."""
        return (self.trusted_proxies or LOOPBACK) if self.is_behind_proxy else ()

    @property
    def has_tls(self) -> bool:
        """Whether this server terminates TLS itself."""
        return self.tls_cert is not None and self.tls_key is not None

    @property
    def is_https(self) -> bool:
        """Whether people reach it by https."""
        return self.has_tls or (self.public_url or "").startswith("https://")

    @property
    def base_url(self) -> str:
        """The address at which people reach it."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}"

    @property
    def host_names(self) -> frozenset[str]:
        """The host names that a request may use; others are refused."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        names = {self.host.lower(), *(LOCAL_NAMES if is_loopback(self.host) else ())}
        return frozenset(names | ({public} if public else set()))


def check_settings(settings: ServerSettings) -> None:
    """Refuse settings that would send passwords over a network in clear text."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise UsageError("TLS needs both --tls-cert and --tls-key")
    if settings.public_url is not None:
        parts = urlsplit(settings.public_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise UsageError(f"--public-url {settings.public_url!r} must be https://NAME")
    if settings.trusted_proxies and not settings.is_behind_proxy:
        raise UsageError("--trusted-proxy needs --behind-proxy")
    for proxy in settings.trusted_proxies:
        try:
            ip_network(proxy)
        except ValueError as error:
            raise UsageError(
                f"--trusted-proxy {proxy!r} must be an address or a network, such as 10.0.0.7 or "
                f"10.0.0.0/24 ({error})"
            ) from error
    if settings.is_behind_proxy:
        if not (settings.public_url or "").startswith("https://"):
            raise UsageError("--behind-proxy needs --public-url https://NAME, where the proxy is")
        return
    if not is_loopback(settings.host) and not settings.has_tls:
        raise UsageError(
            f"{settings.host} can be reached from other machines, and passwords would travel in "
            "clear text: give --tls-cert and --tls-key, or --behind-proxy with --public-url"
        )
