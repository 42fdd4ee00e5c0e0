"""Stores of every released build: this build verifies them, reads them and adds to them.

Only commands are used, which are a contract; nothing here knows a module that reads a store. The
fixtures are never made again (see ``tests/fixtures/stores/README.md``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gatemark.drift.judging.policy import LITERAL_WATCHES, DriftPolicy
from gatemark.drift.policy_file import policy_text

from .frozen import (
    Frozen,
    Place,
    Server,
    Warehouse,
    content_of,
    flip_in_database,
    flip_in_file,
    manifests,
    stores,
    unpack,
)

Run = Callable[..., Any]
STORES = stores("sqlite", "postgres")
EXPORTS = stores("export")
ALL_EVENTS = 1_000_000


@pytest.fixture(scope="session")
def warehouse(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Warehouse:
    """Every fixture, unpacked at most once per process."""
    servers: list[Server] = []

    def server() -> Server:
        if not servers:
            servers.append(Server(request.getfixturevalue("postgres_server")))
        return servers[0]

    return Warehouse(tmp_path_factory.mktemp("frozen"), server)


@pytest.fixture(params=STORES, ids=lambda one: one.name)
def place(request: pytest.FixtureRequest, warehouse: Warehouse) -> Place:
    """A store to look at."""
    return warehouse.to_read(request.param)


@pytest.fixture
def look(place: Place, gatemark: Run) -> Run:
    """Run a command that must succeed on the store."""

    def run(*words: object) -> Any:
        ran = gatemark(*words, "--store", place.store)
        assert ran.code == 0, (words, ran.out[-2000:], ran.err[-2000:])
        return ran

    return run


def ways(place: Place) -> dict[str, list[object]]:
    """The options of ``ledger verify`` behind the names that the manifest gives exit codes for.

    A folder store is verified in every way; its other forms are read by the same rules, and only
    in the ways that differ most. Deriving everything from a database takes too long for a test.
    """
    keys = place.frozen.public_keys()
    form, story = place.facts["form"], place.facts["story"]
    found: dict[str, list[object]] = {}
    if keys:
        found["first_key"] = ["--key", keys[0]]
    if (form, story) != ("postgres", "full"):
        found["rescore"] = ["--rescore"]
    if form == "sqlite":
        found["plain"] = []
        if keys:
            found["keys"] = trusted(place)
    return found


def trusted(place: Place) -> list[object]:
    """Options that name every public key of a ledger."""
    return [word for key in place.frozen.public_keys() for word in ("--key", key)]


def test_there_are_fixtures_of_every_form() -> None:
    builds = manifests()
    assert "0.1.0" in [manifest["build"]["version"] for manifest in builds]
    for manifest in builds:
        assert manifest["folder"].name == manifest["build"]["version"]
        assert re.fullmatch("[0-9a-f]{40}", manifest["build"]["commit"])
        assert {one["form"] for one in manifest["stores"]} == {"sqlite", "postgres", "export"}


def test_every_way_to_verify_ends_as_it_did(place: Place, gatemark: Run) -> None:
    facts = place.facts
    for way, words in ways(place).items():
        ran = gatemark("ledger", "verify", *words, "--store", place.store, "--json")
        assert ran.code == facts["verify"][way], (way, ran.json["troubles"], ran.json["unjudged"])
        assert (ran.json["head"], ran.json["root"]) == (facts["head"], facts["root"])
        assert {name: ran.json[name] for name in facts["counts"]} == facts["counts"]
        assert (ran.json["troubles"] == []) == (ran.code != 4)


def test_the_ledger_still_begins_as_its_checkpoints_and_proofs_say(
    place: Place, gatemark: Run, look: Run
) -> None:
    for name in place.facts["checkpoints"]:
        growth = look("ledger", "prove", "--since", place.folder / name)
        file = place.folder / f"{name}.growth.json"
        file.write_text(growth.out, encoding="utf-8")
        assert gatemark("ledger", "prove", "--check", file, *trusted(place)).code == 0
    for name in place.facts.get("proofs", []):
        ran = gatemark("ledger", "prove", "--check", place.folder / name, *trusted(place))
        assert ran.code == 0, ran.err


def test_every_event_is_listed(place: Place, look: Run) -> None:
    events = look("ledger", "log", "--limit", ALL_EVENTS, "--json").json
    assert [event["seq"] for event in events] == list(range(1, place.facts["head"]["seq"] + 1))
    assert Counter(event["kind"] for event in events) == place.facts["event_kinds"]
    erased = [event["seq"] for event in events if event["payload"] is None]
    assert erased == place.facts["erased_payloads"]
    assert len(look("ledger", "log", "--limit", ALL_EVENTS).out.splitlines()) == len(events)


def test_every_result_is_listed_and_shown(place: Place, look: Run) -> None:
    known = [{name: one[name] for name in ("id", "title", "verdict")} for one in results(place)]
    listed = look("list", "--limit", ALL_EVENTS, "--json").json
    assert [{name: one[name] for name in ("id", "title", "verdict")} for one in listed] == known
    text = look("list", "--limit", ALL_EVENTS).out
    for one in results(place):
        assert one["id"].removeprefix("sha256:")[:12] in text
        shown = look("show", one["id"], "--json").json
        assert {name: shown[name] for name in ("id", "title", "verdict")} == {
            name: one[name] for name in ("id", "title", "verdict")
        }
        assert {name: len(shown[name]) for name in one["counts"]} == one["counts"]


def results(place: Place) -> list[dict[str, Any]]:
    """What the manifest says about the results of a store."""
    found: list[dict[str, Any]] = place.facts["results"]
    return found


@pytest.mark.parametrize("frozen", stores("sqlite"), ids=lambda one: one.name)
def test_every_result_is_reported(
    frozen: Frozen, warehouse: Warehouse, gatemark: Run, tmp_path: Path
) -> None:
    place = warehouse.to_read(frozen)
    files = [tmp_path / f"report{end}" for end in (".md", ".json", ".junit.xml")]
    outputs = [word for file in files for word in ("-o", file)]
    for one in results(place):
        ran = gatemark("report", one["id"], *outputs, "--store", place.store)
        assert ran.code == 0, (one, ran.err)
        assert one["id"] in files[0].read_text(encoding="utf-8")
        kept = json.loads(files[1].read_text(encoding="utf-8"))
        assert (kept["id"], kept["verdict"]) == (one["id"], one["verdict"])
        assert files[2].read_text(encoding="utf-8").startswith("<?xml")
        shown = gatemark("show", one["id"], "--store", place.store)
        assert (shown.code, shown.out.split()[0]) == (0, one["verdict"].upper())


@pytest.mark.parametrize("build", sorted({one.build for one in STORES}))
def test_results_of_every_exam_and_pack_have_a_page(
    build: str, warehouse: Warehouse, gatemark: Run, tmp_path: Path
) -> None:
    places = [warehouse.to_read(one) for one in stores("sqlite") if one.build == build]
    # Charts take long to draw: of each exam and pack, the result that shows the most is drawn.
    different: dict[str, tuple[Place, dict[str, Any]]] = {}
    for place in places:
        for one in sorted(results(place), key=lambda one: int(one["counts"]["exhibits"])):
            different[one["title"].split()[0]] = (place, one)
    for place, one in different.values():
        page = tmp_path / "page.html"
        ran = gatemark("report", one["id"], "-o", page, "--store", place.store)
        assert ran.code == 0, (one, ran.err)
        text = page.read_text(encoding="utf-8")
        assert one["id"] in text
        assert one["verdict"].upper() in text.upper()


def test_every_asset_stands_where_it_stood(place: Place, look: Run, tmp_path: Path) -> None:
    listed = {one["asset"]: one for one in look("asset", "list", "--json").json}
    assert sorted(listed) == [asset["name"] for asset in place.facts["assets"]]
    for asset in place.facts["assets"]:
        name = asset["name"]
        shown = look("asset", "show", name, "--json").json
        assert {one["version"]: one["stage"] for one in shown["versions"]} == asset["stages"]
        assert (shown["kind"], shown["enabled"]) == (asset["kind"], asset["enabled"])
        page = tmp_path / "history.html"
        history = look("asset", "history", name, "--limit", 100_000, "--json", "-o", page).json
        assert history["lines"]
        assert name in page.read_text(encoding="utf-8")
        for version, stage in asset["stages"].items():
            page = tmp_path / "why.html"
            reasons = look("why", f"{name}@{version}", "--json", "-o", page).json
            assert (reasons["version"], reasons["stage"]) == (version, stage)
            assert f"{name}@{version}" in page.read_text(encoding="utf-8")
    assert look("role", "list", "--json").json == place.facts["roles"]


def test_the_release_policy_in_force_is_what_it_was(place: Place, look: Run) -> None:
    if "roles_granted" not in place.facts["event_kinds"]:
        pytest.skip("nobody has acted under a policy")
    policy, kept = look("policy", "show", "--json").json, place.facts["release_policy"]
    assert policy["policy_digest"] == kept["policy_digest"]
    assert within(kept["policy"], policy["policy"])


def within(small: Any, large: Any) -> bool:
    """Whether everything in a document is in another one too, which may say more."""
    if isinstance(small, dict) and isinstance(large, dict):
        return all(key in large and within(value, large[key]) for key, value in small.items())
    return bool(small == large)


def test_drift_is_judged_as_it_was(place: Place, look: Run, tmp_path: Path) -> None:
    # By the rules of that build: one sigma probe a metric, warnings corrected for the tick.
    rules = tmp_path / "drift.yaml"
    rules.write_text(policy_text(DriftPolicy(watches=LITERAL_WATCHES, q=0.05)), encoding="utf-8")
    at = ("--now", place.facts["drift"]["at"], "--policy", rules)
    status = look("drift", "status", *at, "--json").json
    assert status["levels"] == place.facts["drift"]["levels"]
    assert [one["id"] for one in status["episodes"]] == place.facts.get("open_episodes", [])
    for asset in sorted({signal["asset"] for signal in status["signals"]}):
        look("drift", "report", asset, *at, "-o", tmp_path / "drift.json")
    look("drift", "metrics", *at)
    look("drift", "events", *at)
    look("schedule", "list", *at[:2], "--runs", 100, "--json")


def test_reviews_labels_and_attributions_are_told(place: Place, look: Run, tmp_path: Path) -> None:
    for kept in place.facts["reviews"]:
        assert within(kept, look("review", "status", kept["review"], "--json").json)
        if kept["state"] == "closed":
            votes = look("review", "export", kept["review"]).out.splitlines()
            assert {json.loads(vote)["choice"] for vote in votes} <= {
                "candidate",
                "baseline",
                "tie",
            }
    for kept in place.facts["label_sets"]:
        name = kept["labels"]
        assert within(kept, look("review", "labels", "status", name, "--json").json)
        rows = look("review", "labels", "export", name).out.splitlines()
        assert len(rows) == kept["accepted"]
    for attribution in place.facts.get("attributions", []):
        shown = look("review", "attribution", attribution, "--json", "-o", tmp_path / "a.html")
        assert attribution in shown.out


def test_what_serves_is_told(place: Place, gatemark: Run) -> None:
    for asset in place.facts["assets"]:
        ran = gatemark("route", asset["name"], "--json", "--store", place.store)
        assert ran.code == (0 if asset["enabled"] else 1)
        primary = ran.json["primary"]
        assert (primary and primary["version"]) == asset["enabled"]


def test_reading_changes_nothing(place: Place, look: Run) -> None:
    before = content_of(place)
    look("list")
    look("asset", "list")
    look("role", "list")
    look("policy", "show")
    look("drift", "status")
    look("schedule", "list")
    look("ledger", "log")
    for asset in place.facts["assets"]:
        look("asset", "show", asset["name"])
        look("asset", "history", asset["name"])
    for review in place.facts["reviews"]:
        look("review", "status", review["review"])
    assert content_of(place) == before


@pytest.mark.parametrize(
    "frozen",
    [*stores("sqlite"), *stores("postgres", stories=("erased",))],
    ids=lambda one: one.name,
)
def test_a_fresh_export_verifies_without_the_store(
    frozen: Frozen, warehouse: Warehouse, gatemark: Run, tmp_path: Path
) -> None:
    place = warehouse.to_read(frozen)
    newest = place.facts["keys"][-1:]
    signing = [word for key in newest for word in ("--signing-key", place.folder / key)]
    ran = gatemark("ledger", "export", tmp_path / "out", *signing, "--store", place.store)
    assert ran.code == 0, ran.err
    nowhere = ("--store", tmp_path / "nowhere")
    ran = gatemark("ledger", "verify", tmp_path / "out", *trusted(place), *nowhere, "--json")
    assert ran.code == 0, ran.json["troubles"]
    assert ran.json["events"] == place.facts["counts"]["events"]


@pytest.fixture(params=EXPORTS, ids=lambda one: one.name)
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The folder that a released build exported."""
    unpack(request.param, tmp_path)
    return Place(request.param, tmp_path, str(tmp_path / "nowhere"))


