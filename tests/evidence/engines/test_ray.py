"""The Ray engine on a real cluster of processes: the same bytes as in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gatemark.core.errors import UsageError
from gatemark.evidence.engines.ray import RayEngine

pytest.importorskip("ray", reason="Ray is not installed: gatemark[ray]")


def gatemark(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return subprocess.run(
        [sys.executable, "-m", "gatemark", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.slow
def test_a_cluster_gives_the_same_document_as_one_process(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    labels = ("VALID", "REJECT", "NOT_IN_CONTEXT")
    path.write_text(
        "".join(
            json.dumps(
                {
                    "qid": f"q{n}",
                    "scholar": {"label": labels[n % 3]},
                    "auditor": {"label": labels[(n + (n % 11 == 0)) % 3]},
                }
            )
            # Evidence of less than 16 MiB is read without the engine.
            + " " * 9_000
            + "\n"
            for n in range(2_000)
        )
    )
    one = gatemark("score", "agreement", "--pairs", path, "--json", "-j", 1)
    many = gatemark("score", "agreement", "--pairs", path, "--json", "-j", 2, "--engine", "ray")
    assert many.returncode == one.returncode, many.stderr
    assert json.loads(many.stdout) == json.loads(one.stdout)


@pytest.mark.slow
def test_an_error_on_a_worker_is_told_as_at_home(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"qid": "q1"}\n')
    ran = gatemark("score", "agreement", "--pairs", path, "-j", 2, "--engine", "ray")
    assert ran.returncode == 2
    assert "pairs.jsonl:1:" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="jobs must be >= 1"):
        RayEngine(0)
