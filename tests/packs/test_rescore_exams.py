"""Exams that were sealed on their own, derived again from what the store keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.ledger.tamper import reseal
from tests.plugins.advisory.decisions import good_lane
from tests.plugins.overhead.arms import loss_arm, ppl_pair
from tests.release.review.arms import prefers, vote_all, write_arm

from gatemark.core.result import Result
from gatemark.evidence.record_schemas import schemas
from gatemark.release.review.close import CloseReview, close_review
from gatemark.release.review.create import CreateReview, create_review
from gatemark.workspace import Workspace

from .test_rescore import add, check_reasons_of, forged, verify, with_blob

Run = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def seal_advisory(gatemark: Run, folder: Path, store: Path) -> Result:
    records = good_lane()
    files = [folder / "one.jsonl", folder / "two.jsonl"]
    for file, half in zip(files, (records[:50], records[50:]), strict=True):
        file.write_text("".join(json.dumps(record) + "\n" for record in half))
    ids = folder / "ids.txt"
    ids.write_text("".join(f"{record['decision_id']}\n" for record in records) + "never-came\n")
    policy = folder / "policy.yaml"
    policy.write_text("gatemark_advisory: 1\nname: kept\n")
    ran = gatemark(
        *("score", "advisory", *files, "--expected-ids", ids, "--policy", policy),
        *("--seal", "--store", store, "-j", 2),
    )
    assert ran.code in (1, 3), ran.err
    return only(store)


def seal_overhead(gatemark: Run, folder: Path, store: Path) -> Result:
    again = loss_arm(folder / "again.jsonl", "bare", [2.0 + 1e-6] * 12)
    arms = ppl_pair(folder, 7.4, 7.41)
    ran = gatemark("score", "overhead", *arms, "--noise", again, "--seal", "--store", store)
    assert ran.code in (0, 1, 3), ran.err
    return only(store)


def seal_review(_: Run, folder: Path, store: Path, **plan: Any) -> Result:
    """A review with an item that one arm lacks and, when looked into, votes that never came."""
    workspace = Workspace(store=str(store), actor="bob")
    files = {"new": write_arm(folder, "new", 20), "old": write_arm(folder, "old", 21)}
    arms: dict[str, Any] = {"candidates": ("new",), "baseline": "old", "files": files}
    request = CreateReview(name="letters", on_unpaired="exclude", **arms, **plan)
    create_review(workspace, request)
    vote_all(workspace, "bob", prefers("new"), 14 if request.peeking else None)
    outcome = close_review(workspace, CloseReview(review="letters"))
    assert outcome.candidates[0].items_missing == 1
    workspace.store.close()
    return only(store)


def seal_peeked(gatemark: Run, folder: Path, store: Path) -> Result:
    return seal_review(gatemark, folder, store, peeking=True)


SEALS = pytest.mark.parametrize(
    "seal_exam", [seal_advisory, seal_overhead, seal_review, seal_peeked]
)


def only(store: Path) -> Result:
    workspace = Workspace(store=str(store))
    (line,) = workspace.results.lines(9)
    return workspace.results.get(line.id)


@SEALS
def test_a_true_result_holds_without_its_files(
    gatemark: Run, tmp_path: Path, store: Path, seal_exam: Any
) -> None:
    seal_exam(gatemark, tmp_path, store)
    for file in tmp_path.iterdir():
        if file.is_file():
            file.unlink()
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["issues"], ran.json["unjudged"]) == (0, [], [])
    assert ran.json["results"] == 1


@SEALS
def test_words_of_a_reason_may_change_and_values_may_not(
    gatemark: Run, tmp_path: Path, store: Path, seal_exam: Any
) -> None:
    check_reasons_of(gatemark, store, seal_exam(gatemark, tmp_path, store))


@SEALS
def test_an_invented_number_is_found(
    gatemark: Run, tmp_path: Path, store: Path, seal_exam: Any
) -> None:
    result = seal_exam(gatemark, tmp_path, store)
    at = next(i for i, number in enumerate(result.measurements) if number.value is not None)
    numbers = list(result.measurements)
    numbers[at] = msgspec.structs.replace(numbers[at], value=0.125)
    seq = add(store, forged(result, measurements=tuple(numbers)))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    assert any("was 0.125" in trouble["message"] for trouble in ran.json["issues"])


@SEALS
def test_an_invented_verdict_is_found(
    gatemark: Run, tmp_path: Path, store: Path, seal_exam: Any
) -> None:
    result = seal_exam(gatemark, tmp_path, store)
    turned = "fail" if result.verdict == "pass" else "pass"
    blockers = ("invented",) if turned == "fail" else ()
    seq = add(store, forged(result, verdict=turned, blockers=blockers))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)


@SEALS
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _sitting: b"{}", "its sitting.json is not valid"),
        (lambda sitting: sitting | {"roles": []}, "names other evidence files"),
        (lambda sitting: sitting | {"kind": "agreement"}, "is of the exam 'agreement'"),
        (lambda sitting: sitting | {"options": {"profile": 7}}, "cannot be judged"),
    ],
)
def test_a_sitting_that_is_not_the_results_own_is_found(
    gatemark: Run,
    tmp_path: Path,
    store: Path,
    *,
    seal_exam: Any,
    change: Any,
    message: str,
) -> None:
    result = seal_exam(gatemark, tmp_path, store)
    workspace = Workspace(store=str(store))
    blob = next(blob for blob in result.blobs if blob.name == "sitting.json")
    changed = change(json.loads(workspace.blobs.get(blob.digest)))
    data = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    seq = add(store, with_blob(workspace, result, "sitting.json", data))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    assert message in ran.json["issues"][0]["message"]


@pytest.mark.parametrize("seal_exam", [seal_advisory, seal_review])
def test_lost_pins_are_found(gatemark: Run, tmp_path: Path, store: Path, seal_exam: Any) -> None:
    result = seal_exam(gatemark, tmp_path, store)
    kept = tuple(blob for blob in result.blobs if blob.name != "expected_ids.txt")
    add(store, forged(result, blobs=kept))
    ran = verify(gatemark, store)
    assert ran.code == 4
    assert (
        "account of the evidence is not what the evidence gives" in ran.json["issues"][0]["message"]
    )


def test_an_absent_arm_leaves_an_overhead_result_unjudged(
    gatemark: Run, tmp_path: Path, store: Path
) -> None:
    bare = loss_arm(tmp_path / "bare.jsonl", "bare", [2.0] * 12)
    ran = gatemark(
        *("score", "overhead", "--bare", bare, "--guarded", tmp_path / "gone.jsonl"),
        *("--seal", "--store", store),
    )
    assert ran.code in (1, 3), ran.err
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["issues"]) == (3, [])
    assert "an evidence file was not there" in ran.json["unjudged"][0]


@pytest.mark.parametrize("change", [{"left_out": 0}, {"left_out": 5}])
def test_a_review_that_hides_what_it_left_out_is_found(
    gatemark: Run, tmp_path: Path, store: Path, change: dict[str, int]
) -> None:
    result = seal_review(gatemark, tmp_path, store)
    workspace = Workspace(store=str(store))
    blob = next(blob for blob in result.blobs if blob.name == "sitting.json")
    data = json.dumps(json.loads(workspace.blobs.get(blob.digest)) | change).encode()
    seq = add(store, with_blob(workspace, result, "sitting.json", data))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    assert "account of the evidence" in ran.json["issues"][0]["message"]


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_writing_another_version_of_the_rules_of_an_exam_gains_nothing(
    gatemark: Run,
    tmp_path: Path,
    store: Path,
    version: Any,
) -> None:
    setting = "overhead_rules"
    result = seal_overhead(gatemark, tmp_path, store)
    assert result.policy.settings[setting] == 1
    assert verify(gatemark, store).code == 0
    settings = {**result.policy.settings, setting: version}
    policy = msgspec.structs.replace(result.policy, settings=settings)
    seq = add(store, forged(result, policy=policy, policy_digest=policy.digest))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)


def test_a_pack_of_guard_overhead_is_derived_again(gatemark: Run, tmp_path: Path) -> None:
    """A single window holds the verdict, and a loss of 0 is a loss."""
    loss_arm(tmp_path / "bare.jsonl", "bare", [2.0])
    loss_arm(tmp_path / "guarded.jsonl", "guarded", [2.001])
    loss_arm(tmp_path / "zeros.jsonl", "bare", [0.0, 2.0])
    loss_arm(tmp_path / "ones.jsonl", "guarded", [0.0, 2.001])
    pack = """