def test_an_exported_folder_verifies_as_it_did(exported: Place, gatemark: Run) -> None:
    for way, words in ways(exported).items():
        folder = exported.folder / "export"
        ran = gatemark("ledger", "verify", folder, *words, "--store", exported.store, "--json")
        assert ran.code == exported.facts["verify"][way], (way, ran.json["troubles"])
        assert ran.json["events"] == exported.facts["counts"]["events"]
    assert gatemark("validate", folder / "events.jsonl").code == 0


@pytest.mark.parametrize("frozen", stores("sqlite", stories=("full",)), ids=lambda one: one.name)
def test_files_that_lie_beside_a_store_are_still_read(
    frozen: Frozen, warehouse: Warehouse, gatemark: Run, tmp_path: Path
) -> None:
    evidence = warehouse.to_read(frozen).folder / "evidence"
    names = ("pairs", "decisions", "votes", "bare", "samples", "points", "window")
    assert gatemark("validate", *(evidence / f"{name}.jsonl" for name in names)).code == 0
    arms = [word for arm in ("bare", "guarded") for word in (f"--{arm}", evidence / f"{arm}.jsonl")]
    told = gatemark("overhead", "verify", evidence / "report.json", *arms)
    assert (told.code, told.out.split()[0]) == (0, "AGREES"), told.err
    refit = (evidence / "refit" / "calibration_map.json", evidence / "samples.jsonl")
    assert gatemark("calibration", "apply", *refit, "-o", tmp_path / "mended.jsonl").code == 0


