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
from gatemark.evidence.rows import read_dataset
from gatemark.samples.importer import ForeignFile, ReadOptions
from gatemark.samples.importers import langfuse as langfuse_importer
from gatemark.samples.importers import otlp as otlp_importer

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


def told_trace(trace: str, prompt: str, answer: str) -> dict[str, Any]:
    """A trace with span ids of its own, as every run has."""
    spans = genai_trace(trace)
    for number, one in enumerate(spans):
        one["spanId"] = f"{trace}-{number}"
        one["parentSpanId"] = f"{trace}-0" if number else ""
    for one in spans[2]["attributes"]:
        if one["key"] == "gen_ai.prompt.version":
            one["value"] = {"stringValue": prompt}
        if one["key"] == "output.value":
            one["value"] = {"stringValue": answer}
    return document(*spans)


def test_from_traces_alone_to_the_prompt_that_did_it(gatemark: Run, tmp_path: Path) -> None:
    traces = write(
        tmp_path / "traces.jsonl",
        told_trace("old-1", "r6", "costs 4"),
        told_trace("old-2", "r6", "costs 4"),
        told_trace("new-1", "r7", "no idea"),
    )
    out = tmp_path / "decisions.jsonl"
    assert gatemark("import", traces, "--to", "decisions", "-o", out).code == 0
    (tmp_path / "replay.yaml").write_text('reference: {"prompt:writer": r6}')
    found = gatemark(
        *("attribute", out, "--id", "new-1", "--judged-by", "dana", "--expected", "costs 4"),
        *("--runs", out, "--replay", "--json"),
    )
    assert found.code == 0, found.err
    assert found.json["replay"]["mode"] == "recorded"
    first = found.json["suspects"][0]
    assert (first["name"], first["confidence"]) == ("answer", "high")
    assert found.json["active"]["prompt:writer"] == "r7"


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


def test_the_snapshot_is_what_a_pack_reads_and_the_recipe_is_told(
    gatemark: Run, tmp_path: Path
) -> None:
    documents = [document(*genai_trace(f"t{n}", f"question {n}")) for n in range(9)]
    traces = write(tmp_path / "traces.jsonl", *documents)
    out = tmp_path / "recent.jsonl"
    ran = gatemark("import", traces, "--take", 4, "--seed", 3, "--dedupe", "-o", out, "--json")
    assert ran.json["snapshot"] == read_dataset(str(out), "recent").digest
    assert ran.json["recipe"] == {
        "redact": False,
        "dedupe": True,
        "answered": False,
        "take": 4,
        "seed": 3,
        "stratify": None,
    }


def test_a_stratified_draw_keeps_the_shares(gatemark: Run, tmp_path: Path) -> None:
    documents = [document(*genai_trace(f"t{n:02}", f"question {n}")) for n in range(20)]
    for number, one in enumerate(documents):
        group = "night" if number % 4 == 0 else "day"
        one["resourceSpans"][0]["resource"]["attributes"] = attributes(service__name=group)
    traces = write(tmp_path / "traces.jsonl", *documents)
    out = tmp_path / "s.jsonl"
    ran = gatemark("import", traces, "--take", 8, "--stratify", "service", "-o", out)
    assert ran.code == 0, ran.err
    drawn = [sample["tags"]["service"] for sample in samples(out)]
    assert (drawn.count("night"), drawn.count("day")) == (2, 6)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--take", 2, "--stratify", "nothing"), "no sample has the tag 'nothing'"),
        (("--stratify", "service"), "--stratify needs --take"),
        (("--to", "decisions", "--take", 2), "--take applies to samples"),
        (("--to", "decisions", "--dedupe"), "--dedupe applies to samples"),
    ],
)
def test_a_draw_that_makes_no_sense_is_refused(
    gatemark: Run, tmp_path: Path, flags: tuple[object, ...], words: str
) -> None:
    documents = [document(*genai_trace(f"t{n}", f"question {n}")) for n in range(3)]
    traces = write(tmp_path / "traces.jsonl", *documents)
    ran = gatemark("import", traces, *flags, "-o", tmp_path / "s.jsonl")
    assert ran.code == 2
    assert words in ran.err
    assert not (tmp_path / "s.jsonl").exists()


