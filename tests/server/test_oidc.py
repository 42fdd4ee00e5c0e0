from __future__ import annotations

import hmac
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.server.provider import CLIENT, SECRET, TinyProvider, enter, provided, signed
from tests.server.scene import PASSWORD, Clock, Scene, free_port, new_scene
from tests.server.test_signing_in import sign_in

from gatemark.server.accounts.identity import read_roles
from gatemark.server.accounts.links import make_first_link
from gatemark.server.accounts.open_stores import identities_of, people_of
from gatemark.server.accounts.stores.identities import TRY_MINUTES
from gatemark.workspace import Workspace

SETTINGS = """\
gatemark_oidc: 1
issuer: {issuer}
client_id: gatemark
client_secret_file: secret.txt
label: Example
roles:
  release-approvers: [approver]
  owners: [admin]
may_grant_admin: true
granted_by: root
"""


@pytest.fixture(autouse=True)
def each_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatemark.server.accounts.sign_in.FAILURES_EVERY", timedelta(0))


class Walk:
    """A server with a provider, and the way through both."""

    def __init__(self, scene: Scene, provider: TinyProvider, client: httpx2.Client) -> None:
        self.scene, self.provider, self.client = scene, provider, client

    def begin(self, to: str = "/") -> str:
        sent = self.client.get(f"/sign-in/oidc?to={to}")
        assert sent.status_code == 303, sent.text
        self.kept = sent.cookies["gatemark-oidc"]
        return sent.headers["location"]

    def come(self, user: str, to: str = "/") -> httpx2.Response:
        return self.client.get(enter(self.begin(to), user))

    def events(self) -> list[tuple[str, str, Any]]:
        return [(e.kind, e.actor, payload) for e, payload in self.scene.workspace.events.events()]

    def refused(self, answer: httpx2.Response, words: str) -> None:
        """Refused with words, on record, and nobody is in."""
        assert (answer.status_code, words in answer.text) == (403, True), answer.text
        assert not re.search(r"\bgatemark=", answer.headers.get("set-cookie", ""))
        kind, actor, payload = self.events()[-1]
        assert (kind, actor, payload["way"]) == ("sign_in_failed", "system", "oidc")
        assert words in payload["reason"]


def settings_file(folder: Path, issuer: str, more: str = "") -> str:
    (folder / "secret.txt").write_text(SECRET + "\n")
    path = folder / "oidc.yaml"
    path.write_text(SETTINGS.format(issuer=issuer) + more)
    return str(path)


@pytest.fixture
def walk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Walk]:
    more = getattr(request, "param", "")
    clock = Clock()
    with provided(clock, free_port()) as provider:
        path = settings_file(tmp_path, provider.issuer, more)
        scene = new_scene(tmp_path, clock=clock, port=free_port(), oidc=path)
        with scene.running() as client:
            yield Walk(scene, provider, client)
        scene.workspace.store.close()


def test_somebody_new_comes_in_with_the_roles_of_their_groups(walk: Walk) -> None:
    done = walk.come("zoe", "/ledger")
    assert (done.status_code, done.headers["location"]) == (303, "/ledger")
    assert walk.client.get("/ledger").status_code == 200
    assert walk.client.get("/api/v1/session").json()["person"] == "zoe@example.org"
    assert read_roles(walk.scene.workspace, "zoe@example.org") == ("approver",)
    added, granted, came = walk.events()[-3:]
    assert added[:2] == ("account_added", "system")
    assert granted[:2] == ("roles_granted", "root")
    assert granted[2]["note"] == f"by groups at {walk.provider.issuer}"
    channel = {"way": "server", "authentication": f"openid {walk.provider.issuer}"}
    assert granted[2]["decided_by"]["channel"] == channel
    assert came[:2] == ("signed_in", "zoe@example.org")
    assert (came[2]["way"], came[2]["issuer"]) == ("oidc", walk.provider.issuer)


def test_the_way_to_the_provider_has_pkce_state_and_nonce_and_no_secret(walk: Walk) -> None:
    asked = {name: one[0] for name, one in parse_qs(urlsplit(walk.begin()).query).items()}
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    assert asked["redirect_uri"] == f"{walk.scene.settings.base_url}/sign-in/oidc/callback"
    assert asked["scope"] == "openid email profile"
    secret = str(walk.client.cookies.get("gatemark-oidc"))
    assert secret not in str(asked)
    assert SECRET not in str(asked)
    stored = Path(walk.scene.store, "gatemark.sqlite3").read_bytes()
    assert secret.encode() not in stored