class Crew:
    """People who go on working in an old store."""

    def __init__(self, place: Place, gatemark: Run) -> None:
        self.place, self._gatemark = place, gatemark

    def __call__(self, actor: str, *words: object, code: int = 0) -> Any:
        """Run a command as somebody."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GATEMARK_STORE", self.place.store)
            patch.setenv("GATEMARK_ACTOR", actor)
            patch.setenv("LOGNAME", actor)
            patch.chdir(self.place.folder)
            ran = self._gatemark(*words)
        assert ran.code == code, (words, ran.out[-2000:], ran.err[-2000:])
        return ran

    def examine(self, pack: str, *words: object) -> dict[str, Any]:
        """Run a pack that must pass, and return its result."""
        found: dict[str, Any] = self("ben", "run", pack, *words, "--json").json
        return found

    def write(self, name: str, text: str) -> str:
        """Write a file beside the store and return its name."""
        (self.place.folder / name).write_text(text, encoding="utf-8")
        return name

    def verified(self, *words: object) -> dict[str, Any]:
        """Verify, which must succeed, and return the report."""
        found: dict[str, Any] = self("ana", "ledger", "verify", *words, "--json").json
        return found


@pytest.fixture
def crew(
    request: pytest.FixtureRequest, warehouse: Warehouse, gatemark: Run, tmp_path: Path
) -> Crew:
    """People with a store of their own, which the test names as its parameter."""
    return Crew(warehouse.to_change(request.param, tmp_path / "copy"), gatemark)


def of_stories(*stories_: str) -> pytest.MarkDecorator:
    """Give a test the stores of these stories, to add to."""
    found = stores("sqlite", "postgres", stories=stories_)
    return pytest.mark.parametrize("crew", found, ids=lambda one: one.name, indirect=True)


@of_stories("erased", "minimal")
def test_a_result_is_added_to_an_old_store(crew: Crew) -> None:
    pairs = (crew.place.folder / "evidence/pairs.jsonl").read_text(encoding="utf-8")
    later = crew.write("later.jsonl", "".join(pairs.splitlines(keepends=True)[:-1]))
    words = ("--seal", "--title", "sealed later")
    crew("ben", "score", "agreement", "--pairs", later, *words)
    counts = crew.place.facts["counts"]
    report = crew.verified(*trusted(crew.place))
    assert report["events"] == counts["events"] + 1
    assert report["results"] == counts["results"] + 1
    listed = crew("ben", "list", "--json").json
    assert (listed[0]["title"], listed[0]["verdict"]) == ("sealed later", "pass")


@of_stories("erased")
def test_what_an_old_store_erased_does_not_come_back(crew: Crew) -> None:
    words = ("score", "agreement", "--pairs", "evidence/pairs.jsonl", "--seal")
    assert "cannot be sealed again" in crew("ben", *words, code=1).err


@of_stories("full", "erased", "minimal")
def test_an_old_store_is_upgraded_and_verifies(crew: Crew) -> None:
    """The backup has what was there; the store verifies before, after, and once restored."""
    backup = crew.place.folder / "before.tar.zst"
    done = crew("ana", "store", "upgrade", "--backup", backup, "--json").json
    info = crew("ana", "store", "info", "--json").json
    assert (done["from_layout"], info["state"]) == ("0006", "newest")
    report = crew.verified(*trusted(crew.place))
    covered = 0 if done["covered_by"] is None else 1
    assert report["events"] == crew.place.facts["counts"]["events"] + covered
    assert not any("not covered" in caveat for caveat in report["caveats"])
    again = crew("ana", "store", "upgrade")
    assert "nothing to do" in again.out
    old = crew.place.folder / "restored"
    crew("ana", "store", "restore", backup, "--store", old)
    restored = crew("ana", "ledger", "verify", "--store", old, "--json").json
    assert restored["head"] == crew.place.facts["head"]


@of_stories("full")
def test_life_goes_on_in_an_old_store(crew: Crew) -> None:
    begun = crew.place.facts["counts"]["events"]
    finish_the_canary(crew)
    take_a_version_to_canary(crew)
    bring_the_desk_back(crew)
    hand_in_points(crew)
    finish_reviews(crew)
    judge_old_results_again(crew)
    keys = [*trusted(crew.place), "--key", sign_again(crew)]
    erase_something(crew)
    report = crew.verified(*keys)
    assert report["events"] >= begun + 30
    assert report["checkpoints"] == crew.place.facts["counts"]["checkpoints"] + 2
    assert report["payloads_erased"] == 1


SORTER = "mail-sorter"
DESK = "help-desk"


def finish_the_canary(crew: Crew) -> None:
    """A window for the canary that still runs; then it is judged, and ended by a person."""
    state = crew("dai", "canary", "show", SORTER, "--json").json
    start = datetime.fromisoformat(state["next_window"])
    span = {"start": stamp(start), "end": stamp(start + timedelta(minutes=15)), "keys": 400}
    sample = {"error_rate": {"values": [0.0] * 60}, "latency_ms": {"values": [120.0] * 60}}
    checked = {
        name: {"checked": 400, "violations": 0} for name in ("schema", "authority", "privacy")
    }
    lines = [
        {**span, "arm": "canary", "metrics": sample, "invariants": checked},
        {**span, "arm": "baseline", "metrics": sample},
    ]
    file = crew.write("window.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    crew("ben", "canary", "push", SORTER, file)
    judged = crew("dai", "canary", "tick", SORTER, "--json").json
    assert {"canary_judged"} <= {event["kind"] for event in judged["events"]}
    crew("dai", "rollback", SORTER, "--note", "too long without traffic")
    assert crew("dai", "route", SORTER, "--json").json["primary"]["version"] == "1.1.0"


def take_a_version_to_canary(crew: Crew) -> None:
    """A new version climbs, compared with the one that went live under the old build."""
    ref = f"{SORTER}@2.0.0"
    text = (crew.place.folder / "packs/v5.yaml").read_text(encoding="utf-8")
    pack = crew.write("packs/later.yaml", text.replace("sorter:v5", "sorter:v6"))
    crew("ana", "role", "grant", "hugo", "viewer")
    first = crew.examine(pack)
    crew("ben", "asset", "add", ref, "--from", first["id"], "--pin", "model=sorter-7")
    crew("ben", "promote", ref, "--to", "evaluating")
    crew("ben", "promote", ref, "--to", "eligible", "--cite", first["id"])
    crew("dai", "promote", ref, "--to", "shadow")
    compared = crew.examine(pack)
    versions = crew("ben", "asset", "show", SORTER, "--json").json["versions"]
    live = next(one for one in versions if one["version"] == "1.1.0")
    assert compared["baseline"]["digest"] == live["digest"]
    crew("dai", "promote", ref, "--to", "canary", "--cite", compared["id"], code=1)
    crew("cleo", "approve", ref, "--to", "canary", "--cite", compared["id"])
    crew("dai", "promote", ref, "--to", "canary", "--cite", compared["id"])
    crew("dai", "asset", "pause", ref, "--reason", "freeze")
    crew("dai", "asset", "resume", ref)
    assert crew("ben", "why", ref, "--json").json["stage"] == "canary_1"


def bring_the_desk_back(crew: Crew) -> None:
    """What drift took out of service returns on a fresh result; then a person demotes it."""
    fresh = crew.examine("packs/desk.yaml")["id"]
    ref = f"{DESK}@1.0.0"
    crew("cleo", "approve", ref, "--to", "enabled", "--cite", fresh)
    crew("dai", "promote", ref, "--to", "enabled", "--cite", fresh)
    policy = crew("ana", "policy", "show", "--json").json["policy"]
    file = crew.write("release.yaml", json.dumps(policy | {"name": "later"}))
    crew("ana", "policy", "adopt", file)
    crew("dai", "demote", DESK, "--reason", "wrong language", code=1)
    crew("dai", "demote", DESK, "--reason", "wrong language", "--stop")


def hand_in_points(crew: Crew) -> None:
    """New points of a metric that is known since the old build, and a probe."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    window = {"start": stamp(today - timedelta(days=1)), "end": stamp(today)}
    point = {"asset": DESK, "metric": "golden_accuracy", **window, "k": 220, "n": 240}
    file = crew.write("points.jsonl", json.dumps(point) + "\n")
    if crew("ben", "store", "info", "--json").json["layout"] < "0007":
        # Points are covered by events since layout 0007; the user upgrades when it suits.
        refused = crew("ben", "drift", "push", file, code=2)
        assert 'run "gatemark store upgrade"' in refused.err
        crew("ana", "store", "upgrade", "--no-backup")
    assert "1 new" in crew("ben", "drift", "push", file).out
    crew("ben", "drift", "probe")
    (episode,) = crew.place.facts["open_episodes"]
    crew("dai", "drift", "close", episode, "--reason", "longer answers are wanted now")
    crew("ben", "schedule", "fire", "threat", "--id", "feed-8")


