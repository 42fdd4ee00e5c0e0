"""Signature Version 4: AWS's published examples, and a server that checks every signature."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from tests.targets.rigs import Answer, Request, questions, run, serving

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.aws_signature import (
    AwsKeys,
    AwsSignature,
    AwsSigner,
    derive_day_key,
    sign_request,
)
from gatemark.targets.http import HttpTarget
from gatemark.targets.network_specs import HttpSpec
from gatemark.targets.spec import parse_spec

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEYS = AwsKeys("AKIDEXAMPLE", SECRET)
HOST = ("Host", "example.amazonaws.com")
DATE = ("X-Amz-Date", "20150830T123600Z")
ENVIRON = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET}


def test_the_signing_key_of_the_documentation() -> None:
    key = derive_day_key(SECRET, ("20150830", "us-east-1", "iam"))
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


@pytest.mark.parametrize(
    ("method", "target", "more", "signature"),
    [
        ("GET", "/", [], "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", [], "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            *("GET", "/?Param2=value2&Param1=value1", []),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            *("GET", "/", [("My-Header1", "value2,value2,value1")]),
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ),
    ],
)
def test_the_published_examples(
    method: str, target: str, more: list[tuple[str, str]], signature: str
) -> None:
    said = sign_request(
        KEYS,
        method=method,
        target=target,
        headers=[HOST, *more, DATE],
        content=b"",
        scope=("20150830", "us-east-1", "service"),
    )
    assert said.startswith(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
    )
    assert said.endswith(f"Signature={signature}")


def _expected(request: Request, raw: bytes, region: str) -> str:
    """The signature as a server derives it from what arrived, step by step."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0]
    lines = "".join(f"{name}:{headers[name]}\n" for name in names.split(";"))
    body = hashlib.sha256(raw).hexdigest()
    canonical = f"POST\n{quote(request.path, safe='/-_.~')}\n\n{lines}\n{names}\n{body}"
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{region}/bedrock/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashed}"
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def _bedrock(url: str, **more: Any) -> HttpSpec:
    spec = {
        "preset": "bedrock",
        "url": url,
        "model": "anthropic.claude-3-haiku-20240307-v1:0",
        "aws_signature": {"region": "eu-central-1"},
        **more,
    }
    found = parse_spec({"http": spec}, "pack").http
    assert found is not None
    return found


def _called(spec: HttpSpec, environ: dict[str, str]) -> Any:
    target = HttpTarget(spec, clock=lambda: 0.0, environ=environ, max_reply_bytes=100_000)
    return run(target, questions(1))[0]


@pytest.mark.parametrize("token", [None, "a-session-token"])
def test_a_server_that_checks_signatures_answers(token: str | None) -> None:
    def check(request: Request) -> Answer:
        raw = msgspec.json.encode(request.body)
        said = request.headers["Authorization"].rpartition("Signature=")[2]
        if said != _expected(request, raw, "eu-central-1"):
            return Answer({"message": "The signature does not match."}, status=403)
        return Answer({"output": {"message": {"content": [{"text": "hello"}]}}})

    environ = ENVIRON if token is None else {**ENVIRON, "AWS_SESSION_TOKEN": token}
    with serving(check) as server:
        outcome = _called(_bedrock(server.url), environ)
        (request,) = server.requests
    assert outcome.error is None, outcome.error
    assert outcome.reply.output == "hello"
    assert request.path == "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse"
    assert request.headers.get("X-Amz-Security-Token") == token
    assert ("x-amz-security-token" in request.headers["Authorization"]) == (token is not None)


def test_a_wrong_key_could_not_be_asked_and_no_secret_is_told() -> None:
    def refuse(request: Request) -> Answer:
        return Answer({"message": f"bad {SECRET} {request.headers['X-Amz-Security-Token']}"}, 403)

    with serving(refuse) as server:
        outcome = _called(_bedrock(server.url), {**ENVIRON, "AWS_SESSION_TOKEN": "hush-hush"})
    assert outcome.error.kind == "unauthorized"
    assert SECRET not in outcome.error.message
    assert "hush-hush" not in outcome.error.message


def test_the_region_comes_from_the_host_or_must_be_named() -> None:
    spec = AwsSignature()
    assert spec.region_for("https://bedrock-runtime.us-west-2.amazonaws.com") == "us-west-2"
    with pytest.raises(BadInputError, match="aws_signature needs a region"):
        _bedrock("http://127.0.0.1:9", aws_signature={})


def test_keys_come_from_the_variables_that_are_named() -> None:
    spec = AwsSignature(access_key_env="MY_ID", secret_key_env="MY_SECRET", region="eu-west-1")
    with pytest.raises(UsageError, match="environment variable MY_ID must hold"):
        AwsSigner(spec, "http://127.0.0.1", ENVIRON)
    signer = AwsSigner(
        spec,
        "http://127.0.0.1",
        {"MY_ID": "AKIDEXAMPLE", "MY_SECRET": SECRET},
        now=lambda: datetime(2015, 8, 30, 12, 36, tzinfo=UTC),
    )
    headers = dict(signer.headers("POST", "/", {"Host": "127.0.0.1"}, b""))
    assert headers["X-Amz-Date"] == "20150830T123600Z"
    assert "/20150830/eu-west-1/bedrock/aws4_request" in headers["Authorization"]
    assert SECRET not in repr(KEYS)


def test_one_way_to_prove_who_asks_is_enough() -> None:
    with pytest.raises(BadInputError, match="give api_key_env or aws_signature, not both"):
        _bedrock("http://127.0.0.1", api_key_env="KEY")


def test_where_the_key_comes_from_is_no_part_of_the_identity() -> None:
    signed = _bedrock("http://127.0.0.1").pins()
    plain = _bedrock("http://127.0.0.1", aws_signature=None).pins()
    assert signed == plain
