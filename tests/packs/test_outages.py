"""Endpoints that are down: the verdict is held open, quickly, and nothing lost becomes a pass."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.targets.rigs import Answer, Request, serving

Run = Callable[..., Any]

PACK = """
gatemark: 1
name: shouting
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.9
regression_max: 0.1
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 1.0, min: 0.9, dataset: golden.jsonl}
targets:
  candidate: CANDIDATE
  baseline: BASELINE
"""
ITEMS = 60
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n:03d}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(ITEMS)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "app.py").write_text(
        "def right(text):\n    return {'output': text.upper(), 'confidence': 0.9}\n"
        "def wrong(text):\n    return {'output': text, 'confidence': 0.9}\n"
    )
    return tmp_path


def _http(url: str, more: str = "retries: 0") -> str:
    paths = "{output: out, confidence: sure}"
    return f"{{http: {{url: '{url}', response: {paths}}}, {more}}}"


def _run(gatemark: Run, folder: Path, *more: object, candidate: str, baseline: str) -> Any:
    text = PACK.replace("CANDIDATE", candidate).replace("BASELINE", baseline)
    (folder / "pack.yaml").write_text(text)
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *more)


def _right(request: Request) -> Answer:
    return Answer({"out": request.body["input"].upper(), "sure": 0.9})


RIGHT = '{python: "app:right"}'


@pytest.mark.parametrize("down", ["candidate", "baseline"])
def test_a_dead_endpoint_holds_the_verdict_with_the_connection_error_first(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, down: str
) -> None:
    arms = {"candidate": RIGHT, "baseline": RIGHT, down: _http(CLOSED)}
    calibration = "  - {id: calib, kind: calibration, weight: 0.0, from: golden}\n"
    monkeypatch.setattr(f"{__name__}.PACK", PACK.replace("targets:", f"{calibration}targets:"))
    ran = _run(gatemark, folder, **arms)
    assert ran.code == 3
    first = ran.json["blockers"][0]
    assert first.startswith("run.asked was not measured: unreachable: POST http://127.0.0.1:9")
    assert f"({down}: {ITEMS} of {ITEMS} calls)" in first
    assert not any(f["verdict"] == "fail" for f in ran.json["findings"])
    assert ran.json["cost"]["calls"] == ITEMS + 1
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out + checked.err


@pytest.mark.parametrize(
    ("status", "kind", "asked"), [(401, "unauthorized", 1), (503, "unavailable", 10)]
)
def test_refused_credentials_and_broken_services_are_no_answers(
    gatemark: Run, folder: Path, status: int, kind: str, asked: int
) -> None:
    with serving(lambda _: Answer({"error": "no"}, status)) as server:
        ran = _run(gatemark, folder, candidate=_http(server.url), baseline="none")
        assert len(server.requests) == asked
    assert ran.code == 3
    assert ran.json["blockers"][0].startswith(f"run.asked was not measured: {kind}: POST ")
    assert f"status {status}" in ran.json["blockers"][0]


@pytest.mark.parametrize(
    "reply",
    [
        lambda _: Answer({"out": "wrong", "sure": 0.9}),
        lambda _: Answer({"error": "too long"}, 400),
        lambda _: Answer(b"not JSON"),
        lambda _: Answer({"other": 1}),
    ],
)
def test_wrong_and_unreadable_replies_still_fail(
    gatemark: Run, folder: Path, reply: Callable[[Request], Answer]
) -> None:
    with serving(reply) as server:
        ran = _run(gatemark, folder, candidate=_http(server.url), baseline="none")
    assert ran.code == 1


def test_losing_the_failing_items_never_makes_a_pass(gatemark: Run, folder: Path) -> None:
    """A candidate that answers what it knows and fakes an outage for the rest."""

    def evasive(request: Request) -> Answer:
        if int(request.body["input"].split()[-1]) % 5 == 0:
            return Answer({"error": "overloaded"}, 503)
        return _right(request)

    with serving(evasive) as server:
        ran = _run(gatemark, folder, candidate=_http(server.url), baseline=RIGHT)
    assert ran.code == 3
    numbers = {(m["name"], m["scope"]): m for m in ran.json["measurements"]}
    assert numbers["score", "golden"]["value"] is None
    assert (
        numbers["score", "golden"]["reason"]["text"]
        == "12 calls of the candidate could not be asked"
    )
    assert numbers["bench", None]["value"] is None
    assert numbers["error_rate", "golden"]["value"] == 0.0
    judged = gatemark(
        *("gate", ran.json["id"], "--pack", folder / "pack.yaml"),
        *("--store", folder / "store", "--json"),
    )
    assert judged.code == 3


def test_a_failing_suite_still_fails_beside_one_that_could_not_be_asked(
    gatemark: Run, folder: Path
) -> None:
    """The probes were all answered, and one broke: the outage elsewhere excuses nothing."""

    def answer(request: Request) -> Answer:
        asked = request.body["input"]
        if isinstance(asked, str):
            return Answer({"error": "overloaded"}, 503)
        return Answer({"out": json.dumps(asked), "sure": 0.9})

    probes = "  - {id: probes, kind: adversarial, weight: 0.0, dataset: 'builtin:probes_v1'}\n"
    with serving(answer) as server:
        text = PACK.replace("targets:", f"{probes}targets:")
        text = text.replace("CANDIDATE", _http(server.url, "retries: 0, stop_after: 1000"))
        (folder / "pack.yaml").write_text(text.replace("BASELINE", "none"))
        ran = gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")
    assert ran.code == 1
    assert any(blocker.startswith("run.asked") for blocker in ran.json["blockers"])


def test_a_resumed_run_asks_only_what_could_not_be_asked(gatemark: Run, folder: Path) -> None:
    state = {"up": False}

    def answer(request: Request) -> Answer:
        if not state["up"] and request.body["input"].endswith("7"):
            return Answer({"error": "busy"}, 503)
        return _right(request)

    with serving(answer) as server:
        first = _run(gatemark, folder, candidate=_http(server.url), baseline="none")
        assert first.code == 3
        assert "--resume asks those again" in first.err
        before = len(server.requests)
        state["up"] = True
        again = _run(gatemark, folder, "--resume", candidate=_http(server.url), baseline="none")
        assert again.code == 0
        assert len(server.requests) - before == 6
    assert not list((folder / "store" / "runs").iterdir())


def test_a_judge_that_is_down_holds_the_verdict(gatemark: Run, folder: Path) -> None:
    labels = [
        {
            "id": f"l{n}",
            "input": f"say {n}",
            "output": "yes",
            "label": "CORRECT" if n % 2 else "INCORRECT",
        }
        for n in range(60)
    ]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels))
    text = (
        PACK.replace(
            "dataset: golden.jsonl", "dataset: golden.jsonl, scorer: {name: judge, judge: grader}"
        )
        .replace("CANDIDATE", RIGHT)
        .replace("BASELINE", "none")
    )
    judges = (
        "judges:\n  grader:\n    labels: labels.jsonl\n"
        f"    target: {{openai: {{base_url: '{CLOSED}', model: m}}, retries: 0}}\n"
    )
    (folder / "pack.yaml").write_text(text + judges)
    ran = gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")
    assert ran.code == 3, ran.err
    assert ran.json["blockers"][0].startswith("run.asked was not measured: unreachable: the model")
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out + checked.err


CLAIMS = {
    "python": (
        '{python: "down:answer", files: [down.py]}',
        "import gatemark\ndef answer(text):\n    if UNSURE:\n"
        "        raise gatemark.UnavailableError('vector store is down')\n"
        "    return text.upper()\n",
    ),
    "in one process": (
        '{python: "down:answer", files: [down.py], isolate: true}',
        "import gatemark\nasync def answer(text):\n    if UNSURE:\n"
        "        raise gatemark.UnavailableError('vector store is down')\n"
        "    return text.upper()\n",
    ),
    "command that says so": (
        f'{{command: ["{sys.executable}", "down.py"]}}',
        "import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n"
        "    text = asked['input']\n    told = {'output': text.upper()}\n    if UNSURE:\n"
        "        told = {'error': 'vector store is down', 'unavailable': True}\n"
        "    print(json.dumps({'id': asked['id'], **told}), flush=True)\n",
    ),
    "command that exits": (
        f'{{command: ["{sys.executable}", "down.py"]}}',
        "import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n"
        "    text = asked['input']\n    if UNSURE:\n"
        "        sys.exit('vector store is down' and 75)\n"
        "    print(json.dumps({'id': asked['id'], 'output': text.upper()}), flush=True)\n",
    ),
}


@pytest.mark.parametrize("how", sorted(CLAIMS))
def test_a_service_behind_a_function_or_command_holds_the_verdict(
    gatemark: Run, folder: Path, how: str
) -> None:
    """A target that claims an outage where it would be wrong gains nothing by it."""
    target, code = CLAIMS[how]
    (folder / "down.py").write_text(code.replace("UNSURE", "text.endswith('7')"))
    ran = _run(gatemark, folder, candidate=target, baseline=RIGHT)
    assert ran.code == 3, ran.err
    assert ran.json["blockers"][0].startswith("run.asked was not measured: unavailable: ")
    assert f"(candidate: 6 of {ITEMS} calls)" in ran.json["blockers"][0]
    assert not any(f["verdict"] == "fail" for f in ran.json["findings"])
    (folder / "down.py").write_text(code.replace("UNSURE", "False"))
    ran = _run(gatemark, folder, candidate=target, baseline=RIGHT)
    assert ran.code == 0, ran.err


def test_a_function_whose_service_stays_down_ends_the_run(gatemark: Run, folder: Path) -> None:
    target, code = CLAIMS["python"]
    (folder / "down.py").write_text(code.replace("UNSURE", "True"))
    rows = [{"id": f"r{n}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(4_000)]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = _run(gatemark, folder, candidate=target, baseline="none")
    assert ran.code == 3
    assert "vector store is down" in ran.json["blockers"][0]
    assert "(candidate: 4000 of 4000 calls)" in ran.json["blockers"][0]
    # Those on their way to the worker when the tenth came back are still asked.
    assert ran.json["cost"]["calls"] < 1_000


def test_another_exit_code_stays_an_error_of_the_command(gatemark: Run, folder: Path) -> None:
    target, code = CLAIMS["command that exits"]
    (folder / "down.py").write_text(code.replace("UNSURE", "True").replace("75", "74"))
    ran = _run(gatemark, folder, candidate=target, baseline="none")
    assert ran.code == 1


def test_recorded_outages_are_all_told(gatemark: Run, folder: Path) -> None:
    """Reading a recording does not stop after ten of them: nobody waits for a service."""
    target, code = CLAIMS["python"]
    (folder / "down.py").write_text(code.replace("UNSURE", "int(text.split()[-1]) >= 30"))
    ran = _run(
        gatemark, folder, candidate=target.replace("}", ", stop_after: 100}"), baseline="none"
    )
    assert "(candidate: 30 of" in ran.json["blockers"][0]
    again = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert again.code == 0, again.out + again.err
    judged = gatemark(
        "gate",
        ran.json["id"],
        "--pack",
        folder / "pack.yaml",
        "--store",
        folder / "store",
        "--json",
    )
    assert "(candidate: 30 of" in judged.json["blockers"][0], judged.err


@pytest.mark.parametrize("status", [200, 400])
def test_a_reply_that_drips_for_ever_is_no_answer(gatemark: Run, folder: Path, status: int) -> None:
    """A byte now and then keeps a connection alive, and must not keep a run alive."""
    with serving(lambda _: Answer({}, status, drips=True)) as server:
        limits = "retries: 0, timeout_s: 0.3"
        ran = _run(gatemark, folder, candidate=_http(server.url, limits), baseline="none")
        assert len(server.requests) == 1
    assert ran.code == 3, ran.out + ran.err
    assert ran.json["blockers"][0].startswith("run.asked was not measured: no_reply: ")
