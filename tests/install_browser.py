"""Makes sure that a Chromium is there for the browser tests, where the system allows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """The path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main() -> None:
    """Install Debian's Chromium when there is none and we may."""
    if find_browser():
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        print("no Chromium found and no right to install one: browser tests will be skipped")
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-q"], ["install", "-qy", "--no-install-recommends", "chromium"]):
        done = subprocess.run(
            [apt, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            sys.exit("Chromium could not be installed")


if __name__ == "__main__":
    main()
