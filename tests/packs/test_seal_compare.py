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

from gatemark.core.result import answer_time_of
from gatemark.packs import seal_compare
from gatemark.packs.seal_compare import KeptComparison
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
    """Promotions need the full pack of record, which has a definition; a comparison has none."""
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


def test_a_comparison_is_derived_again_by_the_rules_that_it_names() -> None:
    samples = {
        side: b"".join(
            msgspec.json.encode(
                {
                    "schema": "gatemark.sample/1",
                    "id": f"q{n:03d}",
                    "epoch": 1,
                    "scores": {"s": 0.0 if n < wrong else 1.0},
                }
            )
            + b"\n"
            for n in range(400)
        )
        for side, wrong in (("baseline", 0), ("candidate", 28))
    }
    now = datetime(2026, 1, 1, tzinfo=UTC)
    # What an earlier build kept names no rules.
    old = {"score": "s", "cluster": None, "settings": {"alpha": 0.05, "margin": 0.05}}
    one, first = seal_compare._judged(samples, msgspec.convert(old, KeptComparison), now)
    assert (first.verdict.outcome, "rules" in first.policy.settings) == ("fail", False)
    kept = msgspec.convert({**old, "rules": 2}, KeptComparison)
    two, second = seal_compare._judged(samples, kept, now)
    assert (second.verdict.outcome, second.policy.settings["rules"]) == ("inconclusive", 2)
    kept = msgspec.convert({**old, "rules": 3}, KeptComparison)
    three, third = seal_compare._judged(samples, kept, now)
    methods = [report.non_inferiority.method for report in (one, two, three)]
    assert methods == ["melded exact", "melded exact", "score"]
    assert all("largest_drop" not in each.policy.settings for each in (first, second, third))
    declared = {**old, "rules": 3, "settings": {**old["settings"], "largest_drop": 0.5}}
    _, fourth = seal_compare._judged(samples, msgspec.convert(declared, KeptComparison), now)
    assert fourth.policy.settings["largest_drop"] == 0.5


def test_clusters_of_samples_count_from_rules_4_on(gatemark: Run, tmp_path: Path) -> None:
    rows = [
        {"schema": "gatemark.sample/1", "id": f"q{n}", "epoch": 1, "scores": {"s": 1.0}}
        | {"cluster": f"talk {n // 50}"}
        for n in range(400)
    ]
    data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    kept = {"score": "s", "cluster": None, "settings": {"alpha": 0.05, "margin": 0.05}}

    def outcome(rules: int) -> str:
        asked = msgspec.convert({**kept, "rules": rules}, KeptComparison)
        sides = {"baseline": data, "candidate": data}
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return str(seal_compare._judged(sides, asked, now)[1].verdict.outcome)

    assert [outcome(rules) for rules in (1, 2, 3, 4)] == [*["pass"] * 3, "inconclusive"]
    file, store = tmp_path / "samples.jsonl", ("--store", tmp_path / "store")
    file.write_bytes(data)
    assert gatemark("compare", file, file, "--seal", *store).code == 3
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
