"""Rules that a result names: only results of this build's rules can be decided again or cited."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.ledger.tamper import GONE, reseal

import gatemark as this_build
from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.errors import IntegrityError, OtherRulesError
from gatemark.core.result import Blob, PackRef, Result
from gatemark.core.rules import RulesVersions
from gatemark.evidence.exam_suite import exam_suite, suites
from gatemark.evidence.result_rules import check_result_rules
from gatemark.server.views.results import check_result
from gatemark.workspace import Workspace

Run = Callable[..., Any]
PACK = """
gatemark: 1
name: shouting
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.5
regression_max: 0.5
suites:
  - {id: golden, kind: golden, weight: 0.8, dataset: golden.jsonl, scorer: exact}
  - id: raters
    kind: agreement
    weight: 0.2
    evidence: {pairs: pairs.jsonl}
    baseline_evidence: none
targets:
  candidate: {python: "app:candidate"}
  baseline: none
"""
APP = "def candidate(text):\n    return text.upper()\n"
LABELS = ["VALID", "REJECT", "NOT_IN_CONTEXT"]
FUTURE = {"gatemark": "99.0.0"}


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pack, its data, and a store with nothing in it."""
    folder = tmp_path_factory.mktemp("evals")
    items = [{"id": f"i{n}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(40)]
    labels = [LABELS[n % 3] for n in range(90)]
    pairs = [
        {"qid": f"Q{n}", "scholar": {"label": label}, "auditor": {"label": label}}
        for n, label in enumerate(labels)
    ]
    (folder / "pack.yaml").write_text(PACK)
    (folder / "app.py").write_text(APP)
    for name, rows in (("golden", items), ("pairs", pairs)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def store(gatemark: Run, evals: Path, tmp_path: Path) -> Path:
    ran = gatemark("run", evals / "pack.yaml", "--store", tmp_path / "store", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["rules"] == {"pack": 1, "agreement": 1}
    return tmp_path / "store"


def last_result(store: Path) -> Result:
    workspace = Workspace(store=str(store))
    found = workspace.results.get(workspace.results.lines(1)[0].id)
    workspace.store.close()
    return found


def add(store: Path, made: Result) -> str:
    """Put a result and its event into a store, as whoever can write there."""
    workspace = Workspace(store=str(store))
    workspace.results.append(made)
    workspace.store.close()
    return made.id


def doors(evals: Path, store: Path, result_id: str) -> Iterator[tuple[object, ...]]:
    """Everything that decides a result again, or lets something new rest on it."""
    at = ("--store", store)
    yield ("ledger", "verify", *at)
    yield ("ledger", "verify", "--rescore", *at)
    yield ("gate", result_id, "--pack", evals / "pack.yaml", *at)
    yield ("baseline", "set", "main", result_id, *at)
    yield ("baseline", "accept", result_id, "--reason", "looks fine", *at)
    yield ("run", evals / "pack.yaml", "--baseline", result_id, *at)
    yield ("run", evals / "pack.yaml", "--baseline", "last-pass", *at)


def test_an_honest_result_comes_through_every_door(gatemark: Run, evals: Path, store: Path) -> None:
    honest = last_result(store).id
    assert [gatemark(*door).code for door in doors(evals, store, honest)] == [0] * 7


FORGED = [
    GONE,
    {},
    {"pack": 0, "agreement": 1},
    {"pack": True, "agreement": 1},
    {"pack": "1", "agreement": 1},
    {"pack": 2, "agreement": 1},
    {"pack": 99, "agreement": 1},
    {"pack": 1, "agreement": 2},
    {"pack": 1},
    {"agreement": 1},
    {"pack": 99, "agreement": 1, "an_exam_of_another_package": 1},
    {"pack": 1, "agreement": 1, "an_exam_of_another_package": 1},
    {"pack": 1, "agreement": 1, "compare": 1},
    {"pack": 1, "agreement": 1, "overhead": 1},
]


@pytest.mark.parametrize("rules", FORGED, ids=str)
def test_a_forged_version_comes_through_no_door(
    gatemark: Run, evals: Path, store: Path, rules: Any
) -> None:
    forged = add(store, reseal(last_result(store), rules=rules))
    codes = {door[:2]: gatemark(*door).code for door in doors(evals, store, forged)}
    assert set(codes.values()) == {4}, codes


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"pack": 2, "agreement": 1}, "recorded under pack rules 2, not decided again"),
        ({"pack": 1, "agreement": 7}, "recorded under agreement rules 7, not decided again"),
        ({"pack": 1, "agreement": 1, "spelling": 1}, "recorded under spelling rules 1"),
        ({"pack": 1, "agreement": 1, "overhead": 1}, "recorded under overhead rules 1"),
    ],
)
def test_a_result_of_a_future_build_is_kept_and_not_decided_again(
    gatemark: Run, evals: Path, store: Path, rules: dict[str, int], said: str
) -> None:
    honest = last_result(store)
    runtime = {**honest.runtime, **FUTURE}
    later = add(store, reseal(honest, rules=rules, runtime=runtime))
    *strict, last_pass = doors(evals, store, later)
    for door in strict:
        ran = gatemark(*door)
        assert (ran.code, said in ran.out + ran.err) == (3, True), (door, ran.out, ran.err)
    ran = gatemark("ledger", "verify", "--rescore", "--store", store, "--json")
    assert ran.json["issues"] == []
    assert len(ran.json["unjudged"]) == 1
    ran = gatemark(*last_pass)
    assert (ran.code, said in ran.out) == (0, True), (ran.out, ran.err)
    assert "skipped a later one" in ran.out


