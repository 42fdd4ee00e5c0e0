"""Results derived again from their evidence: true ones hold, invented ones do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.ledger.tamper import reseal

from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.reason import Reason
from gatemark.core.result import Result, seal
from gatemark.workspace import Workspace

Run = Callable[..., Any]
LABELS = ["VALID", "REJECT", "NOT_IN_CONTEXT"]

PACK = """
gatemark: 1
name: shouting
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.5
regression_max: 0.2
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 0.8, min: 0.5, dataset: golden.jsonl, scorer: exact}
  - {id: calib, kind: calibration, weight: 0.2, from: golden}
targets:
  candidate: {python: "app:candidate"}
  baseline: {python: "app:baseline"}
"""
APP = """
def candidate(text):
    if text.endswith("13"):
        raise ValueError("unlucky")
    return {"output": text.upper() if not text.endswith("3") else text, "confidence": 0.9}

def baseline(text):
    return {"output": text.upper() if not text.endswith("7") else 1.5, "confidence": 0.8}
"""


def pair_files(folder: Path) -> dict[str, Path]:
    rows = {"pairs": [], "scholar": [], "auditor": [], "third": []}
    for number in range(90):
        label = LABELS[number % 3]
        other = LABELS[(number + 1) % 3] if number % 30 == 0 else label
        qid = f"Q{number}"
        rows["pairs"].append({"qid": qid, "scholar": {"label": label}, "auditor": {"label": other}})
        rows["scholar"].append({"qid": qid, "label": label})
        rows["auditor"].append({"qid": qid, "label": other})
        rows["third"].append({"qid": qid, "label": label if number % 9 else "ABSTAIN"})
    paths = {}
    for name, lines in rows.items():
        paths[name] = folder / f"{name}.jsonl"
        paths[name].write_text("".join(json.dumps(line) + "\n" for line in lines))
    paths["ids"] = folder / "ids.txt"
    paths["ids"].write_text("".join(f"Q{number}\n" for number in range(90)))
    return paths


@pytest.fixture
def store(gatemark: Run, tmp_path: Path) -> Path:
    """Three sealed results: merged pairs, one file per validator with pinned ids, and a pack."""
    files = pair_files(tmp_path)
    place = tmp_path / "store"
    common = ("--seal", "--store", place, "-j", 1)
    assert gatemark("score", "agreement", "--pairs", files["pairs"], *common).code == 0
    apart = ("--scholar", files["scholar"], "--auditor", files["auditor"])
    apart = (*apart, "--validator", f"third={files['third']}")
    ran = gatemark("score", "agreement", *apart, "--expected-ids", files["ids"], *common)
    assert ran.code == 0
    (tmp_path / "pack.yaml").write_text(PACK)
    (tmp_path / "app.py").write_text(APP)
    items = [{"id": f"i{n}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(40)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    ran = gatemark("run", tmp_path / "pack.yaml", "--store", place)
    assert ran.code in (0, 1, 3)
    return place


def verify(gatemark: Run, store: Path) -> Any:
    return gatemark("ledger", "verify", "--rescore", "--store", store, "--json")


def test_true_results_hold_without_pack_or_data_files(
    gatemark: Run, store: Path, tmp_path: Path
) -> None:
    for name in ("pack.yaml", "app.py", "golden.jsonl", "pairs.jsonl", "ids.txt"):
        (tmp_path / name).unlink()
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["issues"], ran.json["unjudged"]) == (0, [], [])
    assert ran.json["results"] == 3


def forged(result: Result, **changes: Any) -> Result:
    """A result whose seal is right and whose content was invented before it was sealed."""
    fields = {name: getattr(result, name) for name in result.__struct_fields__}
    del fields["id"], fields["stamp"], fields["schema"]
    return seal(**{**fields, **changes})


def by_title(workspace: Workspace, part: str) -> Result:
    line = next(line for line in workspace.results.lines(9) if part in line.title)
    return workspace.results.get(line.id)


def add(store: Path, result: Result) -> int:
    workspace = Workspace(store=str(store))
    workspace.results.append(result)
    seq = workspace.events.head().seq
    workspace.store.close()
    return seq


def test_an_invented_number_is_found(gatemark: Run, store: Path) -> None:
    result = by_title(Workspace(store=str(store)), "agreement")
    better = tuple(
        msgspec.structs.replace(number, value=0.999) if number.name == "kappa" else number
        for number in result.measurements
    )
    seq = add(store, forged(result, measurements=better))
    assert gatemark("ledger", "verify", "--store", store).code == 0
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    (trouble,) = ran.json["issues"]
    assert "kappa was 0.999 (n=90), its evidence gives 0.95" in trouble["message"]


@pytest.mark.parametrize("title", ["agreement", "shouting"])
def test_an_invented_verdict_is_found(gatemark: Run, store: Path, title: str) -> None:
    result = by_title(Workspace(store=str(store)), title)
    turned = "fail" if result.verdict == "pass" else "pass"
    blockers = ("invented",) if turned == "fail" else ()
    seq = add(store, forged(result, verdict=turned, blockers=blockers))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    assert any(f"its verdict is {turned}" in t["message"] for t in ran.json["issues"])


def change_each_reason(result: Result, change: Callable[[Reason], Reason]) -> Result:
    """Change every reason of a finding or a measurement, and seal the result again."""
    findings = tuple(
        msgspec.structs.replace(one, reason=change(one.reason)) for one in result.findings
    )
    measurements = tuple(
        one if one.reason is None else msgspec.structs.replace(one, reason=change(one.reason))
        for one in result.measurements
    )
    return forged(result, findings=findings, measurements=measurements)


def reword(reason: Reason) -> Reason:
    inner = None if reason.because is None else reword(reason.because)
    return msgspec.structs.replace(reason, text="as a later build may word it", because=inner)


def change_value(reason: Reason, code: str, name: str) -> Reason:
    """Change one value wherever a reason or its cause has that code."""
    inner = None if reason.because is None else change_value(reason.because, code, name)
    values = dict(reason.values)
    if reason.code == code:
        old = values[name]
        is_number = isinstance(old, int | float) and not isinstance(old, bool)
        values[name] = old + 1 if is_number else "invented"
    return msgspec.structs.replace(reason, values=values, because=inner)


def list_values(result: Result) -> set[tuple[str, str]]:
    """Every code in a result with the name of each of its values."""
    reasons = [one.reason for one in (*result.findings, *result.measurements)]
    found = set()
    while reasons:
        if (reason := reasons.pop()) is not None:
            found |= {(reason.code, name) for name in reason.values}
            reasons.append(reason.because)
    return found


def of_another_build(result: Result) -> dict[str, str]:
    return {**result.runtime, "gatemark": "99.0.0"}


def check_reasons_of(gatemark: Run, store: Path, result: Result) -> set[str]:
    """Check that words may change and values may not; return the codes that have values."""
    before = verify(gatemark, store)
    add(store, forged(change_each_reason(result, reword), runtime=of_another_build(result)))
    assert verify(gatemark, store).code == before.code != 4
    forgeries = {}
    for code, name in sorted(list_values(result)):
        change = partial(change_value, code=code, name=name)
        forgeries[add(store, change_each_reason(result, change))] = (code, name)
    assert forgeries
    ran = verify(gatemark, store)
    assert ran.code == 4
    caught = {issue["seq"] for issue in ran.json["issues"]}
    assert [said for seq, said in forgeries.items() if seq not in caught] == []
    assert caught <= forgeries.keys()
    return {code for code, _ in forgeries.values()}


def change_reasons(result: Result, **changes: Any) -> Result:
    """Change every reason of a finding, and seal the result again."""
    findings = tuple(
        msgspec.structs.replace(one, reason=msgspec.structs.replace(one.reason, **changes))
        for one in result.findings
    )
    return forged(result, findings=findings)


@pytest.mark.parametrize(
    ("title", "codes"),
    [
        ("agreement", {"meets_bound"}),
        ("shouting", {"no_number", "answers_state_none", "too_few_confidences"}),
    ],
)
def test_words_of_a_reason_may_change_and_values_may_not(
    gatemark: Run, store: Path, title: str, codes: set[str]
) -> None:
    result = by_title(Workspace(store=str(store)), title)
    assert codes <= check_reasons_of(gatemark, store, result)


@pytest.mark.parametrize("title", ["agreement", "shouting"])
def test_another_wording_breaks_nothing_and_another_reason_is_found(
    gatemark: Run, store: Path, title: str
) -> None:
    result = by_title(Workspace(store=str(store)), title)
    reworded = change_reasons(result, text="as a later build may word it")
    add(store, forged(reworded, runtime=of_another_build(result)))
    assert verify(gatemark, store).code == 0
    seq = add(store, change_reasons(result, code="invented"))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    assert "its evidence another one" in ran.json["issues"][0]["message"]


@pytest.mark.parametrize(
    "change", [{"observed": 0.01, "slack": -9.0}, {"n": 1}, {"bound": 0.0}, {"severity": "warn"}]
)
def test_a_finding_with_other_numbers_than_its_rule_gives_is_found(
    gatemark: Run, store: Path, change: dict[str, Any]
) -> None:
    result = by_title(Workspace(store=str(store)), "agreement")
    findings = tuple(msgspec.structs.replace(one, **change) for one in result.findings)
    seq = add(store, forged(result, findings=findings))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)


def test_a_reason_that_says_it_was_erased_needs_an_erasure(gatemark: Run, store: Path) -> None:
    result = by_title(Workspace(store=str(store)), "agreement")
    seq = add(store, change_reasons(result, code="erased", values={}, text="approved by nobody"))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)


def test_a_softer_policy_under_the_same_name_is_found(gatemark: Run, store: Path) -> None:
    result = by_title(Workspace(store=str(store)), "shouting")
    rules = tuple(msgspec.structs.replace(rule, bound=0.0) for rule in result.policy.rules)
    policy = msgspec.structs.replace(result.policy, rules=rules)
    add(store, forged(result, policy=policy, policy_digest=policy.digest))
    ran = verify(gatemark, store)
    assert ran.code == 4
    assert any("its policy is not the one" in t["message"] for t in ran.json["issues"])


def with_blob(workspace: Workspace, result: Result, name: str, data: bytes) -> Result:
    """The result as if this blob had been its evidence all along."""
    workspace.blobs.put(data)
    new = digest_bytes(data)
    blobs = tuple(
        msgspec.structs.replace(blob, digest=new) if blob.name == name else blob
        for blob in result.blobs
    )
    evidence = tuple(
        msgspec.structs.replace(
            account,
            files=tuple(
                msgspec.structs.replace(file, digest=new, byte_count=len(data))
                if file.name == name
                else file
                for file in account.files
            ),
        )
        for account in result.evidence
    )
    return forged(result, blobs=blobs, evidence=evidence)


def test_an_invented_score_is_found_by_scoring_again(gatemark: Run, store: Path) -> None:
    workspace = Workspace(store=str(store))
    result = by_title(workspace, "shouting")
    name = "golden.candidate.jsonl"
    blob = next(blob for blob in result.blobs if blob.name == name)
    lines = workspace.blobs.get(blob.digest).decode().replace('"exact":0', '"exact":1')
    seq = add(store, with_blob(workspace, result, name, lines.encode()))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    messages = [trouble["message"] for trouble in ran.json["issues"]]
    assert any("has the score 1, exact gives 0.0" in message for message in messages), messages


def test_other_rows_than_the_result_names_are_found(gatemark: Run, store: Path) -> None:
    workspace = Workspace(store=str(store))
    result = by_title(workspace, "shouting")
    name = "golden.rows.jsonl"
    blob = next(blob for blob in result.blobs if blob.name == name)
    lines = workspace.blobs.get(blob.digest).replace(b"SAY 3", b"SAY 4")
    add(store, with_blob(workspace, result, name, lines))
    ran = verify(gatemark, store)
    assert ran.code == 4
    assert any("are not the rows of" in t["message"] for t in ran.json["issues"])


def test_erased_evidence_leaves_a_result_unjudged(gatemark: Run, store: Path) -> None:
    result = by_title(Workspace(store=str(store)), "agreement")
    evidence = result.evidence[0].files[0].digest
    ran = gatemark("ledger", "erase", evidence, "--reason", "asked for", "--store", store)
    assert ran.code == 0
    assert gatemark("ledger", "verify", "--store", store).code == 0
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["verdict"], ran.json["issues"]) == (3, "inconclusive", [])
    assert f"{evidence} was erased" in ran.json["unjudged"][0]


def test_a_result_without_its_pack_is_unjudged(gatemark: Run, store: Path) -> None:
    result = by_title(Workspace(store=str(store)), "shouting")
    add(store, forged(result, blobs=()))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["issues"]) == (3, [])
    assert "no pack was kept with it" in ran.json["unjudged"][0]


def test_a_result_without_the_answers_it_counts_is_found(gatemark: Run, store: Path) -> None:
    result = by_title(Workspace(store=str(store)), "shouting")
    kept = tuple(blob for blob in result.blobs if not blob.name.endswith(".candidate.jsonl"))
    assert len(kept) < len(result.blobs)
    seq = add(store, forged(result, blobs=kept))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)
    said = [issue["message"] for issue in ran.json["issues"]]
    assert any("its account of the evidence is not what the evidence gives" in one for one in said)


def first_pack(store: Path) -> Result:
    return by_title(Workspace(store=str(store)), "shouting")


def change_figures(result: Result, old: str, new: str) -> list[Any]:
    text = msgspec.json.encode(result.figures).decode()
    assert old in text
    found: list[Any] = json.loads(text.replace(old, new))
    return found


FORGERIES: dict[str, Callable[[Result], dict[str, Any]]] = {
    "bench": lambda one: {"bench": {"value": 0.999, "reason": None}},
    "no bench": lambda one: {"bench": None},
    "regression": lambda one: {"regression": {"value": -0.5, "reason": None}},
    "a number in a figure": lambda one: {"figures": change_figures(one, '["i33",1,', '["i33",7,')},
    "a word in a figure": lambda one: {"figures": change_figures(one, '["i33",', '["i34",')},
    "a figure less": lambda one: {"figures": msgspec.to_builtins(one.figures)[:-1]},
    "a measure of another version": lambda one: {
        "measurements": [
            number | {"version": 7} if number["name"] == "score" else number
            for number in msgspec.to_builtins(one.measurements)
        ]
    },
}


def reword_first(one: Result, where: str) -> dict[str, Any]:
    """Another sentence for the first reason of the findings, or of the missing numbers."""
    found = msgspec.to_builtins(getattr(one, where))
    reason = next(part["reason"] for part in found if part.get("reason"))
    while reason.get("because"):
        reason = reason["because"]
    reason["text"] = "all is well"
    return {where: found}


SENTENCES: dict[str, Callable[[Result], dict[str, Any]]] = {
    "a reason of a finding": lambda one: reword_first(one, "findings"),
    "a reason of a number": lambda one: reword_first(one, "measurements"),
    "blockers": lambda one: {"blockers": ["something harmless", *one.blockers[1:]]},
    "a caveat more": lambda one: {"caveats": [*one.caveats, "a person read all answers"]},
    "caveats of a number": lambda one: {
        "measurements": [
            number | {"caveats": ["looked at by hand"]}
            for number in msgspec.to_builtins(one.measurements)
        ]
    },
}


@pytest.mark.parametrize("what", SENTENCES)
@pytest.mark.parametrize(("build", "code"), [(None, 4), ("99.0.0", 0)])
def test_sentences_of_this_build_follow_from_the_evidence(
    gatemark: Run, store: Path, what: str, build: str | None, code: int
) -> None:
    """A later build may word them in another way, so theirs are not compared."""
    honest = first_pack(store)
    members = SENTENCES[what](honest)
    if build is not None:
        members["runtime"] = {**honest.runtime, "gatemark": build}
    seq = add(store, reseal(honest, **members))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (code, seq if code else None), ran.out


def test_the_title_follows_from_the_pack(gatemark: Run, store: Path) -> None:
    seq = add(store, forged(first_pack(store), title="Trust me"))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq)


def test_a_result_that_names_no_build_is_held_to_the_sentences_of_this_one(
    gatemark: Run, store: Path
) -> None:
    honest = first_pack(store)
    runtime = {name: said for name, said in honest.runtime.items() if name != "gatemark"}
    add(store, reseal(honest, runtime=runtime, blockers=["something harmless"]))
    assert verify(gatemark, store).code == 4


OTHER = digest_bytes(b"another candidate")
SUBJECTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "the digest of the candidate": lambda one: one["candidate"].update(digest=OTHER),
    "the id of the candidate": lambda one: one["candidate"].update(id="another/candidate"),
    "the digest of the baseline": lambda one: one["baseline"].update(digest=OTHER),
    "no baseline": lambda one: one.update(baseline=None),
    "a version vouched for by nobody": lambda one: (
        one["candidate"].update(digest=OTHER),
        one["runtime"].update({"target.candidate": OTHER}),
    ),
    "not what answered": lambda one: one.update(
        blobs=[blob for blob in one["blobs"] if blob["name"] != "targets.json"]
    ),
    "younger answers": lambda one: one["runtime"].update(answered_at="2099-01-01T00:00:00Z"),
}


@pytest.mark.parametrize("what", SUBJECTS)
@pytest.mark.parametrize("build", [None, "99.0.0"])
def test_a_result_is_of_what_it_keeps(
    gatemark: Run, store: Path, what: str, build: str | None
) -> None:
    honest = first_pack(store)
    members = msgspec.json.decode(honest.document)
    SUBJECTS[what](members)
    if build is not None:
        members["runtime"]["gatemark"] = build
    seq = add(store, reseal(honest, **members))
    ran = verify(gatemark, store)
    assert (ran.code, ran.json["first_bad_seq"]) == (4, seq), ran.out


@pytest.mark.parametrize("what", FORGERIES)
@pytest.mark.parametrize(("build", "code"), [(None, 4), ("99.0.0", 3)])
def test_what_a_result_says_besides_its_verdict_is_derived_again(
    gatemark: Run, store: Path, what: str, build: str | None, code: int
) -> None:
    honest = first_pack(store)
    members = FORGERIES[what](honest)
    if build is not None:
        members["runtime"] = {**honest.runtime, "gatemark": build}
    add(store, reseal(honest, **members))
    found = verify(gatemark, store).code
    # Numbers follow from the rules, whichever build has them.
    assert found == (4 if what in ("bench", "no bench", "regression") else code)


def test_a_lenient_policy_under_the_name_of_another_build_is_found(
    gatemark: Run, store: Path
) -> None:
    """Another policy of the same options would have been another version of the rules."""
    honest = first_pack(store)
    policy = msgspec.to_builtins(honest.policy)
    for rule in policy["rules"]:
        rule["bound"] = 0.0 if rule["op"] == ">=" else 1.0
    runtime = {**honest.runtime, "gatemark": "0.1.9"}
    named = digest_bytes(canonical_bytes(policy))
    add(store, reseal(honest, policy=policy, policy_digest=named, runtime=runtime))
    ran = verify(gatemark, store)
    assert ran.code == 4
    assert any("policy is not the one" in issue["message"] for issue in ran.json["issues"])
