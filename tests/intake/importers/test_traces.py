"""Traces as samples and decisions: OTLP in both dialects, Langfuse exports, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError
from gatemark.intake.foreign import ForeignFile, ReadOptions
from gatemark.intake.importers import langfuse as langfuse_importer
from gatemark.intake.importers import otlp as otlp_importer

Run = Callable[..., Any]


def value(thing: Any) -> dict[str, Any]:
    if isinstance(thing, bool):
        return {"boolValue": thing}
    if isinstance(thing, int):
        return {"intValue": str(thing)}
    if isinstance(thing, float):
        return {"doubleValue": thing}
    if isinstance(thing, list):
        return {"arrayValue": {"values": [value(one) for one in thing]}}
    return {"stringValue": thing}


def attributes(**given: Any) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": value(one)} for key, one in given.items()]


def span(name: str, start: int, end: int, parent: str = "root", **more: Any) -> dict[str, Any]:
    given = more.pop("attributes", {})
    return {
        "traceId": more.pop("trace", "t1"),
        "spanId": name,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(start * 1_000_000),
        "endTimeUnixNano": str(end * 1_000_000),
        "attributes": attributes(**given),
        **more,
    }


def genai_trace(trace: str = "t1", question: str = "how much?") -> list[dict[str, Any]]:
    return [
        span(
            "root",
            0,
            100,
            "",
            trace=trace,
            attributes={
                "gen_ai__operation__name": "invoke_agent",
                "input__value": question,
                "output__value": "costs 4",
            },
        ),
        span(
            "look-up",
            10,
            30,
            trace=trace,
            attributes={
                "gen_ai__operation__name": "retrieval",
                "gen_ai__data_source__id": "tariffs-2026-09",
                "output__value": '["4"]',
            },
        ),
        span(
            "answer",
            40,
            90,
            trace=trace,
            attributes={
                "gen_ai__operation__name": "chat",
                "gen_ai__response__model": "small-3",
                "gen_ai__prompt__name": "writer",
                "gen_ai__prompt__version": "r7",
                "output__value": "costs 4",
            },
            events=[
                {
                    "name": "gen_ai.evaluation.result",
                    "attributes": attributes(
                        gen_ai__evaluation__name="right", gen_ai__evaluation__score__value=0.0
                    ),
                }
            ],
        ),
    ]


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": attributes(service__name="desk")},
                "scopeSpans": [{"spans": list(spans)}],
            }
        ]
    }


def write(path: Path, *documents: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    return path


def samples(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_trace_is_a_sample_with_its_scores_and_tags(gatemark: Run, tmp_path: Path) -> None:
    traces = write(tmp_path / "traces.jsonl", document(*genai_trace()))
    ran = gatemark("import", traces, "-o", tmp_path / "samples.jsonl", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["logs"][0]["tool"] == "otlp"
    (sample,) = samples(tmp_path / "samples.jsonl")
    assert (sample["id"], sample["input"], sample["output"]) == ("t1", "how much?", "costs 4")
    assert sample["scores"] == {"right": 0.0}
    assert sample["latency_ms"] == 100.0
    assert sample["tags"] == {"name": "root", "service": "desk", "model": "small-3"}


def test_spans_of_a_trace_may_lie_in_several_files_in_any_order(
    gatemark: Run, tmp_path: Path
) -> None:
    root, look_up, answer = genai_trace()
    one = write(tmp_path / "one.jsonl", document(answer))
    two = write(tmp_path / "two.jsonl", document(look_up), document(root))
    ran = gatemark("import", one, two, "-o", tmp_path / "samples.jsonl")
    assert ran.code == 0, ran.err
    assert len(samples(tmp_path / "samples.jsonl")) == 1


def test_openinference_spans_are_read_too(gatemark: Run, tmp_path: Path) -> None:
    spans = [
        span(
            "root",
            0,
            9,
            "",
            attributes={
                "openinference__span__kind": "CHAIN",
                "input__value": '{"q": 1}',
                "output__value": "yes",
            },
        ),
        span(
            "llm",
            1,
            8,
            attributes={
                "openinference__span__kind": "LLM",
                "llm__model_name": "m",
                "output__value": "yes",
                "evaluation__name": "good",
                "evaluation__score": 1,
            },
        ),
    ]
    traces = write(tmp_path / "t.jsonl", document(*spans))
    assert gatemark("import", traces, "-o", tmp_path / "s.jsonl").code == 0
    (sample,) = samples(tmp_path / "s.jsonl")
    assert sample["input"] == {"q": 1}
    assert sample["scores"] == {"good": 1.0}


def test_a_trace_becomes_a_decision_that_can_be_attributed(gatemark: Run, tmp_path: Path) -> None:
    traces = write(tmp_path / "traces.jsonl", document(*genai_trace()))
    out = tmp_path / "decisions.jsonl"
    ran = gatemark("import", traces, "--to", "decisions", "-o", out)
    assert ran.code == 0, ran.err
    (decision,) = samples(out)
    assert [step["id"] for step in decision["steps"]] == ["look-up", "answer"]
    assert [step["sources"] for step in decision["steps"]] == [["input"], ["look-up"]]
    assert decision["steps"][1]["prompt"] == {"name": "writer", "version": "r7"}
    assert gatemark("validate", out).code == 0
    decision["judgement"] = {"verdict": "wrong", "reviewer": "r"}
    decision["steps"][0]["checks"] = [{"pack": "p", "rule": "fresh", "verdict": "fail"}]
    out.write_text(json.dumps(decision))
    found = gatemark("attribute", out, "--json")
    assert found.json["cause"] == "look-up"


def test_an_error_of_the_root_is_an_error_of_the_sample(gatemark: Run, tmp_path: Path) -> None:
    root, *others = genai_trace()
    root["status"] = {"code": 2, "message": "TimeoutError: too slow"}
    traces = write(tmp_path / "traces.jsonl", document(root, *others))
    gatemark("import", traces, "-o", tmp_path / "s.jsonl")
    (sample,) = samples(tmp_path / "s.jsonl")
    assert sample["error"]["kind"] == "TimeoutError"
    assert sample["scores"] == {}


def test_private_texts_are_redacted_and_repeats_left_out(gatemark: Run, tmp_path: Path) -> None:
    documents = [document(*genai_trace(f"t{n}", "mail ada@example.org please")) for n in range(3)]
    traces = write(tmp_path / "traces.jsonl", *documents)
    ran = gatemark("import", traces, "--redact", "--dedupe", "-o", tmp_path / "s.jsonl", "--json")
    assert (ran.json["redacted"], ran.json["repeats"]) == (3, 2)
    text = (tmp_path / "s.jsonl").read_text()
    assert "ada@example.org" not in text
    assert "[redacted: email; sha256:" in text


def test_a_draw_is_seeded_and_counted(gatemark: Run, tmp_path: Path) -> None:
    documents = [document(*genai_trace(f"t{n}", f"question {n}")) for n in range(20)]
    traces = write(tmp_path / "traces.jsonl", *documents)
    for name in ("a", "b"):
        ran = gatemark(
            "import", traces, "--take", 5, "--seed", 7, "-o", tmp_path / f"{name}.jsonl", "--json"
        )
        assert ran.json["not_drawn"] == 15
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert len(samples(tmp_path / "a.jsonl")) == 5


def observation(name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "trace_id": "t9",
        "type": "GENERATION",
        "parent_observation_id": "root",
        "start_time": "2026-11-01 10:00:01.000000",
        "end_time": "2026-11-01 10:00:02.500000",
        "name": name,
        "input": '[{"role": "user"}]',
        "output": "fine",
        "provided_model_name": "m1",
        "prompt_name": "p",
        "prompt_version": 3,
    } | more


def test_langfuse_observations_are_traces_too(gatemark: Run, tmp_path: Path) -> None:
    root = observation(
        "root", type="SPAN", parent_observation_id="", start_time="2026-11-01 10:00:00.000000"
    )
    path = write(tmp_path / "observations.jsonl", observation("gen"), root)
    ran = gatemark("import", path, "-o", tmp_path / "s.jsonl", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["logs"][0]["tool"] == "langfuse"
    (sample,) = samples(tmp_path / "s.jsonl")
    assert sample["latency_ms"] == 2500.0
    assert sample["input"] == [{"role": "user"}]
    assert gatemark("import", path, "--to", "decisions", "-o", tmp_path / "d.jsonl").code == 0
    (decision,) = samples(tmp_path / "d.jsonl")
    assert decision["steps"][0]["prompt"] == {"name": "p", "version": "3"}


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([span("a", 0, 1, ""), span("b", 0, 1, "")], "no single root span"),
        ([span("a", 5, 1, "")], "ends before it starts"),
        ([{**span("a", 0, 1, ""), "startTimeUnixNano": "soon"}], "time that is no number"),
    ],
)
def test_traces_that_make_no_sense_are_refused_with_their_reason(
    gatemark: Run, tmp_path: Path, spans: list[dict[str, Any]], words: str
) -> None:
    path = write(tmp_path / "t.jsonl", document(*genai_trace("good")), document(*spans))
    ran = gatemark("import", path, "-o", tmp_path / "s.jsonl")
    assert ran.code == 2
    assert words in ran.err
    assert not (tmp_path / "s.jsonl").exists()
    assert gatemark("import", path, "--to", "decisions").code == 2


def test_other_logs_do_not_become_decisions(gatemark: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"testCases": [{"metricsData": []}]}))
    ran = gatemark("import", path, "--to", "decisions")
    assert ran.code == 2
    assert "only traces become decisions" in ran.err


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["resourceSpans", "scopeSpans", "spans", "traceId", "spanId", "key", "id"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=80)
@given(json_values)
def test_no_document_breaks_the_readers(thing: Any) -> None:
    for importer, body in (
        (otlp_importer, {"resourceSpans": thing}),
        (langfuse_importer, {"trace_id": "t", "parent_observation_id": "", "x": thing}),
    ):
        file = ForeignFile("t.json", json.dumps(body).encode())
        try:
            found = importer.read([file], ReadOptions())
        except BadInputError:
            continue
        assert found.tool == importer.name
