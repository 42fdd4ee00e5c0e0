from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from httpx2 import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import booleans
from schemathesis.checks import not_a_server_error
from tests.server.scene import ASSET, Scene, new_scene

import gatemark.packs.starter
from gatemark.core.canonical import digest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.server.accounts.open_stores import answers_of, page_runs_of, people_of
from gatemark.server.accounts.stores.people import SqlPeople
from gatemark.workspace import Workspace

ADDRESS = f"/api/v1/assets/{ASSET}"


def test_a_move_needs_the_lock_and_an_old_one_changes_nothing(scene: Scene, client: Client) -> None:
    scene.add("1.0.0")
    headers = scene.session(client, "ann")
    found = client.get(ADDRESS)
    body, move = {"to": "evaluating"}, f"{ADDRESS}/versions/1.0.0/promotion"
    assert client.post(move, json=body, headers=headers).status_code == 428
    old = {"If-Match": '"1.1"'}
    failed = client.post(move, json=body, headers=headers | old)
    assert (failed.status_code, failed.headers["etag"]) == (412, found.headers["etag"])
    match = {"If-Match": found.headers["etag"]}
    done = client.post(move, json=body, headers=headers | match)
    assert (done.status_code, done.json()["changed"]) == (200, True)
    assert done.headers["etag"] != found.headers["etag"]
    assert client.post(move, json=body, headers=headers | match).status_code == 412
    unchanged = {"If-None-Match": done.headers["etag"]}
    assert client.get(ADDRESS, headers=unchanged).status_code == 304


def test_taking_back_needs_no_lock(scene: Scene, client: Client) -> None:
    scene.enable("1.0.0")
    headers = scene.session(client, "olu")
    body: dict[str, object] = {"note": "complaints since noon"}
    refused = client.post(f"{ADDRESS}/demotion", json=body, headers=headers)
    assert (refused.status_code, "no earlier version" in refused.text) == (409, True)
    assert client.get(f"{ADDRESS}/route").json()["primary"]["version"] == "1.0.0"
    body["stop"] = True
    assert client.post(f"{ADDRESS}/demotion", json=body, headers=headers).status_code == 200
    assert client.get(f"{ADDRESS}/route").json()["primary"] is None
    again = client.post(f"{ADDRESS}/demotion", json=body, headers=headers)
    assert again.status_code == 409 or again.json()["changed"] is False


def test_a_shadow_is_measured_beside_what_is_live(scene: Scene, client: Client) -> None:
    scene.enable("1.0.0")
    scene.to_shadow("2.0.0")
    headers = scene.session(client, "olu")
    since = read_state(scene.workspace, ASSET).asset.track("production", "2.0.0").since
    assert since is not None
    span = {
        "start": f"{since:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{since + timedelta(days=400):%Y-%m-%dT%H:%M:%SZ}",
        "n": 100,
        "agreed": 95,
        "errors": {"candidate": 1, "live": 1},
    }
    address = f"{ADDRESS}/versions/2.0.0/shadow"
    refused = client.post(address, json={"spans": [span]}, headers=headers)
    assert (refused.status_code, "must lie between" in refused.text) == (409, True)
    wrong = client.post(address, json={"spans": [{**span, "agreed": "all"}]}, headers=headers)
    assert (wrong.status_code, "agreed" in wrong.text) == (422, True)


def test_the_same_key_gives_the_same_answer_and_acts_once(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "ann") | {"Idempotency-Key": "k-1"}
    body = {"kind": "prompt", "digest": digest("x"), "note": "first"}
    first = client.post(f"{ADDRESS}/versions/1.0.0", json=body, headers=headers)
    second = client.post(f"{ADDRESS}/versions/1.0.0", json=body, headers=headers)
    assert (first.status_code, first.json()) == (200, second.json())
    assert second.headers["idempotency-replayed"] == "true"
    assert first.json()["changed"] is True
    other = client.post(f"{ADDRESS}/versions/1.0.1", json=body, headers=headers)
    assert other.status_code == 422
    headers = scene.session(client, "root") | {"Idempotency-Key": "k-1"}
    person = {"name": "new", "roles": []}
    added = client.post("/api/v1/people", json=person, headers=headers)
    again = client.post("/api/v1/people", json=person, headers=headers)
    assert added.json()["link"]
    assert (again.status_code, again.json()["link"]) == (201, None)


