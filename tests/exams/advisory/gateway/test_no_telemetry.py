"""No part of ours reports home. Every Python process of a command is watched from its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WATCH = """
import os, sys

def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"):
        with open(os.environ["WATCHED"], "a") as stream:
            stream.write(f"{event} {arguments}\\n")

sys.addaudithook(watch)
"""


def watched(folder: Path, *arguments: str) -> tuple[list[str], list[Path]]:
    """The connections beyond this machine that a command tried, and what it left in the home."""
    pytest.importorskip("openvino")
    home, seen, hooks = folder / "home", folder / "seen", folder / "hooks"
    home.mkdir()
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(WATCH)
    # A CI service switches the telemetry off by itself, which would hide what is looked for.
    plain = {name: text for name, text in os.environ.items() if name not in ("CI", "TF_BUILD")}
    paths = os.pathsep.join([str(hooks), plain.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        env={**plain, "HOME": str(home), "PYTHONPATH": paths, "WATCHED": str(seen)},
    )
    calls = seen.read_text().splitlines() if seen.exists() else []
    return [call for call in calls if "'127.0.0.1'" not in call], list(home.rglob("*"))


def test_the_watch_sees_a_child_that_looks_up_a_host(tmp_path: Path) -> None:
    look = "import socket; socket.getaddrinfo('203.0.113.1', 80)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {look!r}])"
    calls, _ = watched(tmp_path, "-c", start)
    assert len(calls) == 1


def test_an_advisory_run_with_the_gateway_reports_nothing_home(tmp_path: Path) -> None:
    command = ("advisory", "run", "--service", "all=gateway", "--runs", "1", "--out", "out")
    start = f"import sys; from gatemark.cli.main import main; print(main({list(command)!r}))"
    assert watched(tmp_path, "-c", start) == ([], [])
    assert list((tmp_path / "out").iterdir())
