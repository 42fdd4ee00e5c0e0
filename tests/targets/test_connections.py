from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gatemark.targets.http import HttpTarget
from gatemark.targets.network_specs import HttpSpec
from gatemark.targets.port import Call, TargetError
from gatemark.targets.run_options import RunOptions

from .rigs import Answer, ask, questions, run, serving

CALL = Call(id="q1", epoch=0, input="hi")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n" + b'{"answer": "yes"}'
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _target(url: str, max_reply_bytes: int = 1_000_000) -> HttpTarget:
    spec = msgspec.convert({"url": url, "response": "answer"}, HttpSpec)
    return HttpTarget(spec, clock=time.perf_counter, environ={}, max_reply_bytes=max_reply_bytes)


def _certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that vouches for itself, and a server that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    return path, tls


async def _asked(talk: Talk, times: int, *, pause_s: float = 0.0) -> tuple[list[object], int]:
    """What a target gets from a server that talks bytes, and how often it was connected to."""
    talks: list[asyncio.Task[None]] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.append(task)
        await talk(reader, writer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    target = _target(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    replies: list[object] = []
    async with server:
        try:
            for _ in range(times):
                replies.append((await target.call(CALL)).output)
                await asyncio.sleep(pause_s)
        finally:
            await target.close()
            await asyncio.gather(*talks)
    return replies, len(talks)


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    return await reader.readexactly(int(head.split(b"content-length:")[1].split()[0]))


def test_a_connection_is_kept_for_the_next_call() -> None:
    async def patient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await _request(reader)
            writer.write(OK)
            await writer.drain()

    assert asyncio.run(_asked(patient, 3)) == (["yes"] * 3, 1)


def test_a_connection_the_server_closed_is_opened_again() -> None:
    async def curt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(OK)
        await writer.drain()

    assert asyncio.run(_asked(curt, 3, pause_s=0.05)) == (["yes"] * 3, 3)


def test_a_connection_with_words_nobody_asked_for_is_not_used_again() -> None:
    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(b"HTTP/1.1 408 Too slow\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        await reader.read()

    assert asyncio.run(_asked(chatty, 2, pause_s=0.05)) == (["yes"] * 2, 2)


@pytest.mark.parametrize("said", [b"", OK[:-3], b"hello\r\n\r\n"])
def test_a_reply_that_breaks_off_is_unreachable_and_may_be_retried(said: bytes) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(said)
        await writer.drain()

    with pytest.raises(TargetError, match="RemoteProtocolError") as caught:
        asyncio.run(_asked(rude, 1))
    assert (caught.value.kind, caught.value.retryable) == ("unreachable", True)


def test_bodies_larger_than_any_buffer_go_both_ways() -> None:
    text = "0123456789" * 400_000
    call = Call(id="q1", epoch=0, input=text)
    with serving(lambda request: Answer({"answer": request.body["input"]})) as server:
        assert ask(_target(server.url, max_reply_bytes=5_000_000), call).output == text


def test_a_call_that_was_cut_off_leaves_the_next_one_unharmed() -> None:
    waits = iter([5.0])
    with serving(lambda _: Answer({"answer": "yes"}, delay_s=next(waits, 0.0))) as server:
        options = RunOptions(concurrency=1, timeout_s=0.2, retries=0)
        first, second = run(_target(server.url), questions(2), options)
    assert first.error is not None
    assert first.error.kind == "timeout"
    assert second.reply is not None


def test_a_trusted_certificate_is_spoken_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tls = _certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with serving(lambda request: Answer({"answer": request.body["input"]}), tls) as server:
        outcomes = run(_target(server.url), questions(6), RunOptions(concurrency=2))
    assert [o.reply.output for o in outcomes if o.reply] == [c.input for c in questions(6)]


def test_a_certificate_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    _, tls = _certificate(tmp_path)
    with (
        serving(lambda _: Answer({"answer": "yes"}), tls) as server,
        pytest.raises(TargetError, match="certificate verify failed") as caught,
    ):
        ask(_target(server.url), CALL)
    assert caught.value.kind == "unreachable"
    assert server.requests == []


def test_a_proxy_of_the_environment_is_used_for_other_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(lambda _: Answer({"answer": "by proxy"})) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:word@"))
        monkeypatch.setenv("no_proxy", "other.example")
        assert ask(_target("http://service.example/a?b=1"), CALL).output == "by proxy"
    (request,) = proxy.requests
    assert request.path == "http://service.example/a?b=1"
    assert request.headers["Host"] == "service.example"
    assert request.headers["Proxy-Authorization"] == "Basic bWU6d29yZA=="


def test_a_host_named_in_no_proxy_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda _: Answer({"answer": "by proxy"})) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "service.invalid")
        with pytest.raises(TargetError, match="ConnectError"):
            ask(_target("http://service.invalid/"), CALL)
    assert proxy.requests == []
