from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.plugins.advisory.decisions import (
    LANE,
    NORMAL,
    OTHER,
    PROMISE,
    PROMOTION,
    UNSURE,
    WRONG,
    decision,
    good_lane,
    numbered,
)

from gatemark.plugins.advisory.chat_message import MESSAGE_CHARS_MAX

Run = Callable[..., Any]
Write = Callable[..., Path]
SECRET = "hunter2-" + "Zq8" * 9


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., Path]:
    """Write a policy file."""

    def write(**fields: Any) -> Path:
        path = tmp_path / "policy.yaml"
        path.write_text(yaml.safe_dump({"gatemark_advisory": 1, **fields}))
        return path

    return write


def test_exit_0_with_a_candidate_lane_and_both_summaries(
    gatemark: Run, write_jsonl: Write, policy: Callable[..., Path], tmp_path: Path
) -> None:
    file = write_jsonl("decisions.jsonl", good_lane())
    rules = policy(name="cron dry run", lanes={LANE: {"promotion": PROMOTION, "bounds": PROMISE}})
    ran = gatemark(
        "score", "advisory", file, "--policy", rules, "--out", tmp_path / "out", "--json"
    )
    assert ran.code == 0
    assert ran.json["promotion"]["candidate_lanes"] == [LANE]
    assert ran.json["advisory_policy"] == "cron dry run"
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == ran.json
    text = (tmp_path / "out" / "summary.md").read_text()
    assert text.startswith("**PASS** advisory dry run, 120 records\n")
    for item in (
        "run: `run:0`, `run:1`, `run:2`; fixtures: `npu_advisory_eval_v1`",
        "generated at 2",
        f"`{LANE}` candidate for discussion: 120 records, agreement 1.000 (0.97 to 1.00)",
        "agree 108, disagree 0, uncertain 12, false positive 0, false negative 0",
        "buckets: low 12, high 108",
        "fallbacks: 0",
        "NPU proof: 120 ok, 0 missing, 0 not applicable",
        "violations: 0 authority, 0 privacy, 0 side effects",
        "**Promotion blockers** (0)",
        f"**Candidates for discussion**: `{LANE}`",
        "No authority is granted by this run.",
    ):
        assert item in text


def test_exit_1_when_a_bound_is_broken(gatemark: Run, write_jsonl: Write) -> None:
    file = write_jsonl("decisions.jsonl", numbered([NORMAL] * 30 + [WRONG] * 10))
    ran = gatemark("score", "advisory", file)
    assert ran.code == 1
    assert "agreement_rate must be >= 0.95, got 0.75 (n=40)" in ran.out


