"""Candidates that attack the judge: whatever they try, a run of theirs never passes by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Done, run_forked

from gatemark.targets.isolation import get_landlock_version

Run = Callable[..., Any]

PACK = """
gatemark: 1
name: shouting
version: 1
asset: {{kind: prompt, name: shouting}}
score_min: 0.9
regression_max: 0.05
required_suites: [golden]
suites:
  - {{id: golden, kind: golden, weight: 1.0, min: 0.9, dataset: golden.jsonl}}
targets:
  candidate: {{python: "app:answer"{options}}}
  baseline: none
"""
HONEST = "def answer(text):\n    return text.upper()\n"
READS_LABELS = """
import json, pathlib
def answer(text):
    for line in (pathlib.Path(__file__).parent / "golden.jsonl").open():
        row = json.loads(line)
        if row["input"] == text:
            return row["target"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n:03d}", "input": f"say {n}", "target": f"SAY {n}"} for n in range(40)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def _pack(folder: Path, source: str, options: str = "") -> Path:
    (folder / "app.py").write_text(source)
    (folder / "pack.yaml").write_text(PACK.format(options=options))
    return folder / "pack.yaml"


def _run(folder: Path, pack: Path) -> Done:
    return run_forked("run", pack, "--json", "--store", folder / "store")


@pytest.mark.parametrize(
    "body",
    [
        "os._exit(0)",
        "sys.exit(0)",
        "os.kill(os.getpid(), 9)",
        "os.closerange(0, 4096)",
        "os.kill(0, 15)",
    ],
)
def test_a_candidate_that_ends_its_process_fails(folder: Path, body: str) -> None:
    done = _run(folder, _pack(folder, f"import os, sys\ndef answer(text):\n    {body}\n"))
    assert done.returncode == 1, done.stderr.decode()
    assert json.loads(done.stdout)["verdict"] == "fail"


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE"])
def test_a_candidate_that_kills_the_judge_gets_no_verdict(folder: Path, signal_name: str) -> None:
    body = (
        f"import os, signal\ndef answer(text):\n    os.kill(os.getppid(), signal.{signal_name})\n"
    )
    done = _run(folder, _pack(folder, body + "    return text.upper() * 2\n"))
    assert done.returncode != 0
    if done.stdout:
        assert json.loads(done.stdout)["verdict"] == "fail"


def test_frames_and_objects_hold_no_label(folder: Path) -> None:
    source = """
import gc, sys
def answer(text):
    wanted = "SAY" + text[3:]
    frame = sys._getframe(1)
    while frame is not None:
        if wanted in repr(frame.f_locals):
            return text.upper()
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, dict) and thing.get("target") == wanted:
            return text.upper()
    return "no label found"
"""
    done = _run(folder, _pack(folder, source))
    assert done.returncode == 1, done.stderr.decode()
    numbers = {m["name"]: m["value"] for m in json.loads(done.stdout)["measurements"]}
    assert numbers["score"] == 0.0
    assert numbers["error_rate"] == 0.0


def test_the_expected_answer_cannot_be_asked_for(gatemark: Run, folder: Path) -> None:
    source = "def answer(text, sample):\n    return sample['target']\n"
    refused = gatemark("run", _pack(folder, source), "--store", folder / "store")
    assert refused.code == 2
    assert "list the fields of an item that it may see" in refused.err
    pack = _pack(folder, source, ", fields: [target]")
    refused = gatemark("run", pack, "--store", folder / "store")
    assert refused.code == 2
    assert "a target never sees the expected answer" in refused.err


def test_a_run_inside_the_judge_never_passes(gatemark: Run, folder: Path) -> None:
    pack = _pack(folder, HONEST, ", in_process: true")
    ran = gatemark("run", pack, "--store", folder / "store", "--json")
    assert ran.code == 3
    assert ran.json["blockers"][0].startswith(
        "run.in_process was not measured: the candidate ran inside Gatemark (in_process: true)"
    )
    apart = _pack(folder, HONEST)
    again = gatemark("gate", ran.json["id"], "--pack", apart, "--store", folder / "store", "--json")
    assert again.code == 3
    assert again.json["blockers"][0].startswith("run.in_process")
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.err
    baseline = gatemark(
        *("run", apart, "--baseline", ran.json["id"], "--store", folder / "store", "--json")
    )
    assert baseline.code == 3


def test_a_waiver_cannot_excuse_a_run_inside_the_judge(gatemark: Run, folder: Path) -> None:
    waivers = folder / "waivers.yaml"
    waivers.write_text(
        "- {rule: run.in_process, owner: ann, reason: hurry, expires_at: 2099-01-01T00:00:00Z}\n"
    )
    pack = _pack(folder, HONEST, ", in_process: true")
    ran = gatemark("run", pack, "--store", folder / "store", "--waivers", waivers)
    assert (ran.code, "waiver for run.in_process matches no rule" in ran.err) == (2, True), ran.err