def test_roles_of_the_mapping_follow_the_groups_and_other_roles_stay(walk: Walk) -> None:
    walk.come("zoe")
    headers = walk.scene.session(walk.client, "root")
    body = {"roles": ["author", "approver"]}
    put = walk.client.put("/api/v1/people/zoe@example.org/roles", json=body, headers=headers)
    assert put.status_code == 200
    walk.provider.people["zoe"]["groups"] = []
    walk.come("zoe")
    assert read_roles(walk.scene.workspace, "zoe@example.org") == ("author",)


def test_who_has_no_role_is_let_in_and_told_that_they_may_do_nothing(walk: Walk) -> None:
    assert walk.come("yan").status_code == 303
    shown = walk.client.get("/")
    assert (shown.status_code, "has no role yet" in shown.text) == (403, True)
    assert walk.client.get("/api/v1/overview").status_code == 403
    assert read_roles(walk.scene.workspace, "yan@example.org") == ()


@pytest.mark.parametrize("walk", ["default_role: viewer\n"], indirect=True)
def test_a_default_role_lets_everybody_look(walk: Walk) -> None:
    assert walk.come("yan").status_code == 303
    assert read_roles(walk.scene.workspace, "yan@example.org") == ("viewer",)
    assert walk.client.get("/").status_code == 200


def test_local_people_still_sign_in_and_no_first_link_is_made_when_an_admin_is_provided(
    walk: Walk,
) -> None:
    shown = walk.client.get("/sign-in")
    assert "Sign in with Example" in shown.text
    assert make_first_link(walk.scene.workspace) is not None
    walk.come("adi")
    assert read_roles(walk.scene.workspace, "adi@example.org") == ("admin",)
    assert make_first_link(walk.scene.workspace) is None
    walk.client.cookies.clear()
    walk.scene.account("bob")
    assert sign_in(walk.client, "bob", PASSWORD) == 303


def test_a_session_that_somebody_planted_does_not_survive_the_sign_in(walk: Walk) -> None:
    walk.scene.session(walk.client, "tom")
    planted = str(walk.client.cookies.get("gatemark"))
    assert walk.come("zoe").status_code == 303
    fresh = str(walk.client.cookies.get("gatemark", domain="127.0.0.1"))
    people = people_of(walk.scene.workspace)
    assert people.session(planted, walk.scene.clock()) is None
    assert fresh != planted


def test_a_state_works_once_in_the_browser_that_began_and_for_ten_minutes(walk: Walk) -> None:
    back = enter(walk.begin(), "zoe")
    secret = str(walk.client.cookies.get("gatemark-oidc"))
    walk.client.cookies.clear()
    walk.refused(walk.client.get(back), "this browser has no sign-in under way")
    walk.client.cookies.set("gatemark-oidc", secret)
    assert walk.client.get(back).status_code == 303
    walk.client.cookies.clear()
    walk.client.cookies.set("gatemark-oidc", secret)
    walk.refused(walk.client.get(back), "was already used")
    walk.client.cookies.clear()
    back = enter(walk.begin(), "zoe")
    walk.scene.clock.now += timedelta(minutes=TRY_MINUTES)
    walk.refused(walk.client.get(back), "took too long")


def test_the_answer_to_another_browser_is_refused(walk: Walk) -> None:
    theirs = enter(walk.begin(), "mal")
    walk.client.cookies.clear()
    mine = walk.begin()
    walk.refused(walk.client.get(theirs), "does not belong to a sign-in of this browser")
    walk.client.cookies.set("gatemark-oidc", walk.kept)
    assert walk.client.get(enter(mine, "zoe")).status_code == 303


def test_what_the_provider_refuses_and_other_issuers_say_is_refused(walk: Walk) -> None:
    state = parse_qs(urlsplit(walk.begin()).query)["state"][0]
    callback = "/sign-in/oidc/callback"
    answer = {"state": state, "error": "access_denied"}
    walk.refused(walk.client.get(callback, params=answer), "access_denied")
    walk.client.cookies.clear()
    back = enter(walk.begin(), "zoe") + "&iss=https://evil.example"
    walk.refused(walk.client.get(back), "another issuer")
    walk.client.cookies.clear()
    back = enter(walk.begin(), "zoe")
    assert walk.client.get(f"{back}&state=x").status_code == 400


