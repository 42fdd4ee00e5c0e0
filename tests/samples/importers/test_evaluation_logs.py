"""Evaluations in OTLP logs: joined to their spans, or named as belonging to none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.release.drift.test_page import day, signal
from tests.samples.importers.test_traces import (
    attributes,
    document,
    genai_trace,
    json_values,
    otlp_values,
    samples,
    span,
    survives,
    write,
)

from gatemark.release.drift.signal import DriftSignal
from gatemark.release.drift.views.evaluation_events import otlp_lines
from gatemark.samples.importer import ForeignFile
from gatemark.samples.importers import otlp
from gatemark.samples.spans import TraceEvaluation, TraceScore

Run = Callable[..., Any]
EVENT = "gen_ai.evaluation.result"


def record(name: str = "relevance", value: float | None = 0.9, **more: Any) -> dict[str, Any]:
    """One log record; ``response`` and ``label`` are attributes, the rest are fields."""
    given: dict[str, Any] = {"gen_ai__evaluation__name": name}
    if value is not None:
        given["gen_ai__evaluation__score__value"] = value
    for key, attribute in (
        ("label", "gen_ai__evaluation__score__label"),
        ("response", "gen_ai__response__id"),
        ("error", "error__type"),
    ):
        if key in more:
            given[attribute] = more.pop(key)
    return {"eventName": EVENT, "timeUnixNano": "5", "attributes": attributes(**given), **more}


def logs(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": list(records)}]}]}


def answered(trace: str = "t1", response: str = "resp-1") -> list[dict[str, Any]]:
    """A trace without scores whose model call has a response id."""
    root, look_up, answer = genai_trace(trace)
    answer["attributes"] += attributes(gen_ai__response__id=response)
    answer["events"] = []
    return [root, look_up, answer]


def imported(gatemark: Run, folder: Path, *files: object) -> tuple[Any, list[dict[str, Any]]]:
    out = folder / "out.samples.jsonl"
    ran = gatemark("import", *files, "-o", out, "--json")
    return ran, samples(out) if out.exists() else []


@pytest.mark.parametrize(
    "names",
    [
        {"traceId": "t1", "spanId": "answer"},
        {"traceId": "T1", "spanId": "ANSWER"},
        {"traceId": "t1"},
        {"traceId": "t1", "spanId": "0000000000000000"},
        {"response": "resp-1"},
        {"response": "resp-1", "traceId": "0" * 32, "spanId": ""},
        {"response": "resp-1", "traceId": "t1", "spanId": "answer"},
        {"response": "resp-1", "traceId": "t1", "spanId": "root"},
        {"response": "resp-1", "traceId": "evaluator", "spanId": "judge"},
        {"response": "unknown", "traceId": "t1", "spanId": "root"},
    ],
    ids=str,
)
def test_an_evaluation_in_a_log_is_a_score_of_the_trace_it_names(
    gatemark: Run, tmp_path: Path, names: dict[str, str]
) -> None:
    path = write(tmp_path / "t.jsonl", logs(record(**names)), document(*answered()))
    ran, (sample,) = imported(gatemark, tmp_path, path)
    assert ran.code == 0, ran.err
    assert sample["scores"] == {"relevance": 0.9}


def test_evaluations_may_lie_in_another_file_and_in_a_folder(gatemark: Run, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    spans = write(folder / "traces.jsonl", document(*answered()), document(*answered("t2", "r2")))
    scores = write(
        folder / "logs.jsonl",
        logs(record(traceId="t1", spanId="answer"), record(value=0.2, response="r2")),
    )
    expected = [{"relevance": 0.9}, {"relevance": 0.2}]
    for files in ((spans, scores), (scores, spans), (folder,)):
        ran, found = imported(gatemark, tmp_path, *files)
        assert ran.code == 0, ran.err
        assert [one["scores"] for one in found] == expected
    ran = gatemark("import", folder, "--to", "decisions", "-o", tmp_path / "d.jsonl")
    assert ran.code == 0, ran.err
    assert len(samples(tmp_path / "d.jsonl")) == 2


def test_a_folder_of_several_formats_is_refused(gatemark: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    write(folder / "traces.jsonl", document(*answered()))
    (folder / "run.json").write_text(json.dumps({"testCases": [{"metricsData": []}]}))
    ran = gatemark("import", folder)
    assert ran.code == 2
    assert "name a file in it" in ran.err


def test_an_older_record_names_its_event_in_an_attribute(gatemark: Run, tmp_path: Path) -> None:
    old = record(traceId="t1", spanId="answer", eventName=None)
    old["attributes"] += attributes(event__name=EVENT)
    ran, (sample,) = imported(
        gatemark, tmp_path, write(tmp_path / "t.jsonl", document(*answered()), logs(old))
    )
    assert ran.code == 0, ran.err
    assert sample["scores"] == {"relevance": 0.9}


@pytest.mark.parametrize(
    ("orphan", "words"),
    [
        ({"traceId": "t9", "spanId": "x"}, "names span 'x' of trace 't9', which is in none"),
        ({"traceId": "t1", "spanId": "x"}, "names span 'x' of trace 't1', which is in none"),
        ({"traceId": "t9"}, "names trace 't9', whose root is in none"),
        ({"response": "r9"}, "names response 'r9', which is in none"),
        ({}, "names neither a span nor a gen_ai.response.id"),
        (
            {"response": "other", "traceId": "t1", "spanId": "answer"},
            "names response 'other' and span 'answer', whose response is 'resp-1'",
        ),
        (
            {"response": "r9", "traceId": "t1", "spanId": "judge"},
            "names response 'r9', which is in none",
        ),
        ({"response": "twice"}, "names response 'twice', which several traces have"),
    ],
    ids=str,
)
def test_an_evaluation_that_belongs_to_no_span_is_named_and_counted(
    gatemark: Run, tmp_path: Path, orphan: dict[str, str], words: str
) -> None:
    judge = span("judge", 91, 95, attributes={"openinference__span__kind": "EVALUATOR"})
    path = write(
        tmp_path / "t.jsonl",
        document(*answered(), judge),
        document(*answered("t2", "twice")),
        document(*answered("t3", "twice")),
        logs(record("relevance", **orphan)),
    )
    ran, written = imported(gatemark, tmp_path, path)
    assert ran.code == 2
    assert not written
    assert ran.json["logs"][0]["refused"] == 1
    (refusal,) = ran.json["logs"][0]["refusals"]
    assert "evaluation 'relevance'" in refusal
    assert words in refusal
    out = tmp_path / "rest.jsonl"
    assert gatemark("import", path, "--on-bad-line", "exclude", "-o", out).code == 0
    assert [one["scores"] for one in samples(out)] == [{}, {}, {}]


def test_evaluations_delivered_twice_count_once(gatemark: Run, tmp_path: Path) -> None:
    one = record(traceId="t1", spanId="answer")
    path = write(tmp_path / "t.jsonl", document(*answered()), logs(one, one), logs(one))
    ran, (sample,) = imported(gatemark, tmp_path, path)
    assert sample["scores"] == {"relevance": 0.9}
    assert "2 evaluations are repeated and counted once" in ran.json["logs"][0]["notes"]


@pytest.mark.parametrize("place", ["root", "answer"])
def test_two_values_of_one_score_hold_every_comparison(
    gatemark: Run, tmp_path: Path, place: str
) -> None:
    path = write(
        tmp_path / "t.jsonl",
        document(*answered()),
        logs(
            record(value=0.1, traceId="t1", spanId=place),
            record(value=0.9, traceId="t1", spanId=place),
        ),
    )
    ran, (sample,) = imported(gatemark, tmp_path, path)
    assert sample["scores"] == {}
    reason = f"trace 't1': span '{place}' has two different results of 'relevance'"
    assert reason in ran.json["logs"][0]["notes"]
    assert sample["origin"]["contradictions"] == [reason]
    decisions = gatemark("import", path, "--to", "decisions")
    assert decisions.code == 2
    assert reason in decisions.err


def test_two_values_in_events_of_one_span_are_a_contradiction_too(
    gatemark: Run, tmp_path: Path
) -> None:
    root, look_up, answer = genai_trace()
    events = [
        {"name": EVENT, "attributes": record("right", value)["attributes"]} for value in (0.0, 1.0)
    ]
    root["events"] = events
    ran, (sample,) = imported(
        gatemark, tmp_path, write(tmp_path / "t.jsonl", document(root, look_up, answer))
    )
    assert ran.code == 0, ran.err
    assert sample["scores"] == {}
    assert sample["origin"]["contradictions"]


@pytest.mark.parametrize(
    ("given", "score"),
    [
        ({"value": None, "label": "pass"}, 1.0),
        ({"value": None, "label": "Failed"}, 0.0),
        ({"value": 0.4, "label": "pass"}, 0.4),
        ({"value": None, "label": "relevant"}, None),
        ({"value": 1.0, "error": "timeout"}, None),
        ({"value": None}, None),
    ],
    ids=str,
)
def test_labels_are_scores_and_failed_evaluations_are_null(
    gatemark: Run, tmp_path: Path, given: dict[str, Any], score: float | None
) -> None:
    one = record(**given, traceId="t1", spanId="answer")
    ran, (sample,) = imported(
        gatemark, tmp_path, write(tmp_path / "t.jsonl", document(*answered()), logs(one))
    )
    assert ran.code == 0, ran.err
    assert sample["scores"] == {"relevance": score}


def test_a_label_in_a_log_is_a_check_of_the_step(gatemark: Run, tmp_path: Path) -> None:
    one = record("fresh", None, label="fail", traceId="t1", spanId="look-up")
    path = write(tmp_path / "t.jsonl", document(*answered()), logs(one))
    out = tmp_path / "d.jsonl"
    assert gatemark("import", path, "--to", "decisions", "-o", out).code == 0
    (decision,) = samples(out)
    assert decision["steps"][0]["checks"] == [
        {"pack": "evaluation", "rule": "fresh", "verdict": "fail"}
    ]


def test_other_log_records_are_counted(gatemark: Run, tmp_path: Path) -> None:
    other = {"body": {"stringValue": "started"}, "attributes": None}
    path = write(tmp_path / "t.jsonl", document(*answered()), logs(other, other, {}))
    ran, _ = imported(gatemark, tmp_path, path)
    assert "3 log records are not evaluations and were not read" in ran.json["logs"][0]["notes"]


def test_an_event_without_a_name_is_refused(gatemark: Run, tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.jsonl",
        document(*answered()),
        logs({"eventName": EVENT, "traceId": "t1", "spanId": "answer"}),
    )
    ran = gatemark("import", path)
    assert ran.code == 2
    assert "t.jsonl:2: gen_ai.evaluation.result has no gen_ai.evaluation.name" in ran.err


def read_back(signals: list[DriftSignal]) -> list[TraceScore]:
    file = ForeignFile("drift.jsonl", b"".join(otlp_lines(signals, day(5), "1.0")))
    found = [item for _, item in otlp.read_spans(file)]
    assert all(isinstance(item, TraceEvaluation) for item in found)
    return [item.score for item in found if isinstance(item, TraceEvaluation)]


def test_what_drift_writes_is_read_back(gatemark: Run, tmp_path: Path) -> None:
    judged = signal(level="BREACH", z=-4.25)
    unjudged = signal(metric="latency", level="STALE", z=None, sigma=None, value=None)
    assert read_back([judged, unjudged]) == [
        TraceScore(f"drift.{judged.metric}", -4.25),
        TraceScore("drift.latency", None),
    ]
    path = tmp_path / "drift.otlp.jsonl"
    path.write_bytes(b"".join(otlp_lines([judged], day(5), "1.0")))
    ran = gatemark("import", path)
    assert ran.code == 2
    assert f"evaluation 'drift.{judged.metric}' names neither a span" in ran.err


record_fields = st.dictionaries(
    st.sampled_from(["traceId", "spanId", "eventName", "attributes", "body", "timeUnixNano"]),
    json_values,
    max_size=4,
)


@settings(deadline=None, max_examples=120)
@given(record_fields, st.sampled_from(["gen_ai.response.id", "error.type", "x"]), otlp_values)
def test_no_log_record_breaks_the_reader(fields: Any, name: str, thing: Any) -> None:
    one = record(traceId="t1", spanId="answer") | fields
    two = record(traceId="t1", spanId="answer")
    two["attributes"] += [{"key": name, "value": thing}]
    survives(otlp, document(*answered()) | logs(one))
    survives(otlp, document(*answered()) | logs(two))
    survives(otlp, {"resourceLogs": thing})