needs_landlock = pytest.mark.skipif(
    get_landlock_version() == 0, reason="this kernel has no Landlock"
)


@needs_landlock
def test_an_isolated_candidate_cannot_copy_the_labels(folder: Path) -> None:
    assert _run(folder, _pack(folder, READS_LABELS)).returncode == 0
    done = _run(folder, _pack(folder, READS_LABELS, ", isolate: true"))
    assert done.returncode == 1
    reasons = [c for m in json.loads(done.stdout)["measurements"] for c in m["caveats"]]
    assert any("PermissionError" in reason for reason in reasons)
    assert _run(folder, _pack(folder, HONEST, ", isolate: true")).returncode == 0


@needs_landlock
def test_an_isolated_candidate_cannot_write_into_the_store(folder: Path) -> None:
    source = """
import pathlib
STORE = pathlib.Path(__file__).parent / "store"
def answer(text):
    for path in [STORE / "forged.json", *STORE.glob("*.sqlite3")]:
        try:
            path.write_text("forged")
            return "wrote"
        except OSError:
            pass
    return text.upper()
"""
    pack = _pack(folder, source, ", isolate: true")
    for _ in range(2):
        assert _run(folder, pack).returncode == 0
    assert not (folder / "store" / "forged.json").exists()


def test_without_landlock_the_result_says_so(
    gatemark: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatemark.targets.python_worker.get_landlock_version", lambda: 0)
    pack = _pack(folder, HONEST, ", isolate: true")
    ran = gatemark("run", pack, "--store", folder / "store", "--json")
    assert ran.code == 0
    assert any("this system has no Landlock" in caveat for caveat in ran.json["caveats"])
    shown = gatemark("show", ran.json["id"], "--store", folder / "store")
    assert "this system has no Landlock" in " ".join(shown.out.split())


def test_a_candidate_cannot_answer_in_the_place_of_the_baseline(
    gatemark: Run, folder: Path
) -> None:
    """A journal of the baseline that is there before it was asked is not believed."""
    text = PACK.format(options="").replace("baseline: none", 'baseline: {python: "old:answer"}')
    (folder / "pack.yaml").write_text(text)
    (folder / "old.py").write_text(HONEST)
    (folder / "app.py").write_text(
        "import pathlib\n"
        "def answer(text):\n"
        "    for own in (pathlib.Path(__file__).parent / 'store').rglob('candidate.journal'):\n"
        "        own.with_name('baseline.journal').touch()\n"
        "    return text.upper()\n"
    )
    ran = gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")
    assert ran.code == 4
    assert "baseline.journal: was written before anybody asked" in ran.err


@needs_landlock
def test_an_isolated_candidate_cannot_read_a_recorded_baseline(folder: Path) -> None:
    """It holds the answers of the other arm, and what is expected."""
    rows = [
        {
            "schema": "gatemark.sample/1",
            "id": f"r{n:03d}",
            "input": f"say {n}",
            "target": f"SAY {n}",
            "output": f"SAY {n}",
            "scores": {},
        }
        for n in range(40)
    ]
    (folder / "base.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = READS_LABELS.replace("golden.jsonl", "base.jsonl")
    for options, code in (("", 0), (", isolate: true", 1)):
        pack = _pack(folder, source, options)
        text = pack.read_text().replace("baseline: none", "baseline: {recorded: base.jsonl}")
        pack.write_text(text.replace("regression_max: 0.05", "regression_max: 0.3"))
        assert _run(folder, pack).returncode == code


def test_a_candidate_cannot_exchange_the_scorer(gatemark: Run, folder: Path) -> None:
    """What scores is loaded before any code of the candidate runs."""
    (folder / "grader.py").write_text("def grade(item):\n    return item.output == item.target\n")
    text = PACK.format(options="").replace(
        "dataset: golden.jsonl",
        "dataset: golden.jsonl, scorer: {name: python, options: {function: 'grader:grade'}}",
    )
    (folder / "pack.yaml").write_text(text)
    (folder / "app.py").write_text(
        "import pathlib\n"
        "grader = pathlib.Path(__file__).with_name('grader.py')\n"
        "grader.write_text('def grade(item):\\n    return 1.0\\n')\n"
        "def answer(text):\n"
        "    return 'wrong'\n"
    )
    ran = gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")
    assert ran.code == 1
    (score,) = [m for m in ran.json["measurements"] if m["name"] == "score"]
    assert score["value"] == 0.0
