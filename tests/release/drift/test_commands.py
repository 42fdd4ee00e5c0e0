"""``gatemark drift`` as a user meets it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gatemark.packs.init import write_starter
from gatemark.release.drift.explain import explain
from gatemark.release.drift.judging.policy import DriftPolicy

Run = Callable[..., Any]
Write = Callable[..., Path]

START = datetime(2026, 3, 1, tzinfo=UTC)
HEALTHY = [0.93, 0.94, 0.92, 0.95, 0.93, 0.91, 0.94, 0.93, 0.92, 0.94, 0.93, 0.95, 0.92, 0.93, 0.94]
CONTRACT = {"asset", "metric", "sigma", "z", "level", "reason", "baseline_windows"}


def stamp(day: float) -> str:
    return (START + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ")


def point(day: int, value: Any, **more: Any) -> dict[str, Any]:
    window = {"start": stamp(day), "end": stamp(day + 1)}
    return {"asset": "triage", "metric": "own_metric", **window, "value": value, "n": 200} | more


def points(values: list[float], **more: Any) -> list[dict[str, Any]]:
    return [point(place, value, **more) for place, value in enumerate(values)]


@pytest.fixture
def drift(gatemark: Run, tmp_path: Path) -> Run:
    def run(verb: str, *arguments: object) -> Any:
        return gatemark("drift", verb, *arguments, "--store", tmp_path / "store")

    return run


@pytest.fixture
def pushed(drift: Run, write_jsonl: Write) -> Callable[[list[Any]], Any]:
    def push(rows: list[Any], *arguments: object) -> Any:
        return drift("push", write_jsonl("points.jsonl", rows), *arguments)

    return push


def signals(ran: Any) -> dict[str, dict[str, Any]]:
    return {signal["metric"]: signal for signal in ran.json["signals"]}


@pytest.mark.parametrize("current", [0.93, 0.97, 0.90, 0.95])
def test_literal_gives_the_sources_sigma_under_the_keys_of_the_contract(
    drift: Run, pushed: Run, current: float
) -> None:
    values = [*HEALTHY, current]
    assert pushed(points(values)).code == 0
    found = drift("probe", "--now", stamp(16), "--mode", "literal", "--json")
    assert found.code == 0
    (signal,) = found.json["signals"]
    assert set(signal) >= CONTRACT
    baseline = values[-15:-1]
    expected = (current - statistics.mean(baseline)) / statistics.stdev(baseline)
    assert signal["sigma"] == pytest.approx(expected)
    assert signal["baseline_windows"] == 14
    assert signal["level"] == ("WARN" if abs(expected) >= 2 else "OK")


def test_corrected_reports_both_numbers_and_the_smaller_one_is_corrected(
    drift: Run, pushed: Run
) -> None:
    pushed(points([*HEALTHY, 0.80]))
    (signal,) = drift("probe", "--now", stamp(16), "--json").json["signals"]
    assert signal["level"] == "WARN"
    assert abs(signal["z"]) < abs(signal["sigma"])


def test_a_breach_takes_two_windows(drift: Run, pushed: Run) -> None:
    pushed(points([*HEALTHY, 0.60, 0.60]))
    assert signals(drift("probe", "--now", stamp(16), "--json"))["own_metric"]["level"] == "WARN"
    assert signals(drift("probe", "--now", stamp(17), "--json"))["own_metric"]["level"] == "BREACH"
    told = drift("status", "--now", stamp(17))
    assert told.out.splitlines()[1].startswith("BREACH  triage  own_metric")
    assert "1 BREACH (corrected" in told.out


def test_pushing_twice_is_pushing_once_and_a_correction_is_told(drift: Run, pushed: Run) -> None:
    rows = points(HEALTHY)
    assert pushed(rows).out == "15 points: 15 new, 0 known, 0 corrections\n"
    assert pushed(rows).out == "15 points: 0 new, 15 known, 0 corrections\n"
    rows[3]["value"] = 0.5
    found = pushed(rows, "--json").json
    assert (found["repeated"], found["corrected"]) == (14, 1)


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        ('{"asset":"a","metric":"m","start":"S","end":"E","value":NaN,"n":1}', "NaN"),
        ('{"asset":"a","metric":"m","start":"S","end":"E","value":Infinity,"n":1}', "Infinity"),
        (
            '{"asset":"a","metric":"m","start":"S","end":"E","value":1e999,"n":1}',
            "too large for a number",
        ),
        (point(0, 0.5, n=0), "$.n"),
        (point(0, 0.5, n=-3), "$.n"),
        (point(0, None), "$.value"),
        (point(0, 0.5, end=stamp(0)), "1 s to 366 d"),
        (point(0, 0.5, start="2026-03-01"), "$.start"),
        (point(0, 0.5, start="2026-03-01T00:00:00"), "$.start"),
        (point(400, 0.5), "the window is not over: it ends 2027-04-06T00:00:00Z"),
        (point(0, 0.5, k=1), "exactly one of"),
        ({"asset": "a"}, 'key "metric" is missing'),
        ("not json", "points.jsonl:1"),
    ],
)
def test_bad_points_are_refused_and_nothing_is_kept(
    drift: Run, pushed: Run, row: Any, finding: str
) -> None:
    if isinstance(row, str):
        row = row.replace('"S"', f'"{stamp(0)}"').replace('"E"', f'"{stamp(1)}"')
    ran = pushed([row, point(1, 0.5)], "--now", stamp(30))
    assert ran.code == 2
    assert "points.jsonl:1" in ran.err
    assert finding in ran.err, ran.err
    assert drift("status", "--now", stamp(30), "--json").json["signals"] == []


@pytest.mark.parametrize(
    ("start", "end"),
    [(0.5, 1.5), (0, 2), (0, 0.5), (0.25, 1.25)],
)
def test_windows_that_overlap_are_refused(pushed: Run, start: float, end: float) -> None:
    overlapping = point(0, 0.5, start=stamp(start), end=stamp(end))
    ran = pushed([point(0, 0.5), overlapping], "--now", stamp(30))
    assert ran.code == 2
    assert "points.jsonl:2: the window of" in ran.err
    assert "overlaps others of triage own_metric: they are 1 d long" in ran.err


def test_a_series_keeps_its_form_and_its_bins(pushed: Run) -> None:
    base = {k: v for k, v in point(0, 0).items() if k not in ("value", "n")}
    assert pushed([base | {"histogram": [1, 2]}]).code == 0
    other = {k: v for k, v in point(1, 0).items() if k not in ("value", "n")}
    wrong_bins = pushed([other | {"histogram": [1, 2, 3]}])
    assert (wrong_bins.code, "has different bins" in wrong_bins.err) == (2, True)
    wrong_form = pushed([point(1, 0.5)])
    assert "is pushed as histogram, got value" in wrong_form.err


def test_looking_does_not_make_a_store(drift: Run, tmp_path: Path) -> None:
    for verb in ("probe", "status", "metrics", "events"):
        ran = drift(verb)
        assert (ran.code, "there is no store" in ran.err) == (2, True)
    assert not (tmp_path / "store").exists()


def test_the_exit_code_speaks_only_when_asked(drift: Run, pushed: Run) -> None:
    pushed(points([*HEALTHY, 0.93]))
    assert drift("probe", "--now", stamp(5), "--exit-code").code == 3, "too few windows"
    assert drift("probe", "--now", stamp(16), "--exit-code").code == 0
    pushed([point(16, 0.5)])
    assert drift("probe", "--now", stamp(17), "--exit-code").code == 1
    assert drift("probe", "--now", stamp(17)).code == 0


def test_a_clock_that_goes_back_is_noticed(drift: Run, pushed: Run) -> None:
    pushed(points([*HEALTHY, 0.93]))
    drift("probe", "--now", stamp(16))
    back = drift("probe", "--now", stamp(15))
    assert back.code == 0
    assert "the clock went back" in back.err


def test_old_points_are_stale_and_never_well(drift: Run, pushed: Run) -> None:
    pushed(points([*HEALTHY, 0.93]))
    (signal,) = drift("probe", "--json").json["signals"]
    assert (signal["level"], signal["sigma"], signal["z"]) == ("STALE", None, None)


def test_no_output_ever_holds_nan_or_infinity(drift: Run, pushed: Run) -> None:
    flat = points([0.9] * 16 + [0.1])
    lonely = points([0.9], metric="lonely")
    pushed(flat + lonely)
    for mode in ("literal", "corrected"):
        out = drift("probe", "--now", stamp(17), "--mode", mode, "--json").out
        assert "NaN" not in out
        assert "Infinity" not in out
        json.loads(out, parse_constant=pytest.fail)
        found = {s["metric"]: s["level"] for s in json.loads(out)["signals"]}
        assert found == {"own_metric": "DEGENERATE", "lonely": "STALE"}
    assert "nan" not in drift("status", "--now", stamp(17)).out.lower()
    assert "nan" not in drift("metrics", "--now", stamp(17)).out.lower()


def test_every_metric_of_the_table_is_watched_by_its_detector(drift: Run, pushed: Run) -> None:
    rows: list[Any] = []
    bins = {"items": [100] * 3, "confidence_sum": [20, 50, 80], "correct": [20, 50, 80]}
    for day in range(17):
        base = {k: v for k, v in point(day, 0).items() if k not in ("value", "n")}
        rows += [
            base | {"metric": "golden_accuracy", "k": 180 + day % 5, "n": 200},
            base | {"metric": "verifier_block_ratio", "k": 10 + day % 3, "n": 200},
            base | {"metric": "rejection_ratio", "k": 20 + day % 4, "n": 200},
            base | {"metric": "confidence_kl", "histogram": [90 + day % 3, 100, 110 - day % 3]},
            base | {"metric": "calibration_ece", "calibration": bins},
            base | {"metric": "tool_error_classes", "categories": {"none": 190, "slow": 10}},
        ]
    pushed(rows)
    found = signals(drift("probe", "--now", stamp(17), "--json"))
    assert {name: signal["detector"] for name, signal in found.items()} == {
        "golden_accuracy": "sigma",
        "verifier_block_ratio": "sigma",
        "rejection_ratio": "sigma",
        "confidence_kl": "kl",
        "calibration_ece": "ece_excess",
        "tool_error_classes": "chi_square",
    }
    assert {signal["level"] for signal in found.values()} == {"OK"}


def test_a_class_that_nobody_saw_is_news(drift: Run, pushed: Run) -> None:
    rows = []
    for day in range(17):
        base = {k: v for k, v in point(day, 0).items() if k not in ("value", "n")}
        counts = {"none": 950, "slow": 50} | ({"quota": 1} if day == 16 else {})
        rows.append(base | {"metric": "tool_error_classes", "categories": counts})
    pushed(rows)
    (signal,) = drift("probe", "--now", stamp(17), "--json").json["signals"]
    assert signal["level"] == "NEW_CLASS"
    assert signal["reason"].endswith(": quota")


def test_a_policy_of_ones_own_decides(drift: Run, pushed: Run, tmp_path: Path) -> None:
    policy = tmp_path / "drift.yaml"
    policy.write_text(
        "gatemark_drift: 1\nwatches:\n  - {metric: own_metric, harm: up}\n", encoding="utf-8"
    )
    pushed(points([*HEALTHY, 0.5]))
    found = drift("probe", "--now", stamp(16), "--policy", policy, "--json").json
    assert found["signals"][0]["level"] == "INFO"
    assert found["policy"]["digest"].startswith("sha256:")
    bad = drift("probe", "--policy", tmp_path / "none.yaml")
    assert bad.code == 2


def test_the_policy_can_be_printed(gatemark: Run) -> None:
    printed = gatemark("drift", "policy")
    assert printed.out.startswith("gatemark_drift: 1\n")
    assert "golden_accuracy" in printed.out
    told = gatemark("drift", "policy", "--mode", "literal", "--json").json
    assert (told["mode"], len(told["digest"])) == ("literal", 71)


def test_the_policy_is_explained_by_a_seeded_simulation(gatemark: Run, tmp_path: Path) -> None:
    policy = tmp_path / "drift.yaml"
    policy.write_text(
        "gatemark_drift: 1\ndefaults: false\nq: 0.05\nwatches:\n"
        "  - {metric: golden_accuracy, classes: [agent], harm: down, scale: rate}\n",
        encoding="utf-8",
    )
    arguments = ("drift", "policy", "--explain", "--policy", policy, "--series", 20)
    found = gatemark(*arguments, "--seed", 3, "--json").json
    (watch,) = found["watches"]
    (agent,) = found["classes"]
    assert (agent["asset_class"], agent["metrics"]) == ("agent", ["golden_accuracy"])
    assert agent["false_demotions_per_year"] == pytest.approx(
        12 * watch["false_demotions_per_month"], rel=0.01
    )
    assert watch["alone_false_warnings_per_month"] > watch["false_warnings_per_month"]
    assert agent["alone_false_demotions_per_year"] == watch["alone_false_demotions_per_year"], (
        "one metric, nothing to add up"
    )
    five = next(one for one in found["detection"] if (one["change"], one["days"]) == (5, 7))
    assert five["demoted"] >= 0.9
    assert [kind["kind"] for kind in found["kinds"]][:2] == ["independent", "correlation 0.5"]
    ran = gatemark(*arguments, "--seed", 3)
    words = ran.out
    assert "simulating the policy" in ran.err
    assert "expected false demotions of a healthy asset" in words
    assert "5 sd that stay" in words
    for kind in found["kinds"]:
        warnings, demotions = kind["false_warnings_per_year"], kind["false_demotions_per_year"]
        line = f"{kind['kind']:<22} {warnings:>9.3f} {demotions:>10.3f}"
        assert line in words, "the same seed gives the same figures"
    for cell in found["detection"]:
        assert f"{cell['found']:.0%} ({cell['demoted']:.0%})" in words


def test_a_metric_with_two_watches_is_one_metric_of_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Classes need neither the kinds of series nor the changed ones, which take most of the time.
    monkeypatch.setattr("gatemark.release.drift.explain.KINDS", ())
    monkeypatch.setattr("gatemark.release.drift.explain.SHIFTS", ())
    found = explain(DriftPolicy(), seed=1, series=4)
    metrics = {one.asset_class: one.metrics for one in found.classes}
    assert metrics["model"] == ("golden_accuracy",)
    assert metrics["agent"] == ("golden_accuracy", "verifier_block_ratio")


def test_metrics_are_what_prometheus_reads(drift: Run, pushed: Run, tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    pushed(points([*HEALTHY, 0.5]))
    drift("probe", "--now", stamp(16))
    out = drift("metrics", "--now", stamp(16)).out
    samples = {
        (sample.name, sample.labels.get("level")): sample.value
        for family in text_string_to_metric_families(out)
        for sample in family.samples
    }
    (signal,) = drift("status", "--now", stamp(16), "--json").json["signals"]
    assert samples["gatemark_drift_sigma", None] == signal["sigma"]
    assert samples["gatemark_drift_state", "WARN"] == 1
    assert samples["gatemark_drift_open_episodes", "WARN"] == 1
    probed = (START + timedelta(days=16)).timestamp()
    assert samples["gatemark_drift_last_probe_timestamp_seconds", None] == probed
    target = tmp_path / "gatemark.prom"
    assert drift("metrics", "--now", stamp(16), "-o", target).out == ""
    assert target.read_text() == out


def test_events_are_evaluation_results_of_opentelemetry(drift: Run, pushed: Run) -> None:
    pushed(points([*HEALTHY, 0.5]) + points([0.5], metric="young"))
    line = json.loads(drift("events", "--now", stamp(16)).out)
    records = line["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert {record["eventName"] for record in records} == {"gen_ai.evaluation.result"}
    told = [
        {a["key"]: next(iter(a["value"].values())) for a in record["attributes"]}
        for record in records
    ]
    drifted, young = told
    assert drifted["gen_ai.evaluation.name"] == "drift.own_metric"
    assert drifted["gen_ai.evaluation.score.label"] == "WARN"
    assert drifted["gen_ai.evaluation.score.value"] < -2
    assert young["error.type"] == "STALE"
    assert "gen_ai.evaluation.score.value" not in young


def test_a_page_shows_series_bands_episodes_and_acts(
    drift: Run, pushed: Run, tmp_path: Path
) -> None:
    pushed(points([*HEALTHY, 0.5, 0.5]))
    drift("probe", "--now", stamp(16))
    drift("probe", "--now", stamp(17))
    target, data = tmp_path / "page.html", tmp_path / "page.json"
    ran = drift("report", "triage", "--now", stamp(17), "-o", target, "-o", data)
    assert ran.code == 0, ran.err
    page = target.read_text()
    for text in ("BREACH", "own_metric", "within 2 sigma", "within 3.5 sigma", "Actions"):
        assert text in page
    assert "<script" not in page
    view = json.loads(data.read_text())
    (series,) = view["series"]
    assert len(series["windows"]) == 17
    assert [window["level"] for window in series["windows"]][-2:] == ["WARN", "BREACH"]
    assert series["windows"][-1]["mu"] == pytest.approx(series["windows"][-2]["mu"]), "frozen"
    assert view["episodes"][0]["level"] == "BREACH"
    unknown = drift("report", "nobody", "-o", target)
    assert (unknown.code, "no points of nobody" in unknown.err) == (2, True)


def decision(number: int) -> dict[str, Any]:
    """An advisory decision of one of two days; every fourth is wrong."""
    from gatemark.plugins.advisory.record_examples import AGREEING, change_record

    right = {"confidence.score": 0.91, "timestamp": f"2026-03-0{1 + number % 2}T10:00:00Z"}
    wrong = {
        "human_or_atlas_decision.label": "escalate",
        "outcome.comparison": "disagree",
        "outcome.error_type": "false_negative",
        "outcome.human_review_required": True,
    }
    name = {"decision_id": f"01J{number:023d}"}
    return change_record(AGREEING, right | name | ({} if number % 4 else wrong))


def test_points_are_derived_from_advisory_decisions_once(drift: Run, write_jsonl: Write) -> None:
    path = write_jsonl("d.jsonl", [decision(number) for number in range(40)])
    arguments = ("--decisions", path, "--now", stamp(2), "--json")
    first = drift("derive", *arguments)
    assert first.code == 0, first.err
    assert (first.json["pushed"]["added"], first.json["open_windows"]) == (6, 0)
    again = drift("derive", *arguments).json
    assert (again["pushed"]["added"], again["pushed"]["repeated"]) == (0, 6)
    found = drift("status", "--now", stamp(1), "--json").json["signals"]
    counts = {(s["asset"], s["metric"]): s["n"] for s in found}
    assert counts == {
        ("cron_n8n_advisory", "calibration_ece"): 20,
        ("cron_n8n_advisory", "confidence_kl"): 20,
        ("cron_n8n_advisory", "tool_error_classes"): 20,
    }


def test_points_are_derived_from_a_run_log(drift: Run, write_jsonl: Write) -> None:
    from gatemark.plugins.runlog.records.run_schema import SCHEMA

    rows = [
        {**row, "timestamp": "2026-03-01T01:00:00.000Z"} if "timestamp" in row else row
        for row in SCHEMA.good_files[0]
    ]
    path = write_jsonl("case.jsonl", rows)
    ran = drift("derive", "--run-log", path, "--asset", "summariser", "--now", stamp(2), "--json")
    assert ran.code == 0, ran.err
    found = drift("status", "--now", stamp(1), "--json").json["signals"]
    values = {(s["asset"], s["metric"]): (s["value"], s["n"]) for s in found}
    assert values == {
        ("summariser", "verifier_block_ratio"): (0, 3),
        ("summariser", "rejection_ratio"): (0, 3),
    }


def test_a_log_that_cannot_be_read_is_refused_with_its_line(drift: Run, write_jsonl: Write) -> None:
    ran = drift("derive", "--decisions", write_jsonl("d.jsonl", [decision(0), "{}", "oops"]))
    assert ran.code == 2
    assert "d.jsonl:2:" in ran.err
    assert "d.jsonl:3:" in ran.err
    log = drift("derive", "--run-log", write_jsonl("r.jsonl", [{"record_type": "run_meta"}]))
    assert (log.code, "r.jsonl:1" in log.err) == (2, True)


def test_results_give_a_point_for_each_time_they_were_reached(
    gatemark: Run, drift: Run, tmp_path: Path
) -> None:
    write_starter(tmp_path / "pack")
    store = ("--store", tmp_path / "store")
    assert gatemark("run", tmp_path / "pack" / "pack.yaml", *store).code == 0
    assert drift("derive", "--json").json["open_windows"] >= 1, "today is not over"
    later = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = drift("derive", "--now", later, "--json").json
    assert found["pushed"]["added"] >= 1
    told = drift("status", "--now", later, "--json").json["signals"]
    assert ("parcel-mail", "golden_accuracy") in {(s["asset"], s["metric"]) for s in told}


@pytest.mark.parametrize("source", ["West", "west ", "w\u0435st", "\uff57est", "we\u200bst"])
def test_a_source_is_one_in_every_spelling(drift: Run, pushed: Run, source: str) -> None:
    bad = [point(day, 0.93 - 0.3 * (day > 12), source="east") for day in range(15)]
    good = [point(day, value, source="west") for day, value in enumerate(HEALTHY)]
    assert pushed([*bad, *good]).code == 0
    honest = drift("probe", "--now", stamp(15), "--json").json["signals"]
    again = pushed([row | {"source": source} for row in good])
    assert again.code == 0
    assert "0 new, 15 known, 0 corrections" in again.out
    assert drift("probe", "--now", stamp(15), "--json").json["signals"] == honest