def twist(**changes: Any) -> Any:
    def mint(provider: TinyProvider, claims: dict[str, Any]) -> str:
        plain = {name: one for name, one in (claims | changes).items() if one is not None}
        return signed(provider, plain)

    return mint


def by_hand(header: dict[str, Any], claims: dict[str, Any], key: bytes | None = None) -> str:
    """A token that no library would make."""
    parts = [urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, claims)]
    text = b".".join(parts)
    seal = b"" if key is None else hmac.digest(key, text, "sha256")
    return (text + b"." + urlsafe_b64encode(seal).rstrip(b"=")).decode()


def unsigned(_: TinyProvider, claims: dict[str, Any]) -> str:
    return by_hand({"alg": "none"}, claims)


def by_public_key(provider: TinyProvider, claims: dict[str, Any]) -> str:
    """HS256 with what everybody can read: the public key as the shared secret."""
    header = {"alg": "HS256", "kid": provider.key.kid}
    return by_hand(header, claims, provider.key.as_pem(private=False))


def by_client_secret(provider: TinyProvider, claims: dict[str, Any]) -> str:
    return by_hand({"alg": "HS256", "kid": provider.key.kid}, claims, SECRET.encode())


def by_another_key(provider: TinyProvider, claims: dict[str, Any]) -> str:
    key = RSAKey.generate_key(2048)
    return jwt.encode({"alg": "RS256", "kid": provider.key.kid}, claims, key, algorithms=["RS256"])


def with_a_changed_name(provider: TinyProvider, claims: dict[str, Any]) -> str:
    head, _, seal = signed(provider, claims).split(".")
    body = unsigned(provider, {**claims, "email": "root@example.org"}).split(".")[1]
    return f"{head}.{body}.{seal}"


PAST = Clock().now.timestamp() - 3600
FUTURE = Clock().now.timestamp() + 3600


@pytest.mark.parametrize(
    ("mint", "words"),
    [
        (twist(nonce="of-another-try"), "nonce"),
        (twist(nonce=None), "nonce"),
        (twist(aud="somebody-else"), "aud"),
        (twist(aud=[CLIENT, "somebody-else"]), "azp"),
        (twist(azp="somebody-else"), "azp"),
        (twist(iss="https://evil.example"), "iss"),
        (twist(exp=PAST), "expired"),
        (twist(exp=None), "exp"),
        (twist(iat=FUTURE), "issued in the future"),
        (twist(sub=None), "sub"),
        (twist(sub=""), "names no subject"),
        (twist(at_hash="AAAA"), "at_hash"),
        (twist(email_verified=False), "has not verified your e-mail"),
        (twist(email_verified=None), "has not verified your e-mail"),
        (twist(email_verified="true"), "has not verified your e-mail"),
        (twist(email=None), "sent no email"),
        (twist(email="../../root"), "cannot be a name here"),
        (twist(email="mi\u212ae@example.org"), "cannot be a name here"),
        (twist(groups=["release-approvers", "owners"]), "admin cannot be combined with approver"),
        (unsigned, "none"),
        (by_public_key, "HS256"),
        (by_client_secret, "HS256"),
        (by_another_key, "signature"),
        (with_a_changed_name, "signature"),
        (lambda *_: "not.a.token", "refused"),
    ],
)
def test_a_token_that_is_not_right_in_every_way_is_refused(
    walk: Walk, mint: Any, words: str
) -> None:
    walk.provider.mint = mint
    walk.refused(walk.come("zoe"), words)
    assert read_roles(walk.scene.workspace, "zoe@example.org") == ()


def test_a_name_that_is_somebodys_already_is_never_handed_over(walk: Walk) -> None:
    walk.scene.account("yan@example.org")
    walk.refused(walk.come("yan"), "is already the name of another person")
    walk.come("zoe")
    walk.client.cookies.clear()
    walk.provider.people["zoe"]["sub"] = "another-person-with-the-address"
    walk.refused(walk.come("zoe"), "is already the name of another person")
    walk.client.cookies.clear()
    walk.provider.people["adi"] |= {"email": "bob", "groups": []}
    walk.refused(walk.come("adi"), "is already the name of another person")


def test_a_closed_account_stays_closed_for_the_provider_too(walk: Walk) -> None:
    walk.come("zoe")
    headers = walk.scene.session(walk.client, "root")
    closed = walk.client.delete("/api/v1/people/zoe@example.org", headers=headers)
    assert closed.status_code == 200
    walk.client.cookies.clear()
    walk.refused(walk.come("zoe"), "is closed")


