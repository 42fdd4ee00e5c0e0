"""Resolve every extra in a fresh environment and write the lock: names and versions only."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "locks" / "requirements.lock"
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")


def main() -> None:
    """Install everything anew and write what was installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for name, packages in project["optional-dependencies"].items():
        if name != "torch":
            wanted.extend(packages)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        frozen = subprocess.run(
            [python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True
        ).stdout.splitlines()
    strays = [line for line in frozen if not PIN.fullmatch(line)]
    if strays:
        sys.exit(f"not a plain name and version: {strays}")
    LOCK.write_text("\n".join(sorted(frozen, key=str.lower)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
