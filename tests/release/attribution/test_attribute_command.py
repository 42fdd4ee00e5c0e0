"""``gatemark attribute`` as a user sees it: replay, records, company, rules, bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.release.attribution.events import ATTRIBUTION_SEALED
from gatemark.workspace import Workspace

Run = Callable[..., Any]

DESK = """
import time

def step(call):
    if call["name"] == "writer" and call["pins"].get("prompt:writer") == "r2":
        return "no idea"
    if call["name"] == "tariffs":
        return "5"
    return f"costs {call['inputs']['look-up']}"

def broken(call):
    raise RuntimeError("gone")

def odd(call):
    return float("nan")

def counting(call):
    with open("calls.txt", "a") as file:
        file.write("x")
    return step(call)

def hanging(call):
    time.sleep(3)
"""


def decision(**changes: Any) -> dict[str, Any]:
    document = {
        "id": "d1",
        "input": "how much?",
        "output": "no idea",
        "steps": [
            {
                "id": "look-up",
                "kind": "retrieval",
                "name": "tariffs",
                "sources": ["input"],
                "output": "5",
                "retrieval": {"name": "tariffs", "version": "t1"},
            },
            {
                "id": "answer",
                "kind": "model",
                "name": "writer",
                "sources": ["look-up"],
                "output": "no idea",
                "prompt": {"name": "writer", "version": "r2"},
                "model": {"name": "writer", "version": "m1"},
            },
        ],
        "judgement": {"verdict": "wrong", "reviewer": "r", "expected": "costs 5"},
    }
    return document | changes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "desk_steps.py").write_text(DESK)
    (tmp_path / "decision.json").write_text(json.dumps(decision(), indent=1))
    plan(tmp_path, "step")
    return tmp_path


def plan(folder: Path, function: str | None, **more: Any) -> None:
    content: dict[str, Any] = {"reference": {"prompt:writer": "r1"}, "repeats": 5, **more}
    if function is not None:
        content["target"] = {"python": f"desk_steps:{function}"}
    (folder / "replay.yaml").write_text(json.dumps(content))


def run(gatemark: Run, folder: Path, *more: object) -> Any:
    return gatemark(
        "attribute", folder / "decision.json", "--store", folder / "store", "--json", *more
    )


def test_replay_names_the_step_whose_version_did_it(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 0
    assert ran.json["cause"] == "answer"
    first = ran.json["suspects"][0]
    assert (first["confidence"], first["right_after_repair"], first["by_versions"]) == (
        "high",
        1.0,
        1.0,
    )
    assert ran.json["active"]["prompt:writer"] == "r2"
    assert ran.json["active"]["upstream retrieval:tariffs"] == "t1"
    assert ran.json["changes"]["smallest"] == ["prompt:writer"]


def test_the_same_question_has_the_same_answer(gatemark: Run, folder: Path) -> None:
    one = run(gatemark, folder, "--replay").json
    assert run(gatemark, folder, "--replay").json["id"] == one["id"]


def test_no_call_is_made_twice_and_all_are_counted(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    plan(folder, "counting")
    ran = run(gatemark, folder, "--replay")
    made = len((folder / "calls.txt").read_text())
    assert ran.json["replay"]["calls"] == made
    seeds = 2 * 5
    assert made <= seeds * len({"look-up", "answer r1", "answer r2"})


def two_faults(folder: Path) -> None:
    """A stale source and a bad prompt, each of which spoils the end by itself."""
    (folder / "desk_steps.py").write_text(
        """
def step(call):
    if call["name"] == "tariffs":
        return "5" if call["pins"]["retrieval:tariffs"] == "t2" else "4"
    if call["pins"]["prompt:writer"] == "r2":
        return "no idea"
    return f"costs {call['inputs']['look-up']}"
