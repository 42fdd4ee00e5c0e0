"""Alert sinks against real servers and programs, good ones, bad ones and ones that hang."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.release.drift.live import Live, lively
from tests.release.drift.series import by_tick, day

from gatemark.core.errors import BadInputError
from gatemark.release.alerts.alert import (
    Alert,
    AlertPlan,
    CommandSink,
    FileSink,
    MailSink,
    WebhookSink,
)
from gatemark.release.alerts.plan_file import read_alert_plan
from gatemark.release.alerts.send import alerts_of, send_pending
from gatemark.release.alerts.sinks import DeliveryError, deliver
from gatemark.release.alerts.sinks.webhook import DELIVERY, SIGNATURE, TIMESTAMP
from gatemark.release.drift.judging.policy import Response, Watch
from gatemark.release.lifecycle.commands import Demote

ALERT = Alert(
    id="sha256:" + "ab" * 32,
    kind="drift",
    level="BREACH",
    subject="triage golden_accuracy",
    reason="4.1 sigma below the baseline",
    at=day(3),
    asset="triage",
    metric="golden_accuracy",
    actions=("1.0.0 was demoted",),
)


class Receiver(ThreadingHTTPServer):
    """A web server that answers what it is told to and remembers what it got."""

    def __init__(self, *answers: int, hang_s: float = 0) -> None:
        self.answers = list(answers)
        self.hang_s = hang_s
        self.got: list[tuple[dict[str, str], bytes, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook?team=a"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body, self.path))
        time.sleep(self.server.hang_s)
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hook(server: Receiver, **more: Any) -> WebhookSink:
    return WebhookSink(**{"name": "hook", "url": server.url, "wait_s": 0, **more})


def test_a_webhook_is_signed_so_that_its_receiver_can_check_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "between us")
    with serving(Receiver()) as server:
        deliver(ALERT, hook(server, secret_env="HOOK_SECRET"))
    ((headers, body, path),) = server.got
    expected = hmac.new(
        b"between us", headers[TIMESTAMP].encode() + b"." + body, hashlib.sha256
    ).hexdigest()
    assert headers[SIGNATURE] == f"v1={expected}"
    assert abs(int(headers[TIMESTAMP]) - time.time()) < 60
    assert headers[DELIVERY] == ALERT.id
    assert path == "/hook?team=a"
    assert msgspec.json.decode(body, type=Alert) == ALERT


def test_a_missing_secret_is_an_error_and_nothing_goes_out_unsigned() -> None:
    with serving(Receiver()) as server, pytest.raises(DeliveryError, match="NO_SUCH_SECRET"):
        deliver(ALERT, hook(server, secret_env="NO_SUCH_SECRET"))
    assert server.got == []


@pytest.mark.parametrize("tail", ["/T0/hunter2 x", "/T0/hunter2\u00e9", ":hunter2/x"])
def test_an_impossible_address_is_told_without_the_key_in_it(tail: str) -> None:
    sink = WebhookSink(name="hook", url=f"http://127.0.0.1{tail}")
    with pytest.raises(DeliveryError, match="has characters that no address can have") as caught:
        deliver(ALERT, sink)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("answers", [(503, 200), (500, 429, 204), (408, 200)])
def test_what_a_receiver_may_get_over_is_tried_again(answers: tuple[int, ...]) -> None:
    with serving(Receiver(*answers)) as server:
        deliver(ALERT, hook(server))
    assert len(server.got) == len(answers)
    assert len({headers[DELIVERY] for headers, _, _ in server.got}) == 1


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (401, 1), (302, 1), (500, 3)])
def test_a_refusal_is_an_error_with_its_number(status: int, attempts: int) -> None:
    with serving(Receiver(*[status] * 5)) as server:
        with pytest.raises(DeliveryError, match=f"answered {status} .after {attempts} attempts"):
            deliver(ALERT, hook(server))
        assert len(server.got) == attempts


def test_a_receiver_that_is_not_there_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sink = WebhookSink(name="gone", url=f"http://127.0.0.1:{port}/", wait_s=0, attempts=2)
    with pytest.raises(DeliveryError, match="refused"):
        deliver(ALERT, sink)


def test_a_receiver_that_hangs_holds_nobody_up() -> None:
    with (
        serving(Receiver(hang_s=1.0)) as server,
        pytest.raises(DeliveryError, match=r"no answer within 0\.2 s|timed out"),
    ):
        deliver(ALERT, hook(server, time_limit_s=0.2, attempts=1))


def test_a_file_gets_a_line_for_each_alert(tmp_path: Path) -> None:
    sink = FileSink(name="log", path=str(tmp_path / "deep" / "alerts.jsonl"))
    deliver(ALERT, sink)
    deliver(ALERT, sink)
    lines = Path(sink.path).read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Alert) for line in lines] == [ALERT, ALERT]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match=r"IsADirectoryError|PermissionError"):
        deliver(ALERT, FileSink(name="log", path=str(tmp_path)))


def program(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


def test_a_program_gets_the_alert_on_its_standard_input(tmp_path: Path) -> None:
    target = tmp_path / "got"
    text = f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"
    deliver(ALERT, CommandSink(name="run", command=program(text)))
    assert json.loads(target.read_text())["subject"] == ALERT.subject


def test_a_program_that_fails_says_why() -> None:
    text = "import sys; sys.stderr.write('no pager today'); sys.exit(3)"
    with pytest.raises(DeliveryError, match="ended with 3: no pager today"):
        deliver(ALERT, CommandSink(name="run", command=program(text)))
    with pytest.raises(DeliveryError, match="No such file"):
        deliver(ALERT, CommandSink(name="run", command=("/no/such/program",)))


def test_a_program_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "child"
    text = (
        "import pathlib, subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    # A busy machine may need longer than this until the child is there.
    limit_s = 0.5
    while not note.exists() or not note.read_text():
        limit_s *= 2
        with pytest.raises(DeliveryError, match=r"did not end in time|no answer"):
            deliver(ALERT, CommandSink(name="run", command=program(text), time_limit_s=limit_s))
    child = Path(f"/proc/{note.read_text()}/stat")
    deadline = time.monotonic() + 60
    while child.exists() and child.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < deadline, "the child is still running"
        time.sleep(0.01)


class Postman(socketserver.ThreadingTCPServer):
    """A small SMTP server: enough of RFC 5321 to take a message, or to refuse it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, *, refuses: str = "") -> None:
        self.refuses = refuses
        self.messages: list[tuple[str, list[str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Mail)


class _Mail(socketserver.StreamRequestHandler):
    server: Postman

    def handle(self) -> None:
        self._say("220 test")
        sender, recipients = "", []
        for raw in self.rfile:
            line = raw.decode().strip()
            verb = line.split(":")[0].split(" ")[0].upper()
            if verb == self.server.refuses.upper():
                self._say("550 not here")
            elif verb == "EHLO":
                self._say("250 test")
            elif verb == "MAIL":
                sender = line.split("<")[1].split(">")[0]
                self._say("250 ok")
            elif verb == "RCPT":
                recipients.append(line.split("<")[1].split(">")[0])
                self._say("250 ok")
            elif verb == "DATA":
                self._say("354 go on")
                data = b""
                for part in self.rfile:
                    if part == b".\r\n":
                        break
                    data += part
                self.server.messages.append((sender, recipients, data))
                self._say("250 kept")
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


def mail(server: Postman, **more: Any) -> MailSink:
    fields = {
        "name": "mail",
        "host": "127.0.0.1",
        "port": server.server_address[1],
        "sender": "gatemark@example.org",
        "recipients": ("ann@example.org", "bob@example.org"),
    }
    return MailSink(**{**fields, **more})


def test_a_mail_reaches_every_recipient_with_the_alert_attached() -> None:
    with serving(Postman()) as server:
        deliver(ALERT, mail(server))
    ((sender, recipients, data),) = server.messages
    assert sender == "gatemark@example.org"
    assert recipients == ["ann@example.org", "bob@example.org"]
    message = message_from_bytes(data, policy=default)
    assert message["Subject"] == "[gatemark] BREACH triage golden_accuracy"
    assert "ab" * 32 in str(message["Message-ID"])
    text = message.get_body(("plain",))
    assert text is not None
    assert "4.1 sigma below the baseline" in text.get_content()
    (attachment,) = message.iter_attachments()
    assert msgspec.json.decode(attachment.get_content(), type=Alert) == ALERT


@pytest.mark.parametrize("refuses", ["RCPT", "DATA", "MAIL"])
def test_a_mail_that_is_refused_is_an_error(refuses: str) -> None:
    with serving(Postman(refuses=refuses)) as server, pytest.raises(DeliveryError, match=r"127"):
        deliver(ALERT, mail(server))


def test_a_line_break_in_a_subject_cannot_add_a_header() -> None:
    evil = msgspec.structs.replace(ALERT, subject="a\r\nBcc: eve@example.org")
    with serving(Postman()) as server:
        deliver(evil, mail(server))
    ((_, recipients, data),) = server.messages
    assert "eve@example.org" not in recipients
    assert b"\nBcc:" not in data


def test_sinks_take_the_levels_and_assets_that_they_are_for() -> None:
    assert FileSink(name="a", path="x").takes(ALERT)
    assert FileSink(name="a", path="x", levels=("BREACH",), assets=("tri*",)).takes(ALERT)
    assert not FileSink(name="a", path="x", levels=("WARN",)).takes(ALERT)
    assert not FileSink(name="a", path="x", assets=("other",)).takes(ALERT)
    schedule = msgspec.structs.replace(ALERT, asset=None)
    assert not FileSink(name="a", path="x", assets=("tri*",)).takes(schedule)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("sinks: []\n", "must start with gatemark_alerts: 1"),
        ("gatemark_alerts: 1\n", "has no sinks"),
        ("gatemark_alerts: 1\nsinks: [{kind: pigeon, name: p}]\n", "pigeon"),
        ("gatemark_alerts: 1\nsinks: [{kind: file, name: p}]\n", "path"),
        ("gatemark_alerts: 1\nsinks: [{kind: webhook, name: p, url: 'ftp://x'}]\n", "url"),
        (
            "gatemark_alerts: 1\nsinks: [{kind: command, name: p, command: []}]\n",
            "command is empty",
        ),
        (
            "gatemark_alerts: 1\nsinks: [{kind: file, name: p, path: a},"
            " {kind: file, name: p, path: b}]\n",
            "same name",
        ),
        (
            "gatemark_alerts: 1\nsinks: [{kind: mail, name: m, host: h, sender: s,"
            " recipients: [r], user_env: U, password_env: P}]\n",
            "a password needs starttls or tls",
        ),
        (
            "gatemark_alerts: 1\nsinks: [{kind: mail, name: m, host: h, sender: s,"
            " recipients: []}]\n",
            "no recipients",
        ),
    ],
)
def test_a_bad_plan_of_alerts_is_refused(tmp_path: Path, text: str, finding: str) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=finding):
        read_alert_plan(str(path))


