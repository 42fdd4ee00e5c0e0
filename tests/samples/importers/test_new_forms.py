"""promptfoo and DeepEval in all their forms, OpenAI evals, HELM, Ragas and Langfuse data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.samples.importers import table_shapes as tables
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    deepeval_log,
    dumped,
    file_of,
    item,
    lost_and_gained,
    promptfoo_log,
    read,
)

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import ReadOptions, detect, import_files, importers, list_arms


def shared(log: dict[str, Any]) -> dict[str, Any]:
    """A share form: rows directly under results, the columns beside them, another name for id."""
    body = log["results"]
    return {
        "id": "eval-1",
        "config": {},
        "results": body["results"],
        "prompts": body["prompts"],
        "stats": body["stats"],
    }


PROMPTFOO_FORMS = {
    "export": (dumped(promptfoo_log()), "log.json"),
    "version 4": (
        dumped(promptfoo_log() | {"results": {**promptfoo_log()["results"], "version": 4}}),
        "log.json",
    ),
    "summary": (dumped(promptfoo_log()["results"]), "log.json"),
    "share": (dumped(shared(promptfoo_log())), "log.json"),
    "share in data": (dumped({"data": shared(promptfoo_log())}), "log.json"),
    "version 2": (dumped(tables.promptfoo_table()), "log.json"),
    "version 2 export": (
        dumped({"evalId": "e", "results": tables.promptfoo_table(), "config": {}}),
        "log.json",
    ),
    "table page": (
        dumped({"table": tables.promptfoo_table()["table"], "config": {}, "id": "e"}),
        "log.json",
    ),
    "version 1": (dumped(tables.promptfoo_first()), "log.json"),
    "yaml": (yaml.safe_dump(json.loads(dumped(promptfoo_log()))).encode(), "log.yaml"),
    "csv": (tables.promptfoo_csv(), "log.csv"),
    "lines": (tables.json_lines(promptfoo_log()["results"]["results"]), "log.jsonl"),
}


@pytest.mark.parametrize(("data", "name"), PROMPTFOO_FORMS.values(), ids=PROMPTFOO_FORMS)
def test_every_form_of_promptfoo_is_found_and_gives_the_same_pairs(data, name):
    file = file_of(data, name)
    assert detect(file, importers()).name == "promptfoo"
    base, cand = (importers().get("promptfoo").read([file], ReadOptions(arm=a)) for a in "12")
    assert (base.errored_count, cand.errored_count) == (1, 1)
    assert lost_and_gained(base, cand, "success") == (COUNT - 1, 4, 3)
    assert base.origin.contradictions == ()
    assert (base.samples[0].input, base.refused) == ({"question": "0+0"}, ())


def test_a_table_row_with_too_many_outputs_is_refused():
    table = tables.promptfoo_table()
    table["table"]["body"][3]["outputs"].append("[PASS] more")
    (refusal,) = read("promptfoo", table, arm="1").refused
    assert "has 3 outputs, expected 2" in refusal.reason


def test_a_cell_without_a_verdict_is_an_error_and_never_a_pass():
    table = tables.promptfoo_first()
    table["table"]["body"][3]["outputs"][0] = "just text"
    base = read("promptfoo", table, arm="1")
    assert base.errored_count == 2


def test_large_yaml_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr("gatemark.samples.promptfoo_forms.MAX_YAML_BYTES", 10)
    with pytest.raises(BadInputError, match=r"write \.json instead"):
        read("promptfoo", b"results: [1, 2, 3]", name="x.yaml")


def test_yaml_that_names_itself_is_refused():
    with pytest.raises(BadInputError):
        read("promptfoo", b"results: &a\n  results: *a\nevalId: x", name="x.yaml")


def snake(log: dict[str, Any]) -> dict[str, Any]:
    """What ``evaluate()`` returns, dumped."""
    renamed = {
        "actualOutput": "actual_output",
        "expectedOutput": "expected_output",
        "metricsData": "metrics_data",
    }
    results = [
        {renamed.get(k, k): v for k, v in case.items() if k not in ("order", "completionTime")}
        | {"conversational": False, "index": n}
        for n, case in enumerate(log["testCases"])
    ]
    return {"test_results": results, "confident_link": None, "test_run_id": None}


DEEPEVAL_FORMS = {
    "results folder": deepeval_log,
    "latest run": lambda every: {"testRunData": deepeval_log(every), "testRunLink": None},
    "evaluate": lambda every: snake(deepeval_log(every)),
    "results of evaluate": lambda every: snake(deepeval_log(every))["test_results"],
}


@pytest.mark.parametrize("form", DEEPEVAL_FORMS.values(), ids=DEEPEVAL_FORMS)
def test_every_form_of_deepeval_is_found_and_gives_the_same_pairs(form):
    files = [file_of(form(every)) for every in (BASELINE, CANDIDATE)]
    assert detect(files[0], importers()).name == "deepeval"
    base, cand = (importers().get("deepeval").read([file], ReadOptions()) for file in files)
    assert lost_and_gained(base, cand, "success") == (COUNT, 4, 3)
    assert base.samples[1].target == "2"


def test_default_names_are_positions_and_repeated_cases_are_epochs():
    log = deepeval_log()
    log["testCases"] += [dict(case) for case in log["testCases"][:5]]
    for n, case in enumerate(log["testCases"]):
        case |= {"name": f"test_case_{n}", "order": n}
    log |= {"metricsScores": [], "testPassed": None, "testFailed": None}
    imported = read("deepeval", log)
    assert imported.origin.by_position
    assert sum(sample.epoch == 2 for sample in imported.samples) == 5


def test_a_results_folder_is_read_when_it_holds_one_run(tmp_path: Path):
    (tmp_path / "test_run_20261115_220000.json").write_bytes(dumped(deepeval_log()))
    (tmp_path / "notes.txt").write_text("x")
    (imported,) = import_files([tmp_path])
    assert (imported.tool, len(imported.samples)) == ("deepeval", COUNT)
    (tmp_path / "test_run_20261115_230000.json").write_bytes(dumped(deepeval_log()))
    with pytest.raises(BadInputError, match="contains 2 logs of deepeval; name one: test_run_2026"):
        import_files([tmp_path])


def test_the_latest_run_of_deepeval_is_found_in_its_folder(tmp_path: Path):
    folder = tmp_path / ".deepeval"
    folder.mkdir()
    (folder / ".latest_test_run.json").write_bytes(dumped({"testRunData": deepeval_log()}))
    assert [arm.name for arm in list_arms([folder])] == ["run-1"]


def openai(every: int = BASELINE, **changes: Any) -> Any:
    rows = tables.openai_events(every)
    rows[0]["spec"]["run_config"] |= changes
    return read("openai-evals", tables.json_lines(rows), name="run.jsonl")


def test_openai_evals_lost_four_and_gained_three():
    base, cand = openai(), openai(CANDIDATE)
    assert lost_and_gained(base, cand, "match") == (COUNT, 4, 3)
    assert (base.samples[0].output, base.samples[1].target) == ("1", "2")
    assert (base.headline, base.lineage["model"]) == ("match", "scripted")
    assert all(check.agrees for check in base.checks)
    assert (base.origin.partial, base.origin.contradictions) == ((), ())


def test_an_openai_eval_without_its_report_or_cut_short_is_partial():
    rows = tables.openai_events()
    unfinished = read("openai-evals", tables.json_lines(rows[:-1]), name="run.jsonl")
    assert "no final report" in unfinished.origin.partial[0]
    assert "--max_samples 5" in openai(max_samples=5).origin.partial[0]


def test_dropped_events_of_an_openai_eval_contradict_its_report():
    rows = [
        row
        for row in tables.openai_events()
        if row.get("type") != "match" or row["data"]["correct"]
    ]
    imported = read("openai-evals", tables.json_lines(rows), name="run.jsonl")
    assert imported.errored_count == 4
    assert "accuracy: the log says 0.8" in imported.origin.contradictions[0]


def helm(tmp_path: Path, every: int = BASELINE, *, trials: int = 1, **state: Any) -> Any:
    folder = tmp_path / f"run-{every}"
    folder.mkdir(exist_ok=True)
    (folder / "per_instance_stats.json").write_bytes(dumped(tables.helm_stats(every, trials)))
    (folder / "scenario_state.json").write_bytes(dumped(tables.helm_state(every, **state)))
    (folder / "run_spec.json").write_bytes(dumped({"name": "tiny:model=one"}))
    (imported,) = import_files([folder])
    return imported


def test_helm_lost_four_and_gained_three(tmp_path: Path):
    base, cand = helm(tmp_path), helm(tmp_path, CANDIDATE)
    assert lost_and_gained(base, cand, "exact_match") == (COUNT, 4, 3)
    sample = next(sample for sample in base.samples if sample.id == "id1")
    assert (sample.input, sample.target, sample.output) == ("1+1", "2", "2")
    assert (sample.scores, sample.latency_ms) == ({"exact_match": 1.0, "num_bytes": 3.0}, 250.0)
    assert base.lineage == {"model": "scripted/one", "task": "tiny:model=one"}


def test_trials_of_helm_are_epochs_and_failed_requests_are_errors(tmp_path: Path):
    imported = helm(tmp_path, trials=2, failed=frozenset({4}))
    assert sum(sample.epoch == 2 for sample in imported.samples) == COUNT
    (failed,) = [sample for sample in imported.samples if sample.error]
    assert (failed.id, failed.scores) == ("id4", {})


def test_two_values_for_one_instance_of_helm_contradict_each_other():
    rows = tables.helm_stats()
    again = json.loads(dumped(rows[0]))
    again["stats"][0] |= {"sum": 1.0, "mean": 1.0}
    assert read("helm", [*rows, again]).origin.contradictions


@pytest.mark.parametrize("form", ["csv", "records", "lines", "columns"])
def test_ragas_lost_four_and_gained_three(form):
    logs = []
    for every in (BASELINE, CANDIDATE):
        rows = tables.ragas_rows(every)
        columns = {name: {str(n): r[name] for n, r in enumerate(rows)} for name in rows[0]}
        data, name = {
            "csv": (tables.csv_of(rows), "r.csv"),
            "records": (dumped(rows), "r.json"),
            "lines": (tables.json_lines(rows), "r.jsonl"),
            "columns": (dumped(columns), "r.json"),
        }[form]
        assert detect(file_of(data, name), importers()).name == "ragas"
        logs.append(read("ragas", data, name=name))
    assert lost_and_gained(*logs, "faithfulness") == (COUNT, 4, 3)
    assert logs[0].origin.by_position


def test_a_ragas_metric_without_a_number_is_null_and_never_zero():
    rows = tables.ragas_rows()
    rows[1] |= {"faithfulness": "", "answer_relevancy": "nan"}
    rows[2]["faithfulness"] = "nan"
    samples = read("ragas", tables.csv_of(rows), name="r.csv").samples
    by_id = {sample.id: sample for sample in samples}
    assert by_id["1"].error is not None
    assert by_id["2"].scores == {"faithfulness": None, "answer_relevancy": 0.5}
    assert by_id["2"].tags["missing.faithfulness"] == "ragas wrote NaN"


@pytest.mark.parametrize("form", ["list", "page", "lines", "csv"])
def test_items_of_a_langfuse_data_set_become_samples_to_ask(form):
    rows = tables.langfuse_items()
    data, name = {
        "list": (dumped(rows), "i.json"),
        "page": (dumped({"data": rows, "meta": {"page": 1}}), "i.json"),
        "lines": (tables.json_lines(rows), "i.jsonl"),
        "csv": (
            tables.csv_of([r | {"metadata": json.dumps(r["metadata"])} for r in rows]),
            "i.csv",
        ),
    }[form]
    assert detect(file_of(data, name), importers()).name == "langfuse-dataset"
    imported = read("langfuse-dataset", data, name=name)
    assert len(imported.samples) == COUNT - 1
    sample = imported.samples[1]
    assert (sample.id, sample.input, sample.target) == (item(1), {"question": "1+1"}, "2")
    assert sample.tags == {"lane": "odd", "source_trace": "trace-1"}
    assert (sample.scores, sample.error) == ({}, None)
    assert any("1 archived" in note for note in imported.notes)
