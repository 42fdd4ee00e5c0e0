"""``compare --seal``: a comparison that can be cited, derived again, and promotes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.samples.importers import peer_shapes as shapes

from gatemark import __version__ as this_build
from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.errors import IntegrityError, OtherRulesError
from gatemark.core.result import Result, answer_time_of, seal
from gatemark.packs import seal_compare
from gatemark.packs.seal_compare import compare_again
from gatemark.workspace import Workspace

Run = Callable[..., Any]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(shapes.promptfoo_log(crashed=frozenset())))
    return path


def sealed(gatemark: Run, log: Path, *more: object, cand: str = "candidate") -> Any:
    arms = ("--base-arm", "baseline", "--cand-arm", cand)
    store = log.parent / "store"
    return gatemark("compare", log, log, *arms, "--seal", "--store", store, "--json", *more)


def test_a_sealed_comparison_says_who_scored_and_verifies(gatemark: Run, log: Path) -> None:
    ran = sealed(gatemark, log)
    plain = gatemark(
        *("compare", log, log, "--base-arm", "1", "--cand-arm", "2", "--json"),
    ).json
    assert (ran.json["verdict"], ran.json["p_value"]) == (plain["verdict"], plain["p_value"])
    assert plain["result_id"] is None
    store = ("--store", log.parent / "store")
    result = gatemark("show", ran.json["result_id"], *store, "--json").json
    assert result["verdict"] == ran.json["verdict"] == "inconclusive"
    assert "candidate: scored by promptfoo 0.121.20, not by Gatemark" in result["caveats"]
    assert gatemark("ledger", "verify", "--rescore", *store).code == 0


@pytest.mark.parametrize("verdict", ["pass", "fail"])
def test_verdicts_are_sealed_as_they_are(gatemark: Run, log: Path, verdict: str) -> None:
    if verdict == "fail":
        document = shapes.promptfoo_log(crashed=frozenset())
        for row in document["results"]["results"]:
            if row["promptIdx"] == 1:
                row |= {"success": False, "score": 0, "failureReason": 1}
        document["results"] |= {"stats": {}, "prompts": []}
        log.write_text(json.dumps(document))
    ran = sealed(gatemark, log, "--margin", "0.6" if verdict == "pass" else "0.1")
    assert (ran.code, ran.json["verdict"]) == ({"pass": 0, "fail": 1}[verdict], verdict)
    store = ("--store", log.parent / "store")
    assert gatemark("show", ran.json["result_id"], *store, "--json").json["verdict"] == verdict
    assert gatemark("ledger", "verify", "--rescore", *store).code == 0


def test_a_sealed_comparison_is_no_pack(gatemark: Run, log: Path) -> None:
    """Promotions need the required pack, which has a definition; a comparison has none."""
    ran = sealed(gatemark, log, "--margin", "0.6")
    store = ("--store", log.parent / "store")
    result = gatemark("show", ran.json["result_id"], *store, "--json").json
    assert result["pack"]["name"] == "compare"
    assert "pack.json" not in {blob["name"] for blob in result["blobs"]}


def test_a_log_that_contradicts_itself_is_sealed_as_inconclusive(gatemark: Run, log: Path) -> None:
    document = json.loads(log.read_text())
    document["results"]["stats"]["failures"] += 1
    log.write_text(json.dumps(document))
    ran = sealed(gatemark, log, "--margin", "0.6")
    assert ran.code == 3
    assert "the base contradicts itself: " in ran.json["blockers"][0]
    store = ("--store", log.parent / "store")
    result = gatemark("show", ran.json["result_id"], *store, "--json").json
    assert result["verdict"] == "inconclusive"
    assert "contradicts itself" in result["blockers"][0]
    assert gatemark("ledger", "verify", "--rescore", *store).code == 0


def test_a_forged_verdict_is_found_when_derived_again(gatemark: Run, log: Path) -> None:
    """Samples that were exchanged in the store no longer have the digest that is sealed."""
    ran = sealed(gatemark, log, "--margin", "0.6")
    assert ran.code == 0
    store = log.parent / "store"
    blob = next(
        path
        for path in store.rglob("*")
        if path.is_file() and b'"promptfoo"' in path.read_bytes() and path.suffix != ".db"
    )
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes().replace(b'"success":0.0', b'"success":1.0'))
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 4


def samples(wrong: int, cluster_size: int | None = None) -> bytes:
    rows = [
        {
            "schema": "gatemark.sample/1",
            "id": f"q{n:03d}",
            "epoch": 1,
            "scores": {"s": 0.0 if n < wrong else 1.0},
            **({} if cluster_size is None else {"cluster": f"talk {n // cluster_size}"}),
        }
        for n in range(400)
    ]
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


@pytest.fixture
def comparison(gatemark: Run, tmp_path: Path) -> tuple[Workspace, Result]:
    """A sealed comparison of a candidate that lost 28 of 400 items."""
    for name, wrong in (("base", 0), ("cand", 28)):
        (tmp_path / f"{name}.jsonl").write_bytes(samples(wrong))
    sides = (tmp_path / "base.jsonl", tmp_path / "cand.jsonl")
    store = tmp_path / "store"
    ran = gatemark("compare", *sides, "--margin", 0.05, "--seal", "--store", store, "--json")
    assert ran.code == 3
    workspace = Workspace(store=str(store))
    return workspace, workspace.results.get(ran.json["result_id"])


def test_a_stored_comparison_names_every_setting_and_the_rules(
    comparison: tuple[Workspace, Result],
) -> None:
    workspace, result = comparison
    names = {blob.name: blob.digest for blob in result.blobs}
    settings = {"alpha": 0.05, "margin": 0.05, "seed": 5, "resamples": 9999, "largest_drop": None}
    stated = ("lower_is_better", "higher_is_better")
    assert msgspec.json.decode(workspace.blobs.get(names["compare.json"])) == {
        "rules": 1,
        "score": "s",
        "cluster": None,
        "settings": {**settings, "lower_is_better": [], "higher_is_better": []},
        "files": "different",
    }
    known = {**settings, **dict.fromkeys(stated, ""), "rules": 1, "score": "s", "cluster": None}
    assert result.policy.settings == known
    assert compare_again(workspace.blobs, result).judged.verdict.outcome == "inconclusive"


def forge(
    workspace: Workspace,
    result: Result,
    *,
    drop: str | None = None,
    made_by: str,
    **changed: object,
) -> Result:
    """Seal the comparison again as a pass, with another definition, as an attacker could."""
    names = {blob.name: blob.digest for blob in result.blobs}
    stored = msgspec.json.decode(workspace.blobs.get(names["compare.json"])) | changed
    stored.pop(drop, None)
    definition = canonical_bytes(stored)
    workspace.blobs.put(definition)
    settings = {**result.policy.settings, "rules": stored.get("rules")}
    policy = msgspec.structs.replace(result.policy, settings=settings)
    fields = msgspec.structs.asdict(result)
    del fields["id"], fields["stamp"]
    forged = seal(
        **fields
        | {
            "verdict": "pass",
            "blockers": (),
            "policy": policy,
            "policy_digest": policy.digest,
            "pack": seal_compare._name_pack(definition),
            "runtime": {**result.runtime, "gatemark": made_by},
            "blobs": tuple(
                msgspec.structs.replace(blob, digest=digest_bytes(definition))
                if blob.name == "compare.json"
                else blob
                for blob in result.blobs
            ),
        }
    )
    workspace.results.append(forged)
    return forged


ANOTHER = "99.0.0"


def test_a_comparison_of_other_rules_is_not_decided_again(
    gatemark: Run, comparison: tuple[Workspace, Result], tmp_path: Path
) -> None:
    """Exit 3, though the stored document has a field that only the other build knows."""
    workspace, result = comparison
    forged = forge(workspace, result, rules=2, looks=3, made_by=ANOTHER)
    with pytest.raises(OtherRulesError, match="recorded under compare rules 2, not decided again"):
        compare_again(workspace.blobs, forged)
    ran = gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store")
    assert ran.code == 3


@pytest.mark.parametrize("rules", [0, -1, True, 1.5, "1", None])
def test_a_comparison_of_rules_that_were_never_released_is_a_forgery(
    gatemark: Run, comparison: tuple[Workspace, Result], rules: object, tmp_path: Path
) -> None:
    workspace, result = comparison
    forged = forge(workspace, result, rules=rules, made_by=ANOTHER)
    with pytest.raises(IntegrityError, match=r"compare rules .* do not exist"):
        compare_again(workspace.blobs, forged)
    assert gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store").code == 4


def test_a_comparison_without_rules_is_a_forgery(comparison: tuple[Workspace, Result]) -> None:
    forged = forge(*comparison, drop="rules", made_by=ANOTHER)
    with pytest.raises(IntegrityError, match="compare rules None do not exist"):
        compare_again(comparison[0].blobs, forged)


def test_this_build_has_no_other_rules(
    gatemark: Run, comparison: tuple[Workspace, Result], tmp_path: Path
) -> None:
    """A result that names this build cannot name rules that this build does not have."""
    workspace, result = comparison
    forged = forge(workspace, result, rules=2, made_by=this_build)
    with pytest.raises(IntegrityError, match="are not the rules of the build that it names"):
        compare_again(workspace.blobs, forged)
    assert gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store").code == 4


def test_clusters_that_the_samples_name_count_when_sealed(gatemark: Run, tmp_path: Path) -> None:
    files, store = (
        (tmp_path / "base.jsonl", tmp_path / "cand.jsonl"),
        ("--store", tmp_path / "store"),
    )
    for file in files:
        file.write_bytes(samples(0))
    assert gatemark("compare", *files, "--seal", *store).code == 0
    for file in files:
        file.write_bytes(samples(0, cluster_size=50))
    assert gatemark("compare", *files, "--seal", *store).code == 3
    assert gatemark("ledger", "verify", "--rescore", *store).code == 0


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_sealed_comparison_is_as_old_as_the_oldest_answer_of_its_candidate(
    gatemark: Run, tmp_path: Path, is_timed: bool
) -> None:
    moments = ["2027-03-02T09:00:00+01:00", "2027-03-01T08:00:00Z", "2027-03-03T08:00:00Z"]
    lines = [
        {"schema": "gatemark.sample/1", "id": f"q{at}", "scores": {"s": 1}, "answered_at": moment}
        for at, moment in enumerate(moments)
    ]
    if not is_timed:
        del lines[2]["answered_at"]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = tmp_path / "store"
    ran = gatemark("compare", path, path, "--seal", "--store", store, "--json")
    result = Workspace(store=str(store)).results.get(ran.json["result_id"])
    answered = answer_time_of(result)
    expected = datetime(2027, 3, 1, 8, tzinfo=UTC) if is_timed else None
    assert (None if answered is None else answered.at) == expected
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0
