from __future__ import annotations

import socket
import time
from itertools import count
from typing import Any

import msgspec
import pytest

from gatemark.core.errors import UsageError
from gatemark.core.hosts import is_loopback
from gatemark.targets.http import HttpTarget
from gatemark.targets.network_specs import HttpSpec
from gatemark.targets.port import Call, TargetError
from gatemark.targets.run_options import RunOptions

from .rigs import Answer, Time, ask, questions, run, serving

CALL = Call(id="q1", epoch=0, input={"text": "hi"}, sample={"lang": "en"})
KEY = "sk-very-secret-42"


def _target(url: str, environ: dict[str, str] | None = None, **fields: Any) -> HttpTarget:
    fields.setdefault("response", "answer")
    spec = msgspec.convert({"url": url, **fields}, HttpSpec)
    return HttpTarget(
        spec, clock=time.perf_counter, environ=environ or {}, max_reply_bytes=1_000_000
    )


@pytest.mark.parametrize("name", ["GATEMARK_STORE", "gatemark_token"])
def test_a_setting_of_gatemark_is_sent_to_no_endpoint(name: str) -> None:
    """A pack names the variable and the address, so it could send the store's password anywhere."""
    with pytest.raises(UsageError, match=f"{name} cannot be the key of a target"):
        _target("http://127.0.0.1:1/", {name: KEY}, api_key_env=name)


def test_the_template_goes_out_and_the_paths_come_back() -> None:
    said = {"result": [{"text": "yes", "p": 0.8}], "meta": {"model": "m1", "usd": 0.002}}
    with serving(lambda _: Answer(said)) as server:
        target = _target(
            server.url + "/predict",
            body={"question": "{{input.text}}", "options": {"lang": "{{sample.lang}}", "n": 1}},
            response={
                "output": "result.0.text",
                "confidence": "/result/0/p",
                "model": "meta.model",
                "cost": "meta.usd",
            },
        )
        assert target.reads == {"input", "sample"}
        reply = ask(target, CALL)
    assert (reply.output, reply.confidence, reply.model, reply.cost) == ("yes", 0.8, "m1", 0.002)
    (request,) = server.requests
    assert request.path == "/predict"
    assert request.body == {"question": "hi", "options": {"lang": "en", "n": 1}}


def test_without_a_template_the_input_is_sent() -> None:
    with serving(lambda _: Answer({"answer": 1})) as server:
        assert ask(_target(server.url), CALL).output == 1
    assert server.requests[0].body == {"input": {"text": "hi"}}


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Answer(b"<html>oops</html>"), "reply is not JSON.*<html>oops"),
        (Answer(b'{"answer": NaN}'), "reply is not JSON"),
        (Answer({"other": 1}), r"reply has no answer \(output\)"),
        (Answer(b"x" * 10_000_000), "reply must be at most 1000000 bytes"),
        (Answer(b"abc", headers={"content-encoding": "gzip"}), "must not be compressed"),
    ],
)
def test_a_reply_that_cannot_be_used_is_a_bad_reply(answer: Answer, complaint: str) -> None:
    with (
        serving(lambda _: answer) as server,
        pytest.raises(TargetError, match=complaint) as caught,
    ):
        ask(_target(server.url), CALL)
    assert caught.value.kind == "bad_reply"


def test_a_reply_is_not_read_beyond_the_limit() -> None:
    """The server would send without end; reading stops by itself."""
    with serving(lambda _: Answer(b"x" * 50_000_000)) as server:
        outcomes = run(_target(server.url), questions(3), RunOptions(timeout_s=30))
    assert [o.error.kind for o in outcomes if o.error] == ["bad_reply"] * 3


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "http_status", False),
        (422, "http_status", False),
        (302, "http_status", False),
        (401, "unauthorized", False),
        (403, "unauthorized", False),
        (404, "unavailable", False),
        (429, "unavailable", True),
        (503, "unavailable", True),
        (501, "unavailable", False),
    ],
)
def test_a_status_is_told_with_an_excerpt_of_the_body(
    status: int, kind: str, retryable: bool
) -> None:
    with (
        serving(lambda _: Answer({"error": "because"}, status)) as server,
        pytest.raises(TargetError, match=f"status {status}.*because") as caught,
    ):
        ask(_target(server.url), CALL)
    assert caught.value.kind == kind
    assert caught.value.retryable is retryable


def test_500_then_ok_succeeds_on_the_second_attempt() -> None:
    asked = count()
    with serving(
        lambda _: Answer({"answer": "ok"}) if next(asked) else Answer("broken", 500)
    ) as server:
        time_source = Time()
        (outcome,) = run(
            _target(server.url), questions(1), RunOptions(retries=1), time_source=time_source
        )
    assert outcome.reply is not None
    assert outcome.reply.output == "ok"
    assert outcome.attempts == 2
    (slept,) = time_source.slept
    assert 0 <= slept <= 0.5


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "7"},
        {"Retry-After": "Fri, 02 Jan 2026 00:00:10 GMT", "Date": "Fri, 02 Jan 2026 00:00:03 GMT"},
    ],
)
def test_retry_after_is_waited_for(headers: dict[str, str]) -> None:
    asked = count()
    first = Answer("slow down", 429, headers)
    with serving(lambda _: Answer({"answer": "ok"}) if next(asked) else first) as server:
        time_source = Time()
        (outcome,) = run(
            _target(server.url), questions(1), RunOptions(retries=1), time_source=time_source
        )
    assert outcome.reply is not None
    assert 7.0 <= sum(time_source.slept) <= 7.5 + 1e-9