def test_a_key_whose_server_died_works_again_after_a_minute(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "ann") | {"Idempotency-Key": "k-3"}
    headers["Content-Type"] = "application/json"
    address = f"{ADDRESS}/versions/1.0.0"
    body = json.dumps({"kind": "prompt", "digest": digest("x")}).encode()
    name = digest({"path": address, "body": body.hex()})
    # A server that is killed after it claimed the key leaves this behind.
    answers = answers_of(scene.workspace)
    assert answers.begin("ann", "k-3", name, scene.clock()) is None

    def post() -> Any:
        return client.post(address, content=body, headers=headers)

    running = post()
    assert (running.status_code, running.headers["retry-after"]) == (409, "60")
    scene.clock.now += timedelta(seconds=50)
    # A server that lives says so, however long a request takes.
    answers.touch("ann", "k-3", scene.clock())
    scene.clock.now += timedelta(seconds=50)
    assert post().status_code == 409
    scene.clock.now += timedelta(seconds=11)
    first, second = post(), post()
    assert (first.status_code, first.json()) == (200, second.json())
    assert second.headers["idempotency-replayed"] == "true"


def test_a_refused_request_may_come_again_with_its_key(scene: Scene, client: Client) -> None:
    headers = scene.session(client, "bob") | {"Idempotency-Key": "k-2"}
    body = {"kind": "prompt", "digest": digest("x")}
    assert client.post(f"{ADDRESS}/versions/1.0.0", json=body, headers=headers).status_code == 403
    scene.session(client, "ann")
    mine = scene.session(client, "ann") | {"Idempotency-Key": "k-2"}
    assert client.post(f"{ADDRESS}/versions/1.0.0", json=body, headers=mine).status_code == 200


def test_events_and_results_come_page_by_page_without_gaps(scene: Scene, client: Client) -> None:
    sealed = [scene.seal(str(number)) for number in range(5)]
    scene.session(client, "tom")
    for address, name, count in (("ledger/events", "seq", None), ("results", "id", 5)):
        seen, cursor = [], ""
        while cursor is not None:
            page = client.get(f"/api/v1/{address}?limit=2{cursor and f'&before={cursor}'}").json()
            seen += [one[name] for one in page["items"]]
            cursor = page["next"]
        if count:
            assert seen == sealed[::-1]
        else:
            assert seen == list(range(scene.workspace.events.head().seq, 0, -1))
    some = client.get(f"/api/v1/ledger/events?subject={ASSET}&limit=3").json()
    assert [one["subject"] for one in some["items"]] == [ASSET] * 3
    assert client.get("/api/v1/ledger/events?subject=nobody").json() == {"items": [], "next": None}


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("PATCH", "/api/v1/session", 405),
        ("GET", "/api/v1/results?limit=x", 422),
        ("GET", "/api/v1/results/nothex", 422),
        ("GET", f"/api/v1/results/{'0' * 64}", 404),
        ("GET", "/api/v1/assets/nobody", 404),
        ("POST", "/api/v1/session", 422),
    ],
)
def test_every_error_is_a_problem_document(
    scene: Scene, client: Client, method: str, address: str, status: int
) -> None:
    scene.seal("1.0.0")
    scene.session(client, "tom")
    told = client.request(method, address)
    assert told.status_code == status
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json()["status"] == status
    assert told.json()["detail"]


