from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gatemark.core.errors import UsageError
from gatemark.server.settings import ServerSettings, check_settings

TLS = {"tls_cert": "chain.pem", "tls_key": "key.pem"}
PROXY = {"is_behind_proxy": True, "public_url": "https://gate.example"}


@pytest.mark.parametrize(
    "given",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "gate.example"},
        {"host": "0.0.0.0", "is_behind_proxy": True},
        {"host": "0.0.0.0", "is_behind_proxy": True, "public_url": "http://gate.example"},
        {"tls_cert": "chain.pem"},
        {"public_url": "gate.example"},
        {"public_url": "https://gate.example/path"},
    ],
)
def test_a_set_up_that_would_send_passwords_in_clear_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check_settings(ServerSettings(**given))


@pytest.mark.parametrize(
    "given", [{}, {"host": "localhost"}, {"host": "::1"}, {"host": "0.0.0.0", **TLS}, PROXY]
)
def test_a_set_up_that_keeps_passwords_is_taken(given: dict[str, Any]) -> None:
    check_settings(ServerSettings(**given))


def test_serve_refuses_another_bind_before_it_makes_a_store(
    gatemark: Callable[..., Any], tmp_path: Any
) -> None:
    ran = gatemark("serve", "--host", "0.0.0.0", "--store", tmp_path / "store")
    assert (ran.code, "passwords would travel in clear" in ran.err) == (2, True)
    assert not (tmp_path / "store").exists()


def test_a_public_name_is_answered_to_and_makes_cookies_secure() -> None:
    settings = ServerSettings(host="0.0.0.0", **PROXY)
    assert "gate.example" in settings.host_names
    assert "localhost" not in settings.host_names
    assert settings.is_https
    assert settings.base_url == "https://gate.example"


@pytest.mark.parametrize("missing", ["cert", "key"])
def test_a_missing_tls_file_is_named_before_a_store_is_made(
    gatemark: Callable[..., Any], tmp_path: Any, missing: str
) -> None:
    files = {kind: tmp_path / f"{kind}.pem" for kind in ("cert", "key")}
    for kind, path in files.items():
        if kind != missing:
            path.write_text("-")
    ran = gatemark(
        *("serve", "--store", tmp_path / "store", "--port", "0"),
        *("--tls-cert", files["cert"], "--tls-key", files["key"]),
    )
    assert ran.code == 2
    assert ran.err == f"gatemark: --tls-{missing} {files[missing]}: No such file or directory\n"
    assert not (tmp_path / "store").exists()


def test_tls_files_that_hold_no_certificate_are_named(
    gatemark: Callable[..., Any], tmp_path: Any
) -> None:
    path = tmp_path / "no.pem"
    path.write_text("-")
    ran = gatemark(
        *("serve", "--store", tmp_path / "store", "--port", "0"),
        *("--tls-cert", path, "--tls-key", path),
    )
    assert ran.code == 2
    assert f"--tls-cert {path} and --tls-key {path} cannot be used: " in ran.err
