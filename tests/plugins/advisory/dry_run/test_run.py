from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.advisory.dry_run.ask import AdvisoryChoices
from gatemark.plugins.advisory.dry_run.run import DryRunOutcome, dry_run, summarize_runs
from gatemark.workspace import Workspace

from .rigs import FIXTURES, ON_CPU, saying, service, ticking, write_fixtures

LANE = "cron_n8n_event/cron_n8n_advisory"
PROMOTED = {
    "scope": "log duplicate successes",
    "approved_by": "a person",
    "rollback_plan": "switch it off",
    "reviewer": "another person",
}


def many(count: int = 40) -> list[dict[str, Any]]:
    """Enough fixtures of every kind for a lane to be judged; expected by parity of their number."""
    kinds = ("normal", "low_confidence", "false_alarm", "action_needed")
    return [
        {
            **FIXTURES[0],
            "fixture_id": f"own_{number:03d}",
            "kind": kinds[number % 4],
            "payload": {"number": number},
            "expected": {"label": "escalate", "severity": "high"}
            if number % 4 == 3
            else {"label": "suppress", "severity": "info"},
        }
        for number in range(count)
    ]


RIGHT = (
    "act = envelope['payload']['number'] % 4 == 3\n"
    f"    reply = {ON_CPU!r}\n"
    "    if act: reply |= {'label': 'escalate', 'severity': 'high'}\n"
)


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    policy = {
        "gatemark_advisory": 1,
        "name": "own",
        "lanes": {LANE: {"promotion": PROMOTED, "bounds": {"p95_total_ms_max": 60000}}},
    }
    Path("policy.json").write_text(json.dumps(policy))
    return write_fixtures(tmp_path / "own.jsonl", many())


def judge(fixtures: Path, *services: str, out: str = "out", **choices: Any) -> DryRunOutcome:
    return dry_run(
        Workspace(clock=ticking(), jobs=1),
        AdvisoryChoices(
            services=services,
            fixtures=str(fixtures),
            **{"busy_counter": "no-counter", "policy": "policy.json", **choices},
        ),
        Path(out),
        random_bytes=secrets.token_bytes,
    )


def read(name: str) -> Any:
    return json.loads(Path(name).read_text())


def test_three_good_runs_make_a_lane_a_candidate_for_discussion(fixtures: Path) -> None:
    judged = judge(fixtures, service(f"{RIGHT}    return {{'output': reply}}"))
    summary = judged.summary
    assert (judged.outcome, summary["verdict"]) == ("pass", "pass")
    assert summary["promotion"]["candidate_lanes"] == [LANE]
    assert summary["lanes"][LANE]["bucket_shift"] == 0.0
    assert summary["total_records"] == 40
    assert (summary["expected"], summary["missing"]) == (40, 0)
    assert [run["verdict"] for run in summary["judged_runs"]] == ["pass"] * 3
    assert any("not pinned" in caveat for caveat in summary["promotion"]["caveats"])


def test_everything_is_written_and_the_last_run_stands_in_front(fixtures: Path) -> None:
    judge(fixtures, saying(ON_CPU), runs=2)
    runs = sorted(path.name for path in Path("out/runs").iterdir())
    assert len(runs) == 2
    front = Path("out/decisions.jsonl").read_bytes()
    assert front == Path(f"out/runs/{runs[-1]}/decisions.jsonl").read_bytes()
    assert read("out/summary.json")["run_ids"] == [runs[-1]]
    assert "No authority is granted" in Path("out/summary.md").read_text()
    assert str(Path.cwd()) not in Path("out/summary.json").read_text()
    assert read("out/summary.json")["evidence"][0]["name"] == f"runs/{runs[-1]}/decisions.jsonl"


def test_runs_gather_in_a_folder_until_stability_can_be_judged(fixtures: Path) -> None:
    good = service(f"{RIGHT}    return {{'output': reply}}")
    shifts = []
    for _ in range(3):
        judged = judge(fixtures, good, runs=1)
        shifts.append(judged.summary["lanes"][LANE]["bucket_shift"])
        if shifts[-1] is None:
            assert judged.outcome == "inconclusive"
    assert shifts == [None, None, 0.0]
    assert judged.outcome == "pass"


def test_a_fault_in_an_earlier_run_is_not_forgotten(fixtures: Path) -> None:
    once = (
        f"{RIGHT}    from pathlib import Path\n"
        "    if not Path('grabbed').exists():\n"
        "        Path('grabbed').touch()\n"
        "        reply |= {'actions': ['execute_tool']}\n"
        "    return {'output': reply}"
    )
    summary = judge(fixtures, service(once)).summary
    assert summary["authority_flag_violation_count"] == 0
    assert [run["verdict"] for run in summary["judged_runs"]] == [
        "fail",
        "inconclusive",
        "inconclusive",
    ]
    assert (summary["verdict"], summary["pass"]) == ("fail", False)
    first = summary["judged_runs"][0]["run_id"]
    assert any(
        reason.startswith(f"run {first}: authority_flag_violation_count")
        for reason in summary["promotion"]["blockers"]
    )
    assert summary["promotion"]["candidate_lanes"] == []
    assert summary["promotion"]["lanes"][LANE]["status"] == "blocked"


