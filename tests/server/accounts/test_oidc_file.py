from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError
from gatemark.server.accounts.oidc_file import list_managed_roles, map_roles, read_sign_in_way

GOOD = """\
gatemark_oidc: 1
issuer: https://login.example
client_id: gatemark
client_secret_env: OIDC_SECRET
roles:
  release-approvers: [approver]
  ml-team: [author, evaluator]
granted_by: root
"""
SECRET = {"OIDC_SECRET": "not-to-be-seen"}


def written(folder: Path, text: str) -> str:
    path = folder / "oidc.yaml"
    path.write_text(text)
    return str(path)


def test_a_file_with_a_secret_elsewhere_is_read(tmp_path: Path) -> None:
    way = read_sign_in_way(written(tmp_path, GOOD), SECRET)
    assert way.settings.default_role == "none"
    assert way.provider.issuer == "https://login.example"
    assert list_managed_roles(way.settings) == {"approver", "author", "evaluator"}


def test_the_secret_is_shown_nowhere(tmp_path: Path) -> None:
    way = read_sign_in_way(written(tmp_path, GOOD), SECRET)
    shown = repr(way) + repr(vars(way.provider)) + str(way.settings)
    assert SECRET["OIDC_SECRET"] not in shown


def test_a_secret_file_is_found_beside_the_settings(tmp_path: Path) -> None:
    text = GOOD.replace("client_secret_env: OIDC_SECRET", "client_secret_file: secret")
    path = written(tmp_path, text)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_sign_in_way(path, {})
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(BadInputError, match="must hold the client secret"):
        read_sign_in_way(path, {})
    (tmp_path / "secret").write_text("a-secret\n")
    assert read_sign_in_way(path, {}).settings.client_secret_file == "secret"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gatemark_oidc: 1", "gatemark_oidc: 2", "must start with"),
        ("https://login.example", "http://login.example", "must be https"),
        ("https://login.example", "https://a:b@login.example", "must be https"),
        ("https://login.example", "https://login.example?x=1", "must be https"),
        ("https://login.example", "ftp://127.0.0.1", "must be https"),
        ("client_secret_env: OIDC_SECRET", "client_secret: abc", "do not write the secret here"),
        ("client_secret_env: OIDC_SECRET\n", "", "give either client_secret_file"),
        ("OIDC_SECRET", "ANOTHER", "must hold the client secret"),
        ("granted_by: root\n", "", "granted_by"),
        ("[approver]", "[admin]", "may_grant_admin"),
        ("[approver]", "[admin, approver]", "cannot approve"),
        ("[approver]", "[system]", "roles of people"),
        ("[approver]", "[]", "roles of people"),
        ("[approver]", "[king]", "Invalid enum value"),
        ("granted_by", "default_role: admin\ngranted_by", "Invalid enum value"),
        ("granted_by", "colour: red\ngranted_by", "unknown field"),
        ("granted_by", "scopes: [email]\ngranted_by", "must contain openid"),
    ],
)
def test_settings_that_would_let_somebody_in_wrongly_are_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    with pytest.raises(BadInputError) as refused:
        read_sign_in_way(written(tmp_path, text), SECRET)
    assert words in "\n".join(refused.value.lines())


def test_a_provider_on_this_machine_may_speak_plain_http(tmp_path: Path) -> None:
    for host in ("127.0.0.1:9", "localhost:9", "[::1]:9"):
        text = GOOD.replace("https://login.example", f"http://{host}")
        assert read_sign_in_way(written(tmp_path, text), SECRET).provider.issuer == f"http://{host}"


@pytest.mark.parametrize(
    ("claims", "roles"),
    [
        ({"groups": ["release-approvers", "others"]}, {"approver"}),
        ({"groups": "ml-team"}, {"author", "evaluator"}),
        ({"groups": [["ml-team"], 7, None]}, set()),
        ({"groups": {"ml-team": True}}, set()),
        ({}, set()),
    ],
)
def test_only_values_of_the_claim_that_are_named_give_roles(
    tmp_path: Path, claims: dict[str, Any], roles: set[str]
) -> None:
    settings = read_sign_in_way(written(tmp_path, GOOD), SECRET).settings
    assert map_roles(settings, claims) == roles


def test_serve_refuses_bad_settings_before_it_makes_a_store(
    gatemark: Callable[..., Any], tmp_path: Path
) -> None:
    path = written(tmp_path, GOOD.replace("https", "http"))
    ran = gatemark("serve", "--oidc", path, "--store", tmp_path / "store")
    assert (ran.code, "must be https" in ran.err) == (2, True)
    assert not (tmp_path / "store").exists()
