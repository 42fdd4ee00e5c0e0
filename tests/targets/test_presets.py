"""Each preset against a scripted server of its shape: the request that goes out, the reply read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.targets.http import HttpTarget
from gatemark.targets.network_specs import HttpSpec
from gatemark.targets.port import Call, Target, TargetError
from gatemark.targets.prompt_files import read_prompt_files
from gatemark.targets.spending import Prices

from .rigs import Answer, ask, serving

CALL = Call(id="q1", epoch=0, input="2+2?", sample={"lang": "en"})


def _target(preset: str, url: str, **fields: Any) -> Target:
    given = {
        "preset": preset,
        "url": url,
        "model": "m:1",
        "system": "Be brief.",
        "prompt": "[{{sample.lang}}] {{input}}",
        "temperature": 0.5,
        "max_tokens": 20,
        "api_key_env": "K",
        **fields,
    }
    return HttpTarget(
        msgspec.convert(given, HttpSpec),
        clock=time.perf_counter,
        environ={"K": "sk-1"},
        max_reply_bytes=100_000,
    )


SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "[en] 2+2?"}
COMPLETION = {
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "4"}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}
COMPLETIONS = (
    "/v1/chat/completions",
    ("Authorization", "Bearer sk-1"),
    {"model": "m:1", "messages": [SYSTEM, USER], "temperature": 0.5, "max_tokens": 20},
    COMPLETION,
    "m-1",
)
SHAPES = {
    "openai": COMPLETIONS,
    "vllm": COMPLETIONS,
    "anthropic": (
        "/v1/messages",
        ("x-api-key", "sk-1"),
        {
            "model": "m:1",
            "system": "Be brief.",
            "messages": [USER],
            "temperature": 0.5,
            "max_tokens": 20,
        },
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "4"}],
            "model": "m-1",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 2},
        },
        "m-1",
    ),
    "gemini": (
        "/v1beta/models/m:1:generateContent",
        ("x-goog-api-key", "sk-1"),
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "[en] 2+2?"}]}],
            "generationConfig": {"temperature": 0.5, "maxOutputTokens": 20},
        },
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"text": "hm", "thought": True}, {"text": "4"}],
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 10,
                "candidatesTokenCount": 1,
                "thoughtsTokenCount": 1,
            },
            "modelVersion": "m-1",
        },
        "m-1",
    ),
    "ollama": (
        "/api/chat",
        ("Authorization", "Bearer sk-1"),
        {
            "model": "m:1",
            "messages": [SYSTEM, USER],
            "stream": False,
            "options": {"temperature": 0.5, "num_predict": 20},
        },
        {
            "model": "m-1",
            "message": {"role": "assistant", "content": "4"},
            "done": True,
            "prompt_eval_count": 10,
            "eval_count": 2,
        },
        "m-1",
    ),
    "bedrock": (
        "/model/m%3A1/converse",
        ("Authorization", "Bearer sk-1"),
        {
            "system": [{"text": "Be brief."}],
            "messages": [{"role": "user", "content": [{"text": "[en] 2+2?"}]}],
            "inferenceConfig": {"temperature": 0.5, "maxTokens": 20},
        },
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "4"}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12},
        },
        None,
    ),
}


@pytest.mark.parametrize("preset", SHAPES)
def test_a_preset_speaks_the_form_of_its_service(preset: str) -> None:
    path, (header, key), body, answer, model = SHAPES[preset]
    with serving(lambda _: Answer(answer)) as server:
        reply = ask(_target(preset, server.url), CALL)
    (request,) = server.requests
    assert request.path == path
    assert request.headers[header] == key
    assert request.body == body
    assert (reply.output, reply.model) == ("4", model)
    assert Prices(input_per_million=1e6, output_per_million=1e6).cost_of(reply) == 12


def test_anthropic_is_told_its_version_and_a_pack_may_name_another() -> None:
    answer = SHAPES["anthropic"][3]
    with serving(lambda _: Answer(answer)) as server:
        ask(_target("anthropic", server.url), CALL)
        ask(_target("anthropic", server.url, headers={"Anthropic-Version": "2030-01-01"}), CALL)
    sent = [
        {name.lower(): value for name, value in request.headers.items()}
        for request in server.requests
    ]
    versions = [headers["anthropic-version"] for headers in sent]
    assert versions == ["2023-06-01", "2030-01-01"]


@pytest.mark.parametrize(
    ("url", "path"),
    [("/", "/v1/chat/completions"), ("/v1", "/v1/chat/completions"), ("/gw/ask", "/gw/ask")],
)
def test_the_address_of_a_service_is_completed_and_a_full_one_kept(url: str, path: str) -> None:
    with serving(lambda _: Answer(COMPLETION)) as server:
        ask(_target("openai", server.url + url), CALL)
    assert server.requests[0].path == path


@pytest.mark.parametrize(
    ("preset", "answer", "kind"),
    [
        ("anthropic", {"content": [], "stop_reason": "refusal"}, "refused"),
        ("anthropic", {"content": [{"type": "tool_use", "id": "t"}]}, "bad_reply"),
        ("anthropic", {"error": {"type": "x"}}, "bad_reply"),
        ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}, "refused"),
        ("gemini", {"candidates": [{"finishReason": "SAFETY"}]}, "refused"),
        ("gemini", {"candidates": []}, "bad_reply"),
        ("ollama", {"response": "4"}, "bad_reply"),
        ("bedrock", {"output": {"message": {}}, "stopReason": "content_filtered"}, "refused"),
        ("bedrock", {"message": "no"}, "bad_reply"),
        ("vllm", {"choices": []}, "bad_reply"),
        ("vllm", [1], "bad_reply"),
    ],
)
def test_a_reply_without_an_answer_is_an_error(preset: str, answer: Any, kind: str) -> None:
    with (
        serving(lambda _: Answer(answer)) as server,
        pytest.raises(TargetError) as caught,
    ):
        ask(_target(preset, server.url), CALL)
    assert caught.value.kind == kind


def test_parameters_go_beside_the_settings_of_the_preset() -> None:
    with serving(lambda _: Answer(SHAPES["gemini"][3])) as server:
        more = {"generationConfig": {"seed": 7}, "safetySettings": []}
        ask(_target("gemini", server.url, parameters=more), CALL)
    body = server.requests[0].body
    assert body["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 20, "seed": 7}
    assert body["safetySettings"] == []


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"model": None}, "preset anthropic needs http.model"),
        ({"max_tokens": None}, "preset anthropic needs http.max_tokens"),
        ({"response": "x"}, "remove body, response and method"),
        ({"parameters": {"system": "x"}}, "must not hold 'system'"),
        ({"prompt": "file://prompts/a.txt"}, "write prompt_file: prompts/a.txt"),
        ({"prompt": None, "prompt_file": "file://a.txt"}, "write prompt_file: a.txt"),
        ({"prompt_file": "a.txt"}, "give prompt or prompt_file, not both"),
        ({"messages": "{{input}}"}, "messages replaces prompt and system"),
    ],
)
def test_a_preset_that_cannot_work_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        _target("anthropic", "http://127.0.0.1:1", **fields)


def _own(folder: Path, **fields: Any) -> HttpSpec:
    given = {"url": "http://127.0.0.1:1/", "response": "answer", **fields}
    return read_prompt_files(msgspec.convert(given, HttpSpec), folder)


def test_a_body_takes_the_texts_of_files(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("Q: {{input}}\n")
    (tmp_path / "s.txt").write_text("In {{sample.lang}}.")
    body = {"text": "{{system}} {{prompt}}", "only": "{{prompt}}", "raw": "{{input}}"}
    spec = _own(tmp_path, body=body, prompt_file="p.txt", system_file="s.txt")
    sly = Call(id="q", epoch=0, input="{{system}}", sample={"lang": "en"})
    assert spec.template().render(sly) == {
        "text": "In en. Q: {{system}}",
        "only": "Q: {{system}}",
        "raw": "{{system}}",
    }
    before = spec.pins()
    (tmp_path / "p.txt").write_text("Question: {{input}}\n")
    after = _own(tmp_path, body=body, prompt_file="p.txt", system_file="s.txt").pins()
    assert before != after
    inline = _own(tmp_path, body=body, prompt="Q: {{input}}", system="In {{sample.lang}}.")
    assert before == inline.pins()


def test_messages_come_from_yaml(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "- {role: user, content: hi}\n- {role: assistant, content: hello}\n"
        '- {role: user, content: "{{input}}"}\n'
    )
    spec = _own(tmp_path, body={"chat": "{{messages}}"}, messages_file="m.yaml")
    (*_, last) = spec.template().render(CALL)["chat"]
    assert last == {"role": "user", "content": "2+2?"}


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("prompt_file", None, "cannot be read: No such file.*paths start at the pack's folder"),
        ("prompt_file", b" \n", "is empty"),
        ("prompt_file", b"\xff\xfe", "must be UTF-8 text"),
        ("prompt_file", b"{{inptu}}", "unknown placeholder"),
        ("messages_file", b"hello", "must be a list of messages"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, name: str, data: bytes | None, complaint: str
) -> None:
    if data is not None:
        (tmp_path / "f").write_bytes(data)
    text = name.removesuffix("_file")
    with pytest.raises(Exception, match=complaint):
        _own(tmp_path, body={"x": f"{{{{{text}}}}}"}, **{name: "f"})


def test_a_text_that_the_body_never_sends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"put \{\{prompt\}\} into http.body"):
        _own(tmp_path, prompt="Q: {{input}}")