def test_a_service_that_is_down_still_leaves_every_output(fixtures: Path) -> None:
    judged = judge(fixtures, "all=http://127.0.0.1:9", runs=1)
    assert judged.outcome == "fail"
    assert judged.summary["unexpected_fallback_count"] == 40
    for name in ("decisions.jsonl", "summary.json", "summary.md"):
        assert Path("out", name).stat().st_size > 0


def test_a_recording_played_again_proves_no_stability(fixtures: Path) -> None:
    judge(fixtures, service(f"{RIGHT}    return {{'output': reply}}"), runs=1)
    for _ in range(3):
        judged = judge(
            fixtures, "all=recorded:out/decisions.jsonl", mode="offline_fixture", out="again"
        )
    assert judged.summary["lanes"][LANE]["bucket_shift"] is None
    assert judged.outcome == "inconclusive"
    with pytest.raises(UsageError, match="a recording has only one run"):
        judge(fixtures, "all=recorded:out/decisions.jsonl", mode="offline_fixture", runs=2)


def test_health_probes_of_several_runs_are_each_other_s_history(fixtures: Path) -> None:
    judged = judge(fixtures, saying({"status": "ok"}), mode="health_only")
    assert len(judged.summary["past_runs"]) == 2
    assert judged.summary["unexpected_fallback_count"] == 0
    assert judged.outcome == "fail"


def test_a_folder_of_other_runs_is_refused_before_anything_is_asked(fixtures: Path) -> None:
    judge(fixtures, saying(ON_CPU), runs=1)
    with pytest.raises(UsageError, match="choose another --out"):
        judge(fixtures, service("open('asked', 'w').close()"), runs=1, mode="shadow")
    assert not Path("asked").exists()


def test_a_bad_policy_is_refused_before_anything_is_asked(fixtures: Path) -> None:
    Path("policy.json").write_text('{"gatemark_advisory": 1, "overall": {"x": 1}}')
    with pytest.raises(BadInputError, match=r"policy.json"):
        judge(fixtures, service("open('asked', 'w').close()"))
    assert not Path("asked").exists()
    assert not Path("out").exists()


def test_a_lane_s_policy_decides_what_labels_mean_and_what_is_slow(fixtures: Path) -> None:
    policy = {
        "gatemark_advisory": 1,
        "lanes": {
            LANE: {
                "labels": {"action": ["escalate", "page_the_gardener"]},
                "bounds": {"p95_total_ms_max": 0.0001},
            }
        },
    }
    Path("policy.json").write_text(json.dumps(policy))
    write_fixtures(
        fixtures,
        [{**FIXTURES[0], "expected": {"label": "page_the_gardener", "severity": "high"}}],
    )
    said = saying({**ON_CPU, "label": "page_the_gardener", "severity": "high"})
    judge(fixtures, said, runs=1)
    record = json.loads(Path("out/decisions.jsonl").read_text())
    assert record["outcome"]["comparison"] == "agree"
    assert record["outcome"]["error_type"] == "latency_slo_miss"


def test_lanes_without_a_service_are_a_caveat(fixtures: Path) -> None:
    other = {**FIXTURES[0], "fixture_id": "other_001", "input_class": "kanban_hygiene"}
    write_fixtures(fixtures, [*many(4), other])
    said = saying(ON_CPU).removeprefix("all=")
    judged = judge(fixtures, f"cron_n8n_event={said}", runs=1)
    assert any(
        "no service in this run: kanban" in c for c in judged.summary["promotion"]["caveats"]
    )


def summary_of(run_id: str, verdict: str, *blockers: str) -> dict[str, Any]:
    candidates = [LANE] if verdict == "pass" else []
    status = "candidate for discussion" if candidates else "blocked"
    return {
        "run_ids": [run_id],
        "verdict": verdict,
        "pass": verdict == "pass",
        "promotion": {
            "blockers": list(blockers),
            "caveats": [],
            "candidate_lanes": candidates,
            "lanes": {LANE: {"status": status, "blockers": list(blockers)}},
        },
    }


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (("pass", "pass", "pass"), "pass"),
        (("pass", "inconclusive", "pass"), "inconclusive"),
        (("inconclusive", "fail", "pass"), "fail"),
        (("pass", "pass", "fail"), "fail"),
    ],
)
def test_the_worst_run_speaks_for_all(verdicts: tuple[str, ...], worst: str) -> None:
    runs = [
        summary_of(f"R{n}", verdict, *([] if verdict == "pass" else [f"why {verdict}"]))
        for n, verdict in enumerate(verdicts)
    ]
    found = summarize_runs(runs, ["a caveat"])
    assert found["verdict"] == worst
    assert (found["promotion"]["candidate_lanes"] == [LANE]) is (worst == "pass")
    assert bool(found["promotion"]["blockers"]) is (worst != "pass")
    assert found["promotion"]["caveats"] == ["a caveat"]


def test_a_blocker_that_all_runs_share_is_told_once() -> None:
    runs = [summary_of(f"R{n}", "fail", "same reason") for n in range(3)]
    assert summarize_runs(runs, [])["promotion"]["blockers"] == ["same reason"]
