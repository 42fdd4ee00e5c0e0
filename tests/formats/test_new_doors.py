"""Attacks through what came with formats: unknown members, newer versions, rules, subjects."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.ledger.honest import Clock, write_history
from tests.ledger.tamper import tampering

from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.errors import IntegrityError
from gatemark.core.result import read_result
from gatemark.core.stored import read_stored
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import event_kinds
from gatemark.release.lifecycle.events.fact import fact_kinds
from gatemark.workspace import Workspace

from .stores_now import made_now
from .test_newer_builds import numbers_of, rewrite

Run = Callable[..., Any]
Check = Callable[[], tuple[int, str]]


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
def check(gatemark: Run, store: Path) -> Check:
    def run() -> tuple[int, str]:
        ran = gatemark("ledger", "verify", "--store", store, "--json")
        told = [trouble["message"] for trouble in ran.json["issues"]]
        return ran.code, "\n".join([*told, *ran.json["unjudged"]])

    return run


@pytest.mark.parametrize(
    ("kind", "subject"),
    [("policy_changed", None), ("roles_granted", "triage"), ("transition", "*"), ("approval", "x")],
)
def test_an_event_under_another_subject_is_found(
    check: Check, store: Path, kind: str, subject: str | None
) -> None:
    """Commands look events up by subject and decide by payload: both must say the same."""
    with tampering(store) as who:
        seq = numbers_of(who, kind)[-1]
        who.put(who.row(seq)._replace(subject=subject))
        who.rechain(seq)
        who.rebuild_tree()
    code, told = check()
    assert code == 4
    assert f"event {seq}" in told


def test_rules_named_by_no_decision_switch_nothing_off(check: Check, store: Path) -> None:
    """A foreign event that names newer rules changes nothing; a forged approval is still found."""
    rewrite(store, "noted", 0, lambda payload: payload.update(decided_by={"rules": 99}))
    assert check()[0] == 0
    rewrite(store, "approval", -1, lambda payload: payload.update(decision="nonsense"))
    assert check()[0] == 4


def test_the_ledger_knows_what_the_lifecycle_decides() -> None:
    decided = {kind.name for kind in event_kinds().values() if kind.is_decided}
    assert decided == {kind.name for kind in fact_kinds()} - {"drift_signal", "access_given"}


def test_a_newer_release_policy_cannot_be_judged(gatemark: Run, check: Check, store: Path) -> None:
    def renew(payload: dict[str, Any]) -> None:
        payload["policy"]["gatemark_release"] = 2
        payload["policy_digest"] = digest_bytes(canonical_bytes(payload["policy"]))

    rewrite(store, "policy_changed", -1, renew)
    code, told = check()
    assert code == 3, told
    assert "gatemark.release-policy/2" in told
    listed = gatemark("asset", "list", "--store", store)
    assert listed.code == 3
    assert "install a newer Gatemark" in listed.err


@pytest.mark.parametrize("name", ["no format at all", "gatemark.pack/1", "gatemark.result/0"])
def test_a_result_format_that_never_was_is_a_finding(check: Check, store: Path, name: str) -> None:
    rewrite(store, "result_sealed", 0, lambda payload: payload.update(result_format=name))
    assert check()[0] == 4


def test_a_newer_event_does_not_excuse_an_edited_result(check: Check, store: Path) -> None:
    """Whoever seals a result again in a newer format cannot hide what an older event sealed."""
    workspace = Workspace(store=str(store), actor="root")
    identity, document = next(iter(workspace.existing_store().results.documents()))
    said = {"format": "gatemark.event.result_sealed/2", "result_id": identity}
    last = list(workspace.events.events())[-1][0]
    workspace.events.append([EventDraft("foreign", last.at, "root", None, {})])
    workspace.store.close()
    with tampering(store) as who:
        seq = who.size()
        who.say(seq, said)
        who.put(who.row(seq)._replace(kind="result_sealed"))
        who.rechain(seq)
        who.rebuild_tree()
        edited = document.replace(b'"verdict":"pass"', b'"verdict":"fail"')
        who.run("UPDATE results SET document = ? WHERE id = ?", edited, identity)
    assert check()[0] == 4


@pytest.mark.parametrize("kind", ["labels_accepted", "attribution_sealed"])
@pytest.mark.parametrize("content", [{}, {"blobs": ["x"]}, {"blobs": {"a": 7}}, {"labels": 3}])
def test_a_payload_of_the_wrong_form_is_found_without_a_crash(
    gatemark: Run, tmp_path: Path, kind: str, content: dict[str, Any]
) -> None:
    workspace = Workspace(store=str(tmp_path / "s"), actor="root")
    workspace.events.append([EventDraft(kind, workspace.clock(), "root", None, content)])
    workspace.store.close()
    ran = gatemark("ledger", "verify", "--store", tmp_path / "s")
    assert ran.code == 4, ran.out


def sealed_document(original: Path) -> tuple[str, bytes]:
    identity, document = next(
        iter(Workspace(store=str(original)).existing_store().results.documents())
    )
    return identity, document


def resealed(document: bytes) -> tuple[str, bytes]:
    """Give a document the id and the stamp that its bytes have, as a forger would."""
    members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    occasion = ("actor", "cost", "finished_at", "started_at")

    def joined(names: list[str]) -> bytes:
        return b"{" + b",".join(b'"%s":%s' % (n.encode(), bytes(members[n])) for n in names) + b"}"

    content = [name for name in members if name not in ("id", "stamp", *occasion)]
    identity = digest_bytes(joined(content))
    told = joined([name for name in members if name in occasion])
    stamp = digest_bytes(b'{"id":"%s","occasion":%s}' % (identity.encode(), told))
    members["id"] = msgspec.Raw(msgspec.json.encode(identity))
    members["stamp"] = msgspec.Raw(msgspec.json.encode(stamp))
    return identity, joined(list(members))


def test_a_document_that_two_readers_read_differently_is_refused(original: Path) -> None:
    _, document = sealed_document(original)
    identity, honest = resealed(document)
    assert read_result(identity, honest).id == identity
    doubled = re.sub(rb'"findings":\[\{', b'"findings":[{"verdict":"fail",', document, count=1)
    spaced = document.replace(b'"rules":[', b'"rules": [', 1)
    for changed in (doubled, spaced):
        assert changed != document
        with pytest.raises(IntegrityError, match="not canonical JSON"):
            read_result(*resealed(changed))


def test_escapes_and_order_are_part_of_the_bytes(original: Path) -> None:
    identity, document = sealed_document(original)
    for changed in (
        document.replace(b'"id":"sha256:', b'"id":"\\u0073ha256:', 1),
        b'{"stamp"' + document.partition(b'"stamp"')[2][:-1] + b"," + document[1:],
    ):
        with pytest.raises(IntegrityError):
            read_result(identity, changed)


def test_deep_documents_are_refused_without_a_crash(original: Path) -> None:
    identity, document = sealed_document(original)
    deep = document[:-1] + b',"zz":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    with pytest.raises(IntegrityError):
        read_result(identity, deep)


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: tuple[Inner, ...]


def test_thousands_of_unknown_members_are_left_out() -> None:
    many = [{"name": str(number), "later": number} for number in range(5_000)]
    read = read_stored(msgspec.json.encode({"inner": many, "more": 1}), Outer)
    assert [one.name for one in read.inner] == [str(number) for number in range(5_000)]


def test_a_line_of_an_export_is_written_in_one_way(
    gatemark: Run, store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    key = tmp_path / "ledger.key"
    assert gatemark("ledger", "keygen", key, "--store", store).code == 0
    exported = gatemark("ledger", "export", folder, "--signing-key", key, "--store", store)
    assert exported.code == 0, exported.err
    path = folder / "events.jsonl"
    lines = path.read_bytes()
    for old, new in (
        (b'"schema":"gatemark.event/1"', b'"schema":"gatemark.event/99"'),
        (b'"actor":', b'"actor":"mallory","actor":'),
        (b'"salt":', b'"pepper":'),
    ):
        path.write_bytes(lines.replace(old, new, 1))
        assert gatemark("ledger", "verify", folder).code == 4
    path.write_bytes(lines)
    assert gatemark("ledger", "verify", folder).code == 0


@pytest.mark.parametrize("kind", ["blob_erased", "payload_erased"])
def test_a_newer_tombstone_is_not_called_a_loss(
    gatemark: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    place = tmp_path / "erased"
    shutil.copytree(made_now(tmp_path_factory, "erased") / "store", place)
    with tampering(place) as who:
        who.run("DELETE FROM checkpoints")
    name = f"gatemark.event.{kind}/2"
    for which in range(2 if kind == "payload_erased" else 1):
        rewrite(place, kind, which, lambda payload: payload.update(format=name))
    ran = gatemark("ledger", "verify", "--store", place)
    assert ran.code == 3, ran.out
    assert "a newer build may have erased it" in ran.out