@pytest.mark.parametrize(
    ("rules", "runtime", "code"),
    [({"pack": 99, "agreement": 1}, {}, 4), ({"pack": 2, "agreement": 1}, FUTURE, 3)],
)
def test_nothing_new_rests_on_a_forged_result(
    gatemark: Run, store: Path, rules: Any, runtime: dict[str, str], code: int
) -> None:
    honest = last_result(store)
    forged = add(store, reseal(honest, rules=rules, runtime={**honest.runtime, **runtime}))
    at = ("--store", store)
    for person, role in (("root", "admin"), ("ann", "author"), ("eve", "evaluator")):
        assert gatemark("role", "grant", person, role, *at, "--actor", "root").code == 0
    new = ("asset", "add", "shouting@1", "--kind", "prompt", "--from", forged, "--actor", "ann")
    assert gatemark(*new, *at).code == code
    review = (
        "review",
        "create",
        "blind",
        "--suite",
        "golden",
        "--result",
        forged,
        "--actor",
        "eve",
    )
    assert gatemark(*review, *at).code == code
    derive = ("drift", "derive", "--results", "--now", "2099-01-01T00:00:00Z")
    derived = gatemark(*derive, *at)
    assert derived.code == 0, derived.err
    assert f"left out, since nothing may rest on it: event 2: result {forged}" in derived.out


@pytest.mark.parametrize(
    ("rules", "runtime", "code"),
    [({"pack": 99, "agreement": 1}, {}, 4), ({"pack": 2, "agreement": 1}, FUTURE, 3)],
)
def test_nobody_is_shown_a_forged_result_as_a_pass(
    gatemark: Run, store: Path, rules: Any, runtime: dict[str, str], code: int
) -> None:
    honest = last_result(store)
    forged = add(store, reseal(honest, rules=rules, runtime={**honest.runtime, **runtime}))
    at = ("--store", store)
    shown = gatemark("show", forged, *at)
    assert (shown.code, shown.out.splitlines()[0].partition(":")[0]) == (code, "NOT VERIFIED")
    listed = gatemark("list", *at).out.splitlines()
    assert [line.endswith("NOT VERIFIED") for line in listed] == [True, False]
    assert gatemark("comment", forged, *at).code == code
    files = {form: store.parent / f"report.{form}" for form in ("html", "md", "junit.xml", "json")}
    for form, file in files.items():
        ran = gatemark("report", forged, *at, "-o", file)
        # The sealed bytes themselves are no statement of ours.
        assert (ran.code, file.exists()) == (code, form == "json")
    checked = check_result(Workspace(store=str(store)), forged)
    assert checked.verdict == "fail"
    assert [line.what for line in checked.lines if not line.holds] == ["rules"]