def test_a_retry_after_that_is_too_long_is_not_waited_for() -> None:
    with serving(lambda _: Answer("later", 429, {"Retry-After": "3600"})) as server:
        time_source = Time()
        (outcome,) = run(
            _target(server.url), questions(1), RunOptions(retries=5), time_source=time_source
        )
    assert time_source.slept == []
    assert outcome.attempts == 1
    assert outcome.error is not None
    assert "status 429, asks to wait 3600 s" in outcome.error.message


def test_a_slow_server_times_out() -> None:
    with serving(lambda _: Answer({"answer": 1}, delay_s=20)) as server:
        (outcome,) = run(_target(server.url), questions(1), RunOptions(timeout_s=0.2))
    assert outcome.error is not None
    assert outcome.error.kind == "timeout"


def test_a_service_that_never_replies_could_not_be_asked() -> None:
    with serving(lambda _: Answer({"answer": 1}, delay_s=20)) as server:
        options = RunOptions(timeout_s=0.2, is_remote=True)
        outcomes = run(_target(server.url), questions(3), options)
    assert [o.error.kind for o in outcomes if o.error] == ["no_reply"] * 3
    assert [o.attempts for o in outcomes] == [1, 0, 0]


def test_an_address_that_takes_no_connection_is_given_up_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gatemark.targets.connections.CONNECT_LIMIT_S", 0.05)
    with socket.socket() as full:
        # A queue of connections that nobody takes: the next one waits.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.settimeout(0)
            one.connect_ex(full.getsockname())
        with pytest.raises(TargetError, match=r"ConnectTimeout: no connection within 0.05 s") as e:
            ask(_target(f"http://127.0.0.1:{full.getsockname()[1]}"), CALL)
        assert e.value.kind == "unreachable"
        for one in waiting:
            one.close()


def test_nobody_listening_is_unreachable_and_may_be_retried() -> None:
    with serving(lambda _: Answer({})) as server:
        gone = server.url
    with pytest.raises(TargetError, match="ConnectError") as caught:
        ask(_target(gone), CALL)
    assert caught.value.kind == "unreachable"
    assert caught.value.retryable


def test_the_key_travels_in_its_header_and_nowhere_else() -> None:
    echo = f"your key {KEY} is wrong"
    with serving(lambda _: Answer(echo, 401)) as server:
        target = _target(server.url, {"MY_KEY": KEY}, api_key_env="MY_KEY")
        with pytest.raises(TargetError, match=r"your key \[redacted\] is wrong") as caught:
            ask(target, CALL)
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    shown = [str(caught.value), repr(target.identity()), repr(vars(target)), repr(target)]
    assert not any(KEY in text for text in shown)


def test_the_key_is_redacted_in_a_reply_that_is_not_json() -> None:
    with serving(lambda _: Answer(f"<{KEY}>".encode())) as server:
        target = _target(server.url, {"K": KEY}, api_key_env="K", api_key_header="X-Key")
        with pytest.raises(TargetError, match=r"<\[redacted\]>"):
            ask(target, CALL)


def test_a_missing_key_is_refused_before_any_call() -> None:
    with pytest.raises(UsageError, match="environment variable MY_KEY must hold the API key"):
        _target("http://127.0.0.1:1/", {}, api_key_env="MY_KEY")


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "COOKIE"])
def test_a_secret_written_into_the_pack_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="must not be written down"):
        _target("http://127.0.0.1:1/", headers={name: "abc"})


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://host/", "must start with http"),
        ("http:///x", "name a host"),
        ("https://me:pw@host/", "must not hold a user name or password"),
        ("http://host:notaport/", "not valid"),
    ],
)
def test_a_wrong_address_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint) as caught:
        _target(url)
    assert "pw" not in str(caught.value)


def test_the_query_is_not_shown_in_messages() -> None:
    with (
        serving(lambda _: Answer("no", 400)) as server,
        pytest.raises(TargetError) as caught,
    ):
        ask(_target(server.url + "/x?token=abc"), CALL)
    assert server.requests[0].path == "/x?token=abc"
    assert "abc" not in str(caught.value)


def test_the_identity_changes_with_the_request_and_not_with_the_key_source() -> None:
    plain = _target("http://127.0.0.1:1/").identity()
    keyed = _target("http://127.0.0.1:1/", {"K": KEY}, api_key_env="K").identity()
    other = _target("http://127.0.0.1:1/", body={"q": "{{input}}"}).identity()
    assert plain == keyed
    assert plain != other


def test_many_calls_share_connections() -> None:
    with serving(lambda request: Answer({"answer": request.body["input"]})) as server:
        outcomes = run(_target(server.url), questions(60), RunOptions(concurrency=6))
    assert [o.reply.output for o in outcomes if o.reply] == [c.input for c in questions(60)]


def test_no_proxy_comes_between_this_machine_and_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda _: Answer({"answer": "from the proxy"})) as proxy:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.url)
        with serving(lambda _: Answer({"answer": "from the service"})) as server:
            assert ask(_target(server.url), CALL).output == "from the service"
        assert proxy.requests == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
