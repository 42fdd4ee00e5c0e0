from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gatemark.cli.main import main
from gatemark.core.canonical import digest_bytes
from gatemark.packs.init import write_starter
from gatemark.release.lifecycle.canary import canary_state
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

Run = Callable[..., Any]
ASSET = "parcel-mail"


def plain(*arguments: object) -> None:
    """Run a command that must succeed, without looking at what it prints."""
    assert main([str(argument) for argument in arguments]) == 0, arguments


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two folders to copy: one with people and a pack, one with a version that is live."""
    desk = tmp_path_factory.mktemp("desk")
    store = ("--store", desk / "store")
    plain("role", "grant", "ada", "admin", "--actor", "ada", *store)
    roles = ("author", "evaluator", "pack_owner", "operator")
    plain("role", "grant", "ann", *roles, "--actor", "ada", *store)
    plain("role", "grant", "bob", "approver", "--actor", "ada", *store)
    write_starter(desk / "evals")
    plain("run", desk / "evals" / "pack.yaml", "--actor", "ann", "-o", desk / "r.json", *store)
    live = tmp_path_factory.mktemp("live") / "copy"
    shutil.copytree(desk, live)
    result = json.loads((desk / "r.json").read_text())["id"]
    ann = ("--actor", "ann", "--store", live / "store")
    version = f"{ASSET}@1.0.0"
    plain("asset", "add", version, "--kind", "classifier", "--from", result, *ann)
    plain("asset", "pack", ASSET, live / "evals" / "pack.yaml", *ann)
    plain("promote", version, "--to", "evaluating", *ann)
    plain("promote", version, "--to", "eligible", "--cite", result[7:19], *ann)
    plain("promote", version, "--to", "shadow", *ann)
    plain(
        "approve",
        version,
        "--to",
        "enabled",
        "--note",
        "seen",
        "--actor",
        "bob",
        "--store",
        live / "store",
    )
    plain("promote", version, "--to", "enabled", *ann)
    return {"desk": desk, "live": live}


def standing_in(
    folder: Path, gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("GATEMARK_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, actor: str | None = None) -> Any:
        return gatemark(*arguments, *(() if actor is None else ("--actor", actor)))

    return run


@pytest.fixture
def desk(
    places: dict[str, Path], gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Commands in a place with two people, a pack and a result."""
    return standing_in(places["desk"], gatemark, tmp_path, monkeypatch)


