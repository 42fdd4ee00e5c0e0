from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import gatemark as package
from gatemark.plugins.advisory.cli import ADVISORY_VERBS, advisory_command

from .rigs import FIXTURES, write_fixtures

Run = Callable[..., Any]


@pytest.mark.parametrize("name", ADVISORY_VERBS)
def test_every_subcommand_loads_and_says_what_the_table_says(name: str) -> None:
    command = advisory_command.get_command(click.Context(advisory_command), name)
    assert command is not None
    assert (command.help or "").split("\n", maxsplit=1)[0] == ADVISORY_VERBS[name][1]
    assert "Examples:" in (command.help or "")


def test_help_lists_the_subcommands_and_loads_no_models(gatemark: Run) -> None:
    ran = gatemark("advisory", "--help")
    assert ran.code == 0
    assert all(name in ran.out for name in ADVISORY_VERBS)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from gatemark.cli.main import main; main(['advisory', 'run', '--help']);"
            "print(','.join(sys.modules), file=sys.stderr)",
        ],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(done.stderr.strip().split(",")) & {"openvino", "httpx2", "detect_secrets"}


def test_an_unknown_subcommand_is_a_usage_error(gatemark: Run) -> None:
    assert gatemark("advisory", "act").code == 2


@pytest.mark.slow
def test_the_reference_gateway_is_examined_on_this_machine(gatemark: Run, tmp_path: Path) -> None:
    """Acceptance: real answers, real times, expected CPU fallbacks, open proof, honest words."""
    out = tmp_path / "out"
    ran = gatemark("advisory", "run", "--service", "all=gateway", "--runs", 3, "--out", out)
    summary = json.loads((out / "summary.json").read_text())
    assert ran.code == 1
    assert ran.out == (out / "summary.md").read_text()
    assert "asking: 864 of 864" in ran.err
    assert summary["total_records"] == 288
    assert 0.9 < summary["rates"]["agreement_rate"] < 1
    assert summary["latency"]["total_ms"]["p50"] > 0
    kinds = summary["fallback_counts_by_kind"]
    assert summary["unexpected_fallback_count"] == 0
    assert kinds["cpu"] == summary["expected_fallback_count"] - kinds["private_root_blocked"]
    assert summary["npu_proof_ok_count"] == 0
    assert summary["rates"]["proof_ok_rate"] is None
    assert summary["reasons"]["proof_ok_rate"]
    assert len(summary["judged_runs"]) == 3
    assert all(lane["bucket_shift"] == 0 for lane in summary["lanes"].values())
    promotion = summary["promotion"]
    assert promotion["candidate_lanes"] == []
    assert promotion["blockers"]
    assert "no record proves that an NPU ran" in promotion["caveats"]
    records = [json.loads(line) for line in (out / "decisions.jsonl").read_text().splitlines()]
    proofs = [note for record in records for note in record["notes"] if note.startswith("proof:")]
    assert set(proofs) == {"proof:ran_on_cpu", "proof:no_inference"}
    assert len(proofs) == 288
    assert gatemark("validate", out / "decisions.jsonl").code == 0
    again = gatemark(
        "score", "advisory", out / "decisions.jsonl", "--history", out / "runs", "--json"
    )
    assert again.json["rates"] == summary["rates"]


