"""Models that talk around their answer, and runs that would be calm for the wrong reason."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.plugins.runlog.models import FIELDS, TRIGGER

from gatemark.plugins.runlog.replay.model import find_json_object

Run = Callable[..., Any]
VARIANTS = ("V0", "V1", "V2", "V3", "V4")
CHATTY = (
    "Sure! Here is the JSON you asked for:\n\n```json\n{}\n```\nLet me know if it helps.",
    "<think>The text is {{short}}.</think>\n{}",
    'First I wrote {{"draft": 1}}. The answer is {}',
)


@pytest.mark.parametrize("words", CHATTY)
def test_the_answer_is_found_in_what_a_model_says_around_it(words: str) -> None:
    said = words.format(json.dumps(FIELDS))
    assert json.loads(find_json_object(said)) == FIELDS


@pytest.mark.parametrize("text", ["", "no", "{" * 5_000, '{"a": ' * 3_000, "{}" * 300])
def test_a_reply_without_an_answer_costs_little_and_raises_nothing(text: str) -> None:
    assert isinstance(find_json_object(text), bytes)


class Moody(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint that answers differently each time, by its script."""

    asked = 0
    answer: Callable[[str, str, int], str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).asked += 1
        system, user = (message["content"] for message in body["messages"])
        text = type(self).answer(system, user, type(self).asked)
        document = {
            "model": "moody-1",
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        }
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    thread = Thread(target=server.serve_forever)
    thread.start()
    spec = tmp_path / "endpoint.yaml"
    address = f"http://127.0.0.1:{server.server_port}/v1"
    spec.write_text(f"openai: {{base_url: '{address}', model: moody}}\nretries: 0\n")
    yield spec
    server.shutdown()
    thread.join()
    server.server_close()


def script(unreadable: Callable[[int], bool]) -> Callable[[str, str, int], str]:
    def answer(system: str, _user: str, asked: int) -> str:
        if unreadable(asked):
            return "I would rather not say."
        if "stream_state" not in system:
            return json.dumps(FIELDS | {"status_action": f"Answer {asked}."})
        novel = "is_novel" in system
        return json.dumps({k: v for k, v in TRIGGER.items() if novel or k != "is_novel"})

    return answer


@pytest.fixture
def run(endpoint: Path, gatemark: Run, tmp_path: Path) -> Run:
    places = ("--output", tmp_path / "traces", "--manifests", tmp_path / "manifests")
    made = gatemark("runlog", "traces", "--cases", 2, "--domain", "workshop", *places, "-j", 1)
    assert made.code == 0, made.err

    def call(*more: object, unreadable: Callable[[int], bool] = lambda _: False) -> Any:
        Moody.asked = 0
        Moody.answer = staticmethod(script(unreadable))
        model = () if "--model" in more else ("--model", endpoint)
        traces = ("--traces", tmp_path / "traces", "-j", 1)
        return gatemark("runlog", "run", *traces, *model, *more)

    return call


def test_a_run_whose_answers_cannot_be_read_is_not_calm(run: Run, tmp_path: Path) -> None:
    ran = run("--variant", "V0", "--output", tmp_path / "o", unreadable=lambda _: True)
    assert ran.code == 3
    assert "answers of the model could not be read; at most 5% may" in ran.err
    assert "and not one summary in 2 cases" in ran.err
    (path,) = (tmp_path / "o" / "run_summaries").iterdir()
    summary = json.loads(path.read_text())
    assert sum(summary["unparsable_answers"].values()) == summary["questions"] > 0


@pytest.mark.parametrize(("bound", "code"), [("0.05", 3), ("0.5", 0)])
def test_unreadable_answers_are_counted_and_bounded(
    bound: str, code: int, run: Run, tmp_path: Path
) -> None:
    where = ("--variant", "V2", "--output", tmp_path / "o", "--max-unparsable", bound)
    ran = run(*where, unreadable=lambda asked: asked % 3 == 0)
    assert ran.code == code
    assert " answers unreadable" in ran.out


def test_what_was_recorded_is_replayed_for_every_variant(run: Run, tmp_path: Path) -> None:
    chosen = [word for name in VARIANTS for word in ("--variant", name)]
    recorded = tmp_path / "answers.jsonl"
    first = run(*chosen, "--output", tmp_path / "a", "--record", recorded)
    assert first.code == 0, first.err
    for name in "bc":
        again = run(*chosen, "--output", tmp_path / name, "--model", recorded)
        assert again.code == 0, again.err
    for log in sorted((tmp_path / "a").glob("V*/*.jsonl.gz")):
        place = log.relative_to(tmp_path / "a")
        b, c = ((tmp_path / name / place).read_bytes() for name in "bc")
        assert b == c
        assert lines(tmp_path / "b" / place)[1:] == lines(log)[1:]


def lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()
