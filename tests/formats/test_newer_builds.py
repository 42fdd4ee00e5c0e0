"""What a newer build wrote is not broken: this build cannot judge it, and says so."""

from __future__ import annotations

import getpass
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.ledger.governed import ASSET
from tests.ledger.honest import Clock, Honest, write_history
from tests.ledger.tamper import Tamperer, tampering

from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.errors import OtherRulesError
from gatemark.core.result import read_result
from gatemark.ledger.event_kinds import LIFECYCLE_RULES
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.workspace import Workspace

Run = Callable[..., Any]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a whole history."""
    place = tmp_path_factory.mktemp("original")
    clock = Clock()
    workspace = Workspace(store=str(place), actor="root", clock=clock)
    write_history(workspace, clock)
    workspace.store.close()
    return place


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "store"
    shutil.copytree(original, copy)
    return copy


@pytest.fixture
def check(gatemark: Run, store: Path) -> Callable[[], tuple[int, str]]:
    """Verify the store; gives the exit code and all that was told."""

    def run() -> tuple[int, str]:
        ran = gatemark("ledger", "verify", "--store", store, "--json")
        report = ran.json
        told = [trouble["message"] for trouble in report["issues"]]
        return ran.code, "\n".join([*told, *report["unjudged"], *report["caveats"]])

    return run


def numbers_of(who: Tamperer, kind: str) -> list[int]:
    found = who.connection.execute("SELECT seq FROM events WHERE kind = ? ORDER BY seq", (kind,))
    return [seq for (seq,) in found]


def payload_of(who: Tamperer, seq: int) -> dict[str, Any]:
    found = who.connection.execute("SELECT data FROM payloads WHERE seq = ?", (seq,))
    payload: dict[str, Any] = msgspec.json.decode(found.fetchone()[0])["payload"]
    return payload


def rewrite(store: Path, kind: str, which: int, change: Change) -> int:
    """Write an event otherwise and make chain and tree fit, as another build would have."""
    with tampering(store) as who:
        seq = numbers_of(who, kind)[which]
        payload = payload_of(who, seq)
        change(payload)
        who.say(seq, payload)
        who.rechain(seq)
        who.rebuild_tree()
    return seq


def test_every_payload_names_its_format(store: Path) -> None:
    workspace = Workspace(store=str(store))
    told = [
        (event.kind, (payload or {}).get("format"))
        for event, payload in workspace.existing_store().events.events()
        if event.kind != "noted"
    ]
    assert told
    assert {name for _, name in told} == {f"gatemark.event.{kind}/1" for kind, _ in told}


def test_the_store_starts_with_its_default_policy(store: Path) -> None:
    workspace = Workspace(store=str(store))
    events = list(workspace.existing_store().events.events())
    first, payload = events[0]
    assert (first.kind, first.actor) == ("policy_changed", "system")
    assert payload is not None
    assert digest_bytes(canonical_bytes(payload["policy"])) == payload["policy_digest"]


def test_every_decision_names_its_policy_and_rules(store: Path) -> None:
    workspace = Workspace(store=str(store))
    in_force = None
    for event, payload in workspace.existing_store().events.events():
        if event.kind in ("result_sealed", "noted"):
            continue
        assert payload is not None
        in_force = in_force or payload["policy_digest"]
        channel = {"way": "command_line", "authentication": f"os_user {getpass.getuser()}"}
        expected = {"policy_digest": in_force, "rules": LIFECYCLE_RULES.current, "channel": channel}
        assert payload["decided_by"] == expected
        if event.kind == "policy_changed":
            in_force = payload["policy_digest"]


@pytest.mark.parametrize("kind", ["roles_granted", "policy_changed", "transition", "approval"])
def test_a_newer_payload_cannot_be_judged(
    check: Callable[[], tuple[int, str]], store: Path, kind: str
) -> None:
    name = f"gatemark.event.{kind}/7"
    seq = rewrite(store, kind, 0, lambda payload: payload.update(format=name))
    code, told = check()
    assert code == 3
    assert f"event {seq} has format {name}" in told


def test_a_newer_result_event_cannot_be_judged(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    name = "gatemark.event.result_sealed/2"
    rewrite(store, "result_sealed", 1, lambda payload: payload.update(format=name))
    code, told = check()
    assert code == 3
    assert name in told


def test_an_unknown_kind_of_ours_cannot_be_judged(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    name = "gatemark.event.noted/1"
    rewrite(store, "noted", 0, lambda payload: payload.update(format=name))
    code, told = check()
    assert code == 3
    assert name in told


@pytest.mark.parametrize("name", ["gatemark.event.approval/1", "nonsense", 7, ["x"], {}])
def test_a_format_that_no_build_writes_is_a_finding(
    check: Callable[[], tuple[int, str]], store: Path, name: Any
) -> None:
    rewrite(store, "transition", 0, lambda payload: payload.update(format=name))
    code, told = check()
    assert code == 4
    assert "is not a format of transition" in told


def test_a_decision_by_newer_rules_is_not_judged(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    newer = LIFECYCLE_RULES.current + 1
    # The last act has two moves.
    for which in (-2, -1):
        rewrite(
            store, "transition", which, lambda payload: payload["decided_by"].update(rules=newer)
        )
    code, told = check()
    assert code == 3
    assert f"recorded under lifecycle rules {newer}, not decided again" in told


def test_no_act_is_added_under_newer_rules(store: Path) -> None:
    newer = LIFECYCLE_RULES.current + 1
    rewrite(store, "roles_granted", -1, lambda payload: payload["decided_by"].update(rules=newer))
    workspace = Workspace(store=str(store), actor="root")
    before = workspace.existing_store().events.head()
    with pytest.raises(OtherRulesError, match=f"recorded under lifecycle rules {newer}"):
        act(workspace, GrantRoles(actor="root", person="zoe", roles=("viewer",)))
    assert workspace.events.head() == before


@pytest.mark.parametrize("kind", ["approval", "roles_granted", "policy_changed"])
def test_a_newer_payload_blocks_nothing_that_takes_away(
    gatemark: Run, store: Path, kind: str
) -> None:
    which = 0 if kind == "roles_granted" else -1
    newer = f"gatemark.event.{kind}/7"
    seq = rewrite(store, kind, which, lambda said: said.update(format=newer))
    found = gatemark("route", ASSET, "--store", store, "--json")
    assert (found.code, found.json["primary"] is not None) == (3, True)
    assert f"event {seq}: has format" in found.json["undecided"][0]
    words = ("demote", ASSET, "--stop", "--reason", "x", "--actor", "olga", "--store", store)
    done = gatemark(*words)
    assert (done.code, f"NOT DECIDED: event {seq}" in done.err) == (0, True), done.err
    add = ("asset", "add", f"{ASSET}@7", "--digest", digest_bytes(b"7"), "--actor", "alice")
    assert gatemark(*add, "--store", store).code == 3


def test_a_decision_that_names_another_policy_is_a_finding(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    other = digest_bytes(b"another")
    rewrite(
        store, "transition", 3, lambda payload: payload["decided_by"].update(policy_digest=other)
    )
    code, told = check()
    assert code == 4
    assert f"names policy {other}" in told


def test_a_decision_that_does_not_say_what_decided_it_is_a_finding(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    rewrite(store, "transition", 3, lambda payload: payload.pop("decided_by"))
    code, told = check()
    assert code == 4
    assert "does not say which policy and rules decided it" in told


@pytest.mark.parametrize("rules", [0, -1, "1", None, 1.5])
def test_rules_that_never_were_are_a_finding(
    check: Callable[[], tuple[int, str]], store: Path, rules: Any
) -> None:
    rewrite(store, "transition", 3, lambda payload: payload["decided_by"].update(rules=rules))
    assert check()[0] == 4


def test_a_lax_policy_cannot_pass_for_a_default(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    def loosen(payload: dict[str, Any]) -> None:
        payload["policy"]["approvals"]["enabled"] = 0
        payload["policy"]["break_glass_hours"] = 3
        payload["policy_digest"] = digest_bytes(canonical_bytes(payload["policy"]))
        payload["decided_by"]["policy_digest"] = payload["policy_digest"]

    rewrite(store, "policy_changed", 0, loosen)
    code, _ = check()
    assert code == 4


def test_a_policy_under_a_digest_of_another_is_a_finding(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    rewrite(store, "policy_changed", 1, lambda payload: payload["policy"].update(watch_hours=7))
    assert check()[0] == 4


def newer_result(store: Path, *, is_told: bool) -> str:
    """Rewrite a stored result as one of a later format, with or without the event's word."""
    name = "gatemark.result/2"
    with tampering(store) as who:
        query = "SELECT id, document FROM results ORDER BY seq LIMIT 1"
        identity, document = who.connection.execute(query).fetchone()
        content = msgspec.json.decode(document)
        content["schema"] = name
        content["shape"] = {"nobody": "knows"}
        changed = canonical_bytes(content)
        who.run("UPDATE results SET document = ? WHERE id = ?", changed, identity)
    if is_told:
        rewrite(store, "result_sealed", 0, lambda payload: payload.update(result_format=name))
    return str(identity)