def finish_reviews(crew: Crew) -> None:
    """Votes, labels and proposals that the old build left open."""
    for _ in range(3):
        crew("cleo", "review", "vote", "open-review", "a")
    crew("ana", "review", "close", "open-review", "--early", "enough", code=3)
    crew("cleo", "review", "labels", "give", "tone", "t03", "good")
    accepted = crew("dai", "review", "labels", "accept", "tone", "--json").json
    assert accepted
    attribution = crew.place.facts["attributions"][0]
    crew("dai", "review", "attribution", attribution, "--accept", "routing_note")


def judge_old_results_again(crew: Crew) -> None:
    """Evidence that the old build kept is scored again, and is a baseline."""
    kept = {one["title"]: one["id"] for one in results(crew.place) if one["verdict"] == "pass"}
    judged, scored = "shouting (prompt), pack judged v1", "form-reader (extractor), pack scorers v1"
    again = crew("ben", "gate", kept[judged], "--pack", "packs/judged.yaml", "--json").json
    assert (again["title"], again["verdict"]) == (judged, "pass")
    crew.examine("packs/scorers.yaml", "--baseline", kept[scored])


def sign_again(crew: Crew) -> Path:
    """A checkpoint by the key of the old build, a key that follows it, and another checkpoint."""
    crew("ana", "ledger", "checkpoint", "--signing-key", "next.key")
    crew("ana", "ledger", "rotate", "third.key", "--signing-key", "next.key")
    crew("ana", "ledger", "checkpoint", "--signing-key", "third.key")
    return crew.place.folder / "third.key.pub"


