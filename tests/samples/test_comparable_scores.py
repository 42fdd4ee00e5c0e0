"""Scores of two logs are compared only if they mean the same: settings, direction, two runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples.importers import peer_shapes as shapes

Run = Callable[..., Any]
LOGS = Path(__file__).parents[2].parent / "shared" / "peer-logs"


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def samples(path: Path, name: str, scores: list[float]) -> Path:
    rows = [
        {"schema": "gatemark.sample/1", "id": f"q{n}", "scores": {name: score}}
        for n, score in enumerate(scores)
    ]
    return written(path, "".join(json.dumps(row) + "\n" for row in rows))


def inspect_with(scorers: object, count: int = 1, **header: Any) -> dict[str, Any]:
    """An Inspect log that answers everything right, so that only its header differs."""
    log = shapes.inspect_log(every=10**6)
    for sample in log["samples"]:
        sample["scores"]["match"]["value"] = "C"
    log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 1.0
    log["eval"]["scorers"] = scorers
    log |= header
    # Twenty items rule nothing out; ten times as many do.
    log["samples"] = [
        {**sample, "id": f"{sample['id']}-{n}", "input": f"{sample['input']} (case {n})"}
        for n in range(count)
        for sample in log["samples"]
    ]
    ids = [sample["id"] for sample in log["samples"]]
    log["eval"]["dataset"] |= {"samples": len(ids), "sample_ids": ids}
    log["results"]["total_samples"] = len(ids)
    return log


def by_match(**options: Any) -> list[dict[str, Any]]:
    return [{"name": "match", "options": options, "metrics": []}]


@pytest.mark.parametrize("imported", [False, True])
def test_another_option_of_the_scorer_holds_with_both_values(
    gatemark: Run, tmp_path: Path, imported: bool
) -> None:
    files = []
    for side, location in (("base", "end"), ("cand", "any")):
        log = inspect_with(by_match(location=location), count=10)
        file = written(tmp_path / f"{side}.json", log)
        if imported:
            assert gatemark("import", file, "-o", tmp_path / f"{side}.jsonl").code == 0
            file = tmp_path / f"{side}.jsonl"
        files.append(file)
    ran = gatemark("compare", *files, "--json")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert ran.json["reason"] == (
        "match was made with another option location: end in the base, any in the candidate; "
        "score both with the same settings"
    )
    sealed = gatemark("compare", *files, "--json", "--seal", "--store", tmp_path / "store")
    assert sealed.json["blockers"] == ran.json["blockers"]
    checked = gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store")
    assert checked.code == 0, checked.out


def test_the_same_settings_pass(gatemark: Run, tmp_path: Path) -> None:
    base = inspect_with(by_match(location="end"), count=10)
    cand = inspect_with(by_match(location="end"), count=10)
    cand["eval"]["created"] = "2026-11-16T10:00:00+00:00"
    files = written(tmp_path / "a.json", base), written(tmp_path / "b.json", cand)
    assert gatemark("compare", *files).code == 0


@pytest.mark.parametrize(
    ("base", "cand", "said"),
    [
        (by_match(location="end"), by_match(), "option location: end in the base, not stated"),
        (by_match(), by_match(location="end"), "option location: not stated in the base, end"),
        (by_match(), None, "only the base says how match was made: scorer match"),
        (None, by_match(), "only the candidate says how match was made"),
        (
            by_match(),
            [{"name": "custom/match", "options": {}}],
            "another scorer: match in the base, custom/match in the candidate",
        ),
    ],
)
def test_a_setting_that_one_side_leaves_out_holds_too(
    gatemark: Run, tmp_path: Path, base: object, cand: object, said: str
) -> None:
    files = []
    for n, scorers in enumerate((base, cand)):
        log = inspect_with(scorers, count=10)
        log["results"]["scores"] = []
        files.append(written(tmp_path / f"{n}.json", log))
    ran = gatemark("compare", *files, "--json")
    assert ran.code == 3
    assert said in ran.json["reason"]


def test_options_of_results_count_where_the_header_has_no_scorers(
    gatemark: Run, tmp_path: Path
) -> None:
    files = []
    for location in ("end", "any"):
        log = inspect_with(None, count=10)
        log["results"]["scores"][0]["params"] = {"location": location}
        files.append(written(tmp_path / f"{location}.json", log))
    ran = gatemark("compare", *files, "--json")
    assert ran.code == 3
    assert "end in the base, any in the candidate" in ran.json["reason"]


def test_another_judge_of_inspect_holds_and_a_text_scorer_has_none(
    gatemark: Run, tmp_path: Path
) -> None:
    found = {}
    for scorer in ("graded", "match"):
        files = []
        for judge in ("big", "small"):
            log = inspect_with([{"name": scorer, "options": {}}], count=10)
            for sample in log["samples"]:
                sample["scores"] = {scorer: sample["scores"]["match"]}
            log["eval"]["model_roles"] = {"grader": {"model": judge}}
            log["results"]["scores"] = []
            files.append(written(tmp_path / f"{scorer}-{judge}.json", log))
        found[scorer] = gatemark("compare", *files, "--json")
    assert found["match"].code == 0
    assert found["graded"].code == 3
    assert "another judge model: big in the base, small" in found["graded"].json["reason"]


def test_a_long_option_is_told_by_its_digest(tmp_path: Path) -> None:
    log = inspect_with(by_match(template="Is it right? " * 50))
    (setting,) = [
        one for one in shapes.read("inspect", log).origin.settings if one.name.startswith("option")
    ]
    assert setting.value.startswith("sha256:")
    assert setting.value.endswith("(650 characters)")


def deepeval(threshold: float, count: int = 10, **metric: Any) -> dict[str, Any]:
    log = shapes.deepeval_log(every=10**6)
    cases = []
    for n in range(count):
        for case in log["testCases"]:
            made = json.loads(json.dumps(case)) | {"name": f"{case['name']}-{n}", "success": True}
            for one in made["metricsData"]:
                one.update({"threshold": threshold, "success": True, "score": 1.0} | metric)
            cases.append(made)
    return log | {"testCases": cases, "metricsScores": [], "testPassed": None, "testFailed": None}


@pytest.mark.parametrize(
    ("base", "cand", "said"),
    [
        (deepeval(1.0), deepeval(0.0), "threshold of Exact: 1 in the base, 0 in the candidate"),
        (
            deepeval(0.5, evaluationModel="big"),
            deepeval(0.5, evaluationModel="small"),
            "judge model of Exact: big in the base, small in the candidate",
        ),
        (deepeval(0.5), deepeval(0.5, name="Other"), "list of metrics: Exact in the base, Other"),
        (deepeval(0.5), deepeval(0.5, strictMode=True), "strict mode of Exact: not stated in"),
    ],
)
def test_another_threshold_judge_or_metric_of_deepeval_holds(
    gatemark: Run, tmp_path: Path, base: Any, cand: Any, said: str
) -> None:
    files = written(tmp_path / "a.json", base), written(tmp_path / "b.json", cand)
    ran = gatemark("compare", *files, "--score", "success", "--json")
    assert ran.code == 3
    assert said in "\n".join(ran.json["blockers"])


def test_another_aggregation_or_filter_of_lm_eval_holds(gatemark: Run, tmp_path: Path) -> None:
    folders = []
    for side, regex in (("base", "A"), ("cand", "B")):
        folder = tmp_path / side
        folder.mkdir()
        rows = shapes.lm_eval_lines(shapes.lm_eval_rows())
        (folder / "samples_tiny_gen_2026-11-15T18-00-00.jsonl").write_bytes(rows.data)
        results = shapes.lm_eval_results()
        filters = [{"name": "strict", "filter": [{"function": "regex", "regex_pattern": regex}]}]
        results["configs"]["tiny_gen"]["filter_list"] = filters
        (folder / "results_2026-11-15T18-00-00.json").write_text(json.dumps(results))
        folders.append(folder / "samples_tiny_gen_2026-11-15T18-00-00.jsonl")
    ran = gatemark("compare", *folders, "--score", "exact_match/strict", "--json")
    assert ran.code == 3
    assert "exact_match/strict was made with another filter" in ran.json["reason"]


def test_another_threshold_or_judge_of_promptfoo_holds(gatemark: Run, tmp_path: Path) -> None:
    files = []
    for judge in ("big", "small"):
        log = shapes.promptfoo_log(crashed=frozenset())
        for row in log["results"]["results"]:
            row["testCase"]["assert"] = [{"type": "llm-rubric", "value": "good", "provider": judge}]
        files.append(written(tmp_path / f"{judge}.json", log))
    arms = ("--base-arm", "1", "--cand-arm", "1")
    ran = gatemark("compare", *files, *arms, "--score", "success", "--json")
    assert ran.code == 3
    assert (
        "another list of assertions: llm-rubric (judge big) in the base, llm-rubric (judge small)"
    ) in ran.json["reason"]


def test_a_run_of_recorded_scores_holds_when_their_settings_differ(
    gatemark: Run, tmp_path: Path
) -> None:
    for side, location in (("base", "end"), ("cand", "any")):
        written(tmp_path / f"{side}.json", inspect_with(by_match(location=location), count=10))
    ids = [sample["id"] for sample in inspect_with(None, count=10)["samples"]]
    written(tmp_path / "data.jsonl", "".join(f'{{"id": "{i}", "input": "{i}"}}\n' for i in ids))
    written(tmp_path / "pack.yaml", pack("match", "base.json", "cand.json"))
    ran = gatemark("run", tmp_path / "pack.yaml", "--store", tmp_path / "store", "--json")
    assert ran.code == 3
    (blocker,) = [b for b in ran.json["blockers"] if b.startswith("run.other_scoring")]
    assert "golden: match was made with another option location: end in the base, any" in blocker
    checked = gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store")
    assert checked.code == 0, checked.out
    same = gatemark(
        *("run", tmp_path / "pack.yaml", "--candidate", tmp_path / "base.json"),
        *("--store", tmp_path / "store", "--json"),
    )
    assert not [b for b in same.json["blockers"] if b.startswith("run.other_scoring")]
    later = gatemark(
        *("run", tmp_path / "pack.yaml", "--baseline", same.json["id"]),
        *("--store", tmp_path / "store", "--json"),
    )
    assert [b for b in later.json["blockers"] if b.startswith("run.other_scoring")]


def pack(score: str, base: str, cand: str, **options: Any) -> dict[str, Any]:
    scorer = {"name": "recorded", "options": {"score": score, **options}}
    return {
        "gatemark": 1,
        "name": "elsewhere",
        "version": 1,
        "asset": {"kind": "prompt", "name": "sums"},
        "score_min": 0.1,
        "regression_max": 0.4,
        "suites": [
            {
                "id": "golden",
                "kind": "golden",
                "weight": 1.0,
                "dataset": "data.jsonl",
                "scorer": scorer,
            }
        ],
        "targets": {"candidate": {"recorded": cand}, "baseline": {"recorded": base}},
    }


@pytest.mark.parametrize(
    ("score", "options", "code"),
    [
        ("zest", {}, 3),
        ("zest", {"direction": "higher"}, 0),
        ("zest", {"direction": "lower"}, 1),
        ("toxicity", {}, 1),
        ("toxicity", {"direction": "lower"}, 1),
        ("similarity", {}, 0),
    ],
)
def test_a_run_of_recorded_scores_needs_their_direction(
    gatemark: Run, tmp_path: Path, score: str, options: dict[str, str], code: int
) -> None:
    samples(tmp_path / "base.jsonl", score, [0.2] * 100)
    samples(tmp_path / "cand.jsonl", score, [0.9] * 100)
    written(
        tmp_path / "data.jsonl", "".join(f'{{"id": "q{n}", "input": "{n}"}}\n' for n in range(100))
    )
    written(tmp_path / "pack.yaml", pack(score, "base.jsonl", "cand.jsonl", **options))
    ran = gatemark("run", tmp_path / "pack.yaml", "--store", tmp_path / "store", "--json")
    assert ran.code == code, ran.out
    held = [b for b in ran.json["blockers"] if b.startswith("run.direction")]
    assert bool(held) == (not options and score != "similarity")
    assert all("state direction" in one for one in held)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("toxicity", 1),
        ("hallucination_rate", 1),
        ("Mean Error", 1),
        ("squad/wer", 1),
        ("accuracy", 0),
        ("answerRelevancy", 0),
        ("ROUGE-L", 0),
        ("pass@1", 0),
        ("Correctness [GEval]", 0),
        ("zest", 3),
        ("refusal_rate", 3),
        ("accuracy/toxicity", 3),
    ],
)
def test_a_rise_is_judged_by_the_direction_of_the_name(
    gatemark: Run, tmp_path: Path, name: str, code: int
) -> None:
    files = (
        samples(tmp_path / "base.jsonl", name, [0.1] * 100),
        samples(tmp_path / "cand.jsonl", name, [0.9] * 100),
    )
    ran = gatemark("compare", *files, "--json")
    assert ran.code == code, ran.json["reason"]
    found = {0: "higher_is_better", 1: "lower_is_better", 3: None}[code]
    assert ran.json["direction"] == found
    if code == 3:
        assert f"say --lower-is-better {name} or --higher-is-better {name}" in ran.json["reason"]


def test_a_table_with_a_rate_that_should_fall_is_judged(gatemark: Run, tmp_path: Path) -> None:
    lines = {"base": ["id,hallucination_rate"], "cand": ["id,hallucination_rate"]}
    for n in range(100):
        lines["base"].append(f"q{n},{0.9 if n % 2 else 0.8}")
        lines["cand"].append(f"q{n},{0.2 if n % 2 else 0.1}")
    files = [written(tmp_path / f"{side}.csv", "\n".join(rows)) for side, rows in lines.items()]
    columns = ("--from", "csv", "--map", "score=hallucination_rate", "--margin", "0.05")
    better = gatemark("compare", *files, *columns)
    assert better.code == 0, better.out
    assert "hallucination_rate -0.7, lower is better, rise at most" in better.out
    worse = gatemark("compare", *reversed(files), *columns, "--json")
    assert worse.code == 1
    assert worse.json["delta"] == pytest.approx(0.7)
    low, high = worse.json["interval"]
    assert low <= 0.7 + 1e-9 <= high + 1e-6
    assert (worse.json["base"]["mean"], worse.json["cand"]["mean"]) == pytest.approx((0.15, 0.85))
    assert worse.json["worst"][0]["base"] == pytest.approx(0.1)
    assert worse.json["worst"][0]["delta"] == pytest.approx(0.7)
    assert worse.json["worsened"] == 100


def test_errors_count_as_the_worst_score(gatemark: Run, tmp_path: Path) -> None:
    base = samples(tmp_path / "base.jsonl", "toxicity", [0.0] * 4)
    text = base.read_text().splitlines()
    broken = {"schema": "gatemark.sample/1", "id": "q0", "scores": {}}
    broken["error"] = {"kind": "timeout", "message": "slow"}
    cand = written(tmp_path / "cand.jsonl", "\n".join([json.dumps(broken), *text[1:]]) + "\n")
    ran = gatemark("compare", base, cand, "--json")
    assert ran.json["cand"]["mean_over_all"] == 0.25
    assert ran.json["delta_over_all"] == 0.25
    assert "mean with errors as 1" in gatemark("compare", base, cand).out


def test_unbounded_scores_turn_by_their_sign(gatemark: Run, tmp_path: Path) -> None:
    files = (
        samples(tmp_path / "base.jsonl", "latency_ms", [100.0 + n for n in range(40)]),
        samples(tmp_path / "cand.jsonl", "latency_ms", [300.0 + n for n in range(40)]),
    )
    ran = gatemark("compare", *files, "--json")
    assert ran.code == 1
    assert (ran.json["delta"], ran.json["base"]["mean"]) == (200.0, 119.5)
    refused = gatemark("compare", *files, "--margin", "0.1")
    assert refused.code == 2
    assert "latency_ms ranges from 100 to 339" in refused.err


@pytest.mark.parametrize("flag", ["--lower-is-better", "--higher-is-better"])
def test_a_stated_direction_decides(gatemark: Run, tmp_path: Path, flag: str) -> None:
    files = (
        samples(tmp_path / "base.jsonl", "zest", [0.1] * 100),
        samples(tmp_path / "cand.jsonl", "zest", [0.9] * 100),
    )
    ran = gatemark("compare", *files, flag, "zest", "--json")
    assert ran.code == (1 if flag == "--lower-is-better" else 0)
    store = tmp_path / "store"
    sealed = gatemark("compare", *files, flag, "zest", "--json", "--seal", "--store", store)
    assert sealed.json["verdict"] == ran.json["verdict"]
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0


def test_a_direction_against_the_name_is_taken_and_said(gatemark: Run, tmp_path: Path) -> None:
    files = (
        samples(tmp_path / "base.jsonl", "toxicity", [0.1] * 100),
        samples(tmp_path / "cand.jsonl", "toxicity", [0.9] * 100),
    )
    ran = gatemark("compare", *files, "--higher-is-better", "toxicity", "--json")
    assert ran.code == 0
    assert "a higher toxicity is better, as stated, but toxicity is a common name" in str(
        ran.json["caveats"]
    )


def test_a_direction_of_no_score_or_of_both_kinds_is_refused(gatemark: Run, tmp_path: Path) -> None:
    file = samples(tmp_path / "base.jsonl", "zest", [0.1])
    other = samples(tmp_path / "cand.jsonl", "zest", [0.9])
    ran = gatemark("compare", file, other, "--lower-is-better", "rest")
    assert (ran.code, "no score 'rest' (scores: zest)" in ran.err) == (2, True)
    both = ("--lower-is-better", "zest", "--higher-is-better", "zest")
    assert gatemark("compare", file, other, *both).code == 2


@pytest.mark.parametrize("name", ["score", "correct", "accuracy", "exact", "passed", "zest", "s1"])
def test_plain_zeros_and_ones_just_work(gatemark: Run, tmp_path: Path, name: str) -> None:
    files = (
        samples(tmp_path / "base.jsonl", name, [1.0, 0.0] * 200),
        samples(tmp_path / "cand.jsonl", name, [1.0, 0.0, 1.0, 1.0] * 100),
    )
    assert gatemark("compare", *files).code == 0
    assert gatemark("compare", *reversed(files)).code == 1


def otlp(score: float, label: str | None, count: int = 100, name: str = "zest") -> str:
    lines = []
    for n in range(count):
        attributes = {"gen_ai.evaluation.name": {"stringValue": name}}
        attributes["gen_ai.evaluation.score.value"] = {"doubleValue": score}
        if label is not None:
            attributes["gen_ai.evaluation.score.label"] = {"stringValue": label}
        event = {
            "name": "gen_ai.evaluation.result",
            "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
        }
        times = {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
        span = {"traceId": f"t{n}", "spanId": "s", "name": "root", **times, "events": [event]}
        lines.append(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("base", "cand", "code"),
    [
        ((0.1, "pass"), (0.9, "fail"), 1),
        ((0.1, "fail"), (0.9, "pass"), 0),
        ((0.1, "pass"), (0.9, "pass"), 3),
        ((0.1, None), (0.9, None), 3),
    ],
)
def test_labels_beside_scores_tell_their_direction(
    gatemark: Run,
    tmp_path: Path,
    base: tuple[float, str | None],
    cand: tuple[float, str | None],
    code: int,
) -> None:
    files = written(tmp_path / "a.json", otlp(*base)), written(tmp_path / "b.json", otlp(*cand))
    assert gatemark("compare", *files).code == code
    for place, file in enumerate(files):
        assert gatemark("import", file, "-o", tmp_path / f"{place}.jsonl").code == 0
    assert gatemark("compare", tmp_path / "0.jsonl", tmp_path / "1.jsonl").code == code


def test_labels_that_contradict_the_tool_hold(gatemark: Run, tmp_path: Path) -> None:
    rows = []
    for place, (score, label) in enumerate(((0.1, "pass"), (0.9, "fail"))):
        origin = {"tool": "judge", "higher_is_better": ["zest"]}
        made = [
            {
                "schema": "gatemark.sample/1",
                "id": f"q{n}",
                "scores": {"zest": score},
                "tags": {"label.zest": label},
                "origin": origin,
            }
            for n in range(40)
        ]
        rows.append(written(tmp_path / f"{place}.jsonl", "\n".join(map(json.dumps, made)) + "\n"))
    ran = gatemark("compare", *rows, "--json")
    assert ran.code == 3
    assert (
        "contradictory: judge says that higher is better, but the labels pass low"
        in (ran.json["reason"])
    )


def test_one_file_on_both_sides_does_not_pass(gatemark: Run, tmp_path: Path) -> None:
    file = samples(tmp_path / "base.jsonl", "exact", [1.0, 0.0] * 200)
    ran = gatemark("compare", file, file, "--json")
    assert (ran.code, ran.json["files"]) == (3, "one file")
    assert ran.json["reason"].startswith("both sides are one file (same bytes, sha256:")
    link = tmp_path / "link.jsonl"
    link.symlink_to(file)
    assert gatemark("compare", file, link).code == 3


def test_a_copied_log_does_not_pass_and_equal_samples_may(gatemark: Run, tmp_path: Path) -> None:
    log = written(tmp_path / "base.json", inspect_with(by_match(), count=10))
    shutil.copy(log, tmp_path / "cand.json")
    assert gatemark("compare", log, tmp_path / "cand.json").code == 3
    file = samples(tmp_path / "base.jsonl", "exact", [1.0, 0.0] * 200)
    shutil.copy(file, tmp_path / "cand.jsonl")
    ran = gatemark("compare", file, tmp_path / "cand.jsonl", "--json")
    assert (ran.code, ran.json["files"]) == (0, "same bytes")
    assert ran.json["caveats"][0].startswith("both files have the same bytes")


def test_two_arms_of_one_file_are_two_runs(gatemark: Run, tmp_path: Path) -> None:
    log = written(tmp_path / "log.json", shapes.promptfoo_log(crashed=frozenset()))
    ran = gatemark("compare", log, log, "--base-arm", "1", "--cand-arm", "2", "--json")
    assert ran.json["files"] == "different"
    same = gatemark("compare", log, log, "--base-arm", "1", "--cand-arm", "1", "--json")
    assert (same.code, same.json["files"]) == (3, "one file")


@pytest.mark.skipif(not LOGS.is_dir(), reason="no folder with the real logs")
def test_real_logs_with_the_same_settings_have_no_other_settings(
    gatemark: Run, tmp_path: Path
) -> None:
    files = (
        LOGS / "inspect_0.3.285_success_wrong5.json",
        LOGS / "inspect_0.3.120_success_wrong4_deflate.eval",
    )
    ran = gatemark("compare", *files, "--score", "match", "--json")
    assert not any("was made with" in one or "only the" in one for one in ran.json["blockers"])
    log = json.loads(files[0].read_bytes())
    log["eval"]["scorers"][0]["options"] = {"numeric": False}
    changed = written(tmp_path / "changed.json", log)
    held = gatemark("compare", files[0], changed, "--score", "match", "--json")
    assert "another option numeric: true in the base, false in the candidate" in str(
        held.json["blockers"]
    )
