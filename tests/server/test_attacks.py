from __future__ import annotations

import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from httpx2 import Client
from tests.server.scene import ASSET, Scene, new_scene

from gatemark.core.canonical import digest
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.server.accounts.nouns import derive_form_token

HOSTILE = '"><script>alert(1)</script><a href="javascript:alert(2)">x</a>'


def ballot(scene: Scene, version: str, stage: str = "enabled", **more: object) -> dict[str, object]:
    state = read_state(scene.workspace, ASSET)
    return {
        "stage": stage,
        "decision": "approve",
        "candidate_digest": digest(version),
        "policy_digest": state.governance.policy_digest,
        "note": "looked at every failing case",
        **more,
    }


def tag(client: Client) -> dict[str, str]:
    return {"If-Match": client.get(f"/api/v1/assets/{ASSET}").headers["etag"]}


@pytest.mark.parametrize("mark", [None, "", "0" * 64])
def test_a_change_without_the_mark_of_the_session_is_refused(
    scene: Scene, client: Client, mark: str | None
) -> None:
    scene.enable("1.0.0")
    scene.session(client, "olu")
    body = {"note": "gone"}
    headers = {} if mark is None else {"X-CSRF-Token": mark}
    address = f"/api/v1/assets/{ASSET}/demotion"
    assert client.post(address, json=body, headers=headers).status_code == 403
    fields = {"note": "gone"} | ({} if mark is None else {"form_mark": mark})
    assert client.post(f"/assets/{ASSET}/demote", data=fields).status_code == 403
    assert read_state(scene.workspace, ASSET).asset.place("production").enabled == "1.0.0"


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}]
)
def test_a_change_from_another_site_is_refused_even_with_the_mark(
    scene: Scene, client: Client, headers: dict[str, str]
) -> None:
    scene.enable("1.0.0")
    mark = scene.session(client, "olu")
    address = f"/api/v1/assets/{ASSET}/demotion"
    body = {"note": "gone", "stop": True}
    sent = client.post(address, json=body, headers={**mark, **headers})
    assert sent.status_code == 403
    assert client.post(address, json=body, headers=mark).status_code == 200


def test_a_stranger_cannot_make_somebody_sign_in_as_them(scene: Scene, client: Client) -> None:
    scene.account("bob")
    fields = {
        "name": "bob",
        "password": "correct horse battery",
        "form_mark": derive_form_token(""),
    }
    assert client.post("/sign-in", data=fields).status_code == 403


def test_no_record_field_becomes_markup(scene: Scene, client: Client) -> None:
    scene.enable("1.0.0")
    sealed = scene.seal("2.0.0", title=HOSTILE, baseline=digest("1.0.0"))
    scene.to_shadow("2.0.0", is_scope_change=True, note=HOSTILE)
    headers = scene.session(client, "bob") | tag(client)
    vote = ballot(scene, "2.0.0", "canary", note=HOSTILE, result_ids=[sealed])
    address = f"/api/v1/assets/{ASSET}/versions/2.0.0/votes"
    assert client.post(address, json=vote, headers=headers).status_code == 200
    pages = ["/", "/results", "/ledger", "/compare", f"/results/{sealed}", "/approvals"]
    pages += [f"/assets/{ASSET}", f"/approvals/{ASSET}/2.0.0", f"/assets/{ASSET}/history"]
    pages += [f"/compare?before={sealed}&after={sealed}", f"/assets/{ASSET}/versions/2.0.0"]
    pages += [f"/ledger?kind={HOSTILE}", "/sign-in?to=javascript:alert(1)"]
    seen = 0
    for address in pages:
        shown = client.get(address)
        assert "<script>alert" not in shown.text, address
        assert 'href="javascript:' not in shown.text, address
        seen += "&lt;script&gt;alert" in shown.text
    assert seen >= 6


def test_after_signing_in_nobody_is_sent_to_another_site(scene: Scene, client: Client) -> None:
    scene.account("bob")
    for there in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:x"):
        client.cookies.clear()
        client.get("/sign-in")
        mark = derive_form_token(str(client.cookies.get("gatemark-form")))
        fields = {"name": "bob", "password": "correct horse battery", "to": there}
        done = client.post("/sign-in", data={**fields, "form_mark": mark})
        assert done.headers["location"] == "/"


def test_only_files_that_a_result_keeps_can_be_had_by_it(scene: Scene, client: Client) -> None:
    sealed = scene.seal("1.0.0")
    other = scene.workspace.blobs.put(b"somebody else's evidence")
    scene.session(client, "tom")
    tries = [
        other,
        "..%2f..%2fgatemark.sqlite3",
        "sha256:..%2f..%2fx",
        "%2e%2e",
        "sha256:" + "0" * 64,
    ]
    for name in tries:
        for place in ("/api/v1/results", "/results"):
            found = client.get(f"{place}/{sealed}/files/{name}")
            assert found.status_code in (404, 422), (place, name)


def test_nothing_but_the_files_of_the_page_is_kept_by_browsers(
    scene: Scene, client: Client
) -> None:
    style = re.findall(r'"(/static/[^"]+)"', client.get("/sign-in").text)[0]
    assert "immutable" in client.get(style).headers["cache-control"]
    headers = scene.session(client, "root")
    made = client.post("/api/v1/people", json={"name": "new", "roles": []}, headers=headers)
    assert made.status_code in (200, 201)
    answers = [made, client.post("/api/v1/nowhere", headers=headers)]
    answers += [client.get(path) for path in ("/", "/people", "/tokens", "/join/x", "/ledger")]
    answers += [client.get(path) for path in ("/api/v1/ledger", "/nowhere", "/static/nowhere")]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}