def test_a_script_is_examined_and_json_is_one_document(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("advise.sh").write_text(
        "#!/bin/sh\ncat > /dev/null\n"
        'echo \'{"label": "escalate", "severity": "high", "confidence": 0.97}\'\n'
    )
    Path("advise.sh").chmod(0o755)
    ran = gatemark(
        *("advisory", "run", "--service", "cron_n8n_event=script:./advise.sh"),
        *("--runs", 1, "-j", 4, "--out", "out", "--json"),
    )
    assert ran.code == 1
    assert ran.json["false_positive_count"] == 31
    assert ran.json["uncertain_count"] == 0
    assert ran.json["total_records"] == 48


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--out", "o"), "Missing option '--service'"),
        (("--service", "all=gateway"), "Missing option '--out'"),
        (("--service", "all=pigeon", "--out", "o"), "service target must be"),
        (("--service", "all=gateway", "--out", "o", "--fixtures", "gone"), "gone"),
        (("--service", "all=gateway", "--out", "o", "--timeout", "nan"), "not a finite number"),
        (("--service", "all=gateway", "--out", "o", "--expect-fallback", "x"), "is not one of"),
    ],
)
def test_calls_that_make_no_sense_end_with_2_and_write_nothing(
    gatemark: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = gatemark("advisory", "run", *arguments)
    assert ran.code == 2
    assert complaint in ran.err
    assert list(tmp_path.iterdir()) == []


def test_lint_counts_fixtures_and_refuses_private_ones(gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark("advisory", "lint", "builtin")
    assert ran.code == 0
    assert ran.out.startswith("npu_advisory_eval_v1: 288 fixtures, as pinned, sha256:")
    own = tmp_path / "own.jsonl"
    row = {
        "fixture_id": "own_001",
        "input_class": "cron_n8n_event",
        "case": "own",
        "kind": "normal",
        "privacy_class": "synthetic",
        "payload": {"path": "/home/anna/notes.txt"},
    }
    own.write_text(json.dumps(row) + "\n")
    refused = gatemark("advisory", "lint", own)
    assert refused.code == 2
    assert (
        refused.err == f"gatemark: {own}:1: own_001: $.payload.path looks private: private_root\n"
    )
    row["payload"] = {"path": "inside"}
    own.write_text(json.dumps(row) + "\n")
    assert "1 fixtures, not pinned" in gatemark("advisory", "lint", own).out


def stop_while_asking(folder: Path, *arguments: str) -> tuple[list[int], str, str]:
    """Start a run, stop it with Ctrl-C once it asks; gives its children and what it printed."""
    with subprocess.Popen(
        [sys.executable, "-m", "gatemark", "advisory", "run", "--out", "out", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).resolve().parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        asking = process.stderr.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert asking.startswith("asking: ")
    assert err.endswith("gatemark: stopped\n")
    return [int(child) for child in children], out, err


@pytest.mark.slow
def test_stopping_with_ctrl_c_writes_nothing_and_ends_the_gateway(tmp_path: Path) -> None:
    children, out, _ = stop_while_asking(tmp_path, "--service", "all=gateway", "--runs", "10")
    assert len(children) == 1
    assert not Path(f"/proc/{children[0]}").exists()
    assert out == ""
    assert list(tmp_path.iterdir()) == []


LANE = ("--service", "cron_n8n_event=script:./advise.sh", "--runs")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three fixtures, and a service that notes every call and answers them well."""
    monkeypatch.chdir(tmp_path)
    write_fixtures(Path("own.jsonl"), FIXTURES)
    place = Path("advise.sh")
    place.write_text(
        "#!/bin/sh\ncat > /dev/null\necho asked >> asked.txt\n"
        'echo \'{"status": "ok", "label": "suppress", "severity": "info", "confidence": 0.97}\'\n'
    )
    place.chmod(0o755)
    return place


@pytest.mark.usefixtures("script")
def test_sealed_runs_are_in_the_store_and_are_derived_again(gatemark: Run) -> None:
    ran = gatemark(
        *("advisory", "run", *LANE, 2, "--fixtures", "own.jsonl", "--out", "out"),
        *("--seal", "--store", "store", "-o", "report.html", "-o", "report.json"),
    )
    assert ran.code == 1
    found = [line.split()[1] for line in ran.err.splitlines() if line.startswith("sealed ")]
    assert len(found) == 2
    again = gatemark("ledger", "verify", "--rescore", "--store", "store")
    assert again.code == 0, again.err
    assert json.loads(Path("report.json").read_text())["verdict"] == "fail"
    assert "FAIL" in Path("report.html").read_text()


@pytest.mark.usefixtures("script")
def test_healthy_services_end_with_0_and_ill_ones_with_1(gatemark: Run) -> None:
    health = ("advisory", "run", *LANE, 1, "--fixtures", "own.jsonl", "--mode", "health_only")
    ran = gatemark(*health, "--out", "well")
    assert (ran.code, ran.out) == (0, "cron_n8n_event: healthy\n")
    # A health check is no evidence: nothing becomes a candidate.
    assert json.loads(Path("well/summary.json").read_text())["pass"] is False
    Path("advise.sh").write_text('#!/bin/sh\necho \'{"status": "starting"}\'\n')
    ran = gatemark(*health, "--out", "ill")
    assert (ran.code, ran.out) == (1, "cron_n8n_event: not healthy\n")
    Path("advise.sh").write_text(
        '#!/bin/sh\necho \'{"status": "ok", "authority": {"can_write_memory": true}}\'\n'
    )
    ran = gatemark(*health, "--out", "greedy")
    assert (ran.code, ran.out) == (1, "cron_n8n_event: not healthy\n")


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("more", [("--out", "own.jsonl"), ("--out", "o", "-o", "report.doc")])
def test_what_cannot_be_written_is_refused_before_anything_is_asked(
    gatemark: Run, more: tuple[str, ...]
) -> None:
    ran = gatemark("advisory", "run", *LANE, 1, "--fixtures", "own.jsonl", *more)
    assert ran.code == 2
    assert not Path("asked.txt").exists()


@pytest.mark.usefixtures("script")
def test_a_policy_in_json_may_write_its_numbers_as_json_does(gatemark: Run) -> None:
    Path("policy.json").write_text('{"gatemark_advisory": 1, "stability": {"alpha": 1e-2}}')
    ran = gatemark(
        *("advisory", "run", *LANE, 1, "--fixtures", "own.jsonl", "--out", "out"),
        *("--policy", "policy.json"),
    )
    assert ran.code == 1, ran.err