def test_a_result_is_checked_again_and_a_changed_file_is_found(
    scene: Scene, client: Client
) -> None:
    sealed = scene.seal("1.0.0")
    headers = scene.session(client, "tom")
    checked = client.post(f"/api/v1/results/{sealed}/verification", headers=headers).json()
    assert checked["verdict"] == "pass"
    whole = client.post("/api/v1/ledger/verification", headers=headers).json()
    assert whole["issues"] == []
    assert whole["events"] == scene.workspace.events.head().seq


def test_two_results_side_by_side_tell_what_got_worse(scene: Scene, client: Client) -> None:
    before, after = scene.seal("1.0.0"), scene.seal("2.0.0", verdict="fail")
    scene.session(client, "tom")
    told = client.get(f"/api/v1/comparison?before={before}&after={after}").json()
    assert [one["is_worse"] for one in told["findings"]] == [True]
    back = client.get(f"/api/v1/comparison?before={after}&after={before}").json()
    assert [one["is_worse"] for one in back["findings"]] == [False]


def test_the_route_and_the_canary_are_told(scene: Scene, client: Client) -> None:
    scene.enable("1.0.0")
    scene.clock.now += timedelta(hours=25)
    scene.canary("1.1.0", "1.0.0")
    scene.session(client, "tom")
    canary = client.get(f"{ADDRESS}/canary").json()
    assert (canary["stage"], canary["share"]) == ("canary_1", 0.01)
    route = client.get(f"{ADDRESS}/route").json()
    assert (route["primary"]["version"], route["canary"]["share"]) == ("1.0.0", 0.01)
    steps = client.get("/api/v1/overview").json()["rows"][0]["stages"]
    assert steps == {"enabled": ["1.0.0"], "canary": ["1.1.0"]}


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    folder = tmp_path / "packs"
    shutil.copytree(Path(gatemark.packs.starter.__file__).parent, folder)
    return folder