def test_an_id_that_is_somebodys_address_is_redacted_too(gatemark: Run, tmp_path: Path) -> None:
    trace = genai_trace("ada@example.org")
    traces = write(tmp_path / "traces.jsonl", document(*trace))
    gatemark("import", traces, "--redact", "-o", tmp_path / "s.jsonl")
    (sample,) = samples(tmp_path / "s.jsonl")
    assert sample["id"].startswith("redacted-")


def test_decisions_are_redacted_before_they_are_written(gatemark: Run, tmp_path: Path) -> None:
    root, look_up, answer = genai_trace("t1", "mail ada@example.org please")
    look_up["status"] = {"code": 2, "message": "no answer from ada@example.org"}
    answer["attributes"] += attributes(input__value="mail ada@example.org")
    traces = write(tmp_path / "traces.jsonl", document(root, look_up, answer))
    out = tmp_path / "d.jsonl"
    ran = gatemark("import", traces, "--to", "decisions", "--redact", "-o", out, "--json")
    assert ran.json["redacted"] == 1
    assert "ada@example.org" not in out.read_text()
    assert gatemark("validate", out).code == 0


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


def test_langfuse_observations_may_be_one_list(gatemark: Run, tmp_path: Path) -> None:
    path = tmp_path / "observations.json"
    path.write_text(json.dumps([observation("root", parent_observation_id=None) | {"name": "  "}]))
    ran = gatemark("import", path, "-o", tmp_path / "s.jsonl", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["logs"][0]["tool"] == "langfuse"
    assert gatemark("import", path, "--to", "decisions").code == 0


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "soon"])
def test_a_langfuse_time_that_no_calendar_has_is_refused(
    gatemark: Run, tmp_path: Path, time: str
) -> None:
    path = write(tmp_path / "o.jsonl", observation("root", start_time=time))
    ran = gatemark("import", path)
    assert ran.code == 2
    assert "has a time that cannot be read" in ran.err


def told(**given: Any) -> dict[str, Any]:
    return span("root", 0, 9, "", attributes=given)


@pytest.mark.parametrize(
    "root",
    [
        told(
            llm__input_messages__0__message__role="user",
            llm__input_messages__0__message__content="how much?",
            llm__output_messages__0__message__content="costs 4",
        ),
        told(
            gen_ai__prompt__0__role="user",
            gen_ai__prompt__0__content="how much?",
            gen_ai__completion__0__content="costs 4",
        ),
        span(
            "root",
            0,
            9,
            "",
            events=[
                {"name": "gen_ai.user.message", "attributes": attributes(content="how much?")},
                {"name": "gen_ai.choice", "attributes": attributes(content="costs 4")},
            ],
        ),
        span(
            "root",
            0,
            9,
            "",
            events=[
                {
                    "name": "gen_ai.client.inference.operation.details",
                    "attributes": attributes(
                        gen_ai__input__messages='[{"role": "user", "content": "how much?"}]',
                        gen_ai__output__messages='[{"content": "costs 4"}]',
                    ),
                }
            ],
        ),
    ],
    ids=["openinference", "openllmetry", "events", "details"],
)
def test_messages_are_read_in_every_dialect(
    gatemark: Run, tmp_path: Path, root: dict[str, Any]
) -> None:
    traces = write(tmp_path / "t.jsonl", document(root))
    assert gatemark("import", traces, "-o", tmp_path / "s.jsonl").code == 0
    (sample,) = samples(tmp_path / "s.jsonl")
    assert sample["input"] == [{"role": "user", "content": "how much?"}]
    assert sample["output"] == [{"content": "costs 4"}]


def test_retrieved_documents_are_an_output(gatemark: Run, tmp_path: Path) -> None:
    root = told(
        openinference__span__kind="RETRIEVER",
        retrieval__documents__0__document__content="small parcels cost 4",
        retrieval__documents__1__document__content="large ones 9",
    )
    traces = write(tmp_path / "t.jsonl", document(root))
    gatemark("import", traces, "-o", tmp_path / "s.jsonl")
    (sample,) = samples(tmp_path / "s.jsonl")
    assert sample["output"] == [{"content": "small parcels cost 4"}, {"content": "large ones 9"}]