def test_an_episode_alerts_once_per_level_and_a_dead_sink_is_tried_next_time(
    tmp_path: Path,
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    log = FileSink(name="log", path=str(tmp_path / "alerts.jsonl"))
    dead = FileSink(name="dead", path=str(tmp_path))
    plan = AlertPlan((log, dead))
    live.push(0, [*lively(), 3.0, 3.0, 3.0])
    first = live.probe(17, plan=plan)
    assert {d.sink: d.error is None for d in first.alerts} == {"dead": False, "log": True}
    live.probe(17, plan=plan)
    live.probe(18, plan=plan)
    live.probe(19, plan=plan)
    told = [json.loads(line)["level"] for line in Path(log.path).read_text().splitlines()]
    assert told == ["WARN", "BREACH"]
    mended = AlertPlan((msgspec.structs.replace(dead, path=str(tmp_path / "late.jsonl")),))
    assert len(send_pending(live.workspace, mended)) == 2
    assert send_pending(live.workspace, mended) == ()


def test_a_hanging_sink_costs_a_tick_its_time_once(tmp_path: Path) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    slow = CommandSink(name="slow", command=program("import time; time.sleep(9)"), time_limit_s=0.3)
    policy = by_tick(watches=(Watch(metric="*"),))
    for metric in ("a", "b", "c", "d"):
        live.push(0, [*lively(), 3.0], metric=metric)
    found = live.probe(17, plan=AlertPlan((slow,)), policy=policy)
    assert len(found.episodes) == 4
    assert len(found.alerts) == 1
    assert len(alerts_of(live.workspace).pending()) == 4


def test_a_silent_metric_alerts_once_after_two_missing_windows(tmp_path: Path) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    log = FileSink(name="log", path=str(tmp_path / "alerts.jsonl"))
    live.push(0, lively())
    for days in (17, 18, 19, 20):
        live.probe(days, plan=AlertPlan((log,)))
    (line,) = Path(log.path).read_text().splitlines()
    assert json.loads(line)["level"] == "STALE"
    assert "no point for 2 windows" in json.loads(line)["reason"]


def told(plan: AlertPlan) -> list[tuple[str, str]]:
    """Level and reason of every alert in the file of a plan."""
    (sink,) = plan.sinks
    assert isinstance(sink, FileSink)
    path = Path(sink.path)
    lines = path.read_text().splitlines() if path.exists() else []
    return [(alert["level"], alert["reason"]) for alert in map(json.loads, lines)]


@pytest.fixture
def logged(tmp_path: Path) -> AlertPlan:
    return AlertPlan((FileSink(name="log", path=str(tmp_path / "alerts.jsonl")),))


def test_a_silence_that_lasts_longer_than_anybody_looks_back_alerts_once(
    tmp_path: Path, logged: AlertPlan
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.push(0, lively())
    live.probe(16)
    for days in (200, 201, 202):
        live.probe(days, plan=logged)
    ((level, reason),) = told(logged)
    assert (level, reason) == (
        "STALE",
        "no point for a long time; the last window looked at ended 2026-03-17",
    )


def test_points_that_were_old_when_watching_began_alert_once(
    tmp_path: Path, logged: AlertPlan
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.push(0, lively())
    for days in (200, 201):
        live.probe(days, plan=logged)
    words = "no point for a long time; the last window looked at ended 2026-03-17"
    assert told(logged) == [("STALE", words)]


def test_windows_with_too_few_items_alert_like_missing_ones(
    tmp_path: Path, logged: AlertPlan
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    policy = by_tick(watches=(Watch(metric="*", min_items=50),))
    live.push(0, lively(), n=100)
    live.push(16, [3.0, 3.0, 3.0], n=49)
    live.probe(17, policy=policy, plan=logged)
    assert told(logged) == [], "one is no silence yet"
    for days in (18, 19):
        live.probe(days, policy=policy, plan=logged)
    words = "only 49 items in the latest window, 50 are needed; nothing to judge for 2 windows"
    assert told(logged) == [("STALE", words)]


def test_a_metric_that_never_came_alerts_once_its_asset_has_been_served_for_two_windows(
    tmp_path: Path, logged: AlertPlan
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.enable()
    live.probe(0.5, plan=logged)
    assert told(logged) == []
    for days in (2, 3, 4):
        live.probe(days, plan=logged)
    words = "no point was ever pushed; prompt assets are watched by it"
    assert told(logged) == [("STALE", words)]


def test_silence_of_an_asset_that_serves_nobody_or_that_the_policy_lets_be_is_no_alert(
    tmp_path: Path, logged: AlertPlan
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.enable()
    live.push(0, lively())
    quiet = by_tick(responses=(Response("enabled", "BREACH", ("demote", "alert")),))
    live.probe(20, policy=quiet, plan=logged)
    assert told(logged) == []
    live.do(Demote, "olu", "1.0.0", to="demoted", note="by hand", stop=True)
    live.probe(21, plan=logged)
    assert told(logged) == []


def test_owners_are_told_as_the_stage_asks_for_that_the_asset_was_in(
    tmp_path: Path, logged: AlertPlan
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.enable()
    response = Response("enabled", "BREACH", ("demote", "alert"))
    policy = by_tick(responses=(response,), on_breach="stop")
    live.push(0, [*lively(), 3.0, 3.0])
    live.probe(18, policy=policy, plan=logged)
    assert live.stage() == "demoted"
    assert [level for level, _ in told(logged)] == ["BREACH"]
