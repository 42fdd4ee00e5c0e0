"""Ask git about the folder of a pack, which may belong to whoever is examined."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from gatemark.targets.environment import select_environment

_GIT_RUNS_NOTHING: Final = (
    "--no-optional-locks",
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
)


def ask_git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints about a folder; None if it refuses or is not installed.

    The folder belongs to whoever is examined. Settings of a repository can name programs (a file
    monitor, hooks), and a change can bring a whole bare repository among its files, which git would
    take for the folder's own. So both are switched off, and git gets no more of the environment
    than a target does.
    """
    git = shutil.which("git")
    if git is None:
        return None
    own = [name for name in os.environ if name.startswith("GIT_")]
    done = subprocess.run(  # noqa: S603 - no shell
        [git, *_GIT_RUNS_NOTHING, "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=select_environment(os.environ, own),
    )
    return done.stdout.strip() if done.returncode == 0 else None


def read_git_state(folder: Path) -> dict[str, str]:
    """Return the commit of a folder, and whether it has changes; empty without git."""
    head = ask_git(folder, "rev-parse", "HEAD")
    if head is None:
        return {}
    dirty = ask_git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"git.commit": head, "git.dirty": "unknown" if dirty is None else str(bool(dirty))}