@pytest.mark.parametrize(
    "name", ["..%2fapp.py", "..%2f..%2flogs.py", "%2fetc%2fpasswd", "__init__.py"]
)
def test_no_other_file_can_be_had_as_one_of_the_page(client: Client, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_pages_run_no_inline_scripts_and_load_nothing_from_elsewhere(client: Client) -> None:
    policy = client.get("/sign-in").headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["form-action"] == "'self'"
    assert rules["base-uri"] == rules["frame-ancestors"] == "'none'"


def test_a_body_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    scene = new_scene(tmp_path, max_body_bytes=1000)
    with scene.running() as client:
        headers = scene.session(client, "root")
        large = {"name": "x" * 5000, "roles": []}
        told = client.post("/api/v1/people", json=large, headers=headers)
        pieces = (b"x" * 500 for _ in range(10))
        kind = {"Content-Type": "application/json"}
        streamed = client.post("/api/v1/people", content=pieces, headers=headers | kind)
    assert [told.status_code, streamed.status_code] == [413, 413]
    assert told.headers["content-type"] == "application/problem+json"
    scene.workspace.store.close()


def test_slow_senders_are_let_go(tmp_path: Path) -> None:
    scene = new_scene(tmp_path, head_seconds=0.3, body_seconds=0.3)
    with scene.running() as client:
        where = (client.base_url.host, client.base_url.port or 0)
        with socket.create_connection(where, timeout=10) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: loc")
            assert slow.recv(100) == b""
        with socket.create_connection(where, timeout=10) as slow:
            head = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n"
            slow.sendall(head + b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert client.get("/sign-in").status_code == 200
    scene.workspace.store.close()


def test_a_name_that_is_not_ours_is_not_answered_to(scene: Scene, client: Client) -> None:
    answer = client.get("/sign-in", headers={"Host": "rebound.example"})
    assert answer.status_code == 421


def test_an_author_cannot_approve_their_own_version(scene: Scene, client: Client) -> None:
    scene.to_shadow("1.0.0")
    headers = scene.session(client, "ann") | tag(client)
    address = f"/api/v1/assets/{ASSET}/versions/1.0.0/votes"
    refused = client.post(address, json=ballot(scene, "1.0.0"), headers=headers)
    assert (refused.status_code, "author" in refused.text) == (403, True)
    headers = scene.session(client, "bob") | tag(client)
    silent = client.post(address, json=ballot(scene, "1.0.0", note="  "), headers=headers)
    assert (silent.status_code, "needs a note" in silent.text) == (409, True)
    assert client.post(address, json=ballot(scene, "1.0.0"), headers=headers).status_code == 200


def test_a_vote_on_something_else_than_what_stands_is_refused(scene: Scene, client: Client) -> None:
    scene.to_shadow("1.0.0")
    headers = scene.session(client, "bob") | tag(client)
    address = f"/api/v1/assets/{ASSET}/versions/1.0.0/votes"
    other = ballot(scene, "1.0.0", candidate_digest=digest("9.9.9"))
    assert client.post(address, json=other, headers=headers).status_code == 409
    gone = ballot(scene, "1.0.0", result_ids=["0" * 64])
    assert client.post(address, json=gone, headers=headers).status_code == 409


def test_no_token_approves(scene: Scene, client: Client) -> None:
    scene.to_shadow("1.0.0")
    headers = scene.session(client, "bob")
    wish = {"label": "bot", "scopes": ["read", "run", "act"], "days": 1}
    secret = client.post("/api/v1/tokens", json=wish, headers=headers).json()["secret"]
    match = tag(client)
    client.cookies.clear()
    address = f"/api/v1/assets/{ASSET}/versions/1.0.0/votes"
    bearer = {"Authorization": f"Bearer {secret}"} | match
    refused = client.post(address, json=ballot(scene, "1.0.0"), headers=bearer)
    assert (refused.status_code, "in person" in refused.text) == (403, True)


def test_of_two_approvers_at_once_one_looks_again(scene: Scene, client: Client) -> None:
    scene.to_shadow("1.0.0")
    address = f"/api/v1/assets/{ASSET}/versions/1.0.0/votes"
    people = []
    for name in ("bob", "cat"):
        headers = scene.session(client, name) | tag(client)
        people.append((headers, {"gatemark": str(client.cookies.get("gatemark"))}))
    client.cookies.clear()
    vote, gate = ballot(scene, "1.0.0"), threading.Barrier(2)

    def send(one: tuple[dict[str, str], dict[str, str]]) -> int:
        headers, cookies = one
        with Client(base_url=client.base_url, cookies=cookies, timeout=30, verify=False) as own:
            gate.wait()
            return own.post(address, json=vote, headers=headers).status_code

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(send, people)) == [200, 412]
    assert len(read_state(scene.workspace, ASSET).asset.approvals) == 1


def test_nobody_reads_by_guessing_without_a_role(scene: Scene, client: Client) -> None:
    sealed = scene.enable("1.0.0")
    scene.session(client, "zoe")
    for address in ("overview", "results", f"results/{sealed}", "ledger/events", "runs", "people"):
        assert client.get(f"/api/v1/{address}").status_code == 403, address
    client.cookies.clear()
    for address in ("overview", "results", f"results/{sealed}", "ledger/events", "runs", "people"):
        assert client.get(f"/api/v1/{address}").status_code == 401, address


def test_too_many_requests_have_to_wait(tmp_path: Path) -> None:
    scene = new_scene(tmp_path, visits_per_person=3)
    with scene.running() as client:
        scene.session(client, "tom")
        codes = [client.get("/api/v1/session") for _ in range(4)]
    assert [one.status_code for one in codes] == [200, 200, 200, 429]
    assert int(codes[-1].headers["retry-after"]) >= 1
    scene.workspace.store.close()
