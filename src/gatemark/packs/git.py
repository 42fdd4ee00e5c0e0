"""Ask git about the folder of a pack, without running what its repository says.

The folder belongs to whoever is examined. Settings of a repository can name programs (a file
monitor, hooks), and a change can bring a whole bare repository among its files, which git would
take for the folder's own. So both are switched off, and git gets no more of the environment than a
target does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from gatemark.targets.spec import target_environment

_SAFE: Final = (
    "--no-optional-locks",
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
)


def has_git() -> bool:
    """Tell whether git is installed."""
    return shutil.which("git") is not None


def git_answer(folder: Path, *arguments: str) -> str | None:
    """Return what git prints about a folder; None if it refuses or is not installed."""
    git = shutil.which("git")
    if git is None:
        return None
    own = [name for name in os.environ if name.startswith("GIT_")]
    done = subprocess.run(  # noqa: S603 - no shell
        [git, *_SAFE, "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=target_environment(os.environ, own),
    )
    return done.stdout.strip() if done.returncode == 0 else None