def test_a_newer_result_cannot_be_judged(
    gatemark: Run, check: Callable[[], tuple[int, str]], store: Path
) -> None:
    identity = newer_result(store, is_told=True)
    code, told = check()
    assert code == 3
    assert "gatemark.result/2" in told
    shown = gatemark("show", identity, "--store", store)
    assert shown.code == 3
    assert "gatemark.result/2, which this build does not know" in shown.err


def test_a_result_that_only_pretends_to_be_newer_is_a_finding(
    check: Callable[[], tuple[int, str]], store: Path
) -> None:
    newer_result(store, is_told=False)
    assert check()[0] == 4


def add_unknown(value: Any) -> None:
    """A member more in every object, as an additive change of every type would write."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            add_unknown(inner)
        value["from_the_future"] = "kept"
    elif isinstance(value, list):
        for inner in value:
            add_unknown(inner)


def test_members_that_nobody_knows_are_kept_and_exported(
    gatemark: Run, tmp_path: Path, original: Path
) -> None:
    """A result with unknown members everywhere is read, shown and written out whole."""
    source = Workspace(store=str(original)).existing_store()
    _, document = next(iter(source.results.documents()))
    content = msgspec.json.decode(document)
    for name in ("measurements", "findings", "figures", "policy", "cost", "pack", "candidate"):
        add_unknown(content[name])
    content["from_the_future"] = "kept"
    content["policy_digest"] = digest_bytes(canonical_bytes(content["policy"]))
    occasion = {name: content[name] for name in ("started_at", "finished_at", "actor", "cost")}
    sealed = {
        name: value for name, value in content.items() if name not in ("id", "stamp", *occasion)
    }
    content["id"] = digest_bytes(canonical_bytes(sealed))
    content["stamp"] = digest_bytes(canonical_bytes({"id": content["id"], "occasion": occasion}))
    data = canonical_bytes(content)
    result = read_result(content["id"], data)
    assert result.document == data
    store = tmp_path / "future"
    workspace = Workspace(store=str(store), actor="root")
    for _, blob in ((one.name, one.digest) for one in result.blobs):
        workspace.blobs.put(source.blobs.get(blob))
    for account in result.evidence:
        for file in account.files:
            workspace.blobs.put(source.blobs.get(file.digest))
    workspace.results.append(result)
    workspace.store.close()
    assert gatemark("ledger", "verify", "--store", store).code == 0
    written = tmp_path / "result.json"
    assert gatemark("report", content["id"], "--store", store, "-o", written).code == 0
    assert json.loads(written.read_text()) == json.loads(data)
    folder = tmp_path / "export"
    assert gatemark("ledger", "export", folder, "--store", store).code == 0
    name = content["id"].removeprefix("sha256:")
    assert (folder / "results" / f"{name}.json").read_bytes() == data
    assert gatemark("ledger", "verify", folder).code == 0


def test_a_history_of_this_build_verifies(check: Callable[[], tuple[int, str]]) -> None:
    code, _ = check()
    assert code == 0


def test_the_book_goes_on_after_the_default_policy(store: Path) -> None:
    """The policy event is written once, and never again."""
    workspace = Workspace(store=str(store), actor="root", clock=Clock())
    clock = workspace.clock
    assert isinstance(clock, Clock)
    events = workspace.existing_store().events
    clock.now = list(events.events())[-1][0].at
    Honest(workspace, clock).do(GrantRoles(actor="root", person="zoe", roles=("viewer",)))
    policies = [event.actor for event, _ in events.events(kind="policy_changed")]
    assert policies == ["system", "root"]