def erase_something(crew: Crew) -> None:
    """A payload that the old build wrote and that nothing rests on."""
    (event,) = crew("ana", "ledger", "log", "--kind", "sign_in_failed", "--json").json
    crew("ana", "ledger", "erase", event["seq"], "--reason", "request 4713")


def stamp(moment: datetime) -> str:
    """A moment as evidence files spell it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


# What somebody with the database in hand can change: one byte of a column.
COLUMNS = [
    ("payloads", "data", "seq"),
    ("results", "document", "seq"),
    ("events", "digest", "seq"),
    ("nodes", "hash", "number"),
]


@pytest.mark.parametrize(("table", "column", "key"), COLUMNS, ids=str)
@of_stories("erased")
def test_a_flipped_byte_in_the_database_is_found(
    crew: Crew, table: str, column: str, key: str
) -> None:
    flip_in_database(crew.place, table, column, key)
    crew("ana", "ledger", "verify", code=4)


@pytest.mark.parametrize("crew", stores("sqlite"), ids=lambda one: one.name, indirect=True)
def test_a_flipped_byte_in_a_blob_is_found(crew: Crew) -> None:
    blobs = [path for path in Path(crew.place.store, "blobs").rglob("*") if path.is_file()]
    flip_in_file(max(blobs))
    crew("ana", "ledger", "verify", code=4)


@pytest.mark.parametrize("name", ["events.jsonl", "blobs", "results"])
@pytest.mark.parametrize("frozen", stores("export", stories=("erased",)), ids=lambda one: one.name)
def test_a_flipped_byte_in_an_export_is_found(
    frozen: Frozen, name: str, gatemark: Run, tmp_path: Path
) -> None:
    unpack(frozen, tmp_path)
    folder = tmp_path / "export"
    files = [path for path in (folder / name, *(folder / name).rglob("*")) if path.is_file()]
    flip_in_file(max(files))
    assert gatemark("ledger", "verify", folder, "--store", tmp_path / "nowhere").code == 4
