from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.targets.rigs import Answer, serving

Run = Callable[..., Any]
KEY, INPUT, ANSWER = "sk-logs-hunter2", "input-of-a-patient", "answer-of-a-model"


def write_pack(folder: Path, url: str) -> Path:
    rows = [{"id": f"q{n}", "input": f"{INPUT} {n}", "target": ANSWER} for n in range(3)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    suite = {"id": "golden", "kind": "golden", "weight": 1, "dataset": "rows.jsonl"}
    target = {"url": url, "response": "said", "api_key_env": "LOGS_KEY"}
    pack = {
        "gatemark": 1,
        "name": "logs",
        "version": 1,
        "asset": {"kind": "prompt", "name": "logs"},
        "suites": [{**suite, "scorer": "exact"}],
        "targets": {"candidate": {"http": target, "retries": 1}, "baseline": {"python": "b:b"}},
        "score_min": 0.5,
        "regression_max": 0.5,
        "required_suites": [],
    }
    (folder / "b.py").write_text(f"def b(input):\n    return {ANSWER!r}\n")
    (folder / "pack.yaml").write_text(json.dumps(pack))
    return folder / "pack.yaml"


def records(err: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.splitlines() if line.startswith("{")]


def test_a_run_logs_its_calls_and_the_ledger_but_nothing_that_was_sent(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def answer(request: Any) -> Answer:
        seen.append(request.headers["Authorization"])
        if len(seen) == 1:
            return Answer({"error": f"{KEY} {INPUT}"}, status=503)
        return Answer({"said": ANSWER})

    monkeypatch.setenv("LOGS_KEY", KEY)
    with serving(answer) as server:
        options = ("--log-level", "debug", "--log-format", "json")
        pack = write_pack(tmp_path, server.url)
        ran = gatemark(*options, "run", pack, "--store", tmp_path / "store", "--json")
    assert ran.code in (0, 3), ran.err
    assert seen[0] == f"Bearer {KEY}"
    logged = {one["message"]: one for one in records(ran.err)}
    assert {"call retried", "calls finished", "result sealed"} <= set(logged)
    assert sum(one.get("retries", 0) for one in records(ran.err)) == 1
    assert logged["call retried"]["logger"] == "gatemark.targets.runner"
    lines = "\n".join(line for line in ran.err.splitlines() if line.startswith("{"))
    assert not [secret for secret in (KEY, INPUT, ANSWER) if secret in lines]
    assert ran.json["id"] == logged["result sealed"]["result"]


def test_the_ledger_logs_a_check_and_nothing_by_default(gatemark: Run, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "store")
    granted = gatemark(
        "--log-level", "info", "role", "grant", "--actor", "ann", "ann", "admin", *store
    )
    assert "gatemark.ledger.stores.sql: events appended kinds=" in granted.err
    checked = gatemark("--log-level", "info", "--log-format", "json", "ledger", "verify", *store)
    (report,) = records(checked.err)
    assert (report["message"], report["issues"]) == ("ledger verified", 0)
    assert "verified" not in gatemark("ledger", "verify", *store).err


def test_the_environment_sets_level_and_format(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_LOG_LEVEL", "info")
    monkeypatch.setenv("GATEMARK_LOG_FORMAT", "json")
    ran = gatemark("role", "grant", "--actor", "ann", "ann", "admin", "--store", tmp_path / "store")
    assert records(ran.err)


def test_an_unknown_level_is_a_usage_error(gatemark: Run) -> None:
    assert gatemark("--log-level", "loud", "list").code == 2


@pytest.mark.parametrize("verb", ["scorers", "no-such-command"])
def test_a_command_leaves_no_log_handler_behind(gatemark: Run, verb: str) -> None:
    loggers = [logging.getLogger(name) for name in ("gatemark", "uvicorn")]
    before = [(one.level, list(one.handlers)) for one in loggers]
    gatemark("--log-level", "debug", "--log-format", "json", verb)
    # The stream of the command is closed with the test that ran it.
    assert [(one.level, one.handlers) for one in loggers] == before
