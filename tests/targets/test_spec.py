from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.build import make_target
from gatemark.targets.command import CommandTarget
from gatemark.targets.http import HttpTarget
from gatemark.targets.port import Call, Reply, Target
from gatemark.targets.python_callable import PythonTarget
from gatemark.targets.python_worker import PythonWorkerTarget
from gatemark.targets.recorded import RecordedTarget
from gatemark.targets.spec import parse_spec
from gatemark.targets.spending import Budget, Prices

from .rigs import Answer, ask, run, serving


def _build(text: str, folder: Path, **options: Any) -> Target:
    spec = parse_spec(yaml.safe_load(text), "targets.candidate")
    return make_target(spec, folder, clock=time.perf_counter, environ={}, **options)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "{python: 'app:answer', tmeout_s: 3}",
            "unknown field `tmeout_s`; did you mean 'timeout_s'",
        ),
        ("{http: {url: 'http://h/', response: a, bdy: 1}}", "unknown field `bdy`"),
        ("{http: {url: 'http://h/'}}", "http.response must say where the answer is"),
        ("{openai: {base_url: 'http://h', model: m, key: sk-1}}", "unknown field `key`"),
        ("{}", "exactly one of python, command, http, openai, recorded; got none"),
        ("{python: 'a:b', recorded: x.jsonl}", "got python and recorded"),
        ("{command: './run.sh'}", "Expected `array | null`, got `str`"),
        ("{command: []}", "must name a program"),
        ("{python: app}", "must look like 'module:function'"),
        ("{python: 'a:b', timeout_s: 0}", "timeout_s must be > 0"),
        ("{python: 'a:b', retries: -1}", "retries must be >= 0"),
        ("{python: 'a:b', send_sample: true}", "send_sample belongs to command"),
        ("{python: 'a:b', env: [GATEMARK_TOKEN]}", "never receives Gatemark's own settings"),
        ("{python: 'a:b', env: ['A=b']}", "must list names of variables, got 'A=b'"),
        ("{python: 'a:b', fields: [lang, target]}", "never sees the expected answer"),
        ("{command: [x], isolate: true}", "isolate belongs to python targets only"),
        ("{recorded: x, env: [A]}", "env belongs to python and command targets only"),
        ("{python: 'a:b', in_process: true, isolate: true}", "isolate and env have no effect"),
        ("{python: 'a:b', budget: {calls: -5}}", "budget.calls must be >= 0, got -5"),
        ("{python: 'a:b', cost: {per_call: -1}}", "cost.per_call must be >= 0, got -1.0"),
        ("{http: {url: 'http://h/', response: a, body: '{{inptu}}'}}", "unknown placeholder"),
        ("{http: {url: 'http://h/', response: a..b}}", "empty step"),
        ("{http: {url: 'http://h/', response: a, headers: {Cookie: x}}}", "not be written down"),
        ("{openai: {base_url: 'h', model: m}}", "openai.base_url must start with http"),
        ("[1]", "Expected `object`, got `array`"),
    ],
)
def test_a_wrong_target_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_spec(yaml.safe_load(text), "pack.yaml: targets.candidate")
    assert str(caught.value).startswith("pack.yaml: targets.candidate: ")
    assert complaint in str(caught.value)


def test_defaults_depend_on_the_kind() -> None:
    def limits(raw: dict[str, Any]) -> tuple[float | None, int]:
        options = parse_spec(raw, "t").options()
        return options.timeout_s, options.retries

    assert limits({"python": "a:b"}) == (None, 0)
    assert limits({"command": ["x"]}) == (60.0, 0)
    assert limits({"http": {"url": "http://h/", "response": "a"}}) == (60.0, 3)
    assert limits({"openai": {"base_url": "http://h/", "model": "m"}}) == (60.0, 3)
    assert limits({"recorded": "x.jsonl"}) == (None, 0)
    assert limits({"command": ["x"], "timeout_s": 2.5, "retries": 7}) == (2.5, 7)


def test_limits_reach_the_runner() -> None:
    raw = {
        "python": "a:b",
        "rate_per_s": 5,
        "max_reply_bytes": 10,
        "budget": {"calls": 3, "cost": 1.5, "wall_s": 60},
        "cost": {"per_call": 0.25},
    }
    options = parse_spec(raw, "t").options(concurrency=4, reuse="cache")
    assert options.rate_per_s == 5
    assert options.max_reply_bytes == 10
    assert options.budget == Budget(calls=3, cost=1.5, wall_s=60)
    assert options.prices == Prices(per_call=0.25)
    assert (options.concurrency, options.reuse) == (4, "cache")


def test_each_kind_builds_its_target(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def answer(q):\n    return q\n")
    python = _build("{python: 'app:answer'}", tmp_path)
    assert isinstance(python, PythonWorkerTarget)
    assert ask(python, Call(id="q", epoch=0, input=1)).output == 1
    inside = _build("{python: 'app:answer', in_process: true}", tmp_path)
    assert isinstance(inside, PythonTarget)
    assert ask(inside, Call(id="q", epoch=0, input=1)).output == 1
    assert isinstance(_build(f"{{command: ['{sys.executable}']}}", tmp_path), CommandTarget)
    http = _build("{http: {url: 'http://127.0.0.1:1/', response: a}}", tmp_path)
    assert isinstance(http, HttpTarget)
    assert http.identity()["kind"] == "http"
    openai = _build("{openai: {base_url: 'http://127.0.0.1:1', model: m}}", tmp_path)
    assert isinstance(openai, HttpTarget)
    assert openai.identity()["kind"] == "openai"


def test_a_recording_is_opened_in_the_folder_of_the_pack(tmp_path: Path) -> None:
    asked: list[Path] = []

    def open_recording(path: Path) -> tuple[dict[tuple[str, int], Reply], str]:
        asked.append(path)
        return {("q", 0): Reply(output="old", latency_ms=None)}, "sha256:1"

    target = _build("{recorded: base.jsonl}", tmp_path, open_recording=open_recording)
    assert isinstance(target, RecordedTarget)
    assert asked == [tmp_path / "base.jsonl"]
    assert ask(target, Call(id="q", epoch=0, input=1)).output == "old"
    with pytest.raises(UsageError, match="needs a way to read samples"):
        _build("{recorded: base.jsonl}", tmp_path)


def test_a_pack_runs_from_its_yaml_to_its_outcomes(tmp_path: Path) -> None:
    with serving(lambda request: Answer({"out": request.body["q"][::-1]})) as server:
        text = f"{{http: {{url: '{server.url}', body: {{q: 'A {{{{input}}}}'}}, response: out}}}}"
        spec = parse_spec(yaml.safe_load(text), "t")
        target = make_target(spec, tmp_path, clock=time.perf_counter, environ={})
        (outcome,) = run(target, [Call(id="q", epoch=0, input="bc")], spec.options())
    assert outcome.reply is not None
    assert outcome.reply.output == "cb A"