def test_exit_3_when_stability_could_not_be_judged(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("score", "advisory", write_jsonl("d.jsonl", good_lane(runs=1)), "--json")
    assert ran.code == 3
    (blocker,) = ran.json["promotion"]["blockers"]
    assert "could not be judged" in blocker


def test_three_copies_of_one_run_are_one_run(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    records = [decision(n, kind, run=None) for n, kind in enumerate([NORMAL] * 36 + [UNSURE] * 4)]
    file = write_jsonl("d.jsonl", records)
    history = tmp_path / "runs"
    history.mkdir()
    for copy in ("b.jsonl", "c.jsonl"):
        (history / copy).write_bytes(file.read_bytes())
    ran = gatemark("score", "advisory", file, "--history", history, "--json")
    assert ran.json["runs"].keys() == {""}
    assert ran.json["past_runs"] == []
    assert "1 runs have records of this lane" in ran.json["lanes"][LANE]["bucket_shift_reason"]


@pytest.mark.parametrize("content", ["{}", "not json", '{"schema": "other"}', "[]"])
def test_a_file_in_the_history_that_has_no_decisions_is_refused(
    content: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    history = tmp_path / "runs"
    history.mkdir()
    (history / "old.jsonl").write_text(content)
    file = write_jsonl("d.jsonl", good_lane())
    ran = gatemark("score", "advisory", file, "--history", history, "--out", tmp_path / "out")
    assert ran.code == 2
    assert "old.jsonl:1: " in ran.err
    assert not (tmp_path / "out").exists()


def test_a_history_that_is_not_there_is_refused(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("score", "advisory", write_jsonl("d.jsonl", good_lane()), "--history", "nowhere")
    assert (ran.code, "nowhere: is not a folder" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lanes: {}", "must say gatemark_advisory: 1"),
        ("gatemark_advisory: 2", "must say gatemark_advisory: 1"),
        ("gatemark_advisory: 1\nlanes: {x: {}}", "must be written input_class/service"),
        ("gatemark_advisory: 1\noverall: {}\noverall: {}", "appears more than once"),
        ("gatemark_advisory: 1\noverall: {agreement_rate_min: 7}", "$.overall.agreement_rate_min"),
        ("gatemark_advisory: 1\nsurprise: 1", "unknown field `surprise`"),
    ],
)
def test_a_bad_policy_is_refused_and_nothing_written(
    text: str, message: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    file = write_jsonl("d.jsonl", good_lane())
    ran = gatemark("score", "advisory", file, "--policy", path, "--out", tmp_path / "out")
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "out").exists()


def test_bad_lines_are_named_by_place_and_never_repeated(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    rows: list[Any] = [
        decision(1),
        decision(2) | {"timestamp": SECRET},
        decision(3) | {SECRET: SECRET},
        json.dumps(decision(4))[:-40] + SECRET,
        decision(5, {"recommendation.severity": "low"}) | {"notes": SECRET},
    ]
    file = write_jsonl("d.jsonl", rows)
    ran = gatemark("score", "advisory", file, "--out", tmp_path / "out")
    assert ran.code == 2
    for place in ("d.jsonl:2: ", "d.jsonl:3: ", "d.jsonl:4: ", "d.jsonl:5: "):
        assert place in ran.err
    assert "at $.timestamp" in ran.err
    assert SECRET not in ran.err + ran.out
    assert not (tmp_path / "out").exists()


def test_excluded_lines_hold_the_verdict_and_every_zero(gatemark: Run, write_jsonl: Write) -> None:
    file = write_jsonl("d.jsonl", [*good_lane(), decision(999) | {"latency": None}])
    ran = gatemark("score", "advisory", file, "--on-bad-line", "exclude", "--json")
    assert ran.code == 3
    assert (ran.json["rejected"], ran.json["lost_records"]) == (1, 1)
    assert any("evidence.coverage" in text for text in ran.json["promotion"]["blockers"])
    assert any("authority_flag_violation_count" in t for t in ran.json["promotion"]["blockers"])


def test_a_label_the_policy_does_not_know_is_refused_with_its_place(
    gatemark: Run, write_jsonl: Write, policy: Callable[..., Path]
) -> None:
    odd = decision(999, {"recommendation.label": "wake_operator", "outcome.comparison": "disagree"})
    file = write_jsonl("d.jsonl", [*good_lane(), odd])
    ran = gatemark("score", "advisory", file)
    assert ran.code == 2
    assert "d.jsonl:121: the policy knows no such label (it has: suppress," in ran.err
    assert "at $.recommendation.label" in ran.err
    left_out = gatemark("score", "advisory", file, "--on-bad-line", "exclude", "--json")
    assert (left_out.code, left_out.json["rejected"]) == (3, 1)
    rules = policy(labels={"action": ["wake_operator", "escalate"]})
    known = gatemark("score", "advisory", file, "--policy", rules, "--json")
    assert known.json["false_positive_count"] == 1


def test_repeated_and_missing_ids_are_found(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    records = good_lane()
    twice = write_jsonl("twice.jsonl", [*records, records[5]])
    ran = gatemark("score", "advisory", twice)
    assert ran.code == 2
    assert "twice.jsonl:121: id '01J" in ran.err
    pinned = tmp_path / "ids.txt"
    pinned.write_text("\n".join(record["decision_id"] for record in [*records, decision(999)]))
    file = write_jsonl("d.jsonl", records)
    missing = gatemark("score", "advisory", file, "--expected-ids", pinned, "--json")
    assert (missing.code, missing.json["missing"]) == (3, 1)
    pinned.write_text("\n".join(record["decision_id"] for record in records))
    whole = gatemark("score", "advisory", file, "--expected-ids", pinned, "--json")
    assert whole.code == 0
    assert not any("pinned" in caveat for caveat in whole.json["promotion"]["caveats"])


def test_several_files_are_one_body_of_evidence(gatemark: Run, write_jsonl: Write) -> None:
    records = good_lane()
    parts = [write_jsonl(f"{n}.jsonl", records[n * 40 : n * 40 + 40]) for n in range(3)]
    ran = gatemark("score", "advisory", *parts, "--json")
    assert (ran.code, ran.json["total_records"], len(ran.json["evidence"])) == (0, 120, 3)


def test_a_waiver_excuses_a_rule_and_stays_on_the_page(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    file = write_jsonl("d.jsonl", good_lane(runs=1))
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(
        "- {rule: advisory.other_lanes, owner: Ada, reason: first run ever, "
        "expires_at: 2099-01-01T00:00:00Z}\n"
    )
    ran = gatemark("score", "advisory", file, "--waivers", waivers, "--json")
    assert ran.code == 0
    assert any("waived by Ada" in caveat for caveat in ran.json["promotion"]["caveats"])


def test_sealed_results_are_shown_again(gatemark: Run, write_jsonl: Write, tmp_path: Path) -> None:
    file = write_jsonl("d.jsonl", good_lane())
    store = tmp_path / "store"
    ran = gatemark("score", "advisory", file, "--seal", "--store", store, "--json")
    shown = gatemark("show", ran.json["result_id"], "--store", store)
    assert (ran.code, shown.code) == (0, 0)
    assert "advisory.authority" in shown.out


def test_every_report_format_is_written(gatemark: Run, write_jsonl: Write, tmp_path: Path) -> None:
    records = [*good_lane(), *good_lane(OTHER, start=500), decision(999, {"notes": ["a@b.org"]})]
    file = write_jsonl("d.jsonl", records)
    names = [tmp_path / f"r{extension}" for extension in (".json", ".md", ".html", ".junit.xml")]
    outputs = [part for name in names for part in ("-o", name)]
    ran = gatemark("score", "advisory", file, *outputs)
    assert ran.code == 1
    page = (tmp_path / "r.html").read_text()
    for title in (
        "Lanes by metrics",
        "Categories",
        "Confidence buckets",
        "Total time",
        "Violations",
    ):
        assert title in page
    assert "a@b.org" not in page
    assert msgspec.json.decode((tmp_path / "r.json").read_bytes())["total_records"] == 241


def test_a_message_about_many_lanes_still_fits(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    lanes = [f"a_rather_long_input_class_{n}/an_even_longer_service_name_{n}" for n in range(60)]
    records = [decision(n, WRONG, lane=lane) for n, lane in enumerate(lanes)]
    gatemark("score", "advisory", write_jsonl("d.jsonl", records), "--out", tmp_path / "out")
    text = (tmp_path / "out" / "summary.md").read_text()
    assert len(text) <= MESSAGE_CHARS_MAX
    assert "more lanes" in text


def test_nothing_to_score_is_bad_input(gatemark: Run, write_jsonl: Write) -> None:
    assert gatemark("score", "advisory").code == 2
    empty = gatemark("score", "advisory", write_jsonl("empty.jsonl", []))
    assert (empty.code, "contains no records" in empty.err) == (2, True)