def test_no_roles_are_granted_in_the_name_of_somebody_who_is_no_admin(
    tmp_path: Path, walk: Walk
) -> None:
    text = Path(tmp_path, "oidc.yaml").read_text().replace("granted_by: root", "granted_by: tom")
    path = tmp_path / "other.yaml"
    with provided(walk.scene.clock, free_port()) as provider:
        path.write_text(text.replace(walk.provider.issuer, provider.issuer))
        scene = Scene.__new__(Scene)
        scene.clock, scene.store, scene.workspace = (
            walk.scene.clock,
            walk.scene.store,
            walk.scene.workspace,
        )
        other = new_scene(tmp_path / "x", port=free_port(), oidc=str(path))
        scene.settings, scene.port = other.settings, other.port
        with scene.running() as client:
            again = Walk(scene, provider, client)
            again.refused(again.come("zoe"), "cannot get the roles of the mapping")


def test_a_new_key_of_the_provider_is_found_and_asked_for_no_more_than_needed(walk: Walk) -> None:
    walk.come("zoe")
    walk.come("zoe")
    assert walk.provider.asked == ["document", "keys"]
    walk.provider.turn_key()
    walk.scene.clock.now += timedelta(minutes=1)
    assert walk.come("zoe").status_code == 303
    assert walk.provider.asked == ["document", "keys", "keys"]


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ({"issuer": "https://evil.example"}, "another issuer"),
        ({"token_endpoint": "http://login.example/token"}, "must be https"),
        ({"jwks_uri": "file:///etc/passwd"}, "must be https"),
        ({"authorization_endpoint": 7}, "cannot be used"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"padding": "x" * 300_000}, "exceeds"),
    ],
)
def test_a_provider_whose_document_is_wrong_is_not_used(
    walk: Walk, says: dict[str, Any], words: str
) -> None:
    walk.provider.says = says
    told = walk.client.get("/sign-in/oidc")
    assert (told.status_code, words in told.text) == (502, True), told.text


def test_a_provider_that_is_gone_is_not_asked_by_everybody(walk: Walk) -> None:
    walk.provider.says = {"issuer": "https://evil.example"}
    assert [walk.client.get("/sign-in/oidc").status_code for _ in range(3)] == [502] * 3
    assert walk.provider.asked == ["document"]
    walk.provider.says = {}
    walk.scene.clock.now += timedelta(minutes=1)
    assert walk.come("zoe").status_code == 303


def test_a_provider_without_usable_keys_lets_nobody_in(walk: Walk) -> None:
    walk.provider.published = [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}, {"kty": "RSA"}]
    told = walk.come("zoe")
    assert (told.status_code, "publishes no usable signing key" in told.text) == (502, True)
    walk.provider.says = {"id_token_signing_alg_values_supported": ["HS256", "none"]}
    walk.scene.clock.now += timedelta(hours=2)
    told = walk.come("zoe")
    assert (told.status_code, "no signature algorithm that Gatemark" in told.text) == (502, True)


def test_tries_are_limited_and_a_server_without_provider_has_no_such_door(
    tmp_path: Path, scene: Scene, client: httpx2.Client
) -> None:
    assert client.get("/sign-in/oidc").status_code == 404
    assert client.get("/sign-in/oidc/callback").status_code == 404
    assert "Sign in with" not in client.get("/sign-in").text
    clock = Clock()
    with provided(clock, free_port()) as provider:
        path = settings_file(tmp_path, provider.issuer)
        few = new_scene(tmp_path / "few", clock=clock, oidc=path, sign_ins=2)
        with few.running() as limited:
            codes = [limited.get("/sign-in/oidc").status_code for _ in range(3)]
            backs = [limited.get("/sign-in/oidc/callback").status_code for _ in range(3)]
        few.workspace.store.close()
    assert codes == [303, 303, 429]
    assert backs == [403, 403, 429]


def test_people_from_a_provider_live_in_postgresql_too(tmp_path: Path, postgres_url: str) -> None:
    clock = Clock()
    with provided(clock, free_port()) as provider:
        path = settings_file(tmp_path, provider.issuer)
        scene = Scene(postgres_url, clock, port=free_port(), oidc=path)
        with scene.running() as client:
            assert Walk(scene, provider, client).come("zoe").status_code == 303
            assert client.get("/").status_code == 200
        assert identities_of(Workspace(store=postgres_url)).people() == {"zoe@example.org"}
        scene.workspace.store.close()