"""
    )
    stale = decision()
    stale["steps"][0]["output"] = "4"
    (folder / "decision.json").write_text(json.dumps(stale))
    reference = {"prompt:writer": "r1", "retrieval:tariffs": "t2", "model:writer": "m0"}
    plan(folder, "step", reference=reference)


def test_where_no_single_repair_helps_the_guilty_change_still_speaks(
    gatemark: Run, folder: Path
) -> None:
    two_faults(folder)
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 0
    assert len(ran.json["changes"]["smallest"]) == 1
    first = ran.json["suspects"][0]
    assert first["confidence"] == "medium"
    assert f"{ran.json['changes']['smallest'][0]} alone makes the decision go wrong" in first["why"]
    assert first["right_after_repair"] == 0.0


def test_when_nothing_helps_that_is_said_and_not_that_nothing_was_tried(
    gatemark: Run, folder: Path
) -> None:
    two_faults(folder)
    plan(folder, "step", reference={})
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 3
    assert "repeating any single step does not fix the decision" in ran.json["reason"]
    assert ran.json["replay"]["mode"] == "live"


@pytest.mark.parametrize(
    ("function", "more", "words"),
    [
        ("broken", {}, "gone"),
        ("odd", {}, "output must be finite, got nan"),
        ("step", {"max_calls": 1}, "all 1 calls of max_calls are used up"),
        ("hanging", {"timeout_s": 0.05, "repeats": 1}, "no answer within"),
    ],
)
def test_steps_that_cannot_be_run_again_show_nothing(
    gatemark: Run, folder: Path, function: str, more: dict[str, Any], words: str
) -> None:
    plan(folder, function, **more)
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 3
    assert ran.json["cause"] is None
    assert ran.json["replay"]["mode"] == "none"
    assert words in ran.json["replay"]["reason"]


def test_without_an_expected_output_no_end_can_be_judged(gatemark: Run, folder: Path) -> None:
    silent = decision(judgement={"verdict": "wrong", "reviewer": "r"})
    (folder / "decision.json").write_text(json.dumps(silent))
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 3
    assert "the expected output is not known" in ran.json["replay"]["reason"]
    kinds = {proposal["kind"] for proposal in ran.json["proposals"]}
    assert kinds == set()


def test_recorded_decisions_can_stand_in_for_a_target(gatemark: Run, folder: Path) -> None:
    plan(folder, None)
    good = decision(id="d0", output="costs 5")
    good["judgement"] = {"verdict": "right", "reviewer": "r"}
    good["steps"] = json.loads(json.dumps(good["steps"]))
    good["steps"][1] |= {"output": "costs 5", "prompt": {"name": "writer", "version": "r1"}}
    (folder / "others.jsonl").write_text(json.dumps(good) + "\n" + json.dumps(decision(id="d9")))
    ran = run(gatemark, folder, "--replay", "--runs", folder / "others.jsonl")
    assert ran.code == 0
    assert ran.json["replay"]["mode"] == "recorded"
    assert ran.json["cause"] == "answer"
    first = ran.json["suspects"][0]
    assert "1 of 1 ends were right" in first["why"]
    assert first["interval"][0] < 0.25, "one record is one repeat, however many were asked for"


def test_a_check_that_failed_then_speaks_without_replay(gatemark: Run, folder: Path) -> None:
    checked = decision()
    checked["steps"][1]["checks"] = [{"pack": "desk", "rule": "says-a-price", "verdict": "fail"}]
    (folder / "decision.json").write_text(json.dumps(checked))
    ran = run(gatemark, folder)
    assert ran.code == 0
    assert ran.json["suspects"][0]["confidence"] == "medium"
    assert ran.json["verifier"]["catch"] == "caught_then"
    assert ran.json["verifier"]["rules"][0][0] == "desk/says-a-price"


def test_company_alone_gives_low_confidence(gatemark: Run, folder: Path) -> None:
    others = []
    for number in range(6):
        other = decision(id=f"o{number}")
        other["steps"] = json.loads(json.dumps(other["steps"]))
        wrong = number < 3
        other["steps"][1]["prompt"]["version"] = "r2" if wrong else "r1"
        other["steps"][0]["retrieval"]["version"] = f"t{number % 2}"
        other["judgement"] = {"verdict": "wrong" if wrong else "right", "reviewer": "r"}
        others.append(json.dumps(other))
    (folder / "others.jsonl").write_text("\n".join(others) + "\n")
    ran = run(gatemark, folder, "--runs", folder / "others.jsonl")
    assert ran.code == 0
    assert ran.json["cause"] == "answer"
    assert ran.json["suspects"][0]["confidence"] == "low"
    assert ran.json["company"][0] == ["prompt:writer@r2", 1.0]


@pytest.mark.parametrize(
    ("rule", "catch"),
    [
        ({"must_contain": ["costs"]}, "catchable_now"),
        ({"must_not_contain": ["idea"]}, "catchable_now"),
        ({"one_of": ["costs 5", "costs 6"]}, "catchable_now"),
        ({"between": [0, 10]}, "catchable_now"),
        ({"pinned": {"prompt:writer": ["r1"]}}, "catchable_now"),
        ({"not_empty": True}, "no_rule"),
        ({"numbers_from_sources": True}, "no_rule"),
        ({"must_contain": ["costs"], "applies_to": {"kind": "tool"}}, "no_rule"),
    ],
)
def test_rules_of_today_are_asked(
    gatemark: Run, folder: Path, rule: dict[str, Any], catch: str
) -> None:
    pack = {"name": "desk", "version": "2", "rules": [{"id": "r", **rule}]}
    (folder / "rules.yaml").write_text(json.dumps(pack))
    ran = run(gatemark, folder, "--replay", "--rules", folder / "rules.yaml")
    assert ran.json["verifier"]["catch"] == catch


def test_without_rules_of_today_nobody_was_asked(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, "--replay")
    assert ran.json["verifier"] == {"catch": "not_asked", "rules": []}
    assert ran.json["suspects"][0]["by_versions_interval"][0] > 0


def test_a_number_from_nowhere_is_objected_to(gatemark: Run, folder: Path) -> None:
    invented = decision(output="costs 7")
    invented["steps"][1]["output"] = "costs 7"
    (folder / "decision.json").write_text(json.dumps(invented))
    pack = {"name": "d", "version": "1", "rules": [{"id": "r", "numbers_from_sources": True}]}
    (folder / "rules.yaml").write_text(json.dumps(pack))
    ran = run(gatemark, folder, "--replay", "--rules", folder / "rules.yaml")
    assert ran.json["verifier"]["rules"] == [
        ["d@1/r", "1 numbers are not in anything that the step read"]
    ]


def test_a_sealed_attribution_is_in_the_ledger(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, "--replay", "--seal", "--actor", "dana")
    assert ran.code == 0
    verified = gatemark("ledger", "verify", "--store", folder / "store")
    assert verified.code == 0


def sealed_count(place: str) -> int:
    return len(list(Workspace(store=place).events.events(kind=ATTRIBUTION_SEALED)))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sealing_twice_writes_once_and_only_about_what_the_ledger_knows(
    gatemark: Run, folder: Path, new_postgres_url: Callable[[], str], kind: str
) -> None:
    place = str(folder / "store") if kind == "sqlite" else new_postgres_url()
    store = ("--store", place)

    def seal() -> Any:
        return gatemark("attribute", folder / "decision.json", "--seal", *store, "--json")

    assert [seal().code, seal().code, sealed_count(place)] == [3, 3, 1]
    named = decision(asset="desk", version="2.0.0")
    (folder / "decision.json").write_text(json.dumps(named))
    refused = seal()
    assert (refused.code, "there is no asset desk in this store" in refused.err) == (2, True)
    gatemark("role", "grant", "ada", "admin", "--actor", "ada", *store)
    gatemark("role", "grant", "ann", "author", "--actor", "ada", *store)
    digest = "sha256:" + "1" * 64
    added = ("asset", "add", "desk@1.0.0", "--kind", "agent", "--digest", digest)
    assert gatemark(*added, "--actor", "ann", *store).code == 0
    refused = seal()
    assert (refused.code, "has no version 2.0.0 (known: 1.0.0)" in refused.err) == (2, True)
    assert sealed_count(place) == 1
    (folder / "decision.json").write_text(json.dumps({**named, "version": "1.0.0"}))
    assert [seal().code, sealed_count(place)] == [3, 2]


def test_the_page_escapes_what_a_model_wrote(gatemark: Run, folder: Path) -> None:
    hostile = decision(id="<script>alert(1)</script>")
    hostile["steps"][1]["name"] = "<img src=x onerror=alert(1)>"
    (folder / "decision.json").write_text(json.dumps(hostile))
    run(gatemark, folder, "-o", folder / "why.html")
    page = (folder / "why.html").read_text()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;img src=x" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": []}, "steps"),
        ({"judgement": {"verdict": "right", "reviewer": "r"}}, "no reviewer judged"),
        ({"extra": 1}, "extra"),
    ],
)
def test_bad_decisions_are_refused(
    gatemark: Run, folder: Path, change: dict[str, Any], words: str
) -> None:
    (folder / "decision.json").write_text(json.dumps(decision(**change)))
    ran = run(gatemark, folder)
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("replay.yaml", "reference: [", "replay.yaml"),
        ("replay.yaml", "reference: {}\nrepeats: 0", "repeats"),
        ("decision.json", '{"id": "a", "id": "b"}', 'key "id" appears more than once'),
        ("decision.json", "", "contains no decisions"),
        ("decision.json", "[1, 2", "not JSON"),
        ("decision.json", "[" * 100_000, "nested too deeply"),
        ("decision.json", json.dumps(decision(input=2**70)), "exceeds safe integer domain"),
        ("decision.json", json.dumps(decision(input=float("nan"))), "NaN is not a JSON number"),
    ],
)
def test_files_that_cannot_be_read_are_refused(
    gatemark: Run, folder: Path, name: str, text: str, words: str
) -> None:
    (folder / name).write_text(text)
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 2
    assert words in ran.err


BOMB = "reference: {}\naccept:\n  - &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"  - &{after} [{','.join(['*' + before] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "its aliases expand to more than"),
        ("reference: {}\naccept: &a [*a]\n", "its aliases expand to more than"),
        ("reference: {}\naccept: " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("reference: {}\nreference: {a: b}\n", "appears more than once"),
        ("reference: {}\naccept: [.nan]\n", "replay.yaml: accept: no canonical form"),
        ("!!python/object/apply:os.system ['id']", "could not determine a constructor"),
    ],
    ids=["bomb", "itself", "deep", "twice", "nan", "code"],
)
def test_a_hostile_replay_plan_is_refused_in_words(
    gatemark: Run, folder: Path, text: str, words: str
) -> None:
    (folder / "replay.yaml").write_text(text)
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 2
    assert words in ran.err


def test_a_reference_that_no_step_has_is_told(gatemark: Run, folder: Path) -> None:
    plan(folder, "step", reference={"prompts:writer": "r1"})
    ran = run(gatemark, folder, "--replay")
    assert ran.json["replay"]["unused"] == ["prompts:writer"]


def test_one_of_many_decisions_is_judged_on_the_way(gatemark: Run, folder: Path) -> None:
    lines = [decision(id=name) for name in ("d1", "d2")]
    for line in lines:
        del line["judgement"]
    (folder / "decision.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = ("--judged-by", "dana", "--expected", "costs 5")
    ran = run(gatemark, folder, "--replay", "--id", "d2", *judged)
    assert (ran.code, ran.json["decision"], ran.json["cause"]) == (0, "d2", "answer")
    for flags, words in (
        (judged, "name one with --id"),
        (("--id", "d7", *judged), "0 decisions with the id 'd7'"),
        (("--id", "d1"), "name one with --judged-by"),
        (("--id", "d1", "--expected", "x"), "--expected needs --judged-by"),
        (("--id", "d1", "--judged-by", " "), "--judged-by"),
    ):
        ran = run(gatemark, folder, *flags)
        assert ran.code == 2
        assert words in ran.err


def test_a_judgement_is_not_given_twice(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, "--judged-by", "dana")
    assert ran.code == 2
    assert "has already judged decision d1" in ran.err


def test_a_missing_replay_plan_is_named(gatemark: Run, folder: Path) -> None:
    (folder / "replay.yaml").unlink()
    ran = run(gatemark, folder, "--replay")
    assert ran.code == 2
    assert "replay.yaml" in ran.err


def test_replay_that_mends_nothing_weakens_what_was_on_record(gatemark: Run, folder: Path) -> None:
    blamed = decision()
    blamed["steps"][0]["checks"] = [{"pack": "desk", "rule": "tone", "verdict": "fail"}]
    (folder / "decision.json").write_text(json.dumps(blamed))
    ran = run(gatemark, folder, "--replay")
    found = {line["step"]: line["confidence"] for line in ran.json["suspects"]}
    assert found == {"answer": "high", "look-up": "low"}


def page_of(gatemark: Run, folder: Path, *more: object) -> str:
    run(gatemark, folder, *more, "-o", folder / "why.html")
    return (folder / "why.html").read_text()


def test_the_page_answers_four_questions_and_draws_the_plan(gatemark: Run, folder: Path) -> None:
    pack = {"name": "desk", "version": "2", "rules": [{"id": "r", "must_contain": ["costs"]}]}
    (folder / "rules.yaml").write_text(json.dumps(pack))
    page = page_of(gatemark, folder, "--replay", "--rules", folder / "rules.yaml")
    told = " ".join(re.sub(r"<[^>]+>", " ", page[page.index("<main>") :]).split())
    assert "CAUSE FOUND Decision d1 went wrong at step answer" in told
    assert "1. Which step caused it answer (model writer) high confidence" in told
    assert "2. Which model lineage was active model writer: m1" in told
    assert "prompt writer: r2 no retrieval at this step before it, retrieval tariffs: t1" in told
    assert "4. Should the verifier have caught it It would object today desk@2/r" in told
    assert page.count("<rect ") == 2
    assert page.count('class="edge"') == 1
    assert page.count('<g class="cause">') == 1


def test_the_page_says_why_nothing_was_run_again(gatemark: Run, folder: Path) -> None:
    assert "No step was run again: replay was not requested" in page_of(gatemark, folder)
    plan(folder, "broken")
    page = page_of(gatemark, folder, "--replay")
    assert "NO CAUSE SHOWN" in page
    assert re.search(r"No step was run again: step look-up: [^<]*gone", page)
    plan(folder, None)
    page = page_of(gatemark, folder, "--replay")
    assert "no recorded run had these inputs and versions" in page