gatemark: 1
name: %s
version: 1
asset: {kind: model, name: guarded}
score_min: 0.5
regression_max: 0.02
suites:
  - id: cost
    kind: overhead
    weight: 1
    evidence: {bare: %s.jsonl, guarded: %s.jsonl}
    baseline_evidence: none
"""
    (tmp_path / "thin.yaml").write_text(pack % ("thin", "bare", "guarded"))
    (tmp_path / "zeros.yaml").write_text(pack % ("zeros", "zeros", "ones"))
    store = ("--store", tmp_path / "store")
    assert gatemark("run", tmp_path / "thin.yaml", *store).code == 3
    ran = gatemark("run", tmp_path / "zeros.yaml", *store, "--json")
    assert ran.code == 3
    assert "unusable" not in ran.out
    verified = gatemark("ledger", "verify", "--rescore", *store)
    assert verified.code == 0, verified.out


def test_a_caveat_that_its_evidence_gives_cannot_be_left_out(
    gatemark: Run, tmp_path: Path, store: Path
) -> None:
    honest = seal_overhead(gatemark, tmp_path, store)
    assert honest.caveats
    later = {**honest.runtime, "gatemark": "99.0.0"}
    add(store, reseal(honest, caveats=[f"see: {text}" for text in honest.caveats], runtime=later))
    assert verify(gatemark, store).code == 0
    add(store, reseal(honest, caveats=list(honest.caveats[1:])))
    ran = verify(gatemark, store)
    assert (ran.code, "lacks a caveat" in ran.json["issues"][0]["message"]) == (4, True)


def test_a_run_log_without_a_list_of_expected_ids_is_derived_again(
    gatemark: Run, tmp_path: Path, store: Path
) -> None:
    row = dict(schemas().get("exaid.metrics").good_files[0][0])
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    ran = gatemark("score", "runlog", tmp_path / "rows.jsonl", "--seal", "--store", store)
    assert ran.code == 0, ran.err
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["unjudged"]) == (0, [])
