from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from gatemark.targets.http import HttpTarget
from gatemark.targets.network_specs import OpenAISpec
from gatemark.targets.port import Call, TargetError
from gatemark.targets.run_options import RunOptions
from gatemark.targets.spending import Prices

from .rigs import Answer, ask, questions, run, serving

CALL = Call(id="q1", epoch=2, input="2+2?", variables={"tone": "dry"})


def _target(url: str, **fields: Any) -> HttpTarget:
    spec = msgspec.convert({"base_url": url, "model": "m", **fields}, OpenAISpec)
    return HttpTarget(spec, clock=time.perf_counter, environ={"K": "sk-1"}, max_reply_bytes=100_000)


def _completion(message: dict[str, Any], **choice: Any) -> Answer:
    return Answer(
        {
            "model": "m-2026-01-01",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14},
        }
    )


def test_a_completion_is_asked_for_and_read() -> None:
    with serving(lambda _: _completion({"role": "assistant", "content": "4"})) as server:
        target = _target(
            server.url + "/v1/",
            system="Be {{variables.tone}}.",
            prompt="Q: {{input}}",
            temperature=0.0,
            max_tokens=50,
            seed=7,
            parameters={"top_p": 0.9},
            api_key_env="K",
        )
        assert target.reads == {"input", "variables"}
        reply = ask(target, CALL)
    assert (reply.output, reply.model) == ("4", "m-2026-01-01")
    assert reply.usage == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == "Bearer sk-1"
    assert request.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be dry."},
            {"role": "user", "content": "Q: 2+2?"},
        ],
        "temperature": 0.0,
        "max_tokens": 50,
        "seed": 9,
        "top_p": 0.9,
    }


def test_reruns_get_other_seeds() -> None:
    with serving(lambda _: _completion({"content": "x"})) as server:
        calls = [Call(id="q", epoch=epoch, input="hi") for epoch in range(3)]
        run(_target(server.url, seed=5), calls)
    assert [request.body["seed"] for request in server.requests] == [5, 6, 7]


def test_an_input_that_is_a_conversation_is_sent_as_messages() -> None:
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]
    with serving(lambda _: _completion({"content": "x"})) as server:
        ask(_target(server.url, messages="{{input}}"), Call(id="q", epoch=0, input=talk))
    assert server.requests[0].body["messages"] == talk


def test_an_input_that_is_an_object_travels_as_json_text() -> None:
    with serving(lambda _: _completion({"content": "x"})) as server:
        ask(_target(server.url), Call(id="q", epoch=0, input={"a": 1}))
    assert server.requests[0].body["messages"] == [{"role": "user", "content": '{"a":1}'}]


def test_messages_that_are_no_list_are_refused() -> None:
    with pytest.raises(TargetError, match="must be a list") as caught:
        ask(_target("http://127.0.0.1:1", messages="{{input}}"), CALL)
    assert caught.value.kind == "refused"


def test_a_refusal_is_an_answer() -> None:
    with serving(lambda _: _completion({"content": None, "refusal": "I can't."})) as server:
        assert ask(_target(server.url), CALL).output == "I can't."


def test_an_empty_text_is_an_answer_too() -> None:
    with serving(lambda _: _completion({"content": ""})) as server:
        assert ask(_target(server.url), CALL).output == ""


def test_a_content_filter_is_an_error_of_kind_refused() -> None:
    stopped = _completion({"content": None}, finish_reason="content_filter")
    with (
        serving(lambda _: stopped) as server,
        pytest.raises(TargetError, match="content filter") as caught,
    ):
        ask(_target(server.url), CALL)
    assert caught.value.kind == "refused"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Answer({"choices": []}), "no choices.0.message"),
        (Answer({"choices": [3]}), "no choices.0.message"),
        (Answer({"error": "x"}), "no choices.0.message"),
        (Answer([1]), "not an object"),
        (_completion({"content": None, "tool_calls": []}), "must be text, got NoneType"),
    ],
)
def test_a_reply_without_text_is_a_bad_reply(answer: Answer, complaint: str) -> None:
    with (
        serving(lambda _: answer) as server,
        pytest.raises(TargetError, match=complaint) as caught,
    ):
        ask(_target(server.url), CALL)
    assert caught.value.kind == "bad_reply"


def test_tokens_are_priced() -> None:
    prices = Prices(per_call=1.0, input_per_million=100_000.0, output_per_million=500_000.0)
    with serving(lambda _: _completion({"content": "x"})) as server:
        (outcome,) = run(_target(server.url), questions(1), RunOptions(prices=prices))
    assert outcome.reply is not None
    assert outcome.reply.cost == pytest.approx(1.0 + 1.0 + 2.0)


def test_messages_and_prompt_exclude_each_other() -> None:
    with pytest.raises(msgspec.ValidationError, match="messages replaces prompt"):
        _target("http://127.0.0.1:1", prompt="x", messages=[])


def test_parameters_cannot_replace_what_is_pinned() -> None:
    with pytest.raises(msgspec.ValidationError, match="must not hold 'model'"):
        _target("http://127.0.0.1:1", parameters={"model": "other"})