def events_of(client: Client, run: str, after: int = 0) -> list[tuple[int, str, Any]]:
    """What a run tells until it has ended."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    found = []
    with client.stream("GET", f"/api/v1/runs/{run}/steps", headers=headers) as stream:
        number, kind = 0, ""
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                number = int(value)
            elif name == "event":
                kind = value
            elif name == "data":
                found.append((number, kind, json.loads(value)))
    return found


def test_a_matrix_points_to_the_command(tmp_path: Path, packs: Path) -> None:
    pack = packs / "pack.yaml"
    pack.write_text(pack.read_text() + "matrix: {try: {first: {}, second: {}}}\n")
    scene = new_scene(tmp_path, packs=(str(packs),))
    with scene.running() as client:
        headers = scene.session(client, "eve")
        body = {"pack": "pack.yaml"}
        run = client.post("/api/v1/runs", json=body, headers=headers).json()["id"]
        end = events_of(client, run)[-1][2]
    assert end["state"] == "failed"
    assert f"gatemark run {pack}" in end["detail"]
    assert "--cell first" in end["detail"]


def test_a_run_is_told_to_its_end_and_can_be_heard_from_any_point(
    tmp_path: Path, packs: Path
) -> None:
    scene = new_scene(tmp_path, packs=(str(packs),))
    with scene.running() as client:
        headers = scene.session(client, "eve")
        assert client.get("/api/v1/packs").json() == ["pack.yaml"]
        for bad in ("../secret.yaml", "/etc/passwd", "ci-snippet.yaml"):
            refused = client.post("/api/v1/runs", json={"pack": bad}, headers=headers)
            assert refused.status_code == 404
        body = {"pack": "pack.yaml"}
        run = client.post("/api/v1/runs", json=body, headers=headers).json()["id"]
        told = events_of(client, run)
        assert [number for number, _, _ in told] == list(range(1, len(told) + 1))
        assert told[-1][1] == "state"
        assert told[-1][2]["verdict"] == "pass", told[-1]
        assert events_of(client, run, after=2) == told[2:]
        found = client.get(f"/api/v1/runs/{run}").json()
        assert (found["state"], found["person"]) == ("done", "eve")
        assert client.get(f"/api/v1/results/{found['result_id']}").json()["actor"] == "eve"
        headers = scene.session(client, "tom")
        assert client.post("/api/v1/runs", json=body, headers=headers).status_code == 403
    scene.workspace.store.close()


def test_a_run_whose_server_is_gone_is_interrupted_and_goes_on(tmp_path: Path, packs: Path) -> None:
    scene = new_scene(tmp_path, packs=(str(packs),))
    from gatemark.server.accounts.nouns import PageRun

    now = scene.clock()
    lost = PageRun("ab" * 8, "pack.yaml", "eve", "running", None, None, "", now, now, None)
    page_runs_of(scene.workspace).add(lost)
    scene.clock.now += timedelta(minutes=5)
    with scene.running() as client:
        headers = scene.session(client, "eve")
        assert client.get(f"/api/v1/runs/{lost.id}").json()["state"] == "interrupted"
        assert events_of(client, lost.id)[-1][2]["state"] == "interrupted"
        address = f"/api/v1/runs/{lost.id}/resumption"
        assert client.post(address, headers=headers).status_code == 202
        assert events_of(client, lost.id)[-1][2]["state"] == "done"
        assert client.post(address, headers=headers).status_code == 409
    scene.workspace.store.close()


def test_accounts_live_in_postgresql_too(postgres_url: str) -> None:
    scene = Scene(postgres_url)
    with scene.running() as client:
        headers = scene.session(client, "root") | {"Idempotency-Key": "one"}
        body = {"name": "new", "roles": ["viewer"]}
        assert client.post("/api/v1/people", json=body, headers=headers).status_code == 201
        assert client.post("/api/v1/people", json=body, headers=headers).status_code == 201
        scene.enable("1.0.0")
        scene.session(client, "tom")
        assert client.get(f"/assets/{ASSET}").status_code == 200
    assert isinstance(people_of(Workspace(store=postgres_url)), SqlPeople)
    assert read_state(scene.workspace, ASSET).asset.place("production").enabled == "1.0.0"
    scene.workspace.store.close()


EVERYTHING: tuple[Any, ...] = (
    *("author", "evaluator", "pack_owner", "approver", "security_approver", "operator", "auditor"),
)


@pytest.mark.slow
def test_whatever_the_document_allows_no_answer_is_an_error_of_the_server(tmp_path: Path) -> None:
    scene = new_scene(tmp_path)
    scene.enable("1.0.0")
    act(scene.workspace, GrantRoles(actor="root", person="max", roles=EVERYTHING))
    with scene.running() as client:
        scene.session(client, "max")
        document = client.get("/api/v1/openapi.json").json()
        # Else every other request would come with a token that somebody made up.
        del document["security"]
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=str(client.base_url))
        answered: Counter[int] = Counter()
        known = {"asset": ASSET, "version": "1.0.0", "name": "max"}
        signed: dict[str, str] = {}
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path.endswith("/steps") and "runs" in operation.path:
                continue
            # Only an admin comes as far as the policy itself; one operation signs out.
            mark = scene.session(client, "root" if operation.path.endswith("/policy") else "max")
            signed.update(mark, Cookie=f"gatemark={client.cookies.get('gatemark')}")

            @settings(
                max_examples=4,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(), is_known=booleans())
            def holds(case: Any, is_known: bool) -> None:
                headers = dict(signed)
                if is_known:
                    case.path_parameters = {
                        name: known.get(name, value)
                        for name, value in (case.path_parameters or {}).items()
                    }
                    place = "policy" if case.path.endswith("/policy") else f"assets/{ASSET}"
                    headers["If-Match"] = client.get(f"/api/v1/{place}").headers.get("etag", "*")
                answer = case.call_and_validate(headers=headers, checks=[not_a_server_error])
                answered[answer.status_code] += 1

            holds()
            tried += 1
        assert tried >= 46
        # Were most of it refused at the door, nothing behind it would have been tried.
        assert answered[401] < 0.2 * answered.total(), answered
    scene.workspace.store.close()