@pytest.mark.parametrize(
    "change",
    [
        {"attributes": None, "events": None, "status": None, "parentSpanId": None, "name": None},
        {"parentSpanId": "0000000000000000"},
        {"parentSpanId": "00f067aa0ba902b7"},
        {"traceId": "W47/95gDgQPSabYzgT/GDA==", "spanId": "AAECAwQFBgc="},
        {"startTimeUnixNano": 0, "endTimeUnixNano": None},
    ],
    ids=["nulls", "zero parent", "parent elsewhere", "base64 ids", "times as numbers"],
)
def test_shapes_that_exporters_really_write_are_taken(
    gatemark: Run, tmp_path: Path, change: dict[str, Any]
) -> None:
    traces = write(tmp_path / "t.jsonl", document(span("root", 0, 0, "") | change))
    ran = gatemark("import", traces, "-o", tmp_path / "s.jsonl")
    assert ran.code == 0, ran.err


def test_scopes_under_their_old_name_are_read(gatemark: Run, tmp_path: Path) -> None:
    old = {"resourceSpans": [{"instrumentationLibrarySpans": [{"spans": genai_trace()}]}]}
    traces = write(tmp_path / "t.jsonl", old)
    assert gatemark("import", traces, "-o", tmp_path / "s.jsonl").code == 0


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        inner = {"arrayValue": {"values": [inner]}}
    return inner


@pytest.mark.parametrize(
    "odd",
    [
        {"intValue": "--5"},
        {"intValue": "²"},
        {"intValue": "9" * 5000},
        {"intValue": str(2**63)},
        {"intValue": [1]},
        {"stringValue": 5},
        {"arrayValue": {"values": 5}},
        {"arrayValue": {"values": [1]}},
        {"arrayValue": "x"},
        {"kvlistValue": {"values": [{"key": ["k"], "value": {}}]}},
        {"kvlistValue": {"values": [{"key": "k", "value": "bare"}]}},
        nested(40),
    ],
    ids=lambda odd: str(odd)[:30],
)
def test_a_value_that_otlp_does_not_have_refuses_its_span_by_name(
    gatemark: Run, tmp_path: Path, odd: dict[str, Any]
) -> None:
    bad = span("b", 0, 1, "") | {"attributes": [{"key": "input.value", "value": odd}]}
    traces = write(tmp_path / "t.jsonl", document(*genai_trace("good")), document(bad))
    ran = gatemark("import", traces, "-o", tmp_path / "s.jsonl")
    assert ran.code == 2
    assert "span 'b': attribute 'input.value'" in ran.err
    gone_on = gatemark(
        "import",
        traces,
        "--on-bad-line",
        "exclude",
        "--to",
        "decisions",
        "-o",
        tmp_path / "d.jsonl",
    )
    assert gone_on.code == 0
    assert [one["id"] for one in samples(tmp_path / "d.jsonl")] == ["good"]