@pytest.mark.parametrize("rules", [{}, {"pack": 99, "agreement": 1}])
def test_a_forged_result_stops_no_later_run_of_its_pack(
    gatemark: Run, evals: Path, store: Path, rules: dict[str, int]
) -> None:
    honest = last_result(store)
    add(store, reseal(honest, rules=rules))
    ran = gatemark("run", evals / "pack.yaml", "--store", store)
    assert ran.code == 0, ran.err
    text = (evals / "pack.yaml").read_text()
    (evals / "looser.yaml").write_text(text.replace("score_min: 0.5", "score_min: 0.1"))
    ran = gatemark("run", evals / "looser.yaml", "--store", store)
    assert (ran.code, "already has a result with other content" in ran.err) == (2, True)


def test_changed_bytes_of_a_result_of_a_future_build_are_found(
    gatemark: Run, evals: Path, store: Path
) -> None:
    honest = last_result(store)
    runtime = {**honest.runtime, **FUTURE}
    later = reseal(honest, rules={"pack": 2, "agreement": 1}, runtime=runtime)
    other = reseal(later, evidence=[*msgspec.to_builtins(honest.evidence)[:-1]])
    blobs = msgspec.to_builtins(honest.blobs)
    added = blobs[0] | {"name": "notes.txt", "digest": "sha256:" + "0" * 64}
    add(store, reseal(other, blobs=[*blobs, added]))
    ran = gatemark("ledger", "verify", "--store", store, "--json")
    assert (ran.code, len(ran.json["issues"])) == (4, 1)
    assert "is missing from the store" in ran.json["issues"][0]["message"]


def keeping(result: Result, name: str, data: bytes, **members: Any) -> Result:
    """A result that keeps other bytes under a name, as its only definition."""
    others = [blob for blob in msgspec.to_builtins(result.blobs) if blob["name"] != name]
    blob = {"name": name, "digest": digest_bytes(data), "media_type": "application/json"}
    return reseal(result, blobs=[*others, blob], **members)


def test_an_exam_that_is_not_installed_is_not_decided_again(store: Path) -> None:
    workspace = Workspace(store=str(store))
    honest = last_result(store)
    pack = msgspec.json.decode(workspace.blobs.get(honest.pack.digest))
    pack["suites"][1]["kind"] = "reading"
    data = canonical_bytes(pack)
    workspace.blobs.put(data)
    named = msgspec.to_builtins(honest.pack) | {"digest": digest_bytes(data)}
    other = keeping(honest, "pack.json", data, pack=named)
    rules = {"pack": 1, "reading": 1}
    read = msgspec.structs.replace(
        other,
        rules=rules,
        pack=msgspec.convert(named, PackRef),
        blobs=(Blob("pack.json", digest_bytes(data), ""),),
    )
    with pytest.raises(OtherRulesError, match="no exam called 'reading'"):
        check_result_rules(read, workspace.blobs)
    with pytest.raises(IntegrityError, match="does not name its reading rules"):
        check_result_rules(msgspec.structs.replace(read, rules={"pack": 1}), workspace.blobs)


def without(honest: Result, *keys: str) -> list[dict[str, Any]]:
    """The evidence of a result, with accounts that say less about themselves."""
    accounts = msgspec.to_builtins(honest.evidence)
    return [
        account | {"checks": {k: v for k, v in account["checks"].items() if k not in keys}}
        for account in accounts
    ]


@pytest.mark.parametrize("runtime", [{}, FUTURE], ids=["this build", "a future build"])
@pytest.mark.parametrize("keys", [("arm",), ("kind",), ("suite", "kind", "arm")], ids=str)
def test_rules_cannot_be_hidden_by_an_account_that_says_less(
    gatemark: Run, evals: Path, store: Path, keys: tuple[str, ...], runtime: dict[str, str]
) -> None:
    honest = last_result(store)
    members = {"evidence": without(honest, *keys), "runtime": honest.runtime | runtime}
    forged = add(store, reseal(honest, rules={"pack": 1}, **members))
    codes = {door[:2]: gatemark(*door).code for door in doors(evals, store, forged)}
    assert set(codes.values()) == {4}, codes


def test_rules_cannot_be_hidden_by_a_result_without_its_pack(
    gatemark: Run, evals: Path, store: Path
) -> None:
    honest = last_result(store)
    blobs = [blob for blob in msgspec.to_builtins(honest.blobs) if blob["name"] != "pack.json"]
    add(store, reseal(honest, rules={"pack": 1}, blobs=blobs))
    ran = gatemark("ledger", "verify", "--store", store)
    assert (ran.code, "not the pack that they are of" in ran.out) == (4, True)


