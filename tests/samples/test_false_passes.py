"""Comparisons that must not pass: other questions behind imported samples, and lower is better."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples.importers import peer_shapes as shapes

Run = Callable[..., Any]
COUNT = 200
CASE = {"kind": "prompt", "name": "sums"}


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def unnamed_cases(first: int, wrong: int) -> dict[str, Any]:
    """A DeepEval run over ``COUNT`` questions whose cases have default names, so positions."""
    cases = [
        {
            "name": f"test_case_{place}",
            "input": f"What is {first + place}?",
            "expectedOutput": str(first + place),
            "actualOutput": "x",
            "success": place >= wrong,
            "metricsData": [{"name": "M", "success": place >= wrong, "score": place / COUNT}],
        }
        for place in range(COUNT)
    ]
    return {"testCases": cases, "conversationalTestCases": []}


@pytest.mark.parametrize("imported", ["base", "cand", "both"])
def test_other_questions_are_found_when_a_log_was_imported_before(
    gatemark: Run, tmp_path: Path, imported: str
) -> None:
    logs = {
        "base": written(tmp_path / "base.json", unnamed_cases(first=0, wrong=20)),
        "cand": written(tmp_path / "cand.json", unnamed_cases(first=1000, wrong=5)),
    }
    for side in logs if imported == "both" else (imported,):
        samples = tmp_path / f"{side}.jsonl"
        assert gatemark("import", logs[side], "-o", samples).code == 0
        logs[side] = samples
    ran = gatemark("compare", logs["base"], logs["cand"], "--score", "success", "--json")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert ran.json["reason"].startswith(f"{COUNT} paired samples have another target")
    sealed = gatemark(
        *("compare", logs["base"], logs["cand"], "--score", "success", "--json"),
        *("--seal", "--store", tmp_path / "store"),
    )
    assert sealed.json["blockers"] == ran.json["blockers"]


@pytest.mark.parametrize("tool", ["deepeval", "inspect", "mlflow", "promptfoo", "pydantic-evals"])
def test_an_imported_log_has_the_targets_and_inputs_of_the_log(
    gatemark: Run, tmp_path: Path, tool: str
) -> None:
    log: Any = {
        "deepeval": shapes.deepeval_log,
        "inspect": shapes.inspect_log,
        "mlflow": shapes.mlflow_rows,
        "promptfoo": lambda: shapes.promptfoo_log(crashed=frozenset()),
        "pydantic-evals": shapes.pydantic_report,
    }[tool]()
    file = written(tmp_path / "log.json", log)
    arm = ("--arm", "1") if tool == "promptfoo" else ()
    assert gatemark("import", file, *arm, "-o", tmp_path / "log.jsonl").code == 0
    names = {"promptfoo": "success", "mlflow": "exact", "deepeval": "success"}
    names["pydantic-evals"] = "closeness"
    score = ("--score", names[tool]) if tool in names else ()
    side = ("--cand-arm", "1") if tool == "promptfoo" else ()
    ran = gatemark("compare", tmp_path / "log.jsonl", file, *score, *side, "--json")
    assert not any("another" in told for told in (*ran.json["blockers"], *ran.json["caveats"]))


def lower_is_better(direction: object, *, listed: bool) -> dict[str, Any]:
    results = shapes.lm_eval_results()
    if listed:
        results["configs"]["tiny_gen"]["metric_list"][0]["higher_is_better"] = direction
    else:
        results["higher_is_better"] = {"tiny_gen": {"exact_match": direction}}
    return results


@pytest.mark.parametrize("listed", [True, False])
def test_lm_eval_says_which_scores_are_better_when_lower(listed: bool) -> None:
    rows = shapes.lm_eval_lines(shapes.lm_eval_rows())

    def marked(direction: object) -> tuple[str, ...]:
        found = shapes.read("lm-eval", rows, lower_is_better(direction, listed=listed))
        return found.origin.lower_is_better

    assert marked(direction=False) == ("exact_match/loose", "exact_match/strict")
    assert marked(direction=True) == marked(direction=None) == ()


def test_the_log_likelihoods_behind_a_perplexity_are_better_when_higher() -> None:
    results = lower_is_better(direction=False, listed=True)
    results["configs"]["tiny_gen"]["metric_list"][0]["aggregation"] = "perplexity"
    results["results"]["tiny_gen"] |= {"exact_match,strict": 7.5, "exact_match,loose": 7.5}
    rows = shapes.lm_eval_lines(shapes.lm_eval_rows())
    assert shapes.read("lm-eval", rows, results).origin.lower_is_better == ()


def toxic(score: Callable[[int], float], limit: float = 0.5) -> dict[str, Any]:
    log = shapes.deepeval_log()
    for number, case in enumerate(log["testCases"]):
        value = score(number)
        case["metricsData"].append(
            {"name": "Toxicity", "score": value, "threshold": limit, "success": value <= limit}
        )
    return log


def test_a_deepeval_metric_that_passes_below_its_threshold_is_better_when_lower() -> None:
    found = shapes.read("deepeval", toxic(lambda number: 0.02 * number))
    assert found.origin.lower_is_better == ("Toxicity",)
    assert shapes.read("deepeval", shapes.deepeval_log()).origin.lower_is_better == ()


def test_noise_sensitivity_of_ragas_is_better_when_lower() -> None:
    rows = [
        {"user_input": f"q{n}", "response": "a", "noise_sensitivity_relevant": 0.2, "faithful": 1}
        for n in range(3)
    ]
    found = shapes.read("ragas", rows)
    assert found.origin.lower_is_better == ("noise_sensitivity_relevant",)


@pytest.mark.parametrize(
    ("metric", "is_lower"),
    [
        ("toxic_frac", True),
        ("inference_runtime", True),
        ("bias_metric:mode=representation,demographic_category=race", True),
        ("exact_match", False),
        ("logprob", False),
    ],
)
def test_helm_metrics_that_are_better_when_lower(metric: str, is_lower: bool) -> None:
    stats = [{"name": {"name": metric, "split": "test"}, "count": 1, "sum": 0.2, "mean": 0.2}]
    rows = [{"instance_id": f"id{n}", "train_trial_index": 0, "stats": stats} for n in range(3)]
    found = shapes.read("helm", rows)
    assert found.origin.lower_is_better == ((metric,) if is_lower else ())


@pytest.mark.parametrize("imports", [False, True])
def test_a_score_that_is_better_when_lower_is_judged_so(
    gatemark: Run, tmp_path: Path, imports: bool
) -> None:
    files = []
    for name, level in (("base", 0.1), ("cand", 0.4)):
        file = written(tmp_path / f"{name}.json", toxic(lambda _, level=level: level))
        if imports:
            assert gatemark("import", file, "-o", tmp_path / f"{name}.jsonl").code == 0
            file = tmp_path / f"{name}.jsonl"
        files.append(file)
    ran = gatemark("compare", *files, "--score", "Toxicity", "--json")
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    assert ran.json["direction_source"] == "deepeval says that lower is better"
    assert ran.json["delta"] == pytest.approx(0.3)
    assert gatemark("compare", *files, "--score", "success", "--json").code == 3


def test_a_pack_does_not_take_a_recorded_score_that_is_better_when_lower(
    gatemark: Run, tmp_path: Path
) -> None:
    written(tmp_path / "log.json", toxic(lambda _: 0.4))
    rows = [{"id": shapes.item(n), "input": f"{n}+{n}"} for n in range(shapes.COUNT)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pack = {
        "gatemark": 1,
        "name": "mild",
        "version": 1,
        "asset": CASE,
        "score_min": 0.1,
        "regression_max": 0.5,
        "suites": [
            {
                "id": "golden",
                "kind": "golden",
                "weight": 1.0,
                "dataset": "data.jsonl",
                "scorer": {"name": "recorded", "options": {"score": "Toxicity"}},
            }
        ],
        "targets": {"candidate": {"recorded": "log.json"}, "baseline": "none"},
    }
    written(tmp_path / "pack.yaml", pack)
    ran = gatemark("run", tmp_path / "pack.yaml", "--store", tmp_path / "store", "--json")
    assert ran.code != 0
    assert "Toxicity is better when lower (deepeval says that lower is better)" in json.dumps(
        ran.json
    )