def test_a_span_that_is_delivered_twice_counts_once(gatemark: Run, tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", document(*genai_trace()))
    two = write(tmp_path / "two.jsonl", document(*genai_trace()))
    ran = gatemark("import", one, two, "-o", tmp_path / "s.jsonl", "--json")
    assert ran.code == 0, ran.err
    assert "3 spans are repeated and counted once" in ran.json["logs"][0]["notes"]
    assert gatemark("import", one, two, "--to", "decisions", "-o", tmp_path / "d.jsonl").code == 0
    assert gatemark("validate", tmp_path / "d.jsonl").code == 0


def test_a_score_with_two_values_in_one_trace_is_left_out(gatemark: Run, tmp_path: Path) -> None:
    root, look_up, answer = genai_trace()
    look_up["attributes"] += attributes(evaluation__name="right", evaluation__score=1.0)
    traces = write(tmp_path / "t.jsonl", document(root, look_up, answer))
    ran = gatemark("import", traces, "-o", tmp_path / "s.jsonl", "--json")
    (sample,) = samples(tmp_path / "s.jsonl")
    assert sample["scores"] == {}
    assert "1 scores have several values in one trace and are left out" in str(ran.json["logs"])


def test_one_name_for_two_models_makes_two_components(gatemark: Run, tmp_path: Path) -> None:
    root, look_up, answer = genai_trace()
    second = json.loads(json.dumps(answer)) | {"spanId": "check"}
    second["startTimeUnixNano"] = second["endTimeUnixNano"]
    for one in second["attributes"]:
        if one["key"] == "gen_ai.response.model":
            one["value"] = {"stringValue": "large-1"}
    out = tmp_path / "d.jsonl"
    traces = write(tmp_path / "t.jsonl", document(root, look_up, answer, second))
    assert gatemark("import", traces, "--to", "decisions", "-o", out).code == 0
    assert gatemark("validate", out).code == 0
    (decision,) = samples(out)
    assert [step["model"]["name"] for step in decision["steps"][1:]] == [
        "answer (small-3)",
        "answer (large-1)",
    ]


def test_a_verdict_that_a_trace_carries_is_a_check_of_its_step(
    gatemark: Run, tmp_path: Path
) -> None:
    root, look_up, answer = genai_trace()
    look_up["attributes"] += attributes(evaluation__name="fresh", evaluation__label="FAIL")
    out = tmp_path / "d.jsonl"
    traces = write(tmp_path / "t.jsonl", document(root, look_up, answer))
    assert gatemark("import", traces, "--to", "decisions", "-o", out).code == 0
    (decision,) = samples(out)
    assert decision["steps"][0]["checks"] == [
        {"pack": "evaluation", "rule": "fresh", "verdict": "fail"}
    ]


def test_spans_without_length_at_one_moment_make_a_plan_that_can_be_read(
    gatemark: Run, tmp_path: Path
) -> None:
    kind = {"openinference__span__kind": "TOOL", "output__value": "x"}
    spans = [span(name, 5, 5, attributes=kind) for name in ("b", "a")]
    out = tmp_path / "d.jsonl"
    traces = write(tmp_path / "t.jsonl", document(span("root", 0, 9, ""), *spans))
    assert gatemark("import", traces, "--to", "decisions", "-o", out).code == 0
    assert gatemark("validate", out).code == 0


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([span("a", 0, 1, ""), span("b", 0, 1, "")], "no single root span"),
        ([span("a", 0, 1, "b"), span("b", 0, 1, "a")], "no single root span"),
        ([span("a", 0, 1, "a")], "no single root span"),
        ([span("r", 0, 1, ""), span("a", 0, 1, "b"), span("b", 0, 1, "a")], "no single root span"),
        ([span("r", 0, 1, ""), span("r", 0, 2, "")], "has two spans 'r'"),
        ([{**span("a", 0, 1, ""), "endTimeUnixNano": "9" * 400}], "time that is not a number"),
        ([span("a", 5, 1, "")], "ends before it starts"),
        ([{**span("a", 0, 1, ""), "startTimeUnixNano": "soon"}], "time that is not a number"),
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
    assert "only traces and chat logs become decisions" in ran.err


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
otlp_values = st.recursive(
    st.dictionaries(
        st.sampled_from(["stringValue", "intValue", "doubleValue", "boolValue", "bytesValue", "x"]),
        json_values,
        max_size=2,
    )
    | json_values,
    lambda inner: st.builds(
        lambda kind, values: {kind: {"values": values}},
        st.sampled_from(["arrayValue", "kvlistValue"]),
        st.lists(inner | st.fixed_dictionaries({"key": st.text(max_size=3), "value": inner})),
    ),
    max_leaves=8,
)
attribute_names = st.sampled_from(
    ["input.value", "gen_ai.prompt.0.content", "evaluation.score", "openinference.span.kind"]
)


def survives(importer: Any, body: Any) -> None:
    file = ForeignFile("t.json", json.dumps(body).encode())
    try:
        found = importer.IMPORTER.read([file], ReadOptions())
    except BadInputError:
        return
    assert found.tool == importer.NAME


@settings(deadline=None, max_examples=80)
@given(json_values)
def test_no_document_breaks_the_readers(thing: Any) -> None:
    survives(otlp_importer, {"resourceSpans": thing})
    survives(langfuse_importer, {"trace_id": "t", "parent_observation_id": "", "x": thing})


@settings(deadline=None, max_examples=150)
@given(attribute_names, otlp_values)
def test_no_attribute_breaks_the_readers(name: str, thing: Any) -> None:
    whole = span("root", 0, 1, "") | {"attributes": [{"key": name, "value": thing}]}
    survives(otlp_importer, document(whole))