@pytest.fixture
def live(
    places: dict[str, Path], gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Commands in a place where the first version is live."""
    return standing_in(places["live"], gatemark, tmp_path, monkeypatch)


def sealed() -> str:
    """The result that lies in every place."""
    return str(json.loads(Path("r.json").read_text())["id"])


def test_the_last_promotion_is_covered_by_a_checkpoint(live: Run) -> None:
    report = live("ledger", "verify", "--json").json
    moved = [one["seq"] for one in live("ledger", "log", "--kind", "transition", "--json").json]
    assert report["checkpoints"] >= 1
    uncovered = [one for one in report["caveats"] if one.startswith("no checkpoint")]
    assert not [one for one in uncovered if str(max(moved)) in one], uncovered


def test_a_version_goes_live_and_is_told_about(live: Run, tmp_path: Path) -> None:
    route = live("route", ASSET)
    assert route.code == 0
    assert route.out.startswith("primary   1.0.0\n")
    document = live("route", ASSET, "--json").json
    assert document["primary"]["version"] == "1.0.0"
    why = live("why", f"{ASSET}@1.0.0", "-o", "why.html", "-o", "why.json")
    assert why.code == 0
    assert "approved by bob" in why.out
    assert "drift: unjudged, no drift probe has reported (the policy lets it pass)" in why.out
    assert json.loads((tmp_path / "why.json").read_text())["stage"] == "enabled"
    assert "parcel-mail@1.0.0: why it is enabled" in (tmp_path / "why.html").read_text()
    history = live("asset", "history", ASSET, "-o", "history.html", "--limit", 3)
    assert "production: 1.0.0 (promote by ann" in history.out
    assert "earlier events not shown" in history.out
    assert "<svg" in (tmp_path / "history.html").read_text()
    assert live("asset", "history", ASSET, "--json").json["live"][0]["version"] == "1.0.0"
    assert "1.0.0    enabled" in live("asset", "show", ASSET).out
    assert live("asset", "show", ASSET, "--json").json["enabled"] == "1.0.0"
    assert live("asset", "list", "--json").json[0]["enabled"] == "1.0.0"
    assert "parcel-mail  classifier  production   1.0.0" in live("asset", "list").out
    assert live("ledger", "verify").code == 0


def test_what_was_live_before_anything_was_live(live: Run) -> None:
    told = live("asset", "history", ASSET, "--at", "2020-01-01T00:00:00Z")
    assert told.code == 0
    assert "no version had left its draft" in told.out
    assert live("asset", "history", ASSET, "--at", "2020-01-01").code == 2
    assert live("asset", "history", ASSET, "--at", "yesterday").code == 2


def test_rollback_is_one_command_and_idempotent(live: Run) -> None:
    refused = live("rollback", ASSET, actor="bob")
    assert (refused.code, "ask for that with --stop" in refused.err) == (1, True)
    first = live("rollback", ASSET, "--stop", actor="bob")
    assert first.code == 0
    assert "enabled → rolled_back (rollback)" in first.out
    assert "no version may serve in production now: no version is enabled" in first.err
    again = live("rollback", ASSET, actor="bob")
    assert (again.code, again.out) == (0, "")
    assert "already rolled back" in again.err
    assert live("rollback", ASSET, "--json", actor="bob").json == {"changed": False, "events": []}
    ran = live("route", ASSET)
    assert ran.code == 1
    assert live("route", ASSET, "--json").json["primary"] is None


def test_demote_needs_a_reason_and_a_role(live: Run) -> None:
    assert live("demote", ASSET, actor="bob").code == 2
    ran = live("demote", ASSET, "--reason", "wrong language", actor="stranger")
    assert ran.code == 1
    assert "stranger must be operator, approver or system to demote" in ran.err
    ran = live(
        *("demote", ASSET, "--reason", "wrong language", "--to", "shadow", "--stop"), actor="ann"
    )
    assert "enabled → shadow (demote): (stop) wrong language" in ran.out
    assert live("demote", f"{ASSET}@1.0.0", "--reason", "x", "--note", "y", actor="ann").code == 2


def test_a_long_note_does_not_stop_a_fall(live: Run) -> None:
    told = live(
        "rollback", ASSET, "--stop", "--note", "stack\r\n\x1b[31m" + "x" * 5_000, actor="ann"
    )
    assert told.code == 0
    history = live("asset", "history", ASSET, "--json").json
    assert len(history["lines"][0]["note"]) == 2_000
    assert "\x1b" not in history["lines"][0]["note"]
    long = live("approve", f"{ASSET}@1.0.0", "--to", "canary", "--note", "x" * 2_001, actor="bob")
    assert (long.code, "at most 2000 characters, got 2001" in long.err) == (2, True)


@pytest.mark.parametrize("sign", [" ", "\n", "\u200b", "\u3164", "\u2800", "\ufeff"])
def test_a_reason_behind_signs_that_show_nothing_is_kept(live: Run, sign: str) -> None:
    told = live("demote", ASSET, "--stop", "--reason", sign * 2_500 + "complaints", actor="ann")
    assert told.code == 0, told.err
    history = live("asset", "history", ASSET, "--json").json
    assert history["lines"][0]["note"] == "(stop) complaints"


@pytest.mark.parametrize("reason", ["", " ", " " * 2_500, "\u200b" * 2_500, "\u3164"])
@pytest.mark.parametrize("stop", [(), ("--stop",)])
def test_a_demotion_without_a_reason_to_read_is_refused(
    live: Run, reason: str, stop: tuple[str, ...]
) -> None:
    told = live("demote", ASSET, "--reason", reason, *stop, actor="ann")
    assert (told.code, "a demotion needs a note that says why" in told.err) == (1, True), told.err


def test_a_self_approval_is_refused(desk: Run) -> None:
    result = sealed()
    desk("role", "grant", "ann", "author", "approver", actor="ada")
    desk("asset", "add", f"{ASSET}@1.0.0", "--kind", "classifier", "--from", result, actor="ann")
    ran = desk("approve", f"{ASSET}@1.0.0", "--to", "canary", "--note", "mine", actor="ann")
    assert ran.code == 1
    assert "ann is the author of parcel-mail@1.0.0 and cannot approve it" in ran.err


def test_nobody_acts_as_the_system(desk: Run) -> None:
    ran = desk("role", "grant", "bob", "author", actor="system")
    assert ran.code == 2
    assert "nobody can act as 'system'" in ran.err


def test_the_actor_can_come_from_the_environment(
    desk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_ACTOR", "ada")
    ran = desk("role", "grant", "cat", "viewer", "--json")
    assert ran.json["events"][0]["actor"] == "ada"
    assert desk("role", "list", "--json").json["cat"] == ["viewer"]
    assert "cat: viewer" in desk("role", "list").out


def test_missing_results_are_refused_and_words_are_bad_input(desk: Run) -> None:
    desk("asset", "add", "x@1", "--kind", "prompt", "--digest", digest_bytes(b"x"), actor="ann")
    desk("promote", "x@1", "--to", "evaluating", actor="ann")
    for cite, code in (("deadbeef", 1), (digest_bytes(b"nowhere"), 1), ("latest", 2)):
        assert desk("promote", "x@1", "--to", "eligible", "--cite", cite, actor="ann").code == code
    ran = desk("promote", "x", "--to", "eligible", actor="ann")
    assert ran.code == 2
    assert "'x' must be ASSET@VERSION" in ran.err


def test_a_pack_that_scores_otherwise_is_not_the_required_pack(desk: Run, tmp_path: Path) -> None:
    pack = tmp_path / "evals" / "pack.yaml"
    lax = tmp_path / "evals" / "lax.yaml"
    text = pack.read_text().replace(
        "scorer: exact", "scorer: {name: regex, options: {pattern: '.*'}}"
    )
    lax.write_text(text)
    # Under the same version it does not even run; under a version of its own it is another pack.
    assert desk("run", lax, actor="ann").code == 2
    lax.write_text(text.replace("version: 1", "version: 2", 1))
    passed = desk("run", lax, "--json", actor="ann").json
    assert passed["verdict"] == "pass"
    version = f"{ASSET}@1.0.0"
    desk("asset", "add", version, "--kind", "classifier", "--from", passed["id"], actor="ann")
    desk("asset", "pack", ASSET, pack, actor="ann")
    desk("promote", version, "--to", "evaluating", actor="ann")
    refused = desk("promote", version, "--to", "eligible", "--cite", passed["id"], actor="ann")
    assert refused.code == 1
    assert "another way to ask or score" in refused.err


def test_the_lock_is_the_revision_that_show_tells(desk: Run) -> None:
    desk("asset", "add", "x@1", "--kind", "prompt", "--digest", digest_bytes(b"x"), actor="ann")
    seen = desk("asset", "show", "x", "--json").json["revision"]
    step = ("promote", "x@1", "--to", "evaluating", "--expect", seen)
    assert desk(*step, actor="ann").code == 0
    ran = desk("promote", "x@1", "--to", "retired", "--expect", seen, actor="ann")
    assert ran.code == 1
    assert f"changed since event {seen}" in ran.err


def test_a_version_can_be_files_pins_and_a_schema(desk: Run, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Be kind.")
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    (tmp_path / "one.json").write_text(json.dumps(schema))
    (tmp_path / "two.json").write_text(json.dumps({"type": "object"}))
    (tmp_path / "bad.json").write_text('{"a": 1, "a": 2}')
    add = ("asset", "add")
    pins = ("--pin", "model=m-7", "--pin", "tool.search=1.2")
    ran = desk(
        *add,
        "t@1.0.0",
        "--kind",
        "tool",
        "--file",
        "prompt.txt",
        *pins,
        "--schema",
        "one.json",
        "--json",
        actor="ann",
    )
    fact = ran.json["events"][0]["fact"]
    assert fact["digest"] == digest_bytes(b"Be kind.")
    assert fact["pins"]["tools"] == {"search": "1.2"}
    ran = desk(
        *add, "t@1.0.1", "--file", "prompt.txt", "--schema", "two.json", "--json", actor="ann"
    )
    change = ran.json["events"][0]["fact"]["schema"]
    assert (change["change"], change["bump"]) == ("major", "patch")
    assert change["reasons"] == ["$.id: was removed"]
    for wrong in (
        ("t@2.0.0",),
        ("t@2.0.0", "--file", "prompt.txt", "--digest", digest_bytes(b"x")),
        ("t@2.0.0", "--file", "absent.txt"),
        ("t@2.0.0", "--digest", "abc"),
        ("t@2.0.0", "--file", "prompt.txt", "--pin", "modle=x"),
        ("t@2.0.0", "--file", "prompt.txt", "--pin", "model"),
        ("t@2.0.0", "--file", "prompt.txt", "--pin", "model=a", "--pin", "model=b"),
        ("t@2.0.0", "--file", "prompt.txt", "--schema", "bad.json"),
        ("new@1", "--file", "prompt.txt"),
        ("t@", "--file", "prompt.txt"),
        ("no-version", "--file", "prompt.txt"),
    ):
        assert desk(*add, *wrong, actor="ann").code == 2, wrong
    assert desk(*add, "t@2.0.0", "--file", "prompt.txt", actor="bob").code == 1


def test_a_policy_is_checked_adopted_and_shown(desk: Run, tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(
        "gatemark_release: 1\nname: ours\napprovals: {enabled: 2}\ngates:\n  drift: {stages: []}\n"
    )
    checked = desk("policy", "check", "release.yaml").out.strip()
    assert desk("policy", "adopt", "release.yaml", actor="bob").code == 1
    adopted = desk("policy", "adopt", "release.yaml", actor="ada")
    assert checked in adopted.out
    assert "already in force" in desk("policy", "adopt", "release.yaml", actor="ada").err
    shown = desk("policy", "show", "--json").json
    assert shown["policy_digest"] == checked
    assert shown["policy"]["gates"]["drift"]["stages"] == []
    (tmp_path / "again.yaml").write_text(desk("policy", "show").out)
    assert desk("policy", "check", "again.yaml").out.strip() == checked
    for text in (
        "a: 1",
        "gatemark_release: 1\nwatch_hours: -1",
        "[",
        "gatemark_release: 1\ngates: 3",
    ):
        (tmp_path / "bad.yaml").write_text(text)
        assert desk("policy", "check", "bad.yaml").code == 2


def test_a_run_can_vouch_for_versions(live: Run) -> None:
    ran = live(
        "run",
        "evals/pack.yaml",
        "--as",
        f"{ASSET}@1.0.0",
        "--against",
        f"{ASSET}@1.0.0",
        "--json",
        actor="ann",
    )
    assert ran.json["candidate"]["id"] == f"{ASSET}/1.0.0"
    assert ran.json["candidate"] == ran.json["baseline"]
    assert "target.candidate" in ran.json["runtime"]
    assert live("run", "evals/pack.yaml", "--as", f"{ASSET}@9", actor="ann").code == 2


def windows(path: Path, start: datetime, **more: Any) -> Path:
    end = start + timedelta(minutes=15)
    lines = [
        {
            "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
            "end": f"{end:%Y-%m-%dT%H:%M:%SZ}",
            "arm": arm,
            "keys": 100,
            "metrics": {"error_rate": {"n": 100, "count": 1}},
            "invariants": {"schema": {"checked": 100, "violations": 0}},
            **more,
        }
        for arm in ("canary", "baseline")
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.usefixtures("live")
def test_a_canary_that_nobody_judges_is_overdue_a_window_after_the_first_is_due() -> None:
    store = "store"
    rules = read_state(Workspace(store=store), ASSET).policy.canary
    waits = timedelta(minutes=2 * rules.window_minutes + rules.lateness_minutes)
    due = canary_state(Workspace(store=store), ASSET).next_window + waits
    before = due - timedelta(seconds=1)
    assert not canary_state(Workspace(store=store, clock=lambda: before), ASSET).is_overdue
    assert canary_state(Workspace(store=store, clock=lambda: due), ASSET).is_overdue


def test_canary_windows_are_pushed_judged_and_shown(live: Run, tmp_path: Path) -> None:
    shown = live("canary", "show", ASSET, "--json").json
    assert shown["is_watch"]
    in_time = live("canary", "show", ASSET).out
    assert "watch of parcel-mail@1.0.0 against nothing" in in_time
    assert "overdue" not in in_time
    start = datetime.fromisoformat(shown["next_window"])
    path = windows(tmp_path / "w.jsonl", start)
    ran = live("canary", "push", ASSET, path, actor="ann")
    assert ran.code == 1
    assert "is not over yet" in ran.err
    early = start - timedelta(days=1)
    ran = live("canary", "push", ASSET, windows(path, early), actor="ann")
    assert ran.code == 1
    assert "comes too late" in ran.err
    ran = live("canary", "push", ASSET, windows(path, start, surprise=1), actor="ann")
    assert ran.code == 2
    assert live("canary", "push", "nothing", windows(path, start), actor="ann").code == 1
    soon = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    ran = live("canary", "tick", "--now", soon)
    assert "which is in the future: nothing steps up until then" in ran.err
    assert "the watch is over, 0 clean windows" in ran.out
    assert "nothing is due" in live("canary", "tick", ASSET, "--now", soon).err
    assert live("canary", "show", ASSET).code == 2


def test_assign_tells_the_version_of_a_key(live: Run) -> None:
    assert live("canary", "assign", ASSET, "conversation-1").out == "primary  parcel-mail@1.0.0\n"
    document = live("canary", "assign", ASSET, "conversation-1", "--json").json
    assert document["target"]["version"] == "1.0.0"
    assert live("canary", "assign", "nothing", "k").code == 2


def test_pausing_waiving_and_the_service(live: Run) -> None:
    pause = ("asset", "pause", f"{ASSET}@1.0.0", "--reason", "freeze", "--note", "quarter end")
    assert "paused (freeze): quarter end" in live(*pause, actor="ann").out
    assert "is already paused" in live(*pause, actor="ann").err
    assert "paused: freeze" in live("asset", "show", ASSET).out
    assert "PAUSED: freeze by ann" in live("why", f"{ASSET}@1.0.0").out
    resume = ("asset", "resume", f"{ASSET}@1.0.0")
    assert "resumed" in live(*resume, actor="ann").out
    assert "is not paused" in live(*resume, actor="ann").err
    waive = ("asset", "waive", f"{ASSET}@1.0.0", "--gate", "replay", "--note", "moved")
    assert "ann is the author" in live(*waive, actor="ann").err
    live("role", "grant", "olu", "operator", actor="ada")
    assert "replay is waived until" in live(*waive, actor="olu").out
    span = ("--start", "2026-01-01T00:00:00Z", "--end", "2026-01-01T00:05:00Z")
    service = ("asset", "service", ASSET, *span, "--good", 9, "--total")
    assert "9 of 10 good" in live(*service, 10, actor="ann").out
    assert "already reported" in live(*service, 10, actor="ann").err
    assert live(*service, 11, actor="ann").code == 1
    assert live(*service, 1, actor="ann").code == 2


def test_breaking_the_glass_is_red_everywhere(live: Run, tmp_path: Path) -> None:
    result = sealed()
    live("asset", "add", f"{ASSET}@1.1.0", "--from", result, actor="ann")
    live("promote", f"{ASSET}@1.1.0", "--to", "evaluating", actor="ann")
    live("promote", f"{ASSET}@1.1.0", "--to", "eligible", "--cite", result, actor="ann")
    glass = ("promote", f"{ASSET}@1.1.0", "--to", "enabled", "--break-glass", "INC-7")
    assert live(*glass, actor="ann").code == 1
    ran = live(*glass, "--note", "1.0.0 leaks", actor="ann")
    assert "BREAK-GLASS for INC-7" in ran.out
    assert "1.1.0 is live by break-glass of ann (INC-7), not reviewed" in live("route", ASSET).err
    assert "BREAK-GLASS" in live("asset", "show", ASSET).out
    assert "BREAK-GLASS for INC-7" in live("asset", "history", ASSET).out
    live("why", f"{ASSET}@1.1.0", "-o", "why.html")
    assert 'class="break-glass"' in (tmp_path / "why.html").read_text()
    assert (
        live(
            "approve", f"{ASSET}@1.1.0", "--confirm-break-glass", "--to", "enabled", "--note", "x"
        ).code
        == 2
    )
    review = ("approve", f"{ASSET}@1.1.0", "--confirm-break-glass", "--note", "it leaked")
    assert "was reviewed" in live(*review, actor="bob").out
    assert live("promote", f"{ASSET}@1.1.0", "--to", "shadow", "--break-glass", "I").code == 1
    assert live("ledger", "verify").code == 0


def test_why_ends_with_4_when_a_citation_is_gone(live: Run, tmp_path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(tmp_path / "store" / "gatemark.sqlite3")
    for (name,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type='trigger'"
    ).fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DELETE FROM results")
    connection.commit()
    connection.close()
    ran = live("why", f"{ASSET}@1.0.0")
    assert ran.code == 4
    assert "PROBLEM: result" in ran.out
    assert "MISSING" in ran.out
    assert live("route", ASSET).code == 1


def test_looking_for_a_store_does_not_make_one(gatemark: Run, tmp_path: Path) -> None:
    for command in (
        ("route", "x"),
        ("why", "x@1"),
        ("asset", "list"),
        ("asset", "show", "x"),
        ("asset", "history", "x"),
        ("canary", "show", "x"),
        ("canary", "tick"),
        ("canary", "assign", "x", "k"),
        ("role", "list"),
        ("policy", "show"),
        ("rollback", "x"),
        ("demote", "x", "--reason", "y"),
        ("promote", "x@1", "--to", "shadow"),
    ):
        ran = gatemark(*command, "--store", tmp_path / "new")
        assert (ran.code, ran.out) == (2, ""), command
    assert not (tmp_path / "new").exists()


def test_unknown_extensions_write_nothing(live: Run, tmp_path: Path) -> None:
    assert live("why", f"{ASSET}@1.0.0", "-o", "why.html", "-o", "why.docx").code == 2
    assert live("asset", "history", ASSET, "-o", "h.md").code == 2
    assert not list(tmp_path.glob("*.html"))


def blob_of(name: str) -> str:
    """A blob of the result that lies in every place."""
    blobs = json.loads(Path("r.json").read_text())["blobs"]
    return next(str(blob["digest"]) for blob in blobs if blob["name"] == name)


def test_erased_evidence_is_told_and_cannot_carry_another_step(live: Run, tmp_path: Path) -> None:
    erased = live("ledger", "erase", blob_of("golden.candidate.jsonl"), "--reason", "request 7")
    assert erased.code == 0
    told = live("why", f"{ASSET}@1.0.0", "-o", "why.html")
    assert told.code == 0
    assert "evidence was erased (event" in told.out
    assert "evidence was erased (event" in (tmp_path / "why.html").read_text()
    checked = live("ledger", "verify")
    assert (checked.code, "was erased; what it held is gone" in checked.out) == (0, True)
    assert live("route", ASSET).code == 0
    live("demote", ASSET, "--stop", "--to", "shadow", "--reason", "try again", actor="ann")
    refused = live("approve", f"{ASSET}@1.0.0", "--to", "enabled", "--note", "seen", actor="bob")
    assert refused.code == 1
    assert "only a fresh result can be cited" in refused.err


def test_why_ends_with_4_when_evidence_was_edited(live: Run, tmp_path: Path) -> None:
    name = blob_of("golden.candidate.jsonl").removeprefix("sha256:")
    (tmp_path / "store" / "blobs" / name[:2] / name).write_bytes(b"other")
    ran = live("why", f"{ASSET}@1.0.0")
    assert (ran.code, "whose bytes were changed" in ran.out) == (4, True)


def test_a_verdict_survives_the_loss_of_its_pack_with_a_word_about_it(live: Run) -> None:
    assert live("ledger", "erase", blob_of("pack.json"), "--reason", "request 8").code == 0
    checked = live("ledger", "verify")
    assert (checked.code, "its pack is gone" in checked.out) == (0, True)


def test_after_a_clock_that_was_ahead_was_set_back_versions_step_up_again(live: Run) -> None:
    soon = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    assert live("canary", "tick", "--now", soon).code == 0
    pause = ("asset", "resume", f"{ASSET}@1.0.0")
    shut = live(*pause, actor="ann")
    assert (shut.code, "gatemark ledger resync-clock" in shut.err) == (1, True)
    live("ledger", "resync-clock", "--reason", "the tick was dated ahead")
    assert "is not paused" in live(*pause, actor="ann").err
    add = ("asset", "add", f"{ASSET}@1.1.0", "--from", sealed())
    assert live(*add, actor="ann").code == 0
    assert live("promote", f"{ASSET}@1.1.0", "--to", "evaluating", actor="ann").code == 0
    assert live("ledger", "verify").code == 0


def test_why_tells_that_somebody_vouched_for_the_candidate(desk: Run) -> None:
    version = f"{ASSET}@1.0.0"
    digest = "sha256:" + "ab" * 32
    desk("asset", "add", version, "--kind", "classifier", "--digest", digest, actor="ann")
    desk("asset", "pack", ASSET, "evals/pack.yaml", actor="ann")
    result = desk("run", "evals/pack.yaml", "--as", version, "--json", actor="ann").json["id"]
    desk("promote", version, "--to", "evaluating", actor="ann")
    assert desk("promote", version, "--to", "eligible", "--cite", result, actor="ann").code == 0
    assert "ann vouched for the candidate; what answered was" in desk("why", version).out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gatemark_release: 1\ngatemark_release: 1", "'gatemark_release' appears more than once"),
        ("[" * 5000, "nested too deeply"),
        (
            "\n".join(
                ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
                + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
            ),
            "more than 1000000 values",
        ),
    ],
)
def test_a_policy_file_is_read_within_bounds(
    text: str, words: str, gatemark: Run, tmp_path: Path
) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(text)
    ran = gatemark("policy", "check", path)
    assert ran.code == 2
    assert words in ran.err