def test_rules_cannot_be_hidden_behind_another_pack(
    gatemark: Run, evals: Path, store: Path
) -> None:
    workspace = Workspace(store=str(store))
    honest = last_result(store)
    pack = msgspec.json.decode(workspace.blobs.get(honest.pack.digest))
    del pack["suites"][1]
    data = canonical_bytes(pack)
    workspace.blobs.put(data)
    workspace.store.close()
    forged = add(store, keeping(honest, "pack.json", data, rules={"pack": 1}))
    codes = {door[:2]: gatemark(*door).code for door in doors(evals, store, forged)}
    assert set(codes.values()) == {4}, codes


@pytest.mark.parametrize("name", ["pack.json", "compare.json"])
def test_rules_of_an_exam_cannot_be_hidden_behind_an_added_definition(
    gatemark: Run, evals: Path, tmp_path: Path, name: str
) -> None:
    store = tmp_path / "store"
    at = ("--seal", "--store", store, "-j", 1)
    assert gatemark("score", "agreement", "--pairs", evals / "pairs.jsonl", *at).code == 0
    honest = last_result(store)
    pack = canonical_bytes({"gatemark": 1, "suites": []})
    workspace = Workspace(store=str(store))
    workspace.blobs.put(pack)
    workspace.store.close()
    rules = {"pack": 1} if name == "pack.json" else {"compare": 1}
    add(store, keeping(honest, name, pack, rules=rules))
    ran = gatemark("ledger", "verify", "--store", store)
    assert (ran.code, "keeps 2 definitions" in ran.out) == (4, True), ran.out


def test_an_exam_names_its_own_rules(
    gatemark: Run, evals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = exam_suite("agreement")
    second = RulesVersions("agreement", current=2, released=frozenset({1, 2}))
    newer = msgspec.structs.replace(suite, rules=second)
    monkeypatch.setitem(suites()._load_all(), "agreement", newer)
    at = ("--seal", "--store", tmp_path / "store", "--json", "-j", 1)
    ran = gatemark("score", "agreement", "--pairs", evals / "pairs.jsonl", *at)
    sealed = last_result(tmp_path / "store")
    assert (ran.code, sealed.rules) == (0, {"agreement": 2})
    blobs = Workspace(store=str(tmp_path / "store")).blobs
    check_result_rules(sealed, blobs)
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match="not the rules of the build that it names"):
        check_result_rules(sealed, blobs)
    runtime = {**sealed.runtime, **FUTURE}
    with pytest.raises(OtherRulesError, match="agreement rules 2"):
        check_result_rules(msgspec.structs.replace(sealed, runtime=runtime), blobs)


def test_the_version_of_gatemark_says_nothing_about_the_rules_of_another_package(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may get new rules while Gatemark stays the same."""

    def build(*_: object) -> Any:
        raise AssertionError

    build.__module__ = "another_package.exam"
    second = RulesVersions("reading", current=2, released=frozenset({1, 2}))
    foreign = msgspec.structs.replace(
        exam_suite("agreement"), kind="reading", build=build, rules=second
    )
    monkeypatch.setitem(suites()._load_all(), "reading", foreign)
    honest = last_result(store)
    assert honest.runtime["gatemark"] == this_build.__version__
    pack = PackRef("score-reading", 1, honest.pack.digest)
    read = msgspec.structs.replace(honest, rules={"reading": 1}, pack=pack, blobs=(), evidence=())
    with pytest.raises(OtherRulesError, match="recorded under reading rules 1"):
        check_result_rules(read, Workspace(store=str(store)).blobs)


def test_sealed_comparisons_name_the_rules_of_comparisons(gatemark: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = [{"id": f"i{n}", "score": 1.0} for n in range(30)]
        samples = [
            {"schema": "gatemark.sample/1", "id": row["id"], "scores": {"exact": row["score"]}}
            for row in rows
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    at = ("--seal", "--store", tmp_path / "store")
    ran = gatemark("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", *at)
    assert ran.code in (0, 3), ran.err
    sealed = last_result(tmp_path / "store")
    assert sealed.rules == {"compare": 1}
    blobs = Workspace(store=str(tmp_path / "store")).blobs
    with pytest.raises(IntegrityError, match="does not name its compare rules"):
        check_result_rules(msgspec.structs.replace(sealed, rules={"pack": 1}), blobs)
